/* Wrong words, flags and values: what the command says, and its exit status. */
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/command.h"
#include "support/converted.h"
#include "support/places.h"
#include "support/test.h"
#include "tern.h"

#define BEGIN "-p", "Once upon a time"

typedef struct wrong {
    const char *words[8];
    int code;
    const char *message; /* part of standard error */
} wrong;

static const wrong cases[] = {
    {{"rnu"}, 2, "unknown command \"rnu\": did you mean \"run\"?"},
    {{"-m", "x"}, 2, "tern: -m: a command expected before its flags (tern help lists them)"},
    {{"chat", "--template", "gemma4"}, 1, "chat template gemma4: neither a file nor one of chatml, qwen, "},
    {{"embed", "a", "-p", "b"}, 2, "the text is given twice: one of TEXT, --prompt and --file expected"},
    {{"frobnicate"}, 2, "unknown command \"frobnicate\" (tern help lists them)"},
    {{"help", "tokenise"}, 2, "did you mean \"tokenize\"?"},
    {{"run", "--tmep", "0.5"}, 2, "tern run: error: unknown flag --tmep: did you mean --temp?"},
    {{"run", "-temp", "0.5"}, 2, "unknown flag -temp: did you mean --temp?"},
    {{"run", "--zzzzzz"}, 2, "unknown flag --zzzzzz (tern run --help-all lists the flags)"},
    {{"run", "--system", "x"}, 2, "unknown flag --system: tern chat has it (tern run --help-all lists the flags)"},
    {{"run", "-m", "bitnet-2b", "a"},
     1,
     "bitnet-2b: no such file or folder, and no short name of a model; did you mean bitnet-2b-4t? (tern list --known"},
    {{"serve", "-m", "zzzzzzzz"}, 1, "zzzzzzzz: no such file or folder, and no short name of a model (tern list"},
    {{"chat", "-m", "some-org/some-model"},
     1,
     "some-org/some-model: no such folder here; hf:some-org/some-model is the model of that name on the hub"},
    {{"inspect", "https://example.com/a.gguf"},
     1,
     "https://example.com/a.gguf: an address found; a file, a folder or hf:ORG/NAME (a model of the hub) expected"},
    {{"run", "-m", "some-folder/a.gguf", "a"}, 1, "some-folder/a.gguf: cannot open: No such file or directory"},
    {{"run", "-z"}, 2, "unknown flag -z"},
    {{"run", "--top", "5"}, 2, "flag --top is ambiguous: --top-k or --top-n-sigma?"},
    {{"run", "--temp"}, 2, "--temp needs a value: T"},
    {{"run", "--temp", "hot"}, 2, "--temp hot: a number from 0 to 100 expected"},
    {{"run", "--temp", "nan"}, 2, "--temp nan: a number from 0 to 100 expected"},
    {{"run", "--temp=-1"}, 2, "--temp -1: a number from 0 to 100 expected"},
    {{"run", "--top-p", "1.5"}, 2, "--top-p 1.5: a number from 0 to 1 expected"},
    {{"run", "-n", "-5"}, 2, "--n-tokens -5: a whole number from -1 to 16777216 expected"},
    {{"run", "-n", "99999999999999999999"}, 2, "a whole number from -1 to 16777216 expected"},
    {{"run", "-n5x"}, 2, "--n-tokens 5x: a whole number"},
    {{"run", "--seed", "x"}, 2, "--seed x: a whole number, or -1, expected"},
    {{"run", "--kv", "f64"}, 2, "--kv f64: auto|f16|f32|q8_0|q4_0 expected"},
    {{"run", "-ctk", "q5_1"}, 2, "--cache-type-k q5_1: auto|f16|f32|q8_0|q4_0 expected"},
    {{"bench", "--cache-type-v=8"}, 2, "--cache-type-v 8: auto|f16|f32|q8_0|q4_0 expected"},
    {{"run", "--kv", "f16|f32"}, 2, "--kv f16|f32: auto|f16|f32|q8_0|q4_0 expected"},
    {{"run", "--json=1"}, 2, "--json takes no value, found \"1\""},
    {{"run", "a", "--reasoning-budget", "0"}, 2, "--reasoning-budget goes with MODEL MESSAGE, which the model answers"},
    {{"run", "a", "--chat-template-kwargs", "{}"}, 2, "--chat-template-kwargs goes with MODEL MESSAGE"},
    {{"run", "a", "--spm-infill"}, 2, "--spm-infill goes with --suffix, none found"},
    {{"chat", "--chat-template-kwargs", "{", "a"}, 1, "--chat-template-kwargs: "},
    {{"chat", "--chat-template-kwargs", "[]", "a"}, 2, "--chat-template-kwargs: an object expected, such as {\""},
    {{"chat", "--chat-template-kwargs", "{\"tools\":1}", "a"}, 2, "--chat-template-kwargs: tools found, which the"},
    {{"chat", "--chat-template-kwargs", "{\"enable_thinking\":1}", "a"}, 2, "enable_thinking: true or false expected"},
    {{"serve", "--chat-template-kwargs", "7"}, 2, "chat_template_kwargs: 7 found, an object expected"},
    {{"serve", "--chat-template-kwargs", "{\"messages\":[]}"}, 2, "chat_template_kwargs: messages found, which the"},
    {{"run", "model.gguf"}, 2, "model.gguf is a file, a prompt expected: -m takes a model"},
    {{"run", "a", "b"}, 1, "MODEL MESSAGE (a prompt of several words stands in quotes): a: no such file or folder"},
    {{"run", "a", "b", "c"}, 2, "\"c\" is an unexpected argument"},
    {{"run", "a.gguf", "b", "--json"}, 2, "--json goes with a text that the model continues, not with MODEL MESSAGE"},
    {{"chat", "a", "-p", "b"}, 2, "several messages: one of TEXT and --prompt expected"},
    {{"chat", "-p", ""}, 2, "the message is empty: some text expected"},
    {{"run", "-m", "llama3.2:1b", "a"}, 1, "did you mean llama3.2-1b? (tern list"},
    {{"pull", "qwen3:0.6b-q4_K_M"}, 2, "did you mean qwen3-0.6b? (tern list"},
    {{"run", "--samplers", "top_k;temprature", "a"}, 2, "--samplers: sampler \"temprature\": \"penalties\", \"dry\""},
    {{"run", "--draft", "mpt"}, 2, "--draft mpt: none|ngram|mtp expected"},
    {{"serve", "--draft", "mpt"}, 2, "--draft mpt: none|ngram|mtp expected"},
    {{"run", "--state-checkpoints", "0"}, 2, "--state-checkpoints 0: a whole number from 1 to 4096 expected"},
    {{"run", "--mirostat", "1"}, 2, "--mirostat 1: 0|2 expected"},
    {{"rm"}, 2, "NAME is missing (usage: tern rm NAME"},
    {{"run", "-m", "", "a"}, 2, "-m \"\": a GGUF file or a folder expected"},
    {{"run", "a", "-p", "b"}, 2, "several prompts: one of TEXT, --prompt and --file expected"},
    {{"run", "-ngl", "x"}, 2, "--gpu-layers x: a whole number from 0, or \"all\" expected"},
    {{"run", "-t", "0"}, 2, "--threads 0: a whole number from 1 to 1024 expected"},
    {{"run", "--head", "foo"}, 2, "--head foo: no such encoding; expected one of f32, f16,"},
    {{"run", "--logit-bias", "5"}, 2, "--logit-bias 5: ID=NUMBER expected"},
    {{"run", "--cpu-features", "avx9"}, 2, "CPU feature \"avx9\" is unknown"},
    {{"run", "-p", "x", "--logit-bias", "=1"}, 2, "--logit-bias =1: ID=NUMBER expected"},
    {{"run", "-p", "x", "--logit-bias", " 1=1"}, 2, "--logit-bias  1=1: ID=NUMBER expected"},
    {{"run", "-p", "x", "--logit-bias", "1 =1"}, 2, "--logit-bias 1 =1: ID=NUMBER expected"},
    {{"run", "-p", "x", "--logit-bias", "-1=1"}, 2, "--logit-bias -1=1: ID=NUMBER expected"},
    {{"run", "--seed", "18446744073709551616"}, 2, "--seed 18446744073709551616: a whole number, or -1, expected"},
    {{"run", "-p", "x", "-f", "y"}, 2, "several prompts: one of TEXT, --prompt and --file expected"},
    {{"run", "-m", "/nothing/here.gguf", "-p", "x"}, 1, "/nothing/here.gguf"},
    {{"run", "--backend", "vulkn"}, 2, "--backend vulkn: cpu|vulkan|cuda|auto expected; did you mean vulkan?"},
    {{"run", "--device", "0"}, 2, "--device needs a GPU: --backend vulkan, cuda or auto expected"},
    {{"run", "--backend", "autos"}, 2, "did you mean auto?"},
    {{"run", "--gpu-steps", "3"}, 2, "--gpu-steps needs a GPU: --backend vulkan, cuda or auto expected"},
    {{"run", "--gpu-validate"}, 2, "--gpu-validate needs a GPU: --backend vulkan, cuda or auto expected"},
    {{"run", "--backend", "vulkan", "--kernel", "rsr"},
     2,
     "kernel \"rsr\": GPUs have no kernel of that name; they have "},
    {{"run", "--backend", "vulkan", "--kernel", "q4_k_vec1,q4_k_vec9"},
     2,
     "kernel \"q4_k_vec9\": GPUs have no kernel of that name; did you mean q4_k_vec1? (q4_k_vec1_32x4_s32, "},
    {{"run", "--kernel", "sorted"}, 2, "kernel \"sorted\": one of dot, t160, lut[:N], rsr[:N] expected"},
    {{"run", "--kernel", "rsr:17"}, 2, "kernel \"rsr:17\": rows of a block from 1 to 16 expected after the colon"},
    {{"convert", "a.gguf", "-o", "b.gguf", "--rsr-rows", "17"},
     2,
     "--rsr-rows 17: a whole number from 1 to 16 expected"},
    {{"run", "--backend", "vulkan", "--gpu-layers", "x"},
     2,
     "--gpu-layers x: a whole number from 0, or \"all\" expected"},
    {{"run", "--backend", "vulkan", "--gpu-steps", "0"}, 2, "--gpu-steps 0: a whole number from 1 to 128 expected"},
    {{"run", "--backend", "vulkan", "--gpu-steps", "129"}, 2, "--gpu-steps 129: a whole number from 1 to 128 expected"},
    {{"compare", "--reference", "cuda"}, 2, "--reference cuda: cpu, cpu:LEVEL, vulkan or vulkan:DEVICE expected"},
    {{"compare", "--ids", "1"}, 2, "1 tokens to compare with: at least 2 expected"},
    {{"compare", "--backend", "vulkan", "--gpu-layers", "3"}, 2, "--gpu-layers 3: ops are compared one by one"},
    {{"compare", "-p", "a", "--ids", "1"}, 2, "--prompt and --ids: both found, one of them expected"},
    {{"convert"}, 2, "IN is missing (usage: tern convert IN -o OUT.gguf"},
    {{"convert", "a.gguf"}, 2, "no output: give the GGUF file to write with -o"},
    {{"convert", "a.gguf", "-o", "b.gguf", "--type", "q9"}, 2, "--type q9: no such encoding"},
    {{"logits"}, 2, "no token ids: give them with --ids 1,2,3"},
    {{"logits", "--ids", "1,x"}, 2, "token 1 of the ids is \"x\": a whole number from 0 expected"},
    {{"logits", "--ids", ""}, 2, "no token ids given"},
    {{"synth", "-o", "x.gguf", "--preset", "huge"}, 2, "preset \"huge\""},
    {{"tokenize", "a", "-p", "b"}, 2, "the text is given twice"},
    {{"run", "--no-fusion", "gat"}, 2, "fusion \"gat\" is unknown: did you mean \"gate\"?"},
    {{"bench", "--no-fusion", "gate,"}, 2, "fusion \"\": all, in_place"},
    {{"run", "--activations", "half"}, 2, "--activations half: auto|f32|int8|f16 expected"},
    {{"run", "--activations", "f32", "--kernel", "lut"}, 2, "kernel lut multiplies int8 activations"},
    {{"bench", "-r", "0"}, 2, "--repeats 0: a whole number from 1 to 100 expected"},
    {{"bench", "-t", "1,x"}, 2, "--threads 1,x: whole numbers with commas between, each from 1 to 1024 expected"},
    {{"chat", "--image", "x.png"}, 2, "--image: images and sound are not supported"},
    {{"perplexity", "--window", "1", "x"}, 2, "--window 1: a whole number from 2 to 1048576 expected"},
    {{"completion", "csh"}, 2, "completion for \"csh\": bash, zsh or fish expected"},
    {{"data"}, 2, "FILE... is missing (usage: tern data [-m MODEL] FILE..."},
    {{"data", "-o", "x.tern"}, 2, "FILE... is missing"},
    {{"data", "-o", "--spilt"}, 2, "--output needs a value: FILE; the flag --spilt found (--output=--spilt takes it"},
    {{"data", "--spilt"}, 2, "unknown flag --spilt: did you mean --split?"},
    {{"data", "a.txt", "b.txt"}, 2, "2 files and no -o"},
    {{"data", "/nothing/here.tern"}, 1, "/nothing/here.tern"},
    {{"data", "/nothing/here.txt", "-o", "x.tern"}, 1, "/nothing/here.txt"},
    {{"data", "a.txt", "-o", "x.tern", "--split", "word"}, 2, "--split word: file|blank|line expected"},
    {{"data", "a.txt", "-o", "x.tern", "--split=line", "--mark", "x"},
     2,
     "--split and --mark: both found, one of them expected"},
    {{"data", "a.txt", "-o", "x.tern", "--seq", "0"}, 2, "--seq 0: a whole number from 1 to 1048576 expected"},
    {{"inspect", "/nothing/here.gguf"}, 1, "/nothing/here.gguf"},
};

