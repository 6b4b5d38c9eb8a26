/* replay.c: runs a fuzz target on the files of a folder, or on single files: what libFuzzer's own
 * main does with a fixed corpus, for compilers without it. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 1 when it cannot be read; folders are passed over. */
static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat info;
    if (!f || fstat(fileno(f), &info)) {
        perror(path);
        return 1;
    }
    if (S_ISDIR(info.st_mode)) {
        fclose(f);
        return 0;
    }
    /* Exactly as large as the input, so that a sanitizer sees reads beyond it. */
    size_t size = (size_t)info.st_size;
    uint8_t *data = malloc(size ? size : 1);
    int failed = !data || fread(data, 1, size, f) != size;
    if (!failed)
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    fclose(f);
    return failed;
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir) {
            replay_file(argv[i]) ? failed++ : passed++;
            continue;
        }
        for (struct dirent *e; (e = readdir(dir));) {
            char path[4096];
            if (e->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            replay_file(path) ? failed++ : passed++;
        }
        closedir(dir);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : 0;
}
