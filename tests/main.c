/* The main function of every test program: runs groups of cases by name, each in a process of its own. */
#include <fnmatch.h>
#include <unistd.h>

#include "support/op_case.h"
#include "support/test.h"

#ifndef __EMSCRIPTEN__
#include <sys/wait.h>
#endif

static const char usage[] = "usage: %s [--list] [--case PATTERN] [--backend NAME] [--shared] [GROUP ...]\n"
                            "Runs the groups of these names, without names all; of each the cases that match.\n"
                            "Groups with the label `backends` or `devices` run on the backend of this name.\n"
                            "--shared takes the golden files of ../shared, or of $TERN_SHARED.\n"
                            "Exits with 77 where every case was skipped.\n";

typedef struct selection {
    bool list, shared;
    const char *program, *backend;
    const char *pattern; /* of names of cases, with * and ?; NULL: all */
    uint32_t n_groups, n_cases;
} selection;

static bool device_found;

/* Skipped where there is none; under CI=true failed. */
static void device_opens(void **state)
{
    (void)state;
    test_gpu_backend();
    device_found = true;
}

static bool has_label(const test_group *group, const char *label)
{
    const size_t n = strlen(label);
    for (const char *at = group->labels; (at = strstr(at, label)); at += n)
        if ((at == group->labels || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

/* Whether the group can run: it needs a device where it is for one. */
static bool find_device(const test_group *group, int *failed)
{
    if (!has_label(group, "devices") && !(has_label(group, "backends") && test_on_gpu())) return true;
    const struct CMUnitTest opens[] = {cmocka_unit_test(device_opens)};
    *failed = _cmocka_run_group_tests(group->name, opens, 1, NULL, NULL);
    return device_found;
}

static CMFixtureFunction group_setup;

static int set_up(void **state)
{
    test_in_setup(true);
    const int status = group_setup(state);
    test_in_setup(false);
    return status;
}

/* Runs these cases of a group: 0, EXIT_FAILURE, or TEST_SKIPPED where every one was skipped. */
static int run_cases(const test_group *group, const struct CMUnitTest *cases, size_t n)
{
    int failed = 0;
    if (!find_device(group, &failed)) return failed ? EXIT_FAILURE : TEST_SKIPPED;
    const uint32_t before = test_n_skipped();
    group_setup = group->setup;
    failed += _cmocka_run_group_tests(group->name, cases, n, group->setup ? set_up : NULL, group->teardown);
    if (failed) return EXIT_FAILURE;
    return test_n_skipped() - before == n ? TEST_SKIPPED : 0;
}

/* Runs the group's cases that match; returns as run_cases does. */
static int run_group(const test_group *group, const selection *s)
{
    const char *pattern = s->pattern;
    test_scratch_for(s->program, group->name, s->shared ? "shared" : s->backend ? s->backend : "");
    struct CMUnitTest *cases = calloc(group->n_cases, sizeof *cases);
    size_t n = 0;
    if (!cases) return EXIT_FAILURE;
    for (size_t i = 0; i < group->n_cases; i++)
        if (!pattern || fnmatch(pattern, group->cases[i].name, 0) == 0) cases[n++] = group->cases[i];
    const int status = run_cases(group, cases, n);
    test_backends_close(NULL);
    free(cases);
    return status;
}

static uint32_t count_cases(const test_group *group, const char *pattern)
{
    uint32_t n = 0;
    for (size_t i = 0; i < group->n_cases; i++) n += !pattern || fnmatch(pattern, group->cases[i].name, 0) == 0;
    return n;
}

static void list_group(const test_group *group, const char *pattern)
{
    printf("%s%s%s\n", group->name, *group->labels ? ": " : "", group->labels);
    for (size_t i = 0; i < group->n_cases; i++)
        if (!pattern || fnmatch(pattern, group->cases[i].name, 0) == 0) printf("    %s\n", group->cases[i].name);
}

/* A group may change the environment and leave static state behind: several each get a process. */
static int run_apart(const test_group *group, const selection *s)
{
#ifdef __EMSCRIPTEN__
    return run_group(group, s);
#else
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0) return EXIT_FAILURE;
    if (child == 0) exit(run_group(group, s));
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
#endif
}

static bool wanted(const test_group *group, char **names, int n_names)
{
    for (int i = 0; i < n_names; i++)
        if (strcmp(names[i], group->name) == 0) return true;
    return n_names == 0;
}

static bool known(const char *name)
{
    for (const test_group *const *g = test_groups; *g; g++)
        if (strcmp((*g)->name, name) == 0) return true;
    return false;
}

/* Takes the options from argv; returns where the names begin, 0 where a word is wrong. */
static int read_words(int argc, char **argv, selection *s)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            s->list = true;
        } else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc) {
            s->pattern = argv[++i];
        } else if (strcmp(argv[i], "--backend") == 0 && i + 1 < argc) {
            test_backend_choose(s->backend = argv[++i]);
        } else if (strcmp(argv[i], "--shared") == 0) {
            s->shared = true;
        } else {
            return 0;
        }
    }
    for (int k = i; k < argc; k++) {
        if (known(argv[k])) continue;
        fprintf(stderr, "%s has no group %s; --list prints those it has\n", argv[0], argv[k]);
        return 0;
    }
    return i;
}

/* Without the files of --shared nothing runs. A folder that was asked for by name must be there. */
static int shared_is_missing(void)
{
    const char *dir = getenv("TERN_SHARED");
    if (dir) fprintf(stderr, "TERN_SHARED: no folder %s\n", dir);
    else printf("skipped: no golden files in ../shared (or in $TERN_SHARED)\n");
    return dir ? EXIT_FAILURE : TEST_SKIPPED;
}

/* Runs or lists the groups that are wanted; returns as run_cases does. */
static int run_groups(char **names, int n_names, selection *s)
{
    bool passed = false, failed = false;
    for (const test_group *const *g = test_groups; *g; g++) {
        if (!wanted(*g, names, n_names)) continue;
        const uint32_t n = count_cases(*g, s->pattern);
        if (n == 0) continue;
        s->n_cases += n;
        if (s->list) {
            list_group(*g, s->pattern);
            continue;
        }
        const int status = n_names == 1 ? run_group(*g, s) : run_apart(*g, s);
        passed |= status == 0;
        failed |= status != 0 && status != TEST_SKIPPED;
    }
    if (failed) return EXIT_FAILURE;
    return passed || s->list ? 0 : TEST_SKIPPED;
}

int main(int argc, char **argv)
{
    selection s = {.program = argv[0]};
    const int first = read_words(argc, argv, &s);
    if (!first) {
        fprintf(stderr, usage, argv[0]);
        return 2;
    }
    if (s.shared && !test_use_shared()) return shared_is_missing();
    const int status = run_groups(argv + first, argc - first, &s);
    if (s.n_cases == 0) {
        fprintf(stderr, "%s: no case matches %s\n", argv[0], s.pattern ? s.pattern : "");
        return 2;
    }
    return status;
}