static void wrong_words_are_explained(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_output o = test_tern(NULL, cases[i].words);
        if (o.code != cases[i].code || !strstr(o.err, cases[i].message))
            fail_msg("tern %s %s: exit status %d, %s: %d and \"%s\" expected", cases[i].words[0], cases[i].words[1],
                     o.code, o.err, cases[i].code, cases[i].message);
        assert_string_equal(o.out, "");
        test_output_free(&o);
    }
}

/* Lines of 80 columns, at most so many of them. */
static void expect_page(const char *text, const char *name, size_t most)
{
    size_t n = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1, n++)
        if (strcspn(line, "\n") > 80) fail_msg("tern %s --help: %.*s", name, (int)strcspn(line, "\n"), line);
    if (n > most) fail_msg("tern %s --help: %zu lines, at most %zu expected", name, n, most);
}

/* The flags of a command, as the script of completion lists them, are on the page of --help-all. */
static void expect_all_flags(const char *script, const char *name, const char *page)
{
    char start[64], flag[64];
    snprintf(start, sizeof start, "\n    %s)\n", name);
    const char *at = strstr(script, start);
    assert_non_null(at);
    at = strstr(at, "*) flags=\"");
    assert_non_null(at);
    at += strlen("*) flags=\"");
    for (const char *end = strchr(at, '"'); at < end; at += strspn(at, " ")) {
        const int n = (int)strcspn(at, " \"");
        snprintf(flag, sizeof flag, "%.*s", n, at);
        at += n;
        const char *found = strstr(page, flag);
        for (; found && !strchr(" \n", found[n]); found = strstr(found + 1, flag)) continue;
        if (!found && strncmp(flag, "--help", 6) != 0) fail_msg("tern %s --help-all: no %s", name, flag);
    }
}

