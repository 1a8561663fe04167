"""Programs of Debian, and what each needs: their output is the same each time, so that two runs can be held against each
other."""
import dataclasses
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    kind: str
    argv: tuple
    stdin: bytes = b""
    # Shell words before the command: limits and descriptors that it is started with.
    before: str = ""
    # Lines of its output that differ from run to run by themselves.
    varies: tuple = ()

    def missing(self):
        """What isn't installed, or None."""
        tool = self.argv[0]
        return None if shutil.which(tool) or os.path.exists(tool) else tool


BUILT = os.path.join(HERE, "../../target/tests/outside")


def built(name, source, *flags):
    """Path of a C program; it is missing where cc does not build it."""
    os.makedirs(BUILT, exist_ok=True)
    path = os.path.join(BUILT, name)
    if not os.path.exists(path) and shutil.which("cc"):
        subprocess.run(["cc", "-O1", "-g", "-x", "c", "-", "-o", path, *flags], input=source, text=True, capture_output=True)
    return os.path.normpath(path)


def with_regions(name, source, model):
    """Path of a C program with feature regions; it is missing where the compiler's plugin is."""
    compiler = os.path.join(HERE, "../../target/release/transect-cc")
    os.makedirs(BUILT, exist_ok=True)
    path = os.path.join(BUILT, name)
    if not os.path.exists(path) and os.path.exists(compiler):
        for suffix, text in ((".c", source), (".toml", model)):
            with open(path + suffix, "w") as f:
                f.write(text)
        subprocess.run([compiler, "-O1", "-g", f"{path}.c", "-o", path], capture_output=True,
                       env={**os.environ, "TRANSECT_FEATURE_MODEL": f"{path}.toml"})
    return os.path.normpath(path)


def sh(name, kind, line, **more):
    return Program(name, kind, ("sh", "-c", line), **more)


# So long that a kill at a random moment meets the program at work, too.
TEXT = b"".join(b"%d the quick brown fox jumps over the lazy dog %d\n" % (i, i * i % 97) for i in range(20000))
SQL = b"create table t(a integer, b text);\n" + b"".join(b"insert into t values(%d, 'row %d');\n" % (i * 7919 % 5003, i) for i in range(3000)) + b"select count(*), sum(a) from t;\nselect b from t order by a limit 3;\n"
LOOP = "i=0; while [ $i -lt %d ]; do i=$((i+1)); %s; done"
PYTHON_THREADS = """
import threading, hashlib
def work(n):
    for _ in range(300): hashlib.sha256(b'x' * 4096).digest()
threads = [threading.Thread(target=work, args=(i,)) for i in range(24)]
[t.start() for t in threads]; [t.join() for t in threads]; print('threads', len(threads))
"""
PYTHON_FORKS = """
import os, sys
for i in range(20):
    pid = os.fork()
    if not pid: os._exit(i)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == i
print('children', 20)
"""
PYTHON_SIGNALS = """
import signal, time
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
end = time.monotonic() + 0.3
while time.monotonic() < end: sum(range(500))
signal.setitimer(signal.ITIMER_REAL, 0)
print('alarms', len(seen) > 10)
"""
PYTHON_MMAP = """
import mmap, tempfile
with tempfile.TemporaryFile() as f:
    f.truncate(1 << 22)
    with mmap.mmap(f.fileno(), 0) as m:
        for i in range(0, 1 << 22, 4096): m[i] = 65
        print(m[:1 << 22:4096].count(b'A'))
"""
NODE = "let s = 0; for (let i = 0; i < 3e6; i++) s = (s * 31 + i) % 1000003; console.log(s); setTimeout(() => console.log('later'), 20)"
PERL = "my %h; $h{$_ % 997} += $_ for 1 .. 200000; print join(',', (sort { $a <=> $b } values %h)[0 .. 3]), qq(\\n); exit 7"
TCL = b"set s 0\nfor {set i 0} {$i < 50000} {incr i} {set s [expr {($s * 7 + $i) % 10007}]}\nputs $s\n"

