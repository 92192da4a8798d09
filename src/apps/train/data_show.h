/* Training data for people: what a file holds, and its documents as text. */
#ifndef TERN_APPS_TRAIN_DATA_SHOW_H
#define TERN_APPS_TRAIN_DATA_SHOW_H

#include <jansson.h>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"
#include "train/data/file.h"

/* Prints the first n documents; what does not count in the loss stands between [- and -]. Without a tokenizer ids are
 * shown. Errors: MALFORMED. */
tern_status tern_data_show(const tern_train_data *data, const tern_tokenizer *tokenizer, uint32_t n, tern_error *err);
/* As above, as a JSON array: tokens, labels, and the parts with their text (or ids) and whether they count. */
tern_status tern_data_show_json(const tern_train_data *data, const tern_tokenizer *tokenizer, uint32_t n, json_t **out,
                                tern_error *err);

#endif
