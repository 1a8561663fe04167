"""What a walk costs while it goes on: the programs' speed with and without, walks of the program's half and of the
kernel's half alone, the time to the first whole chain, the longest stop, the probes that are live at once."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import threading
import time

import criticality
import programs as real

KINDS = ("both", "user", "kernel")
# Requests through the proxy are for this many objects of so many bytes.
OBJECTS, OBJECT_SIZE = 400, 20_000


class Walks:
    """Command lines of walks, and what their answers say."""

    def __init__(self, options, fresh):
        self.options, self.fresh = options, fresh
        done = subprocess.run([options.transect, "walk", "--help"], capture_output=True, text=True)
        self.can = done.returncode == 0
        self.halves = "--space" in done.stdout
        self.facts = []

    def line(self, kind, more=()):
        file = self.fresh()
        extra = [] if kind == "both" else ["--space", kind]
        return file + ".json", [self.options.transect, "walk", "--quiet", "-o", file, *extra, *more, "--format", "json", "--output", file + ".json"]

    def note(self, name, kind, file):
        """Keeps the facts of an answer; whether there was a chain."""
        try:
            with open(file) as text:
                walk = json.load(text)["walk"]
        except (OSError, ValueError, KeyError):
            return False
        finally:
            if os.path.exists(file):
                os.unlink(file)
            shutil.rmtree(file.removesuffix(".json"), ignore_errors=True)
        session = walk.get("session") or walk
        self.facts.append((name, kind, session.get("found_after_ns"), session.get("longest_stop_ns"), session.get("probes_live"), len(walk.get("chains", []))))
        return bool(walk.get("chains"))


class Repeated(threading.Thread):
    """Attaches a walk to a process again and again until it is told to end."""

    def __init__(self, walks, name, kind, pids):
        super().__init__(daemon=True)
        self.walks, self.name_of, self.kind, self.pids = walks, name, kind, pids
        self.over, self.number, self.error = threading.Event(), 0, ""

    def run(self):
        while not self.over.is_set():
            for pid in self.pids() or []:
                file, line = self.walks.line(self.kind)
                process = subprocess.Popen([*line, "-p", str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                while process.poll() is None:
                    if self.over.is_set():
                        # As Ctrl-C: what is left of this walk is outside of what is measured.
                        process.send_signal(signal.SIGINT)
                        break
                    time.sleep(0.01)
                _, errors = process.communicate(timeout=60)
                if self.walks.note(self.name_of, self.kind, file):
                    self.number += 1
                elif process.returncode and not self.over.is_set():
                    self.error = criticality.tail(errors)
                    return
                if self.over.is_set():
                    return

    def end(self):
        self.over.set()
        self.join(60)


# -- Loads ----------------------------------------------------------------------------------------------------------------


class Workload:
    """A program of workloads/walk: it runs for a fixed time and says how much it did."""

    def __init__(self, name, program, arguments=(), seconds=4):
        self.name, self.program, self.arguments, self.seconds = name, program, list(arguments), seconds

    def missing(self):
        return None if os.path.exists(self.program) else "not built"

    def measure(self, walks, kind, folder):
        """Work a second, and work a second of the program's CPU time."""
        file, prefix = walks.line(kind) if kind else ("", [])
        command = [self.program, str(self.seconds), *self.arguments, "--folder", folder]
        done = subprocess.run((prefix + ["--"] if kind else []) + command, capture_output=True, text=True, timeout=120, preexec_fn=criticality.undisturbed)
        if done.returncode:
            raise RuntimeError(criticality.tail(done.stderr))
        truth = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"truth"')))
        if kind and not walks.note(self.name, kind, file):
            raise RuntimeError("no chain: " + criticality.tail(done.stderr))
        return truth["operations"] / self.seconds, truth["operations"] / truth["cpu_ns"] * 1e9 if truth.get("cpu_ns") else None


class Batch:
    """A program that runs to its end."""

    def __init__(self, name, tool, argv, built, stdin=None):
        self.name, self.tool, self.argv, self.built, self.stdin = name, tool, argv, built, stdin

    def missing(self):
        return None if shutil.which(self.tool) else f"{self.tool} is not installed"

    def measure(self, walks, kind, folder):
        file, prefix = walks.line(kind) if kind else ("", [])
        seconds, processor = os.path.join(folder, "seconds"), os.path.join(folder, "cpu")
        line = (prefix + ["--"] if kind else []) + [self.built("wall-time"), seconds, self.built("cpu-time"), processor, *self.argv]
        with open(self.stdin or os.devnull, "rb") as given:
            done = subprocess.run(line, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=criticality.undisturbed)
        if done.returncode:
            raise RuntimeError(criticality.tail(done.stderr.decode(errors="replace")))
        if kind and not walks.note(self.name, kind, file):
            raise RuntimeError("no chain: " + criticality.tail(done.stderr.decode(errors="replace")))
        with open(seconds) as wall, open(processor) as cpu:
            return 1 / float(wall.read()), 1 / float(cpu.read())