PYTHON_SERVER = """
import http.server, threading, urllib.request
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(self.path.encode())
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
get = lambda i: len(urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/{i}').read())
print(sum(map(get, range(80)))); server.shutdown()
"""
PYTHON_LIBRARIES = """
import ctypes, glob
found = 0
for path in sorted(glob.glob('/usr/lib/x86_64-linux-gnu/lib[c-k]*.so.?'))[:120]:
    try: ctypes.CDLL(path); found += 1
    except OSError: pass
print(found > 20)
"""
LEAK = r"""
#include <stdlib.h>
int main(void) { for (int i = 0; i < 3; i++) { void *volatile p = malloc(64); p = 0; } return 0; }
"""
OVERFLOW = r"""
#include <string.h>
int main(int n, char **a) { volatile char b[8]; for (int i = 0; i < 8 + n; i++) b[i] = 1; return b[0]; }
"""
SECCOMP = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
int main(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    char *text = malloc(100000);
    setvbuf(stdout, malloc(1 << 16), _IOFBF, 1 << 16);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 2;
    long sum = 0;
    for (int i = 0; i < 300; i++) { memset(text, i, 100000); sum += strnlen(text, 100000); }
    printf("%ld\n", sum);
    fflush(stdout);
    _Exit(3);
}
"""
THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;
static void *work(void *n) {
    for (int i = 0; i < 200; i++) { pthread_mutex_lock(&lock); sum += atoi("7"); pthread_mutex_unlock(&lock); }
    return n;
}
int main(void) {
    static pthread_t threads[300];
    for (int i = 0; i < 300; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 300; i++) pthread_join(threads[i], 0);
    printf("%ld\n", sum);
}
"""
REGIONS = r"""
#include <stdio.h>
#include <string.h>
static int verbose, deep;
static long work(int n) {
    long s = 0;
    for (int i = 0; i < n; i++) {
        s += i * i % 7;
        if (deep) for (int k = 0; k < 3; k++) s ^= k * i;
    }
    return s;
}
int main(int n, char **a) {
    for (int i = 1; i < n; i++) { verbose |= !strcmp(a[i], "-v"); deep |= !strcmp(a[i], "-d"); }
    long s = 0;
    for (int i = 0; i < 400; i++) { s += work(20000); if (verbose) printf("%d %ld\n", i, s); }
    return printf("%ld\n", s) < 0;
}
"""
MODEL = """
[[feature]]
name = "verbose"
vars = ["regions.c:verbose"]
[[feature]]
name = "deep"
vars = ["regions.c:deep"]
"""

