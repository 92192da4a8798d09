/* No command replaces what it reads, and none what is there without --overwrite; bytes on disk are the witness. */
#include <sys/stat.h>
#include <unistd.h>

#include "apps/app.h"
#include "base/file.h"
#include "support/command.h"
#include "support/converted.h"
#include "support/test.h"
#include "tern/bytes.h"

static char root[600], model[800], text[800], old[800], config[800], package[800];

static const char precious[] = "years of work\n";

static int setup(void **state)
{
    char command[700];
    (void)state;
    snprintf(root, sizeof root, "%s", test_scratch("outputs"));
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
    assert_int_equal(mkdir(root, 0777), 0);
    snprintf(model, sizeof model, "%s/model.gguf", root);
    snprintf(text, sizeof text, "%s/text.txt", root);
    snprintf(old, sizeof old, "%s/old.gguf", root);
    snprintf(config, sizeof config, "%s/config.json", root);
    snprintf(package, sizeof package, "%s/package", root);
    tern_buf bytes = {0};
    tern_error err = {0};
    assert_ok(tern_file_read(&bytes, test_small_model(), 1 << 24, &err), err);
    test_write_file(model, bytes.data, bytes.size);
    tern_buf_deinit(&bytes);
    test_write_text(text, precious);
    test_write_text(old, precious);
    test_write_text(config, "{\"hidden_size\": 64, \"intermediate_size\": 64, \"num_hidden_layers\": 1, "
                            "\"num_attention_heads\": 1}");
    return 0;
}

static tern_buf bytes_of(const char *path)
{
    tern_buf file = {0};
    tern_error err = {0};
    assert_ok(tern_file_read(&file, path, 1 << 28, &err), err);
    return file;
}

/* The command fails with these words, and the file is as it was. */
static void keeps(const char *path, const char *words, const char *const *call)
{
    tern_buf before = bytes_of(path);
    test_output o = test_tern(NULL, call);
    tern_buf after = bytes_of(path);
    if (o.code != 2 || !strstr(o.err, words)) fail_msg("%s: exit status %d, \"%s\"", call[0], o.code, o.err);
    if (before.size != after.size || memcmp(before.data, after.data, after.size) != 0)
        fail_msg("%s has replaced %s", call[0], path);
    tern_buf_deinit(&before);
    tern_buf_deinit(&after);
    test_output_free(&o);
}

#define KEEPS(path, words, ...) keeps(path, words, TERN_WORDS(__VA_ARGS__))

static void inputs_are_kept(void **state)
{
    (void)state;
    const char *lora = test_fixture("bitnet-train/lora");
    KEEPS(text, "same file", "data", "-m", model, text, "-o", text, "--overwrite");
    KEEPS(model, "same file", "data", "-m", model, text, "-o", model, "--overwrite");
    KEEPS(model, "same file", "convert", model, "-o", model, "-f");
    KEEPS(model, "same file", "export-lora", "-m", model, "--lora", lora, "-o", model, "-f");
    KEEPS(model, "same file", "run", "-m", model, "-p", "a", "--save", model, "--overwrite");
    KEEPS(text, "same file", "run", "-m", model, "-f", text, "--save", text, "--overwrite");
    KEEPS(text, "same file", "finetune", "-m", model, "-d", text, "-o", text, "-f");
    KEEPS(text, "holds the input", "finetune", "-m", model, "-d", text, "-o", root, "-f");
    KEEPS(config, "holds the input", "train", "-c", config, "-d", text, "-o", root, "-f");
    KEEPS(model, "holds the input", "package", model, "-o", root, "-f");
}

