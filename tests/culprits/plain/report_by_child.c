// Starts another program to rank words, and waits for it. The program is beside this one.
#include "../own_clock.h"
#include <libgen.h>
#include <sys/wait.h>

/* The path of the program that ranks. */
static void ranker_path(char *path, size_t size) {
    char self[4000];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        exit(1);
    self[length] = 0;
    snprintf(path, size, "%s/word_ranker", dirname(self));
}

/* A list of words as the ranker reads it. */
static void write_words(FILE *words, long count) {
    for (long i = 0; i < count; i++)
        fprintf(words, "word%llu\n", (unsigned long long)(scrambled((uint64_t)i) % 4000));
    rewind(words);
}

__attribute__((noinline)) static int rank_by_child(const char *path, FILE *words, FILE *ranks) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(fileno(words), STDIN_FILENO);
        dup2(fileno(ranks), STDOUT_FILENO);
        execl(path, path, (char *)NULL);
        _exit(127);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status;
}

int main(int argc, char **argv) {
    long count = amount(argc, argv, 60000);
    double begin = seconds(), ranked = 0, working = 0;
    char path[4100], line[64];
    ranker_path(path, sizeof path);
    FILE *words = scratch_file(), *ranks = scratch_file();
    write_words(words, count);
    if (rank_by_child(path, words, ranks) != 0)
        return 1;
    // The child's first line is the time that its own clock saw in `rank_word`.
    rewind(ranks);
    if (!fgets(line, sizeof line, ranks))
        return 1;
    working = atof(line);
    while (fgets(line, sizeof line, ranks))
        ranked++;
    return tell(working, begin, ranked);
}
