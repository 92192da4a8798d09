/* Runs a fuzzer over every seed of its archive (tests/fuzz/corpus/NAME.tar), as an ordinary program. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "fuzz/fuzz.h"
#include "support/seeds.h"

/* The input lies in a block of exactly its size, so that AddressSanitizer sees a read past its end. */
static bool replay_seed(fuzz_entry run, const seed *s)
{
    uint8_t *data = malloc(s->size ? s->size : 1);
    if (!data) return false;
    memcpy(data, s->data, s->size);
    run(data, s->size);
    free(data);
    return true;
}

static int replay_archive(fuzz_entry run, const char *path)
{
    tern_error err = {0};
    tern_buf archive = {0};
    if (tern_file_read(&archive, path, (size_t)1 << 28, &err) != TERN_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    seed_cursor cursor = seed_begin(archive.data, archive.size);
    int n = 0;
    for (seed s; seed_next(&cursor, &s); n++) {
        printf("%s\n", s.name);
        fflush(stdout);
        if (!replay_seed(run, &s)) break;
    }
    printf("%d inputs\n", n);
    if (cursor.bad) fprintf(stderr, "%s: not a tar file of seeds after %d of them\n", path, n);
    tern_buf_deinit(&archive);
    return !cursor.bad && n > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3)
        for (const fuzz_replay *r = fuzz_replays; r->name; r++)
            if (strcmp(r->name, argv[1]) == 0) return replay_archive(r->run, argv[2]);
    fprintf(stderr, "usage: %s FUZZER ARCHIVE, FUZZER one of:\n", argv[0]);
    for (const fuzz_replay *r = fuzz_replays; r->name; r++) fprintf(stderr, "    %s\n", r->name);
    return 2;
}
