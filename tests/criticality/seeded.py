"""The seeded bottlenecks of workloads/criticality: right place first, right kind, right holder, and what-if against the
fix applied."""
import json
import os
import resource
import socket
import subprocess

from measured import function_in, plain, undisturbed

NAMES = ["hot-mutex-short", "hot-mutex-long", "rwlock-writers", "condition-storm", "barrier-imbalance",
         "unbalanced-pipeline", "fsync-commit", "slow-peer", "page-faults", "spin-wait", "run-queue", "serial-phase",
         "malloc-arena", "slow-child", "directory-lock", "pipe-ping-pong", "semaphore-pool", "forked-workers",
         "sleep-poll", "join-straggler"]

# A run in which others had more of the processors than this is another program's as much as ours.
DISTURBED = 0.1


class Surroundings:
    """What must be there before, and is no part of the program that is looked at: the servers of `slow-peer`, the file
    of `page-faults`, the folder of `directory-lock`. Gives the arguments that tell the program of it."""

    def __init__(self, name, build, folder, fixed):
        program = os.path.join(build, name)
        self.process, self.arguments = None, []
        if name == "slow-peer":
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = min(probe.getsockname()[1], 60000)
            self.process = subprocess.Popen([program, "--serve", str(port)] + ["--fixed"] * fixed, stdout=subprocess.PIPE, text=True)
            self.process.stdout.readline()
            self.arguments = ["--port", str(port)]
        elif name == "page-faults":
            records = os.path.join(folder, "records.data")
            if not os.path.exists(records):
                subprocess.run([program, "--prepare", records], check=True)
            self.arguments = ["--records", records]
        elif name == "directory-lock":
            spool = os.path.join(folder, "spool")
            if not os.path.exists(spool):
                subprocess.run([program, "--prepare", spool], check=True)
            self.arguments = ["--spool", spool]
        elif name == "fsync-commit":
            self.arguments = ["--folder", folder]

    def __enter__(self):
        return self.arguments

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()


def command(name, build, fixed):
    return [os.path.join(build, name)] + ["--fixed"] * fixed


def elapsed(name, build, folder, fixed):
    """Time that the workload says it took without us, s; None if it can't run here."""
    with Surroundings(name, build, folder, fixed) as more:
        done = subprocess.run(command(name, build, fixed) + more, capture_output=True, text=True, timeout=120,
                              preexec_fn=undisturbed)
    if done.returncode == 77:
        return None
    line = next(l for l in done.stdout.splitlines() if l.startswith('{"truth"'))
    return json.loads(line)["elapsed_ns"] / 1e9


def recorded(tool, name, build, folder, fixed=False, options=()):
    with Surroundings(name, build, folder, fixed) as more:
        return tool.run(command(name, build, fixed) + more, options)


def place(answer, truth):
    """Complaint unless the first path, or of a spin the first one of the corrected order, is the bottleneck's."""
    paths = answer.paths()
    if not paths:
        return "no paths"
    if function_in(paths[0], {truth["function"]}):
        return None
    return f"first is {paths[0]['state']} {' > '.join((paths[0].get('stack') or ['?'])[-4:])}, not {truth['function']}"


def kind(answer, truth):
    """Complaint unless most critical waiting is of the right kind."""
    sums = {}
    for row in answer.waits():
        sums[row["kind"]] = sums.get(row["kind"], 0) + row["critical_ns"]
    best = max(sums, key=sums.get, default=None)
    if best in truth["kind"].split("|") and sums[best] > 0:
        return None
    shown = ", ".join(f"{k} {ns / 1e6:.1f} ms" for k, ns in sorted(sums.items(), key=lambda e: -e[1])[:3])
    return f"most critical kind is {best} ({shown}), not {truth['kind']}"


def named_object(answer, truth):
    """Complaint unless the first wait of the right kind names the object, where it has a name."""
    rows = [row for row in answer.waits() if row["kind"] in truth["kind"].split("|")]
    first = max(rows, key=lambda row: row["critical_ns"], default=None)
    if not truth["object"] or first is None or truth["object"] in (first.get("object") or ""):
        return None
    return f"object of the first {truth['kind']} wait is {first.get('object')!r}, not {truth['object']}"


