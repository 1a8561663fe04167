"""Runs `transect criticality` and looks at what must hold in every one of its answers."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import recorded_program  # noqa: E402
from recorded_program import undisturbed  # noqa: E402, F401

KINDS = set("mutex rwlock condition barrier semaphore join futex spin sleep file-read file-write file-sync socket pipe "
            "poll child page-fault run-queue kernel-lock signal other".split())
ROOTS = re.compile(r"^(_start|main|__libc_start_main.*|__libc_start_call_main|__?clone3?|start_thread|thread_start|_dl_start.*|"
                   r"_dl_start_user|ret_from_fork.*)$")


class Refused(Exception):
    """The command can't be had here: nothing was tested."""


class Answer(recorded_program.Answer):
    """One run under `transect criticality`."""

    VIEW = "criticality"

    def threads(self):
        return self.rows.get("threads", [])

    def waits(self):
        return self.rows.get("waits", [])

    def paths(self):
        return self.rows.get("paths", [])

    def what_if(self):
        return self.rows.get("what_if", [])


class Tool(recorded_program.Tool):
    ANSWER = Answer

    def attached(self, options, timeout=60):
        """For what runs already; `options` say what."""
        return self.told([], options, timeout)

    def refusal(self):
        """Why nothing can be recorded here, or None."""
        try:
            answer = self.run(["true"])
        except OSError as error:
            return str(error)
        return None if answer.rows else answer.complaint()[:200]


def complete_stacks(answer):
    """(waits whose stack reaches the start of its thread, waits with a stack, waits)."""
    rows = answer.waits()
    with_stack = [row for row in rows if row.get("stack")]
    reach = sum(row["count"] for row in with_stack if row.get("complete", ROOTS.match(plain(row["stack"][0])) is not None))
    return reach, sum(row["count"] for row in with_stack), sum(row["count"] for row in rows)


def function_in(row, names):
    """Whether a path's stack or its lines name one of the functions."""
    there = set(row.get("stack") or []) | {line.get("function") for line in row.get("lines") or []}
    return any(plain(name) in names for name in there if name)


def plain(name):
    """A demangled name without parameters and namespaces' noise: `f(int, long)` and `(anonymous namespace)::f` are `f`."""
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    name = re.sub(r"\(.*", "", name)
    return name.split("::")[-1].strip()


def broken_invariants(answer, cut=True):
    """What must hold in every answer, as a list of complaints."""
    rows, complaints = answer.rows, []
    if not rows:
        return [f"no JSON (status {answer.status}): {answer.err[-300:]}"]
    threads, busy, idle = answer.threads(), rows["busy_ns"], rows["idle_ns"]
    total = sum(t["criticality_ns"] for t in threads)
    # Each row is rounded to a nanosecond.
    if abs(total - busy) > 1e-6 * busy + len(threads):
        complaints.append(f"criticality adds up to {total}, busy is {busy} (off by {(total - busy) / max(busy, 1):+.2e})")
    levels = {}
    for row in rows["parallelism"]:
        levels[row["n"]] = levels.get(row["n"], 0) + row["ns"]
    at_work = sum(ns for n, ns in levels.items() if n > 0)
    if abs(at_work - busy) > 1e-6 * busy + len(levels):
        complaints.append(f"times at n > 0 add up to {at_work}, busy is {busy}")
    if abs(levels.get(0, 0) - idle) > 1e-6 * idle + len(levels):
        complaints.append(f"time at n = 0 is {levels.get(0, 0)}, idle is {idle}")
    active = sum(t["running_ns"] + t["runnable_ns"] for t in threads)
    weighted = sum(n * ns for n, ns in levels.items())
    if abs(active - weighted) > 1e-3 * weighted + 1000 * len(threads):
        complaints.append(f"threads ran or could run for {active}, the degrees of parallelism say {weighted}")
    if rows.get("drift"):
        complaints.append(f"drift {rows['drift']}")
    for row in threads:
        if min(row[key] for key in ("criticality_ns", "running_ns", "runnable_ns", "blocked_ns")) < 0:
            complaints.append(f"negative time in {row}")
            break
    for row in answer.waits():
        if row["kind"] not in KINDS:
            complaints.append(f"unknown kind {row['kind']!r}")
        if row["ns"] < 0 or row["critical_ns"] < 0:
            complaints.append(f"negative time in a wait: {row['kind']} {row['ns']} {row['critical_ns']}")
    ordered = [p["corrected_ns"] for p in answer.paths()]
    if ordered != sorted(ordered, reverse=True):
        complaints.append("paths are not sorted by criticality without spinning")
    if not cut:
        for state, whole in (("running", busy), ("waiting", idle)):
            covered = sum(p["criticality_ns"] for p in answer.paths() if p["state"] == state)
            rest = rows.get("unattributed_ns", 0) if state == "running" else 0
            if abs(covered + rest - whole) > 1e-4 * whole + 100 * len(answer.paths()) + 1000:
                complaints.append(f"{state} paths add up to {covered}, with {rest} unattributed, of {whole}")
    return complaints
