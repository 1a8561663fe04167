"""Writes and builds a program with many libraries, each of which calls the C library and its neighbour."""

import os
import subprocess
import sys

build, count = sys.argv[1], int(sys.argv[2])
names = ["malloc", "free", "strlen", "memcpy", "snprintf", "fopen", "fclose", "getenv", "qsort", "strtol", "read", "write", "open",
         "close", "pthread_mutex_lock", "pthread_mutex_unlock", "clock_gettime", "memcmp", "strcmp", "strdup"]
folder = os.path.join(build, "libraries")
cc = ["cc", "-O1", "-w", "-fno-builtin", "-pthread"]
for i in range(count, 0, -1):
    lines = [f"int work{i + 1}(int);"] if i < count else []
    for k in range(60):  # functions of some size, so that the objects are not empty
        body = " + ".join(f"(long){names[(k * 7 + j) % len(names)]}(n, n, n, n)" for j in range(6))
        lines.append(f"int part{i}_{k}(long n) {{ if (n == 77) return {body}; return (int)n * {k}; }}")
    lines.append(f"int work{i}(int n) {{ return " + (f"work{i + 1}(n)" if i < count else "n") + f" + part{i}_{i % 60}(n) + (int)strlen(\"x\"); }}")
    source = os.path.join(folder, f"l{i}.c")
    with open(source, "w") as f:
        f.write("\n".join(lines) + "\n")
    subprocess.run(cc + ["-fPIC", "-shared", source, "-o", os.path.join(folder, f"libl{i}.so"), f"-L{folder}", "-Wl,-rpath,$ORIGIN"]
                   + ([f"-ll{i + 1}"] if i < count else []), check=True)
source = os.path.join(folder, "main.c")
with open(source, "w") as f:
    f.write("""#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int work1(int);
int main(int argc, char **argv) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (argc > 1) printf("%ld\\n", t.tv_sec * 1000000000L + t.tv_nsec - atol(argv[1]));
    return work1(3) == -1;
}
""")
libraries = [f"-ll{i}" for i in range(1, count + 1)]
subprocess.run(cc + [source, "-o", os.path.join(build, "thirty-libraries"), f"-L{folder}", "-Wl,--no-as-needed", *libraries, "-Wl,-rpath,$ORIGIN/libraries"], check=True)
