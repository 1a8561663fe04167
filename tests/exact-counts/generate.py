"""Random programs whose libraries count their own calls.

A program is a main object and 2 to 6 libraries. Calls go from the program to libraries and from a library to later
ones. Each calling object is built with a linkage kind of its own (lazy, now, no PLT), each called function has a symbol
kind of its own (plain, weak reference, IFUNC, versioned), and some libraries are loaded with dlopen and reached with
dlsym. Each caller counts each of its calls with an atomic counter just before it makes it.
"""

import os
import random
import subprocess

CALLER_KINDS = {
    "lazy": ["-Wl,-z,lazy"],
    "now": ["-Wl,-z,now", "-Wl,-z,relro"],
    "noplt": ["-fno-plt"],
    "ibt": ["-fcf-protection=full", "-Wl,-z,lazy"],
}
SYMBOL_KINDS = ["plain", "plain", "weak", "tested-weak", "ifunc", "versioned"]
EXITS = ["return", "exit", "_exit", "abort", "kill", "pthread_exit"]


class Program:
    """Shape of one random program; `build` writes its sources and compiles them."""

    def __init__(self, seed):
        self.random = r = random.Random(seed)
        self.seed = seed
        self.libraries = r.randint(2, 6)
        self.threads = r.choice([1, 1, 2, 3, 4, 8, 16, 64])
        self.kind = [r.choice(list(CALLER_KINDS)) for _ in range(self.libraries + 1)]  # the last one is the program's
        self.no_pie = r.random() < 0.3
        self.opened = [r.random() < 0.25 for _ in range(self.libraries)]
        self.exit = r.choice(EXITS)
        self.optimize = r.choice(["-O0", "-O1", "-O2", "-O2", "-O3"])
        self.functions = {i: [(k, r.choice(SYMBOL_KINDS)) for k in range(r.randint(2, 5))] for i in range(self.libraries)}
        # Sites: caller -> list of (function's call list); (library, function) reached by dlsym have one caller only.
        self.claimed = {}
        self.calls = {}
        for caller in [self.libraries] + list(range(self.libraries)):
            bodies = 4 if caller == self.libraries else len(self.functions[caller])
            self.calls[caller] = [self.pick_targets(caller) for _ in range(bodies)]

    def pick_targets(self, caller):
        r = self.random
        first = 0 if caller == self.libraries else caller + 1
        chosen = []
        for _ in range(r.randint(1, 3)):
            candidates = [(i, k) for i in range(first, self.libraries) for k, _ in self.functions[i]]
            candidates = [t for t in candidates if not self.opened[t[0]] or self.claimed.get(t, caller) == caller]
            if not candidates:
                break
            target = r.choice(candidates)
            if self.opened[target[0]]:
                self.claimed[target] = caller
            chosen.append((target, r.randint(1, 2), r.random() < 0.3))
        return chosen

    def name(self, target):
        return f"f{target[0]}_{target[1]}"

    def object_name(self, i):
        return "program" if i == self.libraries else f"lib{i}.so"

    def targets_of(self, caller):
        return sorted({t for body in self.calls[caller] for t, _, _ in body})

    def prelude(self, caller):
        lines = ['#include "counting.h"']
        for n, t in enumerate(self.targets_of(caller)):
            name, kind = self.name(t), self.functions[t[0]][t[1]][1]
            if self.opened[t[0]]:
                lines.append(f"static Function got_{name};\n#define CALL_{name}(x) got_{name}(x)")
            else:
                weak = "__attribute__((weak)) " if "weak" in kind else ""
                lines.append(f"{weak}long {name}(long);")
                lines.append(f"#define CALL_{name}(x) " + (f"({name} ? {name}(x) : -1)" if kind == "tested-weak" else f"{name}(x)"))
            lines.append(f"static counter counted_{name};")
        lines.append("static counter counted_getppid;")
        return lines

    def body(self, caller, n):
        lines = []
        for site, (target, times, looped) in enumerate(self.calls[caller][n]):
            name = self.name(target)
            call = f"COUNT(counted_{name}); sum += CALL_{name}(x * 5 + {site});"
            if looped:
                lines.append(f"    for (long i = 0; i < {times}; i++) {{ {call} }}")
            else:
                lines.append(f"    if ((x >> {site}) & 1) {{ {call} }}")
        if self.random.random() < 0.2:
            lines.append("    if ((x & 15) == 3) { COUNT(counted_getppid); sum += getppid() > 0; }")
        return "\n".join(lines)

    def report(self, caller):
        lines = [f"void report_{caller if caller < self.libraries else 'program'}(FILE *f) {{"]
        entries = [(self.object_name(t[0]), self.name(t)) for t in self.targets_of(caller)] + [("libc.so.6", "getppid")]
        for callee, name in entries:
            lines.append(f'    say(f, "{self.object_name(caller)}", "{callee}", "{name}", &counted_{name});')
        return "\n".join(lines + ["}"])

    def connect(self, caller):
        """Fills the pointers of functions that are reached with dlsym."""
        lines = [f"void connect_{caller if caller < self.libraries else 'program'}(void) {{"]
        for t in self.targets_of(caller):
            if self.opened[t[0]]:
                lines.append(f'    got_{self.name(t)} = lookup("lib{t[0]}.so", "{self.name(t)}");')
        return "\n".join(lines + ["}"])

    def library_source(self, i):
        lines = self.prelude(i)
        for k, kind in self.functions[i]:
            name = f"f{i}_{k}"
            body = f"    long sum = x;\n{self.body(i, k)}\n    return sum;"
            if kind == "ifunc":
                lines.append(f"static long body_{k}(long x) {{\n{body}\n}}\nstatic Function choose_{k}(void) {{ return body_{k}; }}")
                lines.append(f'long {name}(long x) __attribute__((ifunc("choose_{k}")));')
            elif kind == "versioned":
                lines.append(f"long old_{k}(long x) {{ return x; }}\nlong new_{k}(long x) {{\n{body}\n}}")
                lines.append(f'__asm__(".symver old_{k}, {name}@V1");\n__asm__(".symver new_{k}, {name}@@V2");')
            else:
                lines.append(f"long {name}(long x) {{\n{body}\n}}")
        return "\n".join(lines + [self.report(i), self.connect(i)]) + "\n"

    def main_source(self):
        n = self.libraries
        lines = ['#include "counting.h"'] + self.prelude(n)[1:]
        for b in range(4):
            lines.append(f"static long root_{b}(long x) {{\n    long sum = x;\n{self.body(n, b)}\n    return sum;\n}}")
        lines += [self.report(n), self.connect(n)]
        linked = [i for i in range(n) if not self.opened[i]]
        opened = [i for i in range(n) if self.opened[i]]
        for i in linked:
            lines.append(f"void report_{i}(FILE *f);\nvoid connect_{i}(void);")
        rounds = max(1, 2000 // self.threads)
        lines.append(f"""
static atomic_long total;
static void *work(void *argument) {{
    unsigned long seed = (unsigned long)argument * 2654435761UL + {self.seed};
    long sum = 0;
    for (int i = 0; i < {rounds}; i++) {{
        seed = seed * 6364136223846793005UL + 1442695040888963407UL;
        long x = (long)(seed >> 40);
        sum += root_0(x) + root_1(x >> 2) + root_2(x >> 4) + root_3(x >> 6);
    }}
    total += sum;
    if (((long)argument & 3) == 1) pthread_exit(0);
    return 0;
}}
int main(int argc, char **argv) {{
    if (argc < 2) return 2;
    void (*reports[{n + 1}])(FILE *);
    void (*connects[{n + 1}])(void);
    reports[{n}] = report_program, connects[{n}] = connect_program;""")
        for i in linked:
            lines.append(f"    reports[{i}] = report_{i}, connects[{i}] = connect_{i};")
        for i in opened:
            lines.append(f'    reports[{i}] = lookup("lib{i}.so", "report_{i}"), connects[{i}] = lookup("lib{i}.so", "connect_{i}");')
        leave = {"return": "return 0;", "exit": "exit(0);", "_exit": "_exit(0);", "abort": "abort();", "kill": "raise(SIGKILL);",
                 "pthread_exit": "pthread_exit(0);"}[self.exit]
        lines.append(f"""    for (int i = 0; i <= {n}; i++) connects[i]();
    pthread_t threads[{self.threads}];
    for (long i = 1; i < {self.threads}; i++) if (pthread_create(&threads[i], 0, work, (void *)(i + 1))) return 3;
    work((void *)4);
    for (int i = 1; i < {self.threads}; i++) pthread_join(threads[i], 0);
    FILE *f = fopen(argv[1], "w");
    if (!f) return 4;
    fputs("[", f);
    for (int i = 0; i <= {n}; i++) reports[i](f);
    fprintf(f, "null]\\n");
    fclose(f);
    {leave}
    return 0;
}}""")
        return "\n".join(lines) + "\n"

    def build(self, folder):
        """Writes sources into `folder`, compiles, and returns the program's path."""
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "counting.h"), "w") as f:
            f.write(COUNTING)
        with open(os.path.join(folder, "versions.map"), "w") as f:
            f.write("V1 { };\nV2 { } V1;\n")
        cc = ["cc", self.optimize, "-g", "-w", "-pthread"]
        link = [f"-L{folder}", "-Wl,-rpath,$ORIGIN", "-ldl"]
        for i in reversed(range(self.libraries)):
            source = os.path.join(folder, f"lib{i}.c")
            with open(source, "w") as f:
                f.write(self.library_source(i))
            needed = [f"-l{t}" for t in sorted({t[0] for t in self.targets_of(i) if not self.opened[t[0]]})]
            run(cc + ["-fPIC", "-shared", source, "-o", os.path.join(folder, f"lib{i}.so"), f"-Wl,-soname,lib{i}.so",
                      "-Wl,--version-script=" + os.path.join(folder, "versions.map")] + CALLER_KINDS[self.kind[i]] + link + needed)
        source = os.path.join(folder, "program.c")
        with open(source, "w") as f:
            f.write(self.main_source())
        needed = ["-Wl,--no-as-needed"] + [f"-l{i}" for i in range(self.libraries) if not self.opened[i]]
        pie = ["-no-pie", "-fno-pie"] if self.no_pie else ["-fPIE", "-pie"]
        run(cc + pie + [source, "-o", os.path.join(folder, "program")] + CALLER_KINDS[self.kind[-1]] + link + needed)
        return os.path.join(folder, "program")

    def describe(self):
        kinds = ",".join(f"{k}{'*' if i < self.libraries and self.opened[i] else ''}" for i, k in enumerate(self.kind))
        return f"{self.libraries} libraries ({kinds}), {self.threads} threads, {self.optimize}, {'no PIE, ' if self.no_pie else ''}ends by {self.exit}"


def run(argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(" ".join(argv) + "\n" + done.stderr)


COUNTING = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef long (*Function)(long);
typedef atomic_long counter;
#define COUNT(c) atomic_fetch_add_explicit(&(c), 1, memory_order_relaxed)
static void say(FILE *f, const char *caller, const char *callee, const char *api, counter *c) {
    fprintf(f, "[\\"%s\\",\\"%s\\",\\"%s\\",%ld],\\n", caller, callee, api, atomic_load(c));
}
__attribute__((unused)) static void *lookup(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_NOW);
    void *found = handle ? dlsym(handle, name) : 0;
    if (!found) { fprintf(stderr, "%s\\n", dlerror()); _exit(5); }
    return found;
}
"""
