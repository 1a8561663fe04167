"""Random programs of several static components that count their own calls."""

import os
import random
import subprocess

HEAD = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern _Atomic unsigned long truth[];
extern long (*volatile table[])(long, long);
extern int (*volatile comparers[])(const void *, const void *);
long c0_apply(long, long, long (*)(long));
#define NOINLINE __attribute__((noinline))
"""


class Function:
    def __init__(self, component, number, static):
        self.component, self.number, self.static = component, number, static
        self.name = f"c{component}_f{number}"


class Program:
    """Components c0 (the program's own), c1 … ck. A call site counts itself in `truth` if it leaves its component."""

    def __init__(self, seed, unity=False, components=None, shared=False):
        self.random = random.Random(seed)
        self.seed, self.unity, self.shared = seed, unity, shared
        r = self.random
        self.components = components or r.randint(1, 4)
        self.functions = []
        for c in range(self.components + 1):
            for n in range(r.randint(3, 9)):
                # Private functions are called inside their component, or anywhere in a program of one file.
                self.functions.append(Function(c, n, static=r.random() < 0.3))
        for c in range(self.components + 1):
            self.functions.append(Function(c, 99, static=False))
        self.sites = []
        self.threads = r.choice([0, 0, 2, 3])

    def site(self, caller, callee, api):
        """C code that counts a call."""
        # The rest of the program has no entry code: calls of its functions are part of who makes them.
        if caller == callee or callee == 0:
            return ""
        key = (caller, callee, api)
        if key not in self.sites:
            self.sites.append(key)
        return f"truth[{self.sites.index(key)}]++; "

    def body(self, f, order):
        """Calls go to functions later in the order, or back with less depth, so that every program ends."""
        r = self.random
        lines = []
        callable_ = [g for g in self.functions if g is not f and g.number != 99 and (self.unity or not g.static or g.component == f.component)]
        later = [g for g in callable_ if order[g] > order[f]]
        for _ in range(r.randint(0, 4)):
            kind = r.choice(["direct", "direct", "pointer", "back", "libc", "qsort", "loop", "self"])
            if kind in ("direct", "pointer", "loop") and later:
                g = r.choice(later)
                count = self.site(f.component, g.component, g.name)
                if kind == "direct":
                    lines.append(f"{count}v += {g.name}(d, v + {r.randint(1, 99)});")
                elif kind == "loop":
                    lines.append(f"for (int i = 0; i < {r.randint(2, 5)}; i++) {{ {count}v ^= {g.name}(d, v + i); }}")
                elif not g.static or self.unity:
                    lines.append(f"{count}v += table[{self.functions.index(g)}](d, v ^ {r.randint(1, 99)});")
            elif kind == "back" and callable_:
                g = r.choice(callable_)
                count = self.site(f.component, g.component, g.name)
                lines.append(f"if (d > 0) {{ {count}v += {g.name}(d - 1, v); }}")
            elif kind == "self":
                lines.append(f"if (d > 0) v += {f.name}(d - 1, v + {r.randint(1, 9)});")
            elif kind == "libc":
                api, code = r.choice([
                    ("getppid", "v += getppid() > 0;"),
                    ("getpgrp", "v += getpgrp() > 0;"),
                    ("getuid", "v += getuid() == 0;"),
                    ("rand_r", "{ unsigned s = v; v += rand_r(&s); }"),
                ])
                lines.append(f"{self.site(f.component, 'libc', api)}{code}")
            elif kind == "qsort":
                c = r.randint(0, self.components)
                lines.append(self.site(f.component, "libc", "qsort") + "{ long a[4] = {v & 7, 3, 9, 1}; " + f"qsort(a, 4, sizeof *a, comparers[{c}]); v += a[{r.randint(0, 3)}]; }}")
        end = "return v;"
        if r.random() < 0.5 and later:
            g = r.choice(later)
            # A jump through a pointer out of the program's own code has no witness: the return address is another's.
            through = r.random() < 0.3 and f.component != 0 and (not g.static or self.unity)
            call = f"table[{self.functions.index(g)}]" if through else g.name
            end = f"{self.site(f.component, g.component, g.name)}return {call}(d, v);"
        plain = ""
        if f.number < 99 and r.random() < 0.15 and later:
            # So short that what it goes on to, or whose address it takes, is in its first instructions.
            lines, c = [], r.randint(1, self.components)
            if r.random() < 0.5:
                end = f"return c0_apply(d, v, c{c}_taken);"
            else:
                same = [g for g in later if g.component in (0, f.component)]
                end = f"return {r.choice(same).name}(d, v);" if same else f"return c0_apply(v, d, c{c}_taken);"
            plain = f"{'static ' if f.static else ''}NOINLINE long {f.name}(long d, long v) {{ {end} }}\n"
        if f.number == 99:
            lines, end = [f"v = v * {r.randint(3, 77)} % 1000003;"], "return v;"
        if plain:
            return plain
        text = "\n  ".join(lines)
        linkage = "static " if f.static else ""
        return f"{linkage}NOINLINE long {f.name}(long d, long v) {{\n  v += {f.component * 131 + f.number * 17 + 1};\n  {text}\n  {end}\n}}\n"

    def compare(self, c):
        count = "" if c == 0 else f"truth[{self.index('libc', c)}]++; "
        return (f"NOINLINE long c{c}_taken(long v) {{ return v ^ {c}; }}\n"
                f"NOINLINE int c{c}_compare(const void *a, const void *b) {{ {count}long x = *(const long *)a, y = *(const long *)b; "
                f"return x < y ? -1 : x > y ? 1 : {c} - {c}; }}\n")

    def index(self, caller, callee):
        key = (caller, callee, f"c{callee}_compare")
        if key not in self.sites:
            self.sites.append(key)
        return self.sites.index(key)

    def sources(self):
        order = {f: i for i, f in enumerate(self.random.sample(self.functions, len(self.functions)))}
        bodies = {f: self.body(f, order) for f in self.functions}
        compares = {c: self.compare(c) for c in range(self.components + 1)}
        declare = "".join(f"{'static ' if f.static else ''}long {f.name}(long, long);\n" for f in self.functions if self.unity or not f.static)
        declare += "".join(f"int c{c}_compare(const void *, const void *);\n" for c in range(self.components + 1))
        declare += "".join(f"long c{c}_taken(long);\n" for c in range(self.components + 1))
        for c in range(1, self.components + 1):
            self.site(0, c, f"c{c}_taken")
        # Addresses are compared: they must be the same to everybody.
        known = "".join(f"if (f == c{c}_taken) {self.site(0, c, f'c{c}_taken')}" for c in range(1, self.components + 1))
        files = {}
        for c in range(self.components + 1):
            own = [f for f in self.functions if f.component == c]
            private = "" if self.unity else "".join(f"static long {f.name}(long, long);\n" for f in own if f.static)
            halves = [own] if any(f.static for f in own) or self.unity else [own[: len(own) // 2], own[len(own) // 2:]]
            for h, half in enumerate(halves):
                files[f"c{c}_{h}.c"] = (c, private + "".join(bodies[f] for f in half) + (compares[c] if h == 0 else ""))
        roots = [f for f in self.functions if f.number != 99 and (self.unity or not f.static)]
        start = "".join(
            f"  {self.site(0, f.component, f.name)}sum += {f.name}(2, {i});\n" for i, f in enumerate(roots[:8])
        )
        entries = ", ".join(f.name if self.unity or not f.static else "0" for f in self.functions)
        comparers = ", ".join(f"c{c}_compare" for c in range(self.components + 1))
        names = ",\n".join(f'  "{a}\\t{b}\\t{n}"' for a, b, n in self.sites)
        run = "program_run" if self.shared else "run"
        main = f"""
_Atomic unsigned long truth[{len(self.sites) + 1}];
long (*volatile table[])(long, long) = {{{entries}}};
int (*volatile comparers[])(const void *, const void *) = {{{comparers}}};
static const char *names[] = {{
{names or '"none"'}
}};
NOINLINE long c0_apply(long d, long v, long (*f)(long)) {{ {known}return f(v) + d; }}
NOINLINE long {run}_once(void) {{ long sum = 0;
{start}  return sum; }}
static void *thread(void *argument) {{ return (void *)({run}_once() + (long)argument); }}
int {run}(int argc, char **argv) {{
  unsigned long sum = 0;
  int rounds = argc > 2 ? atoi(argv[2]) : 3;
  pthread_t threads[{max(self.threads, 1)}];
  for (int i = 0; i < {self.threads}; i++) if (pthread_create(&threads[i], 0, thread, 0)) return 3;
  for (int i = 0; i < rounds; i++) sum += {run}_once();
  for (int i = 0; i < {self.threads}; i++) {{ void *r; pthread_join(threads[i], &r); sum += (unsigned long)r; }}
  printf("%lu\\n", sum);
  FILE *f = argc > 1 ? fopen(argv[1], "w") : 0;
  if (f) {{ for (unsigned i = 0; i < sizeof names / sizeof *names; i++) fprintf(f, "%s\\t%lu\\n", names[i], truth[i]); fclose(f); }}
  return 0;
}}
"""
        if not self.shared:
            main += "int main(int argc, char **argv) { return run(argc, argv); }\n"
        if self.unity:
            texts = {"all.c": HEAD + declare + "".join(text for _, text in files.values()) + main}
        else:
            texts = {name: HEAD + declare + text for name, (_, text) in files.items()}
            texts["c0_main.c"] = HEAD + declare + main
        if self.shared:
            texts["main.c"] = "int program_run(int, char **); int main(int argc, char **argv) { return program_run(argc, argv); }\n"
        return texts

    def build(self, folder, cc, flags, link):
        """Makes the program and the file that names its components; returns the program's path."""
        os.makedirs(folder, exist_ok=True)
        objects = {}
        for name, text in self.sources().items():
            path = os.path.join(folder, name)
            open(path, "w").write(text)
            tool([*cc, "-w", *flags, *(["-fPIC"] if self.shared else []), "-c", name, "-o", f"{name}.o"], folder)
            objects[name] = f"{name}.o"
        rules = []
        archives = []
        for c in range(1, self.components + 1):
            where = 'within = "libholder.so"\n' if self.shared else ""
            if self.unity:
                rules.append(f'[[component]]\nname = "c{c}"\nfunctions = "c{c}_*"\n{where}')
            else:
                members = [o for n, o in objects.items() if n.startswith(f"c{c}_")]
                tool(["ar", "rcs", f"libc{c}.a", *members], folder)
                archives.append(f"libc{c}.a")
                rules.append(f'[[component]]\nname = "c{c}"\narchive = "{os.path.join(folder, f"libc{c}.a")}"\n{where}')
        own = [o for n, o in objects.items() if n.startswith(("c0_", "all"))]
        group = ["-Wl,--start-group", *archives, "-Wl,--end-group"] if archives else []
        if self.shared:
            tool([*cc, *flags, *link, "-shared", "-Wl,-soname,libholder.so", "-o", "libholder.so", *own, *group, "-pthread"], folder)
            tool([*cc, *flags, *link, "-o", "program", "main.c.o", "libholder.so", "-Wl,-rpath," + folder], folder)
        else:
            tool([*cc, *flags, *link, "-o", "program", *own, *group, "-pthread"], folder)
        open(os.path.join(folder, "components.toml"), "w").write("\n".join(rules))
        return os.path.join(folder, "program")

    def name_of(self, component):
        if component == "0":
            return "libholder.so" if self.shared else "program"
        return "libc.so.6" if component == "libc" else f"c{component}"


def tool(argv, folder):
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr[-2000:]}")
