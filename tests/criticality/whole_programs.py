"""Programs that are started under `transect criticality`: storms of threads and processes, namespaces, runtimes, streams
and status, Debian's own binaries."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from measured import Refused, broken_invariants, complete_stacks, function_in

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../benches"))
import programs as real  # noqa: E402

PYTHON_THREADS = """
import threading, queue, os, tempfile
todo = queue.Queue(4)
def work():
    with tempfile.TemporaryFile() as file:
        while (item := todo.get()) is not None:
            file.write(str(sum(i * i for i in range(item))).encode()); file.flush(); os.fsync(file.fileno())
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for i in range(300): todo.put(1000 + i)
for t in threads: todo.put(None)
for t in threads: t.join()
print("done")
"""
# Leaves a CPU to others for a moment at a time, less than the time between two samples, and then has it for so many seconds.
BUSY = """
import os, sys, time
os.sched_setaffinity(0, [int(sys.argv[1])])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
while True:
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end: pass
    time.sleep(0.0001)
"""
PERL = "for my $i (1..40) { open(my $p, '-|', 'echo', $i) or die; $s += <$p>; close $p; select(undef, undef, undef, 0.005); } print qq($s\\n);"


def need(*tools):
    for tool in tools:
        if not shutil.which(tool) and not os.path.exists(tool):
            raise Refused(f"{tool} is not here")


def expect(answer, status=0, out=None):
    complaints = broken_invariants(answer)
    if answer.status != status:
        complaints.append(f"status {answer.status}, not {status}: {answer.err[-200:]}")
    if out is not None and answer.out != out:
        complaints.append(f"printed {answer.out[-100:]!r}, not {out!r}")
    return complaints


def test_storms(results, tool, build):
    def storm():
        answer = tool.run([os.path.join(build, "storm"), "30"])
        off = []
        if answer.rows:
            # The clock stops while the switch itself is looked at, and starts after the program's loader.
            clock = float(answer.out.split()[1]) * 1e9
            ran = sum(t["running_ns"] for t in answer.threads())
            if not 0.99 * clock < ran < 1.15 * clock + 2e7:
                off.append(f"threads ran for {ran / 1e6:.0f} ms, by the kernel's clock {clock / 1e6:.0f} ms")
        return expect(answer), off

    def short_threads():
        answer = tool.run([os.path.join(build, "short-threads"), "10000"])
        complaints = expect(answer, out="threads 10000\n")
        if answer.rows:
            # A row may stand for many where there are too many to list.
            there = sum(group.get("threads", 0) for group in answer.rows.get("groups", [])) or len(answer.threads())
            lost = sum(row.get("count", 0) for row in (answer.data.get("loss") or []) if "thread" in row.get("what", ""))
            if there + lost != 10001:
                complaints.append(f"{there} threads shown and {lost} counted as lost, of 10001")
        return complaints

    def queued():
        processor = min(os.sched_getaffinity(0))
        busy = [sys.executable, "-c", BUSY, str(processor), "0.02"]
        with subprocess.Popen(busy) as other:
            try:
                answer = tool.run([os.path.join(build, "queued"), "300", str(processor)])
            finally:
                other.kill()
        complaints, off = expect(answer, out=answer.out), []
        if answer.rows:
            for function, truth in zip(("waits", "works"), map(int, answer.out.split())):
                found = sum(row["criticality_ns"] for row in answer.rows["paths"] if function in row["stack"])
                if not 0.93 * truth < found < 1.07 * truth:
                    off.append(f"{function} has {found / 1e6:.1f} ms, by its own clock {truth / 1e6:.1f} ms")
        return complaints, off

    def brief_queued():
        processor = min(os.sched_getaffinity(0))
        busy = [sys.executable, "-c", BUSY, str(processor), "0.003"]
        with subprocess.Popen(busy) as other:
            try:
                # Of nearly all waits only sums are kept.
                answer = tool.run([os.path.join(build, "brief-queued"), "500", str(processor)], ["--detailed-waits", "0.00001"])
            finally:
                other.kill()
        complaints, off = expect(answer, out=answer.out), []
        if answer.rows:
            truth = dict(zip(("pauses", "rests"), map(int, answer.out.split())))
            for function, ns in truth.items():
                found = sum(row["criticality_ns"] for row in answer.rows["paths"] if function in row["stack"])
                if abs(found - ns) > 0.1 * sum(truth.values()):
                    off.append(f"{function} has {found / 1e6:.1f} ms, by its own clock {ns / 1e6:.1f} ms")
        return complaints, off

    def long_ring():
        answer = tool.run([os.path.join(build, "long-ring"), "300", "300"])
        complaints, off = expect(answer, out=answer.out), []
        if answer.rows:
            count, *truth = map(int, answer.out.split())
            rows = answer.waits()
            if not count <= sum(row["count"] for row in rows) < 1.02 * count + 1000:
                complaints.append(f"{sum(row['count'] for row in rows)} waits, {count} by their own count")
            for function, ns in zip(("waits_quick", "waits_slow"), truth):
                found = sum(row["ns"] for row in rows if function in row["stack"])
                if not 0.85 * ns < found < 1.15 * ns:
                    off.append(f"{function} has {found / 1e9:.1f} s, by its own clock {ns / 1e9:.1f} s")
        return complaints, off

    def two_sleepers():
        answer = tool.run([os.path.join(build, "two-sleepers")])
        complaints = expect(answer, out="400 400\n")
        if answer.rows:
            for function in ("sleeps_under_lock", "sleeps_beside"):
                found = sum(row["count"] for row in answer.rows["waits"] if row["kind"] == "sleep" and function in row["stack"])
                # The first of each thread may have no stack.
                if not 384 <= found <= 400:
                    complaints.append(f"{function} slept {found} times, by its own count 400")
        return complaints

    def permits():
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([tool.transect, "run", "-o", os.path.join(folder, "p"), "--", os.path.join(build, "permits")],
                                  capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "400"})
        screen = " ".join((done.stdout + done.stderr).split("Findings")[-1].split())
        wanted = ["ask at permits.c:", "the semaphore", "(permits)"]
        missing = [words for words in wanted if words not in screen]
        return [f"the first screen lacks {missing}: {screen[:300]}"] if missing else []

    def exec_threaded():
        answer = tool.run([os.path.join(build, "exec-threaded")])
        return expect(answer, out="replaced\n")

    def namespace():
        need("unshare")
        answer = tool.run(["unshare", "-p", "-f", os.path.join(build, "schedule"), "1", "3", "20", "2"])
        if answer.status and "unshare" in answer.err:
            raise Refused(answer.err.strip()[-100:])
        complaints = expect(answer)
        if answer.rows:
            # The program's own numbering: its threads are 1 to 4 there.
            tids = sorted(t["tid"] for t in answer.threads() if t["name"].startswith("phased"))
            if tids != [2, 3, 4]:
                complaints.append(f"threads are numbered {tids}, the program's own numbers are 2, 3, 4")
        return complaints

    def holders():
        answer = tool.run([os.path.join(build, "holders")])
        complaints, off = expect(answer, out=answer.out), []
        whole = [0, 0]
        own = {name: int(kept) / max(int(found), 1) for name, found, kept in map(str.split, answer.out.splitlines())}
        for sort in ("normal", "recursive", "checked", "adaptive", "inherit", "robust", "shared"):
            rows = [row for row in answer.waits() if f"lock_{sort}" in (row.get("object") or "")]
            waits = sum(row["count"] for row in rows)
            right = sum(row["count"] for row in rows if (row.get("holder") or {}).get("thread") == f"keep-{sort}")
            kinds = sorted({row["kind"] for row in rows})
            whole[0] += right
            whole[1] += waits
            # One that wants it holds it for as long as others keep it from its CPU: the program counts those.
            if waits < 50 or right < 0.95 * own.get(sort, 1) * waits:
                off.append(f"{sort}: keeper held it in {right} of {waits} waits, by its own count in {own.get(sort, 1):.0%}")
            if kinds not in ([], ["mutex"]):
                complaints.append(f"{sort}: kinds {kinds}")
        print(f"   keepers held in {whole[0]} of {whole[1]} waits, by their own count in {sum(own.values()) / max(len(own), 1):.1%}")
        return complaints, off

    def inversion():
        answer = tool.run([os.path.join(build, "inversion")])
        complaints, off = expect(answer, out=answer.out), []
        if answer.rows:
            waited, ran, active = map(int, answer.out.split())
            # While it waits one more thread than the hogs is active, and nothing is gained at low parallelism.
            truth = (waited - ran) / active
            rows = [row for row in answer.waits() if "lock_inverted" in (row.get("object") or "")]
            found = sum(row["critical_ns"] for row in rows)
            if not 0.8 * truth - 5e6 < found < 1.2 * truth + 5e6:
                off.append(f"critical for {found / 1e6:.0f} ms, by its own clocks {truth / 1e6:.0f} ms")
            names = {(row.get("holder") or {}).get("thread") for row in rows}
            if names != {"keeper"}:
                complaints.append(f"held by {names}, not by keeper")
        return complaints, off

    results.test_measured("holders of mutexes of every sort", holders)
    results.test_measured("a lock's holder without a CPU is critical (priority inversion)", inversion)
    results.test_measured("storm of forks, execs, exits and signals, hopping between CPUs", storm)
    results.test("10,000 short threads", short_threads)
    results.test_measured("time in which a thread was queued is where it was queued", queued)
    results.test_measured("time in which a thread was queued after a brief wait is with that wait", brief_queued)
    results.test_measured("long waits of which there are too many to tell each", long_ring)
    results.test("sleeps of two functions that call the same one are told apart", two_sleepers)
    results.test("who waits for a semaphore is told with what is done under its permits", permits)
    results.test("exec in a threaded process", exec_threaded)
    results.test("pid namespace", namespace)


def test_streams(results, tool):
    script = "read a; echo out $a; echo err $a >&2; exit 7"
    cases = [("status", ["sh", "-c", script], 7, "out\n", "err\n"),
             ("signal", ["sh", "-c", "echo dying; kill -TERM $$"], 128 + signal.SIGTERM, "dying\n", ""),
             ("bytes", ["printf", r"\000\001"], 0, "\0\1", "")]
    for name, command, status, out, err in cases:
        def check():
            answer = tool.run(command)
            complaints = expect(answer, status, out)
            if answer.err != err:
                complaints.append(f"on stderr {answer.err[-200:]!r}, not {err!r}")
            return complaints

        results.test(f"streams and status: {name}", check)

    def text():
        done = subprocess.run([tool.transect, "criticality", "--", "sh", "-c", "echo out; exit 3"], capture_output=True, text=True, cwd=tool.folder)
        return [] if (done.returncode, done.stdout) == (3, "out\n") and done.stderr else [f"{done.returncode}, {done.stdout!r}, {done.stderr[:200]!r}"]

    def without_output():
        done = subprocess.run([tool.transect, "criticality", "--format", "json", "--", "true"], capture_output=True, text=True, cwd=tool.folder)
        return [] if done.returncode and "--output" in done.stderr else [f"status {done.returncode}: {done.stderr[-200:]!r}"]

    def absent():
        done = subprocess.run([tool.transect, "criticality", "--", "/no/such/program"], capture_output=True, text=True, cwd=tool.folder)
        return [] if done.returncode and "/no/such/program" in done.stderr and not done.stdout else [f"{done.returncode}, {done.stderr[-200:]!r}"]

    results.test("streams and status: text goes to stderr", text)
    results.test("streams and status: JSON of a launched program needs --output", without_output)
    results.test("streams and status: a program that isn't there", absent)


def first_place(answer, names, rows=1):
    there = answer.paths()[:rows]
    if any(function_in(row, names) for row in there):
        return []
    return [f"none of {sorted(names)} in the first {rows} paths: {[' > '.join((row['stack'] or ['?'])[-3:]) for row in there]}"]


def imbalance(answer, chosen, least):
    """Complaint unless corrected criticality of the busiest of the chosen threads is a multiple of the least's."""
    values = sorted(t.get("corrected_ns", t["criticality_ns"]) for t in answer.threads() if chosen(t))
    if len(values) < 2:
        return [f"{len(values)} threads of the program"]
    if values[-1] < least * values[0]:
        return [f"corrected criticality {[round(v / 1e6) for v in values]} ms: no imbalance of {least} times"]
    return []


