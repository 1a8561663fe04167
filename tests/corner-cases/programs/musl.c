/* Built by musl-gcc: another C library and another loader. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
static jmp_buf back;
static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
static int leaving(const void *a, const void *b) { (void)a, (void)b; longjmp(back, 3); }
static void *work(void *argument) {
    char text[50];
    for (int i = 0; i < 1000; i++) *(long *)argument += snprintf(text, sizeof text, "%d", i);
    return 0;
}
int main(void) {
    char *words[] = {"pear", "apple", "fig"};
    qsort(words, 3, sizeof *words, compare);
    printf("%s %s %s\n", words[0], words[1], words[2]);
    int r = setjmp(back);
    if (r == 0) qsort(words, 3, sizeof *words, leaving);
    printf("jumped %d\n", r);
    pthread_t threads[4];
    long sums[4] = {0};
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, &sums[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("%ld\n", sums[0] + sums[1] + sums[2] + sums[3]);
    fflush(stdout);
    if (fork() == 0) execl("/bin/echo", "echo", "a glibc child", (char *)0), _exit(1);
    int status;
    wait(&status);
    printf("child %d\n", WEXITSTATUS(status));
    return 6;
}