static void what_is_there_is_kept(void **state)
{
    static const char words[] = "old.gguf exists: --overwrite replaces it";
    (void)state;
    const char *lora = test_fixture("bitnet-train/lora");
    KEEPS(old, words, "data", "-m", model, text, "-o", old);
    KEEPS(old, words, "convert", model, "-o", old);
    KEEPS(old, words, "synth", "--preset", "bitnet-tiny", "-o", old);
    KEEPS(old, words, "export-lora", "-m", test_fixture("bitnet-train"), "--lora", lora, "-o", old);
    KEEPS(old, words, "finetune", "-m", model, "-d", text, "-o", old);
    KEEPS(old, words, "train", "-c", config, "-d", text, "-o", old);
    KEEPS(old, words, "run", "-m", model, "-p", "a", "--save", old);
    KEEPS(old, words, "bench", "--kernels", "--shapes", "64x128", "--plot", old);
    KEEPS(old, "not empty", "export-lora", "-m", test_fixture("bitnet-train"), "--lora", lora, "-o", root);
    KEEPS(old, "not empty", "package", test_fixture("bitnet"), "-o", root);
    KEEPS(old, "not part of a package", "package", test_fixture("bitnet"), "-o", root, "-f");
}

static void assert_runs(const char *const *call)
{
    test_output o = test_tern(NULL, call);
    if (o.code != 0) fail_msg("%s: %s", call[0], o.err);
    test_output_free(&o);
}

#define RUNS(...) assert_runs(TERN_WORDS(__VA_ARGS__))

static void overwritten_when_told(void **state)
{
    (void)state;
    char made[800], manifest[900];
    snprintf(made, sizeof made, "%s/made.gguf", root);
    RUNS("convert", model, "-o", made);
    RUNS("convert", model, "-o", made, "--overwrite", "--type", "tq2_0");
    RUNS("convert", model, "-o", "/dev/null");
    RUNS("package", model, "-o", package, "--shard-size", "1");
    snprintf(manifest, sizeof manifest, "%s/manifest.json", package);
    tern_buf first = bytes_of(manifest);
    RUNS("package", model, "-o", package, "-f", "--type", "tq2_0");
    tern_buf second = bytes_of(manifest);
    assert_true(first.size != second.size);
    RUNS("inspect", package);
    tern_buf_deinit(&first);
    tern_buf_deinit(&second);
}

/* A session goes on in its own file; another one's needs the flag. */
static void sessions_go_on_in_their_file(void **state)
{
    (void)state;
    char mine[800], other[800];
    snprintf(mine, sizeof mine, "%s/mine.session", root);
    snprintf(other, sizeof other, "%s/other.session", root);
    RUNS("run", "-m", model, "-p", "Once", "-n", "4", "--save", mine);
    RUNS("run", "-m", model, "-p", "Once", "-n", "4", "--save", other);
    RUNS("run", "-m", model, "-n", "4", "--restore", mine, "--save", mine);
    KEEPS(other, " exists", "run", "-m", model, "-n", "4", "--restore", mine, "--save", other);
    RUNS("run", "-m", model, "-n", "4", "--restore", mine, "--save", other, "--overwrite");
}

static test_output chat(const char *input)
{
    return test_tern(input, TERN_WORDS("chat", "-m", model, "--template", "chatml", "--greedy", "-n", "4"));
}

static void conversations_are_saved_again(void **state)
{
    (void)state;
    char input[3000], talk[800];
    snprintf(talk, sizeof talk, "%s/talk.json", root);
    snprintf(input, sizeof input, "A king.\n/save %s\nA queen.\n/save %s\n", talk, talk);
    test_output o = chat(input);
    if (o.code != 0) fail_msg("%s", o.err);
    test_output_free(&o);
    snprintf(input, sizeof input, "/load %s\nA cat.\n/save %s\n/save %s\n", talk, talk, old);
    o = chat(input);
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "old.gguf exists, and this chat has neither loaded nor saved it"));
    test_output_free(&o);
    tern_buf kept = bytes_of(old);
    assert_string_equal(kept.data, precious);
    tern_buf_deinit(&kept);
}

/* Flags whose value names a file or a folder. */
typedef struct named {
    const char *commands, *flag; /* commands: words with blanks between; NULL: all that have the flag */
    char use;                    /* r: read; w: written, and tried below; s: scratch, removed once open */
} named;