def holders(answer, truth):
    """(waits whose holder is right, waits) of a mutex, or a lock that has a writer; None if a holder isn't promised.

    Right is a thread whose name begins as the truth says; whole_programs.py has locks with a keeper of their own."""
    if truth["kind"] not in ("mutex", "rwlock") or not truth["holder"]:
        return None
    right = all_of_them = 0
    for row in answer.waits():
        if row["kind"] != truth["kind"] or truth["object"] and truth["object"] not in (row.get("object") or ""):
            continue
        all_of_them += row["count"]
        if ((row.get("holder") or {}).get("thread") or "").startswith(truth["holder"]):
            right += row["count"]
    return right, all_of_them


def said(answer, truth):
    """Complaint, or None, of the place, the kind and, where it has a name, the object."""
    complaints = {"place": place(answer, truth), "kind": kind(answer, truth)}
    if truth["object"]:
        complaints["object"] = named_object(answer, truth)
    return complaints


def processor_ticks():
    """(ticks of all processors, those at work for anyone or stolen)."""
    with open("/proc/stat") as text:
        user, nice, system, idle, waiting, *rest = (int(field) for field in text.readline().split()[1:9])
    busy = user + nice + system + sum(rest)
    return busy + idle + waiting, busy


class Others:
    """Share of the processors that others than what the block runs had meanwhile."""

    def __enter__(self):
        self.share, self.own, (self.all, self.busy) = 0.0, children_seconds(), processor_ticks()
        return self

    def __exit__(self, *_):
        every, busy = processor_ticks()
        own = (children_seconds() - self.own) * os.sysconf("SC_CLK_TCK")
        self.share = max(0.0, busy - self.busy - own) / max(1, every - self.all)


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def told(tool, name, build, folder):
    """One recording: the answer, and for each thing whether it is right, None where others put it off."""
    with Others() as others:
        answer = recorded(tool, name, build, folder)
    truth = answer.truth()
    if not truth or not answer.rows:
        return answer, {}
    complaints = said(answer, truth)
    for what, complaint in complaints.items():
        if complaint:
            print(f"   wrong {what} of {name}: {complaint}; others had {others.share:.0%} of the processors")
    disturbed = others.share > DISTURBED
    return answer, {what: True if not complaint else None if disturbed else False for what, complaint in complaints.items()}


def judged(tool, name, build, folder):
    """The first answer, and for each thing whether it is right: what most of three runs say if the first is off. None if the
    machine was never quiet enough for a wrong one to count."""
    answer, first = told(tool, name, build, folder)
    if all(first.values()):
        return answer, first
    runs = [first] + [told(tool, name, build, folder)[1] for _ in range(2)]
    verdicts = {}
    for what in first:
        votes = [run.get(what, False) for run in runs]
        verdicts[what] = True if votes.count(True) >= 2 else False if False in votes else None
    return answer, verdicts


def predicted(answer, truth):
    """(low, best, high) of the share that the speed-up of the function, all it calls included, would save; None without
    such a row."""
    wanted = "inf" if truth["speedup"] < 0 else truth["speedup"]
    found = [row for row in answer.what_if() if row["speedup"] == wanted and
             (plain(row["path"]) == truth["function"] or truth["function"] in {plain(f) for f in (row.get("stack") or [])[-1:]})]
    # A function's own time is a part of what its fix speeds up.
    best = max(found, key=lambda row: row["saving_high"], default=None)
    return best and (best["saving_low"], best.get("saving", (best["saving_low"] + best["saving_high"]) / 2), best["saving_high"])


def saving(name, build, folder, rounds):
    """Share of the elapsed time that the fix saves, of the shortest of runs in turn; None if it can't run here."""
    before, after = [], []
    for _ in range(rounds):
        for fixed, times in ((False, before), (True, after)):
            seconds = elapsed(name, build, folder, fixed)
            if seconds is None:
                return None
            times.append(seconds)
    return 1 - min(after) / min(before)
