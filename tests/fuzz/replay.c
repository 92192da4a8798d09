/* Runs fuzzers over every file of their corpus folders, as an ordinary program. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

/* The input lies in a block of exactly its size, so that AddressSanitizer sees a read past its end. */
static int replay_file(fuzz_entry run, const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    int ok = file && data && fread(data, 1, size, file) == size;
    if (ok) run(data, size);
    free(data);
    if (file) fclose(file);
    return ok;
}

static int replay_folder(fuzz_entry run, const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) return 0;
    int n = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) continue;
        printf("%s\n", entry->d_name);
        fflush(stdout);
        n += replay_file(run, path, (size_t)st.st_size);
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    if (argc == 3)
        for (const fuzz_replay *r = fuzz_replays; r->name; r++) {
            if (strcmp(r->name, argv[1]) != 0) continue;
            const int n = replay_folder(r->run, argv[2]);
            printf("%d inputs\n", n);
            return n > 0 ? 0 : 1;
        }
    fprintf(stderr, "usage: %s FUZZER CORPUS_FOLDER, FUZZER one of:\n", argv[0]);
    for (const fuzz_replay *r = fuzz_replays; r->name; r++) fprintf(stderr, "    %s\n", r->name);
    return 2;
}
