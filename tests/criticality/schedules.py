"""Random schedules that log their own activity: criticality of each thread against the sum of dt / n over the log."""
import json
from fractions import Fraction

# seed, threads, phases, most at work at once, hopping
CASES = [(1, 4, 60, 2, False), (2, 6, 60, 2, False), (3, 4, 60, 2, True), (4, 8, 40, 6, False), (5, 12, 30, 12, False),
         (6, 8, 40, 8, True), (7, 2, 60, 1, False), (8, 3, 60, 2, False)]
MAIN = 15  # the number of the main thread in the log


def expected(log):
    """Exact criticality by thread and time by degree of parallelism."""
    events = sorted(log["events"])
    active, gained, levels = set(), {}, {}
    last = events[0][0]
    for at, thread, change in events:
        interval = at - last
        levels[len(active)] = levels.get(len(active), 0) + interval
        for one in active:
            gained[one] = gained.get(one, 0) + Fraction(interval, len(active))
        last = at
        # Both the one who wakes and the one who is woken may tell of it.
        (active.add if change > 0 else active.discard)(thread)
    return {log["tids"][thread]: ns for thread, ns in gained.items()}, levels


def compared(answer):
    """Complaints, and the largest deviation of a worker's criticality."""
    log = json.loads(answer.out)
    wanted, levels = expected(log)
    found = {row["tid"]: row["criticality_ns"] for row in answer.threads()}
    complaints, worst = [], 0.0
    for tid, ns in wanted.items():
        start_up = 10_000_000 if tid == log["tids"][MAIN] else 0  # exec and loading are not in the log
        if tid not in found:
            complaints.append(f"thread {tid} is missing")
            continue
        off = found[tid] - float(ns)
        if not start_up:
            worst = max(worst, abs(off) / float(ns))
        if abs(off) > 0.02 * float(ns) + start_up:
            complaints.append(f"thread {tid}: criticality {found[tid] / 1e6:.2f} ms, by its log {float(ns) / 1e6:.2f} ms")
    shown = {}
    for row in answer.rows["parallelism"]:
        shown[row["n"]] = shown.get(row["n"], 0) + row["ns"]
    whole = sum(levels.values())
    for n in set(levels) | set(shown):
        if abs(levels.get(n, 0) - shown.get(n, 0)) > 0.02 * whole + (10_000_000 if n == 1 else 0):
            complaints.append(f"{n} active for {shown.get(n, 0) / 1e6:.1f} ms, by the log {levels.get(n, 0) / 1e6:.1f} ms")
    return complaints, worst
