/* The kind of an untrusted file or folder, for messages. */
#include "base/form.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

/* The first bytes of files that are not text. */
static const struct {
    const char *start, *what;
    size_t n, at;
} magics[] = {
    {"\x1F\x8B", "compressed with gzip: unpack it first (gunzip)", 2, 0},
    {"\x28\xB5\x2F\xFD", "compressed with zstd: unpack it first (unzstd)", 4, 0},
    {"\xFD\x37zXZ", "compressed with xz: unpack it first (unxz)", 5, 0},
    {"BZh", "compressed with bzip2: unpack it first (bunzip2)", 3, 0},
    {"PK\3\4", "a zip archive: unpack it first (unzip)", 4, 0},
    {"PAR1", "a Parquet file: write it as JSONL first (pandas.DataFrame.to_json with lines=True)", 4, 0},
    {"ARROW1", "an Arrow file: write it as JSONL first", 6, 0},
    {"GGUF", "a model (GGUF)", 4, 0},
    {"%PDF", "a PDF: its text expected (pdftotext)", 4, 0},
    {"ustar", "a tar archive: unpack it first", 5, 257},
    {"\xFF\xFE\0\0", "UTF-32 text: UTF-8 expected (iconv -f UTF-32 -t UTF-8)", 4, 0},
    {"\0\0\xFE\xFF", "UTF-32 text: UTF-8 expected (iconv -f UTF-32 -t UTF-8)", 4, 0},
    {"\xFF\xFE", "UTF-16 text: UTF-8 expected (iconv -f UTF-16 -t UTF-8)", 2, 0},
    {"\xFE\xFF", "UTF-16 text: UTF-8 expected (iconv -f UTF-16 -t UTF-8)", 2, 0},
    {"TERNDATA", "a file that tern data has written: text or JSONL expected", 8, 0},
    {"_logits_", "a file of log-probabilities (tern perplexity --save-all-logits)", 8, 0},
    {"{\"", "SafeTensors", 2, 8},
};

const char *tern_form_of_bytes(tern_span bytes)
{
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (bytes.size >= magics[i].at + magics[i].n &&
            memcmp(bytes.data + magics[i].at, magics[i].start, magics[i].n) == 0)
            return magics[i].what;
    return NULL;
}

const char *tern_form_of_text(tern_span bytes)
{
    size_t i = 0;
    while (i < bytes.size && memchr(" \t\r\n", bytes.data[i], 4)) i++;
    if (i == bytes.size || memchr(bytes.data, 0, bytes.size)) return NULL;
    const bool brace = bytes.data[i] == '{' && i + 1 < bytes.size;
    if (brace && memchr("{%#", bytes.data[i + 1], 3)) return "a chat template (Jinja)";
    return brace || bytes.data[i] == '[' ? "JSON" : "text";
}

static bool holds(const char *folder, const char *name)
{
    char *path = tern_path_join(folder, name);
    const bool there = path && tern_file_exists(path);
    tern_free(path);
    return there;
}

const char *tern_form_of_folder(const char *path)
{
    if (!tern_file_is_dir(path)) return NULL;
    if (holds(path, "adapter_config.json")) return "an adapter (PEFT)";
    if (holds(path, "config.json")) return "a model (Hugging Face)";
    return "a folder";
}