static void every_command_has_help(void **state)
{
    (void)state;
    static const char *const names[] = {
        "run",     "chat",    "convert",    "inspect", "tokenize", "logits",  "perplexity",  "bench", "synth",
        "devices", "version", "completion", "compare", "data",     "imatrix", "embed",       "pull",  "list",
        "rm",      "eval",    "finetune",   "train",   "serve",    "package", "export-lora", "tune"};
    test_output script = TERN("completion", "bash");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        test_output o = TERN(names[i], "--help"), same = TERN("help", names[i]);
        assert_int_equal(o.code, 0);
        assert_non_null(strstr(o.out, "Usage: tern"));
        assert_non_null(strstr(o.out, names[i]));
        assert_string_equal(o.out, same.out);
        expect_page(o.out, names[i], 40);
        test_output_free(&o);
        test_output_free(&same);
        test_output all = TERN(names[i], "--help-all");
        expect_page(all.out, names[i], 1000);
        expect_all_flags(script.out, names[i], all.out);
        test_output_free(&all);
    }
    test_output_free(&script);
    test_output list = TERN("help"), same = TERN("help", "--help");
    expect_page(list.out, "help", 40);
    assert_string_equal(list.out, same.out);
    test_output_free(&list);
    test_output_free(&same);
}

/* Rare flags are on the page of --help-all alone, unless that fits a screen; "no limit" is written as -1. */
static void help_shows_what_most_need(void **state)
{
    (void)state;
    test_output few = TERN("run", "--help"), all = TERN("run", "--help-all"), chat = TERN("chat", "--help");
    test_output pull = TERN("pull", "--help"), all_of_pull = TERN("pull", "--help-all");
    assert_null(strstr(few.out, "--typical-p"));
    assert_null(strstr(few.out, "Kernels:"));
    assert_non_null(strstr(few.out, "--temp"));
    assert_non_null(strstr(few.out, "--threads"));
    assert_non_null(strstr(few.out, "\n`tern run --help-all` explains all "));
    assert_non_null(strstr(few.out, "Temperature (default 0.8)\n"));
    assert_non_null(strstr(all.out, "Temperature; 0: greedy (default 0.8)\n"));
    assert_string_equal(pull.out, all_of_pull.out);
    assert_non_null(strstr(all.out, "--typical-p"));
    assert_non_null(strstr(all.out, "Kernels:"));
    assert_non_null(strstr(chat.out, "(default -1)"));
    test_output_free(&few);
    test_output_free(&all);
    test_output_free(&chat);
    test_output_free(&pull);
    test_output_free(&all_of_pull);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

static void help_of_serve_shows_what_servers_need(void **state)
{
    (void)state;
    static const char *const shown[] = {"--cors", "--tls-cert", "--lora-dir", "--cache"};
    test_output few = TERN("serve", "--help");
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) assert_non_null(strstr(few.out, shown[i]));
    assert_null(strstr(few.out, "--no-fusion"));
    test_output_free(&few);
}