def test_runtimes(results, tool, build, folder):
    def openmp(name, policy=None):
        def check():
            need(os.path.join(build, name))
            wait = {"OMP_WAIT_POLICY": policy} if policy else {}
            answer = tool.run([os.path.join(build, name)], env={**os.environ, "OMP_NUM_THREADS": "2", **wait})
            return expect(answer), first_place(answer, {"iterate"}) + imbalance(answer, lambda t: t["running_ns"] > 5e6, 1.5)

        return check

    def tbb():
        need(os.path.join(build, "tbb"))
        answer = tool.run([os.path.join(build, "tbb")])
        return expect(answer, out="pieces 200\n"), first_place(answer, {"store_in_order"})

    def node(flag):
        def check():
            need("node")
            answer = tool.run(["node", flag, os.path.join(HERE, "programs/stairs.js"), os.path.join(folder, "stairs")], cwd=folder)
            names = {f for row in answer.paths()[:3] for f in row["stack"]}
            return expect(answer), ([] if "climbStairs" in names else [f"climbStairs is not in the first paths: {sorted(names)[:20]}"])

        return check

    def java():
        need("java", os.path.join(build, "Stairs.class"))
        answer = tool.run(["java", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-cp", build, "Stairs"])
        names = {f for row in answer.paths()[:3] for f in row["stack"]}
        return expect(answer), ([] if any("climbStairs" in n for n in names) else [f"climbStairs is not in the first paths: {sorted(names)[:20]}"])

    def mpi():
        need("mpirun", os.path.join(build, "imbalanced-ranks"))
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        answer = tool.run(["mpirun", *root, "--oversubscribe", "--mca", "mpi_yield_when_idle", "0", "-n", "2", os.path.join(build, "imbalanced-ranks")])
        off = first_place(answer, {"heavy_part"}, 2)
        ranks = {int(r): float(w) for r, w in re.findall(r"^rank (\d+) .* work (\S+)", answer.out, re.M)}
        waited = (max(ranks.values()) - min(ranks.values())) * 1e9 if ranks else 0
        spun = sum(row["ns"] for row in answer.waits() if row["kind"] == "spin")
        if not 0.6 * waited < spun < 1.4 * waited:
            off.append(f"{spun / 1e6:.0f} ms spun, by the ranks' own clocks {waited / 1e6:.0f} ms")
        # The main threads of the ranks; the others are the transport's.
        return expect(answer), off + imbalance(answer, lambda t: t["running_ns"] > 1e8, 1.5)

    results.test_measured("runtime: OpenMP, libgomp", openmp("openmp-gomp"))
    results.test_measured("runtime: OpenMP, libomp", openmp("openmp-omp"))
    results.test_measured("runtime: OpenMP, libomp, that never sleeps", openmp("openmp-omp", "active"))
    results.test_measured("runtime: OpenMP, libomp, that never spins", openmp("openmp-omp", "passive"))
    results.test_measured("runtime: TBB", tbb)
    results.test_measured("runtime: Node.js with a perf map", node("--perf-basic-prof"))
    results.test_measured("runtime: Node.js with a jitdump", node("--perf-prof"))
    results.test_measured("runtime: Java with a perf map", java)
    results.test_measured("runtime: Open MPI, ranks that spin", mpi)


def debian_binaries(folder):
    """(name, tools, function of a prefix that runs it)."""
    database = os.path.join(folder, "stacks.db")
    sql = ("create table if not exists t(a integer primary key, b text);" +
           "".join(f"insert into t(b) values ('{i}');" for i in range(300)) + "select count(*) from t;")
    repository = os.path.join(folder, "stacks-repository")

    def batch(command, cwd=None):
        return lambda tool: tool.run(command, cwd=cwd)

    def server(made):
        def run(tool):
            file = tool.fresh()
            prefix = [tool.transect, "criticality", "--quiet", "-o", file + ".transect", "--format", "json", "--output", file, "--"]
            made().run(prefix, folder)
            return tool.answer(file, subprocess.CompletedProcess([], 0, "", ""))

        return run

    redis = lambda: real.Server("redis-stacks", "redis-server", "redis-benchmark",
                                lambda port, where: ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--appendonly", "yes", "--appendfsync", "always", "--dir", where],
                                lambda port, where: real.timed(["redis-benchmark", "-p", str(port), "-q", "-n", "2000", "-c", "4", "-t", "set,get"]))
    nginx = lambda: real.Server("nginx-stacks", "nginx", "ab", real.nginx_start,
                                lambda port, where: real.timed(["ab", "-q", "-n", "3000", "-c", "2", f"http://127.0.0.1:{port}/index.html"]), stop="quit")
    mariadb = lambda: real.Server("mariadbd-stacks", "mariadbd", "sysbench", real.mariadb_start(mariadb_data(folder)), real.sysbench(300), settle=0.5)
    history = ("git init -q . && git config user.email a@b && git config user.name a && for i in $(seq 40); do seq $((i*50)) $((i*90)) > f$((i%7));"
               " git add -A; git commit -qm $i; done; git -c pack.threads=2 repack -adq; git gc -q")
    os.makedirs(repository, exist_ok=True)
    yield "mariadbd", ("mariadbd", "sysbench", "mariadb-install-db"), server(mariadb)
    yield "redis-server", ("redis-server", "redis-benchmark"), server(redis)
    yield "nginx", ("nginx", "ab"), server(nginx)
    yield "python3", ("/usr/bin/python3",), batch(["/usr/bin/python3", "-c", PYTHON_THREADS])
    yield "sqlite3", ("sqlite3",), batch(["sqlite3", database, sql])
    yield "git", ("git",), batch(["sh", "-c", history], repository)
    script = ("for i in $(seq 60); do date +%s > a$i; grep -c . a$i | sed s/1/2/ | sort | uniq | cat > b$i; cp b$i c$i;"
              " basename $(dirname $PWD/x); done; find . -name 'a*' | xargs -n 5 wc -l | awk '{s += $1} END {print s}'")
    yield "shell script", ("awk", "find"), batch(["sh", "-c", script], repository)
    yield "perl", ("perl",), batch(["perl", "-e", PERL])
    yield "xz", ("xz",), batch(["sh", "-c", "seq 2000000 | xz -T2 -1 --block-size=1MiB | wc -c"])


def mariadb_data(folder):
    """An initialised data folder with sysbench's table, made once."""
    if not os.path.isdir(os.path.join(folder, "mariadb")):
        real.mariadb_base(folder)
    return os.path.join(folder, "mariadb")


def test_stacks(results, tool, folder):
    whole = [0, 0]
    for name, tools, run in debian_binaries(folder):
        def check():
            need(*tools)
            answer = run(tool)
            complaints, off = broken_invariants(answer), []
            reach, with_stack, waits = complete_stacks(answer)
            whole[0] += reach
            whole[1] += with_stack
            print(f"   {name}: {reach} of {with_stack} stacks of waits reach the start of the thread; {waits} waits")
            if with_stack == 0:
                complaints.append("no stacks")
            elif reach < 0.9 * with_stack:
                # Whoever reads the tables of what a program maps comes late where others have the CPUs.
                incomplete = max((row for row in answer.waits() if row.get("stack") and not row.get("complete")), key=lambda row: row["count"], default={})
                off.append(f"{reach / with_stack:.0%} complete, goal 90%; most frequent: {' > '.join(incomplete.get('stack', []))}")
            return complaints, off

        results.test_measured(f"stacks of Debian's {name} as shipped", check)
    if whole[1]:
        print(f"   all: {whole[0] / whole[1]:.1%} of {whole[1]} stacks complete")


def test(results, tool, build, folder):
    test_streams(results, tool)
    test_storms(results, tool, build)
    test_runtimes(results, tool, build, folder)
    test_stacks(results, tool, folder)
