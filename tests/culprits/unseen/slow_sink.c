// Sends blocks through a pipe to a child that reads them at once but digests them slowly.
#include "hclock.h"
#include <sys/wait.h>
__attribute__((noinline)) static uint64_t digest_block(const unsigned char *b, long n) {
    uint64_t h = 7;
    for (long i = 0; i < n; i++)
        h = mixed(h ^ b[i]); // HERE
    return h;
}
static void drain(int fd) { static unsigned char b[65536]; uint64_t h = 0; ssize_t n; double d = 0; while ((n = read(fd, b, sizeof b)) > 0) { double t = now_(); h ^= digest_block(b, n); d += now_() - t; } if (timing_) fprintf(stderr, "child digests %.3f s\n", d); _exit((int)(h & 1)); }
int main(int argc, char **argv) {
    CLOCK_INIT; long blocks = argc > 1 ? atol(argv[1]) : 4500; int p[2]; if (pipe(p)) return 1;
    if (!fork()) { close(p[1]); drain(p[0]); }
    close(p[0]); static unsigned char b[65536];
    for (long i = 0; i < blocks; i++) { for (int k = 0; k < 65536; k += 64) b[k] = (unsigned char)(i + k); if (write(p[1], b, sizeof b) != sizeof b) return 1; }
    close(p[1]); wait(NULL); puts("done"); CLOCK_SAY;
}