/* The file stands in the message, once: of a model without a tokenizer, and of a folder with half of a model. */
static void files_are_named_once(void **state)
{
    (void)state;
    static const char *const commands[][4] = {{"run", "hi"}, {"chat"}, {"embed", "-phi"}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        test_output o = test_tern("hi\n", TERN_WORDS(commands[i][0], "-m", test_made("qwen3"), commands[i][1]));
        assert_int_equal(o.code, 1);
        if (!strstr(o.err, "/qwen3: no tokenizer found (tokenizer.json,") || count(o.err, "/qwen3") != 1)
            fail_msg("%s", o.err);
        test_output_free(&o);
    }
    char config[1100];
    const char *folder = test_scratch("cli-half-model");
    mkdir(folder, 0777);
    snprintf(config, sizeof config, "%s/config.json", folder);
    test_write_text(config, "{\"model_type\": \"llama\"");
    test_output o = TERN("run", "-m", folder, "hi");
    assert_int_equal(o.code, 1);
    if (count(o.err, "cli-half-model") != 1) fail_msg("%s", o.err);
    test_output_free(&o);
    test_write_text(config, "{\"model_type\": \"llama\"}");
    o = TERN("run", "-m", folder, "hi");
    if (count(o.err, "cli-half-model") != 1) fail_msg("%s", o.err);
    test_output_free(&o);
    unlink(config);
    rmdir(folder);
}

