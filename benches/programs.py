"""The real programs that are measured natively and under the default mode."""

import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

PYTHON = "/usr/bin/python3"
PYTHON_WORK = """
import json, re, hashlib, random, collections
random.seed(5)
rows = [{"id": i, "name": "n%d" % random.randrange(1000), "tags": [str(random.random()) for _ in range(5)]} for i in range(ROWS)]
for _ in range(3):
    text = json.dumps(rows)
    back = json.loads(text)
words = re.findall(r"n(\\d+)", text)
count = collections.Counter(words)
print(len(text), count.most_common(1)[0][1], hashlib.sha256(text.encode()).hexdigest()[:8], sum(sorted(float(t) for r in back for t in r["tags"])) > 0)
"""
PERL_WORK = "my %h; for my $i (1..{n}) {{ my $k = sprintf('%05d', ($i * 7919) % 20011); $h{{$k}} .= chr(65 + $i % 26); $h{{$k}} =~ s/AB/x/g; }} print scalar(keys %h), qq(\\n);"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_port(port, process, seconds=20):
    for _ in range(int(seconds * 50)):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("the server does not answer")


def peak_of(pids):
    """Largest resident size so far of these processes together, KiB."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status") as f:
                total += next((int(line.split()[1]) for line in f if line.startswith("VmHWM")), 0)
        except OSError:
            pass
    return total


def tree(pid, name):
    """Process ids at or below `pid` whose program is `name`."""
    found, todo = [], [pid]
    while todo:
        p = todo.pop()
        try:
            if os.path.basename(os.path.realpath(f"/proc/{p}/exe")) == name:
                found.append(p)
            for thread in os.listdir(f"/proc/{p}/task"):
                todo += [int(c) for c in open(f"/proc/{p}/task/{thread}/children").read().split()]
        except OSError:
            pass
    return found


class Batch:
    """A program that runs to its end: measured by wall time."""

    def __init__(self, name, tool, argv, stdin=None, parse=None, prepare=None):
        self.name, self.tool, self.argv, self.stdin, self.parse, self.prepare = name, tool, argv, stdin, parse, prepare

    def missing(self):
        return None if shutil.which(self.tool) else f"{self.tool} is not installed"

    def run(self, prefix, folder):
        """Seconds (or the program's own measure), and nothing on the memory, which a separate run takes. `cpu` is then the CPU
        time of the program and whatever records it, in seconds."""
        if self.prepare:
            self.prepare()
        with open(self.stdin or os.devnull, "rb") as given, open(os.path.join(folder, "errors"), "w+b") as errors, open(os.path.join(folder, "output"), "w+b") as output:
            # No timeout here: Python waits for a deadline by polling, which would round the time to 50 ms.
            start = time.monotonic()
            process = subprocess.Popen(prefix + self.argv, stdin=given, stdout=output if self.parse else subprocess.DEVNULL, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu = usage.ru_utime + usage.ru_stime
            if status:
                errors.seek(0)
                raise RuntimeError(f"status {status}: {errors.read()[-200:]!r}")
            output.seek(0)
            return (self.parse(output.read()) if self.parse else seconds), None

    def memory(self, prefix, folder, peak_memory):
        file = os.path.join(folder, "peak")
        with open(self.stdin or os.devnull, "rb") as given:
            subprocess.run(prefix + [peak_memory, file] + self.argv, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
        return int(open(file).read())


class Server:
    """A server under load: measured by the time the client needs for a fixed number of requests. `load` also gives the
    client's own 99th percentile of latency, in milliseconds, or nothing."""

    def __init__(self, name, tool, client, start, load, stop=None, settle=1.0):
        self.name, self.tool, self.client, self.start, self.load, self.stop, self.settle = name, tool, client, start, load, stop, settle
        self.p99 = None

    def missing(self):
        for tool in (self.tool, self.client):
            if not shutil.which(tool):
                return f"{tool} is not installed"
        return None

    def run(self, prefix, folder):
        port = free_port()
        where = os.path.join(folder, f"{self.name.split()[0]}-{port}")
        os.makedirs(where)
        os.chmod(where, 0o755)
        argv = self.start(port, where)
        with open(os.path.join(where, "log"), "wb") as log:
            server = subprocess.Popen(prefix + argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for_port(port, server)
            time.sleep(self.settle)
            seconds, self.p99 = self.load(port, where)
            name = os.path.basename(os.path.realpath(shutil.which(self.tool)))
            pids = tree(server.pid, name)
            peak = peak_of(pids)
        finally:
            pids = tree(server.pid, os.path.basename(os.path.realpath(shutil.which(self.tool))))
            for pid in pids[:1] or [server.pid]:
                try:
                    os.kill(pid, signal.SIGQUIT if self.stop == "quit" else signal.SIGTERM)
                except ProcessLookupError:
                    pass
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
                raise RuntimeError("the server did not end after SIGTERM")
            shutil.rmtree(where, ignore_errors=True)
        return seconds, peak


def timed(argv, p99=None):
    """Seconds that the client took, and its 99th percentile of latency: the mean of what `p99` finds in its output."""
    start = time.monotonic()
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seconds = time.monotonic() - start
    if done.returncode:
        raise RuntimeError(f"{argv[0]}: status {done.returncode}: {done.stdout[-200:]!r}")
    found = [float(value) for value in re.findall(p99, done.stdout, re.MULTILINE)] if p99 else []
    return seconds, statistics.mean(found) if found else None


def nginx_start(port, where):
    configuration = f"""daemon off; pid {where}/pid; error_log {where}/error.log; worker_processes 1;
events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {where}/a; proxy_temp_path {where}/b; fastcgi_temp_path {where}/c; uwsgi_temp_path {where}/d; scgi_temp_path {where}/e;
server {{ listen 127.0.0.1:{port}; root {where}; }} }}"""
    with open(f"{where}/nginx.conf", "w") as f:
        f.write(configuration)
    with open(f"{where}/index.html", "w") as f:
        f.write("<p>text</p>\n" * 300)
    return ["nginx", "-c", f"{where}/nginx.conf", "-p", where]


def ab(port, where, requests):
    """`ab` prints whole milliseconds; its table has them with three digits."""
    table = f"{where}/percentiles.csv"
    seconds, _ = timed(["ab", "-q", "-k", "-n", str(requests), "-c", "8", "-e", table, f"http://127.0.0.1:{port}/index.html"])
    with open(table) as rows:
        return seconds, next((float(row.split(",")[1]) for row in rows if row.startswith("99,")), None)


def mariadb_start(base):
    def start(port, where):
        data = os.path.join(where, "data")
        shutil.copytree(base, data)
        return ["mariadbd", "--no-defaults", f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1", f"--socket={where}/s", "--skip-grant-tables", "--user=root", "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0"]

    return start


def sysbench(events):
    def load(port, where):
        common = ["sysbench", "oltp_read_only", f"--mysql-host=127.0.0.1", f"--mysql-port={port}", "--mysql-user=root", "--mysql-db=bench", "--tables=1", "--table-size=5000", "--threads=2"]
        return timed(common + [f"--events={events}", "--time=0", "--percentile=99", "run"], r"99th percentile: +([0-9.]+)")

    return load


def mariadb_base(folder):
    """An initialised data folder with sysbench's table, made once without any tool."""
    base = os.path.join(folder, "mariadb")
    os.makedirs(base)
    subprocess.run(["mariadb-install-db", "--no-defaults", f"--datadir={base}", "--user=root", "--auth-root-authentication-method=normal", "--skip-test-db"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    port = free_port()
    server = subprocess.Popen(["mariadbd", "--no-defaults", f"--datadir={base}", f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/ms", "--skip-grant-tables", "--user=root"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, server)
        subprocess.run(["mariadb", "--no-defaults", "-h127.0.0.1", f"-P{port}", "-uroot", "-e", "create database bench"], check=True)
        timed(["sysbench", "oltp_read_only", "--mysql-host=127.0.0.1", f"--mysql-port={port}", "--mysql-user=root", "--mysql-db=bench", "--tables=1", "--table-size=5000", "prepare"])
    finally:
        server.terminate()
        server.wait(60)
    return base


def openssl_throughput(stdout):
    """`openssl speed` runs for a fixed time: the measure is the time per thousand bytes, summed over sizes."""
    rates = [float(w.rstrip("k")) for w in stdout.decode().splitlines()[-1].split()[1:]]
    return sum(1 / rate for rate in rates)


def text_file(folder, size):
    """About `size` bytes of source text."""
    path = os.path.join(folder, "text")
    with open(path, "wb") as out:
        written = 0
        for top in ("/usr/include", "/usr/lib/python3", "/usr/lib/python3.11", "/usr/share/doc", "/usr/share/perl"):
            for where, _, names in sorted(os.walk(top)):
                for name in sorted(names):
                    file = os.path.join(where, name)
                    if name.endswith((".h", ".py", ".pm", ".txt", ".hpp", "copyright")) and os.path.isfile(file) and written < size:
                        with open(file, "rb") as f:
                            written += out.write(f.read(200000))
        # Again from the beginning: further apart than any of the compressors looks back.
        while 0 < written < size:
            out.flush()
            with open(path, "rb") as f:
                written += out.write(f.read(size - written))
    return path


def git_repository(folder, commits):
    where = os.path.join(folder, "repository")
    os.makedirs(where)
    git = ["git", "-C", where, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]
    subprocess.run(git + ["init", "-q", "-b", "main"], check=True)
    stream = ["blob", "mark :1", "data 5", "first", ""]
    lines = [f"line {i}" for i in range(2000)]
    out = []
    for c in range(commits):
        lines[c * 37 % 2000] = f"changed in {c}"
        lines[c * 91 % 2000] = f"also in {c}"
        body = "\n".join(lines) + "\n"
        out.append(f"commit refs/heads/main\ncommitter A <a@b> {1700000000 + c} +0000\ndata {len(str(c)) + 7}\ncommit {c}\nM 100644 inline file\ndata {len(body)}\n{body}")
    subprocess.run(git + ["fast-import", "--quiet"], input="\n".join(out).encode(), check=True, cwd=where)
    return where


def sqlite_script(folder, rows):
    path = os.path.join(folder, "script.sql")
    with open(path, "w") as f:
        f.write(f"""create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows}) insert into t select i, 'text ' || (i * 7919 % 10007), i * 0.5 from n;
create index tb on t(b);
select b, count(*), avg(c) from t group by b order by 2 desc, 1 limit 5;
select count(*) from t x join t y on x.a = y.a + 1 where x.b like '%99%';
update t set c = c + 1 where a % 3 = 0; delete from t where a % 7 = 0; select sum(c), count(distinct b) from t;
""")
    return path


def c_source(folder, functions):
    path = os.path.join(folder, "big.c")
    with open(path, "w") as f:
        f.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n")
        for i in range(functions):
            f.write(f"int f{i}(int n, char *s) {{ int r = {i}; for (int k = 0; k < n; k++) {{ switch ((r + k) % 5) {{ case 0: r += s[k]; break; case 1: r ^= {i} * k; break; case 2: r = abs(r) + (int)strlen(s); break; default: r -= k; }} }} if (r > {i * 3}) printf(\"%d\\n\", r); return r; }}\n")
    return path


def measured(folder, build, f):
    """All programs, sized for about a third of a second each, times `f`."""
    text = text_file(folder, int(6_000_000 * f))
    source = c_source(folder, int(150 * f))
    script = sqlite_script(folder, int(80000 * f))
    repository = git_repository(folder, int(400 * f)) if shutil.which("git") else folder
    programs = [
        Batch("xz", "xz", ["xz", "-1", "-k", "-c", "-T1", text]),
        Batch("gzip", "gzip", ["gzip", "-c", text]),
        Batch("bzip2", "bzip2", ["bzip2", "-k", "-c", text]),
        Batch("zstd", "zstd", ["zstd", "-q", "-12", "-c", text]),
        Batch("sqlite3", "sqlite3", ["sqlite3", ":memory:"], stdin=script),
        Server("redis-server", "redis-server", "redis-benchmark",
               lambda port, where: ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", where],
               lambda port, where: timed(["redis-benchmark", "-p", str(port), "--csv", "-n", str(int(20000 * f)), "-c", "20", "-t", "set,get,lpush"],
                                          r'^"[A-Z]+"(?:,"[0-9.]+"){5},"([0-9.]+)"')),
        Server("nginx", "nginx", "ab", nginx_start,
               lambda port, where: ab(port, where, int(20000 * f)), stop="quit"),
        Batch("python3", PYTHON, [PYTHON, "-c", PYTHON_WORK.replace("ROWS", str(int(16000 * f)))]),
        Batch("git log -p", "git", ["git", "-C", repository, "--no-pager", "log", "-p", "--stat"]),
        Batch("openssl speed", "openssl", ["openssl", "speed", "-mr", "-seconds", "1", "-bytes", "64", "sha256"], parse=lambda out: 1e9 / float(out.decode().strip().splitlines()[-1].split(":")[-1])),
        Batch("gcc -O2", "gcc", ["gcc", "-O2", "-c", source, "-o", os.path.join(folder, "big.o")]),
        Batch("ffmpeg", "ffmpeg", ["ffmpeg", "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", f"testsrc=duration={int(10 * f)}:size=640x360:rate=25", "-c:v", "mpeg4", "-threads", "2", "-f", "null", "-"]),
        Batch("perl", "perl", ["perl", "-e", PERL_WORK.format(n=int(1000000 * f))]),
        Batch("80 threads", os.path.join(build, "eighty-threads"), [os.path.join(build, "eighty-threads"), str(int(12000 * f))]),
    ]
    if shutil.which("mariadbd") and shutil.which("sysbench"):
        try:
            base = mariadb_base(folder)
            programs.append(Server("mariadbd", "mariadbd", "sysbench", mariadb_start(base), sysbench(int(1000 * f))))
        except (RuntimeError, subprocess.CalledProcessError, OSError) as error:
            print(f"NOT RUN: mariadbd: {error}", file=sys.stderr)
    else:
        print("NOT RUN: mariadbd: mariadb-server or sysbench is not installed", file=sys.stderr)
    return programs
