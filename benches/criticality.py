"""What the scheduler collector costs: a block + wake + switch, whole programs beside `perf sched record`, its memory, the
time of its report, and whether it keeps up with a million transitions a second."""

import json
import multiprocessing
import os
import shutil
import signal
import statistics
import subprocess
import threading
import time

import programs as real

OFF_CPU = """tracepoint:sched:sched_switch { if (args->prev_state) { @start[args->prev_pid] = nsecs; }
  $s = @start[args->next_pid]; if ($s) { @[kstack, ustack, args->next_comm] = sum(nsecs - $s); delete(@start[args->next_pid]); } }"""


def spread(values, digits=0):
    return f"{min(values):,.{digits}f} / {statistics.median(values):,.{digits}f} / {max(values):,.{digits}f}"


def undisturbed():
    """In a scheduling group of its own where the system lets us, so that other work on the machine meets it less."""
    try:
        os.setsid()
        with open("/proc/self/autogroup", "w") as group:
            group.write("-15")
    except OSError:
        pass


def tail(text):
    return ((text or "").strip().splitlines() or ["no message"])[-1][:140]


class Tools:
    """Prefixes of a command line, by tool."""

    def __init__(self, options, fresh):
        self.options, self.fresh = options, fresh

    def transect(self, *more):
        return [self.options.transect, "criticality", "--quiet", "-o", self.fresh(), *more, "--"]

    def by_name(self):
        """(name, function that gives the prefix)."""
        return {
            "none": lambda: [],
            "criticality alone": lambda: self.transect("--totals-only"),
            "transect criticality": lambda: self.transect(),
            "with a stack at every block": lambda: self.transect("--min-parallelism", "1000000", "--detailed-waits", "all"),
            "perf sched record": lambda: ["perf", "sched", "record", "-q", "-o", self.fresh(), "--"],
        }


def block_wake_switch(options, fresh, built):
    """Nanoseconds of one block + wake + switch; each tool in turn, so that a slower minute meets them all."""
    rounds = max(3, options.rounds * 2 - 1)
    size = 30_000 if options.quick else 200_000
    tools = dict(Tools(options, fresh).by_name())
    print("\n### Block + wake + switch of two threads, ns over the same without a tool\n")
    print("Median of the differences of neighbouring runs (quartiles); goal: ≤ 150 for criticality alone, ≤ 1,000 with stack and kind.\n")
    names = [name for name in tools if name != "none"] + ["bpftrace, off-CPU time by stack"]
    print("| pair | none (min / median / max) | " + " | ".join(names) + " |\n|---" + "|---" * (len(names) + 1) + "|")
    for way in ("futex", "pipe"):
        for where in ("one", "two"):
            if where == "two" and len(os.sched_getaffinity(0)) < 2:
                continue
            count = size if where == "one" else size // 5
            command = [built("ping-pong"), way, where, str(count)]
            plain, over, dead = [], {}, {}

            def run(line):
                done = subprocess.run(line, capture_output=True, text=True, timeout=300)
                if done.returncode:
                    raise RuntimeError(tail(done.stderr))
                return float(next(l for l in done.stdout.splitlines() if l[:1].isdigit() and len(l.split()) == 3).split()[0])

            for _ in range(rounds):
                for name in names:
                    if name in dead:
                        continue
                    try:
                        if name in tools:
                            line = tools[name]() + command
                        else:
                            line = ["bpftrace", "-q", "-e", OFF_CPU, "-o", "/dev/null", "-c", " ".join(command)]
                        if not shutil.which(line[0]):
                            raise RuntimeError(f"{line[0]} is not installed")
                        before = run(command)
                        measured = run(line)
                        after = run(command)
                        plain += [before, after]
                        over.setdefault(name, []).append(measured - (before + after) / 2)
                    except (RuntimeError, StopIteration, subprocess.TimeoutExpired, OSError) as error:
                        dead[name] = str(error) or type(error).__name__
                    forget(options, fresh)
            cells = []
            for name in names:
                values = sorted(over.get(name, []))
                if not values:
                    cells.append(f"NOT RUN: {dead.get(name)}")
                    continue
                quarter = len(values) // 4
                cells.append(f"{statistics.median(values):+,.0f} ({values[quarter]:+,.0f} … {values[-1 - quarter]:+,.0f})")
            cpus = "one CPU" if where == "one" else "two CPUs"
            print(f"| {way}, {cpus} | {spread(plain) if plain else ''} | " + " | ".join(cells) + " |", flush=True)