/* llama.cpp's -ngl without a GPU is taken, with a line that says what it did. */
static void gpu_layers_on_the_cpu_are_said_to_do_nothing(void **state)
{
    (void)state;
    test_output plain = TERN("run", BEGIN, "-n", "4", "--greedy"),
                some = TERN("run", BEGIN, "-n", "4", "--greedy", "-ngl", "99"),
                none = TERN("run", BEGIN, "-n", "4", "--greedy", "-ngl", "0");
    assert_int_equal(some.code, 0);
    assert_string_equal(some.out, plain.out);
    assert_string_equal(some.err, "note: --gpu-layers 99 has no effect: the model runs on the CPU; --backend vulkan or "
                                  "cuda takes a GPU\n");
    assert_string_equal(none.err, "");
    assert_string_equal(none.out, plain.out);
    test_output_free(&plain);
    test_output_free(&some);
    test_output_free(&none);
}

/* The passes of fusion, as the library has them. */
static void help_lists_the_passes(void **state)
{
    (void)state;
    static const char *const commands[] = {"run", "bench", "compare"};
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
        test_output o = TERN(commands[c], "--help-all");
        tern_fusion_info info;
        uint32_t n = 0;
        for (; tern_fusion_at(n, &info); n++) assert_true(strstr(o.out, info.name));
        assert_true(n >= 9);
        test_output_free(&o);
    }
}

