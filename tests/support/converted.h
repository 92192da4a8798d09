/* Models written as GGUF for a test. */
#ifndef TERN_TESTS_SUPPORT_CONVERTED_H
#define TERN_TESTS_SUPPORT_CONVERTED_H

/* Writes the model at `from` with its layers and its tables in these encodings (NULL: kept) to a scratch file of this
 * process and returns its path: the next call with the same `linear` overwrites it, the end of the program removes it.
 */
const char *test_converted(const char *from, const char *linear, const char *head);
/* A small model to run, with its tokenizer, in one GGUF file of this process: ../shared/models/tiny-stories-bitnet. */
const char *test_small_model(void);

#endif