def forget(options, fresh):
    """Recordings of earlier runs, which perf writes by the gigabyte."""
    folder = os.path.dirname(fresh())
    for name in os.listdir(folder):
        if name.startswith("out-"):
            path = os.path.join(folder, name)
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.unlink(path)


# -- Whole programs ---------------------------------------------------------------------------------------------------


def other_user():
    """Options of setpriv for a user that PostgreSQL agrees to run as."""
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []


def postgres_tool(name):
    for folder in sorted((f"/usr/lib/postgresql/{v}/bin" for v in os.listdir("/usr/lib/postgresql")) if os.path.isdir("/usr/lib/postgresql") else [], reverse=True):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return shutil.which(name) or name


def postgres_base(folder):
    """An initialised cluster with pgbench's tables, made once without any tool."""
    base, port = os.path.join(folder, "postgres"), real.free_port()
    os.makedirs(base)
    os.chmod(folder, 0o755)
    if os.geteuid() == 0:
        os.chown(base, 65534, 65534)
    subprocess.run(other_user() + [postgres_tool("initdb"), "-D", base, "-A", "trust", "-U", "bench", "-N"], check=True, stdout=subprocess.DEVNULL, cwd="/")
    server = subprocess.Popen(other_user() + postgres_line(base, port, base), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
    try:
        real.wait_for_port(port, server)
        time.sleep(1)
        subprocess.run([postgres_tool("pgbench"), "-h", "127.0.0.1", "-p", str(port), "-U", "bench", "-i", "-q", "-s", "2", "postgres"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
    return base


def postgres_line(data, port, sockets):
    return [postgres_tool("postgres"), "-D", data, "-p", str(port), "-k", sockets, "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=64MB"]


class Postgres(real.Server):
    """A server that refuses to be root's, stops by SIGINT, and works in processes."""

    def __init__(self, base, transactions):
        self.base, self.transactions = base, transactions
        super().__init__("postgres", postgres_tool("postgres"), postgres_tool("pgbench"), None, None)

    def run(self, prefix, folder):
        port = real.free_port()
        where = os.path.join(folder, f"postgres-{port}")
        shutil.copytree(self.base, where)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "65534:65534", where], check=True)
        server = subprocess.Popen(prefix + other_user() + postgres_line(where, port, where), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            real.wait_for_port(port, server)
            time.sleep(2)  # what a tool does at the start is not what is measured
            seconds = real.timed([postgres_tool("pgbench"), "-h", "127.0.0.1", "-p", str(port), "-U", "bench", "-n", "-c", "4", "-j", "2", "-t", str(self.transactions), "postgres"])
        finally:
            for pid in real.tree(server.pid, "postgres")[:1]:
                os.kill(pid, signal.SIGINT)
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            shutil.rmtree(where, ignore_errors=True)
        return seconds, None


def threaded(folder, built, quick):
    """Programs with threads or processes that wait for each other, about a second or two each."""
    f = 1 if quick else 3
    text = real.text_file(folder, 8_000_000 * f)
    client = "wrk" if shutil.which("wrk") else "ab"

    def web(port, where):
        if client == "ab":
            return real.timed(["ab", "-q", "-k", "-n", str(20000 * f), "-c", "8", f"http://127.0.0.1:{port}/index.html"])
        # wrk runs for a time: the measure is the time for a given number of requests.
        seconds = f
        done = subprocess.run(["wrk", "-t", "1", "-c", "8", "-d", f"{seconds}s", f"http://127.0.0.1:{port}/index.html"], capture_output=True, text=True)
        rate = next(float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("Requests/sec"))
        return 20000 * f / rate

    ranks = ["mpirun"] + (["--allow-run-as-root"] if os.geteuid() == 0 else []) + ["--oversubscribe", "-n", "2", built("ranks"), str(150 * f)]
    programs = [
        real.Server("redis-server", "redis-server", "redis-benchmark",
                    lambda port, where: ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", where],
                    lambda port, where: real.timed(["redis-benchmark", "-p", str(port), "-q", "-n", str(20000 * f), "-c", "20", "-t", "set,get,lpush"])),
        real.Server("nginx", "nginx", client, real.nginx_start, web, stop="quit"),
        real.Batch("pigz", "pigz", ["pigz", "-p", "2", "-c", text]),
        real.Batch("xz -T2", "xz", ["xz", "-1", "-k", "-c", "-T2", "--block-size=1MiB", text]),
        real.Batch("pipeline of stages", built("stages"), [built("stages"), str(15000 * f)]),
        real.Batch("MPI, Jacobi", "mpirun", ranks),
    ]
    if not os.path.exists(built("ranks")):
        programs.pop()
        print("NOT RUN: MPI: mpicc is not installed", flush=True)
    if all(shutil.which(tool) for tool in ("mariadbd", "sysbench", "mariadb-install-db")):
        base = real.mariadb_base(folder)
        programs.insert(0, real.Server("mariadbd", "mariadbd", "sysbench", real.mariadb_start(base), transactions(600 * f), settle=2.0))
    else:
        print("NOT RUN: mariadbd: mariadb-server or sysbench is not installed", flush=True)
    if os.path.exists(postgres_tool("initdb")):
        programs.insert(1, Postgres(postgres_base(folder), 800 * f))
    else:
        print("NOT RUN: postgres: postgresql is not installed", flush=True)
    return programs


def transactions(events):
    """sysbench's mix of reads and writes."""
    def load(port, where):
        return real.timed(["sysbench", "oltp_read_write", "--mysql-host=127.0.0.1", f"--mysql-port={port}", "--mysql-user=root", "--mysql-db=bench", "--tables=1",
                           "--table-size=5000", "--threads=4", f"--events={events}", "--time=0", "run"])
    return load


def took(program, prefix, folder, built):
    """Seconds of the program itself: what a tool needs before and after it is left out."""
    if not isinstance(program, real.Batch):
        return program.run(prefix, folder)[0]
    file = os.path.join(folder, "seconds")
    program.run(prefix + [built("wall-time"), file], folder)
    with open(file) as text:
        return float(text.read())


def whole_programs(options, folder, fresh, built):
    print("\n### Whole programs: time with the tool over the time without (medians of neighbouring runs)\n")
    print("| program | none, s (min / median / max) | transect criticality | perf sched record | loss of records |\n|---|---|---|---|---|")
    tools = Tools(options, fresh).by_name()
    ours, theirs = [], []
    rounds = max(1, options.rounds)
    for program in threaded(folder, built, options.quick):
        if options.program and options.program not in program.name:
            continue
        why = program.missing()
        if why:
            print(f"| {program.name} | NOT RUN: {why} |", flush=True)
            continue
        plain, ratios, dead, lost = [], {}, {}, 0
        try:
            program.run([], folder)  # fills the page cache
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            print(f"| {program.name} | FAILED: {str(error)[:160]} |", flush=True)
            continue
        for _ in range(rounds):
            for name in ("transect criticality", "perf sched record"):
                if name in dead:
                    continue
                try:
                    prefix = tools[name]()
                    before = took(program, [], folder, built)
                    with_tool = took(program, prefix, folder, built)
                    after = took(program, [], folder, built)
                    plain += [before, after]
                    ratios.setdefault(name, []).append(2 * with_tool / (before + after))
                    if name.startswith("transect"):
                        lost += losses(prefix)
                except (RuntimeError, OSError, subprocess.SubprocessError, ValueError, StopIteration) as error:
                    dead[name] = str(error)[:120]
                forget(options, fresh)

        def cell(name):
            if name not in ratios:
                return f"NOT RUN: {dead.get(name)}"
            values = ratios[name]
            return f"{statistics.median(values) - 1:+.1%} ({min(values) - 1:+.1%} … {max(values) - 1:+.1%})"

        if "transect criticality" in ratios:
            ours.append((statistics.median(ratios["transect criticality"]), program.name))
        if "perf sched record" in ratios:
            theirs.append((statistics.median(ratios["perf sched record"]), program.name))
        print(f"| {program.name} | {spread(plain, 3) if plain else ''} | {cell('transect criticality')} | {cell('perf sched record')} | {lost} |", flush=True)
    for name, values in (("transect criticality", ours), ("perf sched record", theirs)):
        if values:
            worst = max(values)
            goal = " (goals: ≤ 2 %, ≤ 5 %)" if values is ours else ""
            print(f"\nMean over {len(values)} programs, {name}: {statistics.mean(v for v, _ in values) - 1:+.1%}; worst: {worst[1]} {worst[0] - 1:+.1%}{goal}.")


def losses(prefix):
    """Lost records that the recording itself tells of."""
    folder = prefix[prefix.index("-o") + 1]
    try:
        with open(os.path.join(folder, "meta.json")) as file:
            meta = json.load(file)
    except (OSError, ValueError):
        return 0
    return sum(row.get("count", 0) for row in meta.get("loss", []) if ("record" in row.get("what", "") or "event" in row.get("what", "")))


# -- Storm, memory, report --------------------------------------------------------------------------------------------


def anonymous(pid):
    """Memory of a process that is nothing but its own, bytes: neither its program nor the kernel's maps that it has mapped."""
    try:
        with open(f"/proc/{pid}/status") as text:
            return next((int(line.split()[1]) * 1024 for line in text if line.startswith("RssAnon")), 0)
    except OSError:
        return 0


class Watched:
    """Peak memory of the tool: what is its own while it records, all that is resident at any time (it reads the profile
    again for its report), and the memory of the maps in the kernel."""

    def __init__(self, process, recording):
        self.process, self.recording, self.stop = process, recording, False
        self.while_recording, self.resident, self.maps = 0, 0, 0
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.stop:
            self.resident = max(self.resident, real.peak_of([self.process.pid]) * 1024)
            if self.recording():
                self.while_recording = max(self.while_recording, anonymous(self.process.pid))
            seen = {}
            base = f"/proc/{self.process.pid}/fdinfo"
            try:
                for name in os.listdir(base):
                    with open(os.path.join(base, name)) as text:
                        fields = dict(line.split(None, 1) for line in text.read().splitlines() if line.startswith(("memlock:", "map_id:")))
                    if "map_id:" in fields:
                        seen[fields["map_id:"].strip()] = int(fields.get("memlock:", "0"))
            except OSError:
                pass
            self.maps = max(self.maps, sum(seen.values()))
            time.sleep(0.1)

    def end(self):
        self.stop = True
        self.thread.join()


def storm(options, fresh, built):
    """As many transitions as the machine can make: criticality must add up, and each block must be a slice."""
    seconds = 2 if options.quick else 10
    rounds = int(seconds * 250_000)
    profile, file = fresh(), fresh() + ".json"
    line = [options.transect, "criticality", "-o", profile, "--format", "json", "--output", file, "--", built("ping-pong"), "futex", "all", str(rounds)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watched = Watched(process, lambda: real.tree(process.pid, "ping-pong"))
    out, err = process.communicate(timeout=600)
    watched.end()
    print("\n### A storm of transitions\n")
    if process.returncode or not os.path.exists(file):
        print(f"NOT RUN: {tail(err)}")
        return
    with open(file) as text:
        data = json.load(text)
    rows = data.get("criticality", data)
    _, blocks, rate = out.split()[:3]
    total = sum(t["criticality_ns"] for t in rows["threads"])
    records = sum(row.get("count", 0) for row in data.get("loss") or [])
    print("| transitions/s (goal ≥ 1 M) | blocks, by getrusage | slices | Σ criticality / busy − 1 (goal ≤ 1e-6) | records lost | unattributed | tool's memory recording, MiB | of the maps, MiB (goal ≤ 64 together) | with the report, MiB |\n|---|---|---|---|---|---|---|---|---|")
    print(f"| {float(rate):,.0f} | {int(blocks):,} | {rows['slices']:,} | {total / rows['busy_ns'] - 1:+.1e} | {records:,} | {rows['unattributed_ns'] / rows['busy_ns']:.1%} | {watched.while_recording / 2**20:.1f} | {watched.maps / 2**20:.1f} | {watched.resident / 2**20:.1f} |", flush=True)


def long_run(options, folder, fresh):
    """A minute of a database under load: memory of the tool, size of the profile, time of the report."""
    print("\n### A minute of mariadbd under load\n")
    if not all(shutil.which(tool) for tool in ("mariadbd", "sysbench", "mariadb-install-db")):
        print("NOT RUN: mariadb-server or sysbench is not installed")
        return
    seconds = 5 if options.quick else 60
    base = os.path.join(folder, "mariadb")
    if not os.path.isdir(base):
        base = real.mariadb_base(folder)
    port = real.free_port()
    where = os.path.join(folder, f"minute-{port}")
    os.makedirs(where)
    server = subprocess.Popen(real.mariadb_start(base)(port, where), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    load = None
    try:
        real.wait_for_port(port, server)
        load = subprocess.Popen(["sysbench", "oltp_read_write", "--mysql-host=127.0.0.1", f"--mysql-port={port}", "--mysql-user=root", "--mysql-db=bench", "--tables=1", "--table-size=5000",
                                 "--threads=8", f"--time={seconds + 20}", "run"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        profile = fresh()
        tool = subprocess.Popen([options.transect, "criticality", "-p", str(server.pid), "--duration", f"{seconds}s", "-o", profile], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + seconds
        watched = Watched(tool, lambda: time.monotonic() < end)
        err = tool.communicate(timeout=seconds + 120)[1]
        watched.end()
        if tool.returncode:
            print(f"NOT RUN: {tail(err)}")
            return
    finally:
        for process in (load, server):
            if process:
                process.terminate()
                process.wait(60)
        shutil.rmtree(where, ignore_errors=True)
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(profile) for f in fs)
    times = {}
    for what, more in (("terminal", ["--view", "criticality"]), ("JSON", ["--format", "json", "--output", profile + ".json"]), ("HTML", ["--html", profile + ".html"])):
        values = []
        for _ in range(max(1, options.rounds)):
            begin = time.monotonic()
            done = subprocess.run([options.transect, "report", profile, *more], capture_output=True, text=True)
            values.append(time.monotonic() - begin)
        times[what] = f"{statistics.median(values):.2f}" if done.returncode == 0 else f"FAILED: {tail(done.stderr)}"
    slices = "?"
    with open(os.path.join(profile, "meta.json")) as file:
        slices = (json.load(file).get("criticality") or {}).get("slices", "?")
    print("| recorded, s | slices | profile, MiB | tool's memory recording, MiB | of the maps, MiB (goal ≤ 64 together) | with the report, MiB | report: terminal, s (goal ≤ 2) | JSON, s | HTML, s |\n|---|---|---|---|---|---|---|---|---|")
    print(f"| {seconds} | {slices} | {size / 2**20:.1f} | {watched.while_recording / 2**20:.1f} | {watched.maps / 2**20:.1f} | {watched.resident / 2**20:.1f} | {times['terminal']} | {times['JSON']} | {times['HTML']} |", flush=True)


def costs(options, folder, fresh, built):
    """All of it; says so where the collector can't run. In a process of its own, whose scheduling group is left behind."""
    worker = multiprocessing.get_context("fork").Process(target=measure, args=(options, folder, fresh, built))
    worker.start()
    worker.join()
    if worker.exitcode:
        print(f"FAILED: criticality: status {worker.exitcode}")


def measure(options, folder, fresh, built):
    undisturbed()
    probe = subprocess.run([options.transect, "criticality", "-o", fresh(), "--", "true"], capture_output=True, text=True)
    if probe.returncode:
        print(f"\nNOT RUN: criticality: {tail(probe.stderr)}")
        return
    block_wake_switch(options, fresh, built)
    storm(options, fresh, built)
    whole_programs(options, folder, fresh, built)
    long_run(options, folder, fresh)