static const named flags_of_files[] = {
    {NULL, "model", 'r'},
    {NULL, "file", 'r'},
    {NULL, "imatrix", 'r'},
    {NULL, "kernel-config", 'r'},
    {NULL, "template", 'r'},
    {NULL, "lora", 'r'},
    {NULL, "lora-scaled", 'r'},
    {NULL, "grammar-file", 'r'},
    {NULL, "json-schema-file", 'r'},
    {NULL, "restore", 'r'},
    {NULL, "draft-model", 'r'},
    {NULL, "config", 'r'},
    {NULL, "tokenizer", 'r'},
    {NULL, "data", 'r'},
    {NULL, "lora-start", 'r'},
    {NULL, "val-data", 'r'},
    {NULL, "thermal-trace", 'r'},
    {NULL, "against", 'r'},
    {NULL, "kl-base", 'r'},
    {NULL, "lora-dir", 'r'},
    {NULL, "api-key", 'r'},
    {NULL, "tls-cert", 'r'},
    {NULL, "tls-key", 'r'},
    {NULL, "models-preset", 'r'},
    {NULL, "kv-disk", 's'},
    {"convert data imatrix synth finetune train export-lora package", "output", 'w'},
    {"chat", "history", 'w'},
    {"run", "save", 'w'},
    {"serve", "log", 'w'},
    {"serve", "unix", 'w'},
    {"serve", "cache-file", 'w'},
    {"serve", "slot-save-path", 'w'}, /* tests/serve/models.test.mjs */
    {"perplexity", "save-all-logits", 'w'},
    {"bench", "plot", 'w'},
};

static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ')) return true;
    return false;
}

static bool names_file(const tern_flag *f)
{
    static const char words[] = "FILE PATH DIR FOLDER OUT";
    return f->metavar && has_word(words, f->metavar);
}

static bool is_known(const char *command, const tern_flag *f)
{
    for (size_t i = 0; i < sizeof flags_of_files / sizeof *flags_of_files; i++) {
        const named *n = &flags_of_files[i];
        if (strcmp(n->flag, f->name) == 0 && (!n->commands || has_word(n->commands, command))) return true;
    }
    return false;
}

/* A new flag that names a file fails here until it is in the table, and in a case of this file if it writes. */
static void every_flag_that_names_a_file_is_known(void **state)
{
    (void)state;
    size_t n = 0;
    for (const tern_command *const *c = tern_commands; *c; c++)
        for (const tern_flag_group *g = (*c)->groups; g && g->flags; g++)
            for (const tern_flag *f = g->flags; f->name; f++) {
                if (!names_file(f)) continue;
                n++;
                if (!is_known((*c)->name, f))
                    fail_msg("tern %s --%s %s: say in this test whether it is written", (*c)->name, f->name,
                             f->metavar);
            }
    assert_true(n > 40);
}

/* Files that go on (a log, a history, a cache, a socket) are taken up only where they are such files. */
static void only_files_of_their_kind_go_on(void **state)
{
    (void)state;
    KEEPS(model, "was not written for this", "serve", "-m", model, "--port", "0", "--log", model);
    KEEPS(text, "was not written for this", "serve", "-m", model, "--port", "0", "--log", text);
    KEEPS(model, " exists", "serve", "-m", model, "--unix", model);
    KEEPS(text, " exists", "serve", "-m", model, "--unix", text);
    KEEPS(old, " exists", "perplexity", "-m", model, text, "--save-all-logits", old);
    const char *const words[] = {"chat", "-m", model, "--template", "chatml", "--history", text, NULL};
    tern_buf before = bytes_of(text);
    test_output o = test_tern_talk(words, NULL, 0);
    tern_buf after = bytes_of(text);
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.out, "text.txt exists and was not written for this"));
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    tern_buf_deinit(&before);
    tern_buf_deinit(&after);
    test_output_free(&o);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(inputs_are_kept),
    cmocka_unit_test(what_is_there_is_kept),
    cmocka_unit_test(overwritten_when_told),
    cmocka_unit_test(sessions_go_on_in_their_file),
    cmocka_unit_test(conversations_are_saved_again),
    cmocka_unit_test(every_flag_that_names_a_file_is_known),
    cmocka_unit_test(only_files_of_their_kind_go_on),
};

TEST_GROUP(outputs, "", tests, .setup = setup);
