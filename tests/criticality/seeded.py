"""The seeded bottlenecks of workloads/criticality: right place first, right kind, right holder, and what-if against the
fix applied."""
import json
import os
import socket
import subprocess

from harness import machine
from measured import function_in, plain, undisturbed

NAMES = ["hot-mutex-short", "hot-mutex-long", "rwlock-writers", "condition-storm", "barrier-imbalance",
         "unbalanced-pipeline", "fsync-commit", "slow-peer", "page-faults", "spin-wait", "run-queue", "serial-phase",
         "malloc-arena", "slow-child", "directory-lock", "pipe-ping-pong", "semaphore-pool", "forked-workers",
         "sleep-poll", "join-straggler"]


# Of the waits, these must name the right holder.
HOLDERS = 0.95


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


# What comes after any other waiting: a queue for a CPU after each wake-up, and the main thread's join until the last thread ends.
CONSEQUENCES = {"run-queue", "join"}
LOCKS = {"mutex", "rwlock", "kernel-lock"}


def kind(answer, truth):
    """Complaint unless most critical waiting is of the right kind, or for a lock whose holder is in the bottleneck meanwhile."""
    sums, wanted = {}, truth["kind"].split("|")
    for row in answer.waits():
        if row["kind"] in wanted or row["kind"] not in CONSEQUENCES:
            sums[row["kind"]] = sums.get(row["kind"], 0) + row["critical_ns"]
    best = max(sums, key=sums.get, default=None)
    if best in wanted and sums[best] > 0:
        return None
    first = max((row for row in answer.waits() if row["kind"] == best), key=lambda row: row["critical_ns"], default={})
    if best in LOCKS and function_in(first.get("holder") or {}, {truth["function"]}):
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
    """Complaint, or None, of the place, the kind, the object where it has a name, and the holder where it is promised."""
    complaints = {"place": place(answer, truth), "kind": kind(answer, truth)}
    if truth["object"]:
        complaints["object"] = named_object(answer, truth)
    held = holders(answer, truth)
    if held:
        complaints["holder"] = None if held[0] >= HOLDERS * held[1] else f"right in {held[0]} of {held[1]} waits"
    return complaints


def judged(tool, name, build, folder):
    """The last answer, and for each thing whether it is right; None if the machine was never quiet enough to tell."""
    answers, complaints = [], {}

    def attempt():
        answer = recorded(tool, name, build, folder)
        answers.append(answer)
        truth = answer.truth()
        complaints.clear()
        complaints.update(said(answer, truth) if truth and answer.rows else {})
        return [], [f"wrong {what} of {name}: {complaint}" for what, complaint in complaints.items() if complaint]

    _, off, not_judged, _ = machine.measured(attempt)
    if not_judged:
        print(f"   {name}: {not_judged}")
    unsure = None if not_judged else False
    return answers[-1], {what: unsure if complaint and (off or not_judged) else True for what, complaint in complaints.items()}


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
