/* Points in a loop and in a branch; written out, so that no sys/sdt.h is needed. */
#include <stdio.h>

#define POINT(name, value)                                                                          \
    __asm__ volatile("990: nop\n"                                                                   \
                     ".pushsection .note.stapsdt,\"?\",\"note\"\n"                                   \
                     ".balign 4\n.4byte 992f-991f, 994f-993f, 3\n"                                   \
                     "991: .asciz \"stapsdt\"\n992: .balign 4\n"                                     \
                     "993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " SEMAPHORE "\n"               \
                     ".asciz \"shop\"\n.asciz \"" name "\"\n.asciz \"4@%0\"\n"                      \
                     "994: .balign 4\n.popsection\n"                                                \
                     ".ifndef _.stapsdt.base\n"                                                     \
                     ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"         \
                     ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                                \
                     "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n.endif\n"      \
                     ::"nor"(value))

unsigned short shop_semaphore __attribute__((section(".probes"), used));

#define SEMAPHORE "0"
int __attribute__((noinline)) serve(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += i * sum + 3;
        POINT("item", sum);
        sum ^= 0x1234567;
    }
    return sum;
}
#undef SEMAPHORE
#define SEMAPHORE "shop_semaphore"
int __attribute__((noinline)) close_up(int n) {
    POINT("close", n);
    return n * 123456789 + 5;
}

int main(int argc, char **argv) {
    (void)argv;
    printf("%d %d\n", serve(argc + 3), close_up(argc));
    return 0;
}