/* What is random when it is not given has no default to show. */
/* Words stay apart also where a line begins left of the first one. */
static void usage_is_wrapped_between_words(void **state)
{
    (void)state;
    test_output o = TERN("finetune", "--help");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "[--epochs N |\n           --steps N]"));
    test_output_free(&o);
}

static void help_shows_no_seed(void **state)
{
    (void)state;
    test_output o = TERN("run", "--help");
    const char *seed = strstr(o.out, "--seed N");
    assert_non_null(seed);
    assert_null(memmem(seed, strcspn(seed, "\n"), "default", 7));
    test_output_free(&o);
}

static void no_words_is_the_list(void **state)
{
    (void)state;
    test_output o = test_tern(NULL, (const char *const[]){NULL}), help = TERN("--help");
    assert_int_equal(o.code, 2);
    assert_int_equal(help.code, 0);
    assert_string_equal(o.err, help.out);
    test_output_free(&o);
    test_output_free(&help);
}

/* A long flag may be cut short, its value joined by "=", a short flag's value attached. */
static void flags_have_several_forms(void **state)
{
    (void)state;
    static const char *const forms[][4] = {
        {"--n-tokens", "3", "--greedy"}, {"--n-tok=3", "--greedy"}, {"-n3", "--gre"}, {"-n=3", "--greedy"}};
    char *first = NULL;
    for (size_t i = 0; i < 4; i++) {
        const char *words[9] = {"run", "-m", test_small_model(), BEGIN, forms[i][0], forms[i][1], forms[i][2]};
        test_output o = test_tern(NULL, words);
        assert_int_equal(o.code, 0);
        if (!first) first = strdup(o.out);
        assert_string_equal(o.out, first);
        test_output_free(&o);
    }
    free(first);
}

