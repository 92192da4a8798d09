/* Runs a fuzzer over every file of a corpus folder, as an ordinary program. */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

/* The input lies in a block of exactly its size, so that AddressSanitizer sees a read past its end. */
static int replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    int ok = file && data && fread(data, 1, size, file) == size;
    if (ok) LLVMFuzzerTestOneInput(data, size);
    free(data);
    if (file) fclose(file);
    return ok;
}

static int replay_folder(const char *folder)
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
        n += replay_file(path, (size_t)st.st_size);
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    int n = replay_folder(argv[1]);
    printf("%d inputs\n", n);
    return n > 0 ? 0 : 1;
}