PROGRAMS = (
    Program("true", "small", ("/bin/true",)),
    Program("false", "small", ("/bin/false",)),
    Program("echo", "small", ("/bin/echo", "a", "b")),
    Program("ls", "small", ("ls", "/usr/bin"), varies=()),
    Program("cat", "small", ("cat",), TEXT),
    Program("wc", "small", ("wc",), TEXT),
    Program("sort", "compute", ("sort", "-k2"), TEXT),
    Program("uniq", "small", ("uniq", "-c"), TEXT),
    Program("tac", "small", ("tac",), TEXT),
    Program("sha256sum", "compute", ("sha256sum",), TEXT * 8),
    Program("md5sum", "compute", ("md5sum",), TEXT * 8),
    Program("base64", "compute", ("base64",), TEXT),
    Program("od", "compute", ("od", "-c"), TEXT[:200000]),
    Program("factor", "compute", ("factor", "1000000016000000063", "600851475143")),
    Program("seq", "small", ("seq", "1", "100000")),
    Program("grep", "compute", ("grep", "-c", "fox.*9[0-9]$"), TEXT),
    Program("sed", "compute", ("sed", "s/fox/cat/g;s/dog/cow/"), TEXT),
    Program("awk", "compute", ("awk", "{ s += $NF } END { print s }"), TEXT),
    Program("tr", "small", ("tr", "a-z", "A-Z"), TEXT),
    Program("cut", "small", ("cut", "-d ", "-f1,3"), TEXT),
    Program("find", "files", ("find", "/usr/share/doc", "-name", "copyright", "-newer", "/nonexistent")),
    Program("du", "files", ("du", "-s", "/usr/share/perl")),
    Program("tar", "files", ("tar", "-C", "/usr/share", "--sort=name", "--mtime=@0", "-cf", "-", "perl")),
    Program("gzip", "compress", ("gzip", "-nc"), TEXT),
    Program("xz", "compress", ("xz", "-1", "-c", "-T2"), TEXT * 4),
    Program("zstd", "compress", ("zstd", "-q", "-T2", "-c"), TEXT * 4),
    Program("bzip2", "compress", ("bzip2", "-c"), TEXT),
    Program("openssl digest", "compute", ("openssl", "dgst", "-sha3-256"), TEXT * 4),
    Program("openssl prime", "compute", ("openssl", "prime", "170141183460469231731687303715884105727")),
    Program("sqlite3", "database", ("sqlite3", ":memory:"), SQL),
    Program("git log", "files", ("git", "-C", os.path.dirname(os.path.dirname(HERE)), "--no-pager", "log", "--oneline", "-20")),
    Program("git version", "small", ("git", "--version")),
    Program("python", "interpreter", ("/usr/bin/python3", "-c", "print(sum(i * i % 7 for i in range(300000)))")),
    Program("python threads", "threads", ("/usr/bin/python3", "-c", PYTHON_THREADS)),
    Program("python forks", "children", ("/usr/bin/python3", "-c", PYTHON_FORKS)),
    Program("python pool", "children", ("/usr/bin/python3", "-c", "import multiprocessing as m\nif __name__ == '__main__':\n  with m.Pool(3) as p: print(sum(p.map(abs, range(-5000, 0))))")),
    Program("python signals", "signals", ("/usr/bin/python3", "-c", PYTHON_SIGNALS)),
    Program("python mmap", "memory", ("/usr/bin/python3", "-c", PYTHON_MMAP)),
    Program("python abort", "ends", ("/usr/bin/python3", "-c", "import os; os.abort()")),
    Program("python killed", "ends", ("/usr/bin/python3", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)")),
    Program("python exec", "children", ("/usr/bin/python3", "-c", "import os; os.execvp('sh', ['sh', '-c', 'echo replaced; exit 5'])")),
    Program("perl", "interpreter", ("perl", "-e", PERL)),
    Program("tclsh", "interpreter", ("tclsh",), TCL),
    Program("node", "interpreter", ("node", "-e", NODE)),
    Program("bash", "interpreter", ("bash", "-c", LOOP % (20000, ":") + "; echo $i")),
    sh("shell children", "children", LOOP % (60, "/bin/true") + "; echo $i"),
    sh("pipeline", "children", "seq 1 30000 | sort -r | head -3; exit 3"),
    sh("command not found", "ends", "nosuchcommand 2>/dev/null; echo $?"),
    sh("background", "children", "sleep 0.1 & sleep 0.05; wait; echo done"),
    Program("gcc", "compiler", ("gcc", "-x", "c", "-O2", "-S", "-o", "-", "-"), b"#include <stdio.h>\nint main(void) { for (int i = 0; i < 9; i++) printf(\"%d\\n\", i); }\n"),
    Program("make", "children", ("make", "-f", "-", "-j2", "--no-print-directory", "-O"), b"all: a b c\na b c:\n\t@echo $@; sleep 0.02\n.PHONY: all a b c\n", varies=("a", "b", "c")),
    Program("java", "runtime", ("java", "-Xshare:auto", "-version")),
    Program("static ldconfig", "static", ("/sbin/ldconfig", "-p")),
    Program("set-uid su", "privileged", ("su", "-s", "/bin/sh", "nobody", "-c", "id -un")),
    Program("unshare", "namespaces", ("unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", "echo $$")),
    Program("setpriv", "privileged", ("setpriv", "--no-new-privs", "--inh-caps=-all", "id", "-u")),
    Program("env -i", "environment", ("env", "-i", "/bin/sh", "-c", "echo ${HOME:-none}")),
    Program("timeout", "signals", ("timeout", "0.3", "sleep", "5")),
    Program("nice", "children", ("nice", "-n", "5", "sh", "-c", "nice")),
    Program("setarch", "personality", ("setarch", "-R", "uname", "-m")),
    Program("strace itself", "traced", ("strace", "-o", "/dev/null", "true")),
    Program("gdb", "traced", ("gdb", "-nx", "-batch", "-ex", "run", "-ex", "print $_exitcode", "true"), varies=("[",)),
    Program("address sanitizer", "sanitizers", (built("overflow", OVERFLOW, "-fsanitize=address"),), before="export ASAN_OPTIONS=log_path=/dev/null"),
    Program("leak sanitizer", "sanitizers", (built("leak", LEAK, "-fsanitize=leak"),), before="export LSAN_OPTIONS=log_path=/dev/null"),
    Program("thread sanitizer", "sanitizers", (built("threads-sanitized", THREADS, "-fsanitize=thread", "-pthread"),)),
    Program("seccomp", "confined", (built("seccomp", SECCOMP),)),
    Program("300 threads", "threads", (built("threads", THREADS, "-pthread"),)),
    Program("static threads", "static", (built("threads-static", THREADS, "-pthread", "-static"),)),
    Program("feature regions", "regions", (with_regions("regions", REGIONS, MODEL), "-v", "-d")),
    Program("many libraries", "libraries", ("/usr/bin/python3", "-c", PYTHON_LIBRARIES)),
    Program("server", "server", ("/usr/bin/python3", "-c", PYTHON_SERVER)),
    Program("valgrind", "translated", ("valgrind", "-q", "/bin/echo", "translated")),
    Program("full stdout", "descriptors", ("seq", "1", "30000"), before="exec >/dev/full"),
    Program("no stderr", "descriptors", ("sh", "-c", "echo out; echo lost >&2; exit 4"), before="exec 2>&-"),
    Program("no stdin", "descriptors", ("cat",), before="exec <&-"),
    Program("no stdout", "descriptors", ("echo", "lost"), before="exec >&-"),
    Program("few descriptors", "few descriptors", ("ls", "/"), before="ulimit -n 20"),
    Program("many descriptors", "descriptors", ("/usr/bin/python3", "-c", "import os; fds = [os.open('/dev/null', 0) for _ in range(900)]; print(len(fds))")),
    Program("file size", "file size", ("sh", "-c", "trap '' XFSZ; head -c 100000 /dev/zero | wc -c"), before="ulimit -f 8"),
    Program("little memory", "limits", ("sort",), TEXT, before="ulimit -v 4000000"),
    Program("little stack", "limits", ("/usr/bin/python3", "-c", "print(1)"), before="ulimit -s 512"),
    Program("no core", "ends", ("sh", "-c", "kill -SEGV $$"), before="ulimit -c 0"),
    Program("other folder", "environment", ("sh", "-c", "cd / && pwd"), before="cd /tmp"),
)