/* What a file is that a flag does not take. */
static void foreign_forms_are_named(void **state)
{
    (void)state;
    char *lines = strdup(test_scratch("talks.jsonl")), *config = strdup(test_scratch("tokenizer_config.json")),
         *zip = strdup(test_scratch("model.bin")), *adapter = strdup(test_scratch("adapter_config.json"));
    const char *model = test_small_model();
    char *folder = strdup(adapter);
    *strrchr(folder, '/') = 0;
    test_write_text(lines, "{\"messages\": []}\n{\"messages\": []}\n");
    test_write_text(config, "{\"chat_template\": \"{{ bos_token }}\"}\n");
    test_write_text(zip, "PK\3\4");
    test_write_text(adapter, "{}");
    const char *const calls[][6] = {
        {"chat", "--template", lines, "talks.jsonl is JSON lines: a Jinja file, or one of "},
        {"chat", "--template", config, "the text of its chat_template expected"},
        {"chat", "--template", model, " is a model (GGUF): text expected"},
        {"run", "-p", "a", "-m", lines, "'GGUF' expected: this is JSON"},
        {"run", "-p", "a", "--lora", lines, "'GGUF' expected: this is JSON"},
        {"run", "-p", "a", "--lora", model, "no LoRA adapter: general.type: "},
        {"perplexity", model, " is a model (GGUF): text expected"},
        {"perplexity", zip, " is a zip archive: unpack it first"},
        {"perplexity", folder, ": an adapter (PEFT) found, a file expected"},
        {"eval", model, " is a model (GGUF): text expected"},
        {"finetune", "--dry-run", "--data", folder, " is an adapter (PEFT): text, JSONL"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const char *words[7] = {NULL};
        size_t n = 0;
        while (n < 6 && calls[i][n]) n++;
        memcpy(words, calls[i], (n - 1) * sizeof *words);
        test_output o = test_tern(NULL, words);
        if (o.code == 0 || !strstr(o.err, calls[i][n - 1])) fail_msg("%s %s: %s", words[0], words[1], o.err);
        test_output_free(&o);
    }
    remove(adapter);
    free(lines), free(config), free(zip), free(adapter), free(folder);
}

/* A dry run works where TMPDIR says, and leaves nothing there. */
static void dry_runs_work_in_tmpdir(void **state)
{
    (void)state;
    const char *none = test_scratch("no-such-folder");
    setenv("TMPDIR", none, 1);
    test_output o = TERN("finetune", "--dry-run", "-m", test_small_model(), "--lora", "2", "--seq", "32");
    unsetenv("TMPDIR");
    if (o.code == 0 || !strstr(o.err, "no-such-folder: cannot make a folder in it")) fail_msg("%s", o.err);
    test_output_free(&o);
}

/* A full disk is an error, whatever was to be printed. */
static void output_that_cannot_be_written_is_an_error(void **state)
{
    static const char *const words[] = {"help",           "--help",  "help run",       "run --help",
                                        "run --help-all", "version", "completion bash"};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char command[3000];
        snprintf(command, sizeof command, "%s '%s/tern' %s > /dev/full 2> '%s'", TERN_EMULATOR, TERN_BUILD_DIR,
                 words[i], test_scratch("full.txt"));
        const int status = system(command);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) fail_msg("tern %s > /dev/full: %d", words[i], status);
    }
}

/* Words of the command line cannot move a terminal's cursor. */
static void control_characters_are_shown(void **state)
{
    (void)state;
    test_output o = TERN("\033[31mx");
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "unknown command \"\\x1b[31mx\""));
    test_output_free(&o);
    char path[1100];
    snprintf(path, sizeof path, "%s/a\033[31m.gguf", test_scratch(""));
    o = test_tern(NULL, TERN_WORDS("synth", "--preset", "bitnet-tiny", "--layers", "1", "--overwrite", "-o", path));
    assert_int_equal(o.code, 0);
    assert_null(strchr(o.err, '\033'));
    assert_non_null(strstr(o.err, "a\\x1b[31m.gguf: "));
    test_output_free(&o);
    unlink(path);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(wrong_words_are_explained),      cmocka_unit_test(every_command_has_help),
    cmocka_unit_test(help_shows_what_most_need),      cmocka_unit_test(help_of_serve_shows_what_servers_need),
    cmocka_unit_test(files_are_named_once),           cmocka_unit_test(gpu_layers_on_the_cpu_are_said_to_do_nothing),
    cmocka_unit_test(help_lists_the_passes),          cmocka_unit_test(help_shows_no_seed),
    cmocka_unit_test(usage_is_wrapped_between_words), cmocka_unit_test(no_words_is_the_list),
    cmocka_unit_test(flags_have_several_forms),       cmocka_unit_test(foreign_forms_are_named),
    cmocka_unit_test(dry_runs_work_in_tmpdir),        cmocka_unit_test(output_that_cannot_be_written_is_an_error),
    cmocka_unit_test(control_characters_are_shown),
};

TEST_GROUP(usage, "gpu swiftshader", tests);
