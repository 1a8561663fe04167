"""The corner cases: which program runs with which arguments, and what is expected of it."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Callable, Optional


@dataclass
class Case:
    """One command whose behaviour must be the same with and without the agent."""

    name: str
    argv: list  # argv[0] is a program of the build folder, or an absolute path
    env: dict = field(default_factory=dict)  # added to the environment; None removes
    stdin: bytes = b""
    timeout: float = 60.0
    needs: Optional[Callable] = None  # returns a reason not to run, or None
    refused: Optional[str] = None  # words that the refusal's message must contain, instead of running
    same_stderr: bool = True
    scrub: Optional[Callable] = None  # removes what may differ between any two runs (process ids)
    prepare: Optional[Callable] = None  # (build folder) -> None
    modes: Optional[list] = None  # timing modes, if not all
    none_lost: bool = False  # no call may be left untimed


def cpu_has(flag):
    def check(_build):
        with open("/proc/cpuinfo") as f:
            return None if f" {flag} " in f.read() + " " else f"CPU without {flag}"

    return check


def built(program, why):
    return lambda build: None if os.path.exists(os.path.join(build, program)) else why


def exists(path):
    return lambda _build: None if os.path.exists(path) else f"{path} is not installed"


def as_root(_build):
    return None if os.geteuid() == 0 else "needs root to make a set-uid file of another user"


def scrub_pids(data):
    """Sanitizer reports carry process ids and addresses."""
    data = re.sub(rb"==\d+==", b"==PID==", data)
    data = re.sub(rb"0x[0-9a-f]+", b"ADDRESS", data)
    data = re.sub(rb"\(pid=\d+\)", b"(pid=PID)", data)
    return re.sub(rb"tid=\d+", b"tid=TID", data)


def scrub_tsan(data):
    """Which access of a race is reported first is chance: keep the kinds of reports only."""
    keep = [line for line in scrub_pids(data).splitlines() if line.startswith((b"WARNING", b"SUMMARY"))]
    return b"\n".join(sorted(set(re.sub(rb":\d+", b":LINE", line.split(b" in ")[0]) for line in keep)))


def sanitizer_head(data):
    """The report's first lines: kind of error and the functions of the program on the stack."""
    lines = [line for line in scrub_pids(data).splitlines() if b"ERROR" in line or b"runtime error" in line or b"SUMMARY" in line]
    return b"\n".join(lines)


def make_setuid(build):
    source, target = os.path.join(build, "streams"), os.path.join(build, "setuid")
    if os.path.exists(target):
        os.unlink(target)
    shutil.copy(source, target)
    os.chown(target, 65534, 65534)
    os.chmod(target, 0o4755)


JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
LINES = b"".join(b"line %d\n" % i for i in range(1000))