class Served:
    """A server under load, attached to again and again: the client's speed, and work a second of the server's CPU time."""

    def __init__(self, name, tool, client, start, load, stop=signal.SIGTERM, settle=0.5, behind=None):
        self.name, self.tool, self.client, self.start, self.load = name, tool, client, start, load
        self.stop, self.settle, self.behind = stop, settle, behind

    def missing(self):
        for tool in (self.tool, self.client, self.behind):
            if tool and not shutil.which(tool):
                return f"{tool} is not installed"
        return None

    def measure(self, walks, kind, folder):
        port = real.free_port()
        where = os.path.join(folder, f"{self.tool}-{port}")
        os.makedirs(where)
        os.chmod(where, 0o777)
        with open(os.path.join(where, "log"), "wb") as log:
            server = subprocess.Popen(self.start(port, where), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        walker = None
        try:
            real.wait_for_port(port, server, 60)
            time.sleep(self.settle)
            name = os.path.basename(os.path.realpath(shutil.which(self.tool)))
            pids = real.tree(server.pid, name)[-1:]
            self.load(port, where, 0.5)
            if kind:
                walker = Repeated(walks, self.name, kind, lambda: pids)
                walker.start()
                time.sleep(0.3)
            before = processor_time(pids)
            work, seconds = self.load(port, where, 6)
            used = processor_time(pids) - before
            if walker:
                walker.end()
                if not walker.number and walker.error:
                    raise RuntimeError(walker.error)
            return work / seconds, work / used if used else None
        finally:
            if walker:
                walker.end()
            for pid in real.tree(server.pid, os.path.basename(os.path.realpath(shutil.which(self.tool))))[:1] or [server.pid]:
                try:
                    os.kill(pid, self.stop)
                except ProcessLookupError:
                    pass
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            shutil.rmtree(where, ignore_errors=True)


def processor_time(pids):
    """Seconds on CPUs so far of these processes, all threads."""
    total = 0
    for pid in pids:
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/schedstat") as fields:
                    total += int(fields.read().split()[0])
        except OSError:
            pass
    return total / 1e9


def wrk(path="index.html"):
    """A load for a fixed time: (requests, seconds)."""
    def load(port, where, seconds):
        done = subprocess.run(["wrk", "-t1", "-c8", f"-d{max(1, round(seconds))}s", f"http://127.0.0.1:{port}/{path}"], capture_output=True, text=True, timeout=120)
        words = next((line.split() for line in done.stdout.splitlines() if "requests in" in line), None)
        if not words:
            raise RuntimeError(criticality.tail(done.stdout + done.stderr))
        return int(words[0]), float(words[3].rstrip("s,"))
    return load


def sysbench(port, where, seconds):
    done = subprocess.run(["sysbench", "oltp_read_write", "--mysql-host=127.0.0.1", f"--mysql-port={port}", "--mysql-user=root", "--mysql-db=bench", "--tables=1",
                           "--table-size=5000", "--threads=2", f"--time={max(1, round(seconds))}", "--events=0", "run"], capture_output=True, text=True, timeout=120)
    words = [line.split() for line in done.stdout.splitlines() if "transactions:" in line or "total time:" in line]
    if len(words) < 2:
        raise RuntimeError(criticality.tail(done.stdout + done.stderr))
    return int(words[0][1]), float(words[1][2].rstrip("s"))


class Origin:
    """The server behind the proxy: nginx, which gives the same object under every name; it may be cached."""

    def __init__(self, folder):
        self.port, where = real.free_port(), os.path.join(folder, "origin")
        os.makedirs(where)
        os.chmod(where, 0o755)
        with open(f"{where}/object", "wb") as file:
            file.write(os.urandom(OBJECT_SIZE))
        with open(f"{where}/nginx.conf", "w") as file:
            file.write(f"""daemon off; pid {where}/pid; error_log {where}/error.log; worker_processes 1; events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {where}/a; proxy_temp_path {where}/b; fastcgi_temp_path {where}/c; uwsgi_temp_path {where}/d; scgi_temp_path {where}/e;
server {{ listen 127.0.0.1:{self.port}; root {where}; location / {{ rewrite ^ /object break; expires 1h; }} }} }}""")
        self.server = None
        if shutil.which("nginx"):
            self.server = subprocess.Popen(["nginx", "-c", f"{where}/nginx.conf", "-p", where], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            real.wait_for_port(self.port, self.server)

    def close(self):
        if self.server:
            self.server.send_signal(signal.SIGQUIT)
            self.server.wait()


def squid_start(port, where):
    """A proxy with a cache on the disk that is too small for the objects, so that files are made and unlinked all the time."""
    cache = os.path.join(where, "cache")
    configuration = f"""http_port 127.0.0.1:{port}
http_access allow all
cache_dir ufs {cache} 4 16 16
cache_mem 256 KB
maximum_object_size_in_memory 1 KB
cache_store_log none
access_log none
cache_log {where}/cache.log
pid_filename {where}/pid
coredump_dir {where}
shutdown_lifetime 1 seconds
via off
"""
    with open(f"{where}/squid.conf", "w") as file:
        file.write(configuration)
    os.makedirs(cache, exist_ok=True)
    # Squid gives up root, and must find its way to its files.
    os.chmod(os.path.dirname(where), 0o711)
    for folder, _, _ in os.walk(where):
        if os.geteuid() == 0:
            shutil.chown(folder, "proxy", "proxy")
    made = subprocess.run(["squid", "-N", "-z", "-f", f"{where}/squid.conf"], capture_output=True, text=True, timeout=60)
    if made.returncode:
        raise RuntimeError(criticality.tail(made.stderr))
    return ["squid", "-N", "-f", f"{where}/squid.conf"]


def squid_load(origin, folder):
    """wrk through the proxy: each request for the next of the objects, of which most are no longer in the cache."""
    script = os.path.join(folder, "proxy.lua")
    with open(script, "w") as file:
        file.write(f"""local n = 0
request = function()
  n = n + 1
  return "GET http://127.0.0.1:{origin.port}/object-" .. (n * 7919 % {OBJECTS}) .. " HTTP/1.1\\r\\nHost: 127.0.0.1:{origin.port}\\r\\n\\r\\n"
end
""")

    def load(port, where, seconds):
        done = subprocess.run(["wrk", "-t1", "-c8", f"-d{max(1, round(seconds))}s", "-s", script, f"http://127.0.0.1:{port}/"], capture_output=True, text=True, timeout=120)
        words = next((line.split() for line in done.stdout.splitlines() if "requests in" in line), None)
        if not words or "Non-2xx" in done.stdout:
            raise RuntimeError(criticality.tail(done.stdout + done.stderr))
        return int(words[0]), float(words[3].rstrip("s,"))
    return load


def loads(options, folder, built, origin):
    """What is measured."""
    build = os.path.join(options.build, "walk")
    subprocess.run(["make", "-s", "-C", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../workloads/walk"), f"BUILD={build}"], check=True)
    at = lambda name: os.path.join(build, name)
    scale = 1 if options.quick else 3
    rows = [
        Workload("proxy-server", at("proxy-server")),
        Workload("proxy-server, fixed once", at("proxy-server"), ["--fixed=1"]),
        Workload("out-of-core", at("out-of-core")),
        Workload("fsync-log", at("fsync-log")),
        Workload("pipe-ping-pong", at("pipe-ping-pong")),
        Workload("directory-lock", at("directory-lock")),
        Workload("deep-call", at("deep-call")),
        Served("squid", "squid", "wrk", squid_start, squid_load(origin, folder), behind="nginx"),
        Batch("sqlite3", "sqlite3", ["sqlite3", ":memory:"], built, stdin=real.sqlite_script(folder, 240_000 * scale)),
        Served("nginx", "nginx", "wrk", real.nginx_start, wrk(), stop=signal.SIGQUIT),
    ]
    if shutil.which("git"):
        repository = real.git_repository(folder)
        rows.append(Batch("git log -p", "git", ["git", "-C", repository, "--no-pager", "log", "-p", "--stat", f"-{400 * scale}"], built))
    if shutil.which("mariadbd") and shutil.which("sysbench"):
        try:
            rows.append(Served("mariadbd", "mariadbd", "sysbench", real.mariadb_start(real.mariadb_base(folder)), sysbench, settle=1))
        except (RuntimeError, subprocess.CalledProcessError, OSError) as error:
            print(f"NOT RUN: mariadbd: {error}", flush=True)
    return rows


def percent(values, digits=1):
    return f"{statistics.median(values):+.{digits}%} ({min(values):+.{digits}%} … {max(values):+.{digits}%})" if values else ""


def measure(options, folder, fresh, built):
    walks = Walks(options, fresh)
    if not walks.can:
        print("\nNOT RUN: the walk: the command is not there")
        return
    kinds = [kind for kind in KINDS if kind == "both" or walks.halves]
    print("\n### Walks: the program's speed without over its speed with (medians of neighbouring runs, least and most)\n")
    print("Servers are attached to all the time, one walk after the other; others are launched by the walk, which goes on until they end. By CPU time:")
    print("the same per second of the program's CPU time, which others at work on the machine disturb less.\n")
    if not walks.halves:
        print("NOT RUN: walks of one half alone: there is no option for it")
    heads = {"both": "walk", "user": "program's half alone", "kernel": "kernel's half alone"}
    print("| program | " + " | ".join(f"{heads[k]} | by CPU time" for k in kinds) + " |\n|---" + "|---" * (2 * len(kinds)) + "|", flush=True)
    origin = Origin(folder)
    slower = {kind: [] for kind in kinds}
    slower_cpu = {kind: [] for kind in kinds}
    try:
        for load in loads(options, folder, built, origin):
            if options.program and options.program not in load.name:
                continue
            why = load.missing()
            if why:
                print(f"| {load.name} | NOT RUN: {why} |", flush=True)
                continue
            by_wall, by_cpu, dead = {kind: [] for kind in kinds}, {kind: [] for kind in kinds}, {}
            for _ in range(options.rounds):
                for kind in kinds:
                    if kind in dead:
                        continue
                    try:
                        before = load.measure(walks, None, folder)
                        during = load.measure(walks, kind, folder)
                        after = load.measure(walks, None, folder)
                        by_wall[kind].append((before[0] + after[0]) / 2 / during[0] - 1)
                        if before[1] and after[1] and during[1]:
                            by_cpu[kind].append((before[1] + after[1]) / 2 / during[1] - 1)
                    except (RuntimeError, OSError, ValueError, StopIteration, subprocess.SubprocessError) as error:
                        dead[kind] = f"{type(error).__name__}: {str(error)[:140]}"
                    criticality.forget(options, fresh)
            cells = []
            for kind in kinds:
                if by_wall[kind]:
                    slower[kind].append((statistics.median(by_wall[kind]), load.name))
                    if by_cpu[kind]:
                        slower_cpu[kind].append((statistics.median(by_cpu[kind]), load.name))
                    cells += [percent(by_wall[kind]), percent(by_cpu[kind])]
                else:
                    cells += [f"FAILED: {dead.get(kind)}", ""]
            print(f"| {load.name} | " + " | ".join(cells) + " |", flush=True)
    finally:
        origin.close()
    for kind in kinds:
        for values, what in ((slower[kind], "speed"), (slower_cpu[kind], "by CPU time")):
            if values:
                worst = max(values)
                goal = " (goal: ≤ 2 %)" if kind == "both" else ""
                print(f"\nMean over {len(values)} programs, {heads[kind]}, {what}: {statistics.mean(v for v, _ in values):+.1%}; worst: {worst[1]} {worst[0]:+.1%}{goal}.")
    facts(walks)


def facts(walks):
    """What the walks said of themselves."""
    rows = [row for row in walks.facts if row[1] == "both"]
    if not rows:
        return
    print("\n### Walks: the time to the first whole chain, the longest stop, probes\n")
    print("| program | walks | first whole chain, s (median, most) | longest stop, ms (median, most) | probes live, most |\n|---|---|---|---|---|")

    def cell(values, unit, digits):
        return f"{statistics.median(values) / unit:.{digits}f}, {max(values) / unit:.{digits}f}" if values else ""

    for name in dict.fromkeys(row[0] for row in rows):
        mine = [row for row in rows if row[0] == name]
        first = [row[2] for row in mine if row[2] is not None]
        stops = [row[3] for row in mine if row[3]]
        live = [row[4] for row in mine if row[4] is not None]
        print(f"| {name} | {len(mine)} | {cell(first, 1e9, 2)} | {cell(stops, 1e6, 3)} | {max(live) if live else ''} |")
    first = [row[2] for row in rows if row[2] is not None]
    stops = [row[3] for row in rows if row[3]]
    if first:
        print(f"\nFirst whole chain: median {statistics.median(first) / 1e9:.2f} s, most {max(first) / 1e9:.2f} s, in {len(first)} of {len(rows)} walks (goal: ≤ 3 s).")
    if stops:
        print(f"Longest stop: {max(stops) / 1e6:.3f} ms (goal: ≤ 1 ms).")