CASES = [
    Case("arguments and returns", ["arguments"]),
    Case("256-bit vectors", ["vectors256"], needs=cpu_has("avx2")),
    Case("512-bit vectors", ["vectors512"], needs=cpu_has("avx512f")),
    Case("exceptions caught", ["exceptions"]),
    Case("exception uncaught", ["exceptions", "uncaught"]),
    Case("exception uncaught in a thread", ["exceptions", "uncaught-in-thread"]),
    Case("exception meets noexcept", ["exceptions", "noexcept"]),
    Case("terminate handler", ["exceptions", "terminate-handler"]),
    Case("pure virtual call", ["exceptions", "pure-virtual"]),
    Case("longjmp", ["jumps"]),
    Case("timer signals", ["timer-signals"]),
    Case("timer signals on alternate stacks", ["timer-signals", "alternate"]),
    Case("ucontext coroutines", ["coroutines"]),
    Case("assembly coroutines", ["assembly-coroutines"]),
    Case("recursion to 100,000", ["recursion"]),
    Case("tail calls", ["tail-calls"]),
    Case("processes", ["processes"]),
    Case("daemon", ["daemon"]),
    Case("programs started", ["children"]),
    Case("environment", ["environment"]),
    Case("environment empty", ["/usr/bin/env", "-i", "{build}/environment"]),
    Case("environment of env", ["/usr/bin/env"], scrub=lambda d: b"\n".join(l for l in d.splitlines() if not l.startswith(b"_="))),
    Case("thread ends", ["thread-ends"]),
    Case("thread-local destructors", ["thread-locals"]),
    Case("4,000 threads", ["many-threads"], none_lost=True),
    Case("dlopen and dlclose", ["dynamic-loading"]),
    Case("loaded again elsewhere", ["loaded-elsewhere"]),
    Case("symbols", ["symbols"]),
    Case("symbols, bound now by environment", ["symbols"], env={"LD_BIND_NOW": "1"}),
    Case("symbols, no PIE", ["symbols-nopie"]),
    Case("symbols, -fno-plt", ["symbols-noplt"]),
    Case("symbols, -z now", ["symbols-now"]),
    Case("symbols, one unresolvable", ["symbols-unresolvable"]),
    Case("symbols, IBT PLT", ["symbols-static-libgcc"]),
    Case("symbols, SysV hash, no RELRO", ["sysv-hash"]),
    Case("symbols, packed relative relocations", ["prelinked-relr"]),
    Case("canonical PLT pointers", ["canonical-plt"]),
    Case("pointer identity", ["pointer-identity"], needs=built("pointer-identity", "zlib.h is missing")),
    Case("code in two segments", ["two-texts"]),
    Case("constructors and destructors", ["order"]),
    Case("_exit", ["order", "_exit"]),
    Case("quick_exit", ["order", "quick"]),
    Case("abort with buffered output", ["order", "abort"]),
    Case("all descriptors closed", ["resources", "close"]),
    Case("all descriptors closed, standard ones too", ["resources", "close-all"]),
    Case("descriptor numbers", ["resources", "first-descriptor"]),
    Case("seccomp filter", ["resources", "seccomp"]),
    Case("seccomp strict", ["resources", "seccomp-strict"]),
    Case("seccomp filter, then threads", ["resources", "seccomp-threads", "seen"], none_lost=True),
    Case("seccomp filter past libc, then threads", ["resources", "seccomp-threads"]),
    Case("address space limited", ["resources", "address-space"]),
    Case("address space limited past libc", ["resources", "address-space-unseen"], none_lost=True),
    Case("limits of the address space are the program's own", ["limits", "{build}/limits-static"]),
    Case("address space limited from the start", ["/bin/sh", "-c", "ulimit -v 200000; exec {build}/resources work"]),
    Case("file size limited", ["/bin/sh", "-c", "ulimit -f 1; exec {build}/resources work"]),
    Case("few descriptors", ["resources", "few-descriptors"]),
    Case("no descriptor left for a child", ["resources", "no-descriptors"]),
    Case("descriptors that a child does not inherit", ["resources", "no-descriptors", "closed-at-exec"]),
    Case("few descriptors from the start", ["/bin/sh", "-c", "ulimit -n 8; exec {build}/resources work"]),
    Case("stack of 16 KiB from the start", ["/bin/sh", "-c", "ulimit -s 16; for i in 1 2 3 4 5 6 7 8 9 10; do {build}/static; /bin/true || echo $?; done"]),
    Case("chroot", ["/bin/sh", "-c", "d=$(mktemp -d) && {build}/resources chroot $d; s=$?; rmdir $d; exit $s"], needs=as_root),
    Case("smallest thread stacks", ["resources", "small-stacks"]),
    Case("view of itself", ["resources", "maps"]),
    Case("locked memory", ["resources", "memory-lock"]),
    Case("faults handled", ["faults", "handled"]),
    *[Case(f"exit {n}", ["faults", "exit", str(n)]) for n in (0, 1, 2, 77, 126, 127, 128, 137, 254, 255)],
    *[Case(f"return {n}", ["faults", "return", str(n)]) for n in (3, 256 + 5)],
    *[Case(f"killed by signal {n}", ["faults", "kill", str(n)]) for n in (1, 2, 3, 4, 6, 8, 9, 10, 11, 13, 14, 15, 24, 31)],
    *[Case(f"raise {n}", ["faults", "raise", str(n)]) for n in (6, 11, 15, 17, 18, 28)],
    *[Case(f"fault: {what}", ["faults", what]) for what in ("abort", "null", "trap", "divide", "overflow", "double-free", "assert")],
    Case("standard library", ["standard-library"]),
    Case("standard library, no PIE, no PLT", ["standard-library-nopie"]),
    Case("unwinding", ["unwinding"]),
    Case("unwinding with frame pointers", ["unwinding-fp"]),
    Case("unwinding at every tick", ["self-profiling"]),
    Case("loader's view", ["caller-address"]),
    Case("standard streams", ["streams"], stdin=LINES),
    Case("jemalloc preloaded", ["standard-library"], env={"LD_PRELOAD": JEMALLOC}, needs=exists(JEMALLOC)),
    Case("jemalloc preloaded, children", ["processes"], env={"LD_PRELOAD": JEMALLOC}, needs=exists(JEMALLOC)),
    Case("jemalloc preloaded, environment", ["environment"], env={"LD_PRELOAD": JEMALLOC}, needs=exists(JEMALLOC)),
    Case("missing preload", ["/usr/bin/env", "LD_PRELOAD=/nonexistent/library.so", "{build}/streams"], stdin=LINES),
    Case("jemalloc preloaded by env", ["/usr/bin/env", f"LD_PRELOAD={JEMALLOC}", "{build}/environment"], needs=exists(JEMALLOC)),
    Case("address sanitizer", ["sanitized-address"], needs=built("sanitized-address", "libasan is missing")),
    Case("address sanitizer finds", ["sanitized-address", "overflow"], needs=built("sanitized-address", "libasan is missing"), scrub=sanitizer_head),
    Case("undefined sanitizer", ["sanitized-undefined"], needs=built("sanitized-undefined", "libubsan is missing")),
    Case("undefined sanitizer finds", ["sanitized-undefined", "shift"], needs=built("sanitized-undefined", "libubsan is missing"), scrub=sanitizer_head),
    Case("thread sanitizer", ["sanitized-thread"], needs=built("sanitized-thread", "libtsan is missing")),
    Case("thread sanitizer finds", ["sanitized-thread", "race"], needs=built("sanitized-thread", "libtsan is missing"), scrub=scrub_tsan),
    Case("musl", ["musl"], needs=built("musl", "musl-gcc is missing")),
    Case("static as a child", ["/bin/sh", "-c", "{build}/static; echo $?"]),
    Case("32-bit as a child", ["/bin/sh", "-c", "{build}/elf32; echo $?"], needs=built("elf32", "gcc -m32 does not work")),
    Case("set-uid as a child", ["/bin/sh", "-c", "{build}/setuid; echo $?"], needs=as_root, prepare=make_setuid, stdin=LINES),
    Case("script", ["/bin/sh", "-c", "printf '#!/bin/sh\\necho script $1\\n' > {tmp}/s; chmod +x {tmp}/s; {tmp}/s 5; rm {tmp}/s"]),
    Case("shell pipeline", ["/bin/bash", "-c", "seq 20000 | sort -r | gzip -c | gunzip | tail -3 | tee /dev/stderr; exit 33"]),
    Case("shell with jobs", ["/bin/bash", "-c", "for i in 1 2 3; do (exit $i) & wait $!; echo $?; done; trap 'echo got' USR1; kill -USR1 $$; echo end"]),
    Case("statically linked", ["static"], refused="static"),
    Case("set-uid", ["setuid"], needs=as_root, prepare=make_setuid, refused="set-uid"),
    Case("missing program", ["/nonexistent/program"], refused="/nonexistent/program"),
]
