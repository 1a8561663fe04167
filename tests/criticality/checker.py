"""The checks themselves, on answers made by hand: right ones pass, and each wrong one is found."""
import copy
import json

import schedules
import seeded
from measured import Answer, broken_invariants

MS = 1_000_000
TRUTH = {"truth": True, "fixed": False, "elapsed_ns": 100 * MS, "kind": "mutex", "function": "compact", "object": "table_lock",
         "holder": "keeper", "speedup": -1, "threads": []}
STACK = ["_start", "main", "keep(int)", "(anonymous namespace)::compact(long)"]
# A keeper that works alone for 60 ms, then both for 20 ms; 20 ms nobody works.
RIGHT = {
    "busy_ns": 80 * MS, "idle_ns": 20 * MS, "unattributed_ns": MS, "drift": 0,
    "threads": [
        {"process": 1, "tid": 1, "name": "keeper", "group": "keeper", "criticality_ns": 70 * MS, "running_ns": 80 * MS, "runnable_ns": 0, "blocked_ns": 20 * MS},
        {"process": 1, "tid": 2, "name": "worker", "group": "worker", "criticality_ns": 10 * MS, "running_ns": 15 * MS, "runnable_ns": 5 * MS, "blocked_ns": 80 * MS},
    ],
    "parallelism": [{"n": 0, "ns": 20 * MS}, {"n": 1, "ns": 60 * MS}, {"n": 2, "ns": 20 * MS}],
    "paths": [
        {"stack": STACK, "state": "running", "criticality_ns": 69 * MS, "corrected_ns": 69 * MS, "samples": 70, "lines": []},
        {"stack": ["clone3", "nap"], "state": "waiting", "criticality_ns": 20 * MS, "corrected_ns": 20 * MS, "samples": 1, "lines": []},
        {"stack": ["clone3", "work"], "state": "running", "criticality_ns": 10 * MS, "corrected_ns": 10 * MS, "samples": 10, "lines": []},
    ],
    "waits": [
        {"kind": "mutex", "object": "table_lock", "count": 20, "ns": 60 * MS, "critical_ns": 60 * MS, "stack": ["clone3", "work"],
         "holder": {"tid": 1, "thread": "keeper", "function": "compact", "stack": STACK}, "waker": None},
        {"kind": "sleep", "object": "", "count": 1, "ns": 20 * MS, "critical_ns": 20 * MS, "stack": ["clone3", "nap"], "holder": None, "waker": None},
    ],
    "what_if": [{"path": "compact", "speedup": 2.0, "saving_low": 0.3, "saving": 0.3, "saving_high": 0.3},
                {"path": "compact", "speedup": "inf", "saving_low": 0.5, "saving": 0.6, "saving_high": 0.7}],
}


def answer(change=None):
    rows = copy.deepcopy(RIGHT)
    if change:
        change(rows)
    return Answer(0, json.dumps(TRUTH) + "\n", "", {"criticality": rows})


def check():
    complaints = []

    def expect(what, holds):
        if not holds:
            complaints.append(what)

    right = answer()
    expect("a right answer is blamed: " + "; ".join(broken_invariants(right, cut=False)), not broken_invariants(right, cut=False))
    wrong = {
        "a lost millisecond of a thread": lambda r: r["threads"][0].update(criticality_ns=69 * MS),
        "a degree of parallelism too long": lambda r: r["parallelism"][2].update(ns=21 * MS),
        "idle time that is nowhere": lambda r: r.update(idle_ns=21 * MS),
        "time on a CPU counted twice": lambda r: r["threads"][1].update(running_ns=40 * MS),
        "an unknown kind": lambda r: r["waits"][0].update(kind="lock"),
        "drift": lambda r: r.update(drift=1),
        "paths out of order": lambda r: r["paths"].reverse(),
        "paths that don't add up": lambda r: r["paths"][0].update(criticality_ns=75 * MS),
    }
    for what, change in wrong.items():
        expect(f"{what} is not found", broken_invariants(answer(change), cut=False))
    expect("no JSON is not found", broken_invariants(Answer(1, "", "", None)))

    expect("the place is not seen", seeded.place(right, TRUTH) is None)
    expect("a wrong place passes", seeded.place(answer(lambda r: r["paths"].pop(0)), TRUTH))
    expect("the kind is not seen", seeded.kind(right, TRUTH) is None)
    expect("a wrong kind passes", seeded.kind(answer(lambda r: r["waits"][0].update(kind="barrier")), TRUTH))
    expect("the object is not seen", seeded.named_object(right, TRUTH) is None)
    expect("the holder is not seen", seeded.holders(right, TRUTH) == (20, 20))
    expect("no holder passes", seeded.holders(answer(lambda r: r["waits"][0].update(holder=None)), TRUTH) == (0, 20))
    expect("the prediction is not found", seeded.predicted(right, TRUTH) == (0.5, 0.6, 0.7))
    expect("another speed-up is taken", seeded.predicted(right, {**TRUTH, "speedup": 2}) == (0.3, 0.3, 0.3))

    # Thread 0 works 0–10, thread 1 5–20, nobody 20–25, thread 0 25–30.
    log = {"tids": [100, 101], "events": [[0, 0, 1], [5, 1, 1], [10, 0, -1], [20, 1, -1], [25, 0, 1], [30, 0, -1]]}
    gained, levels = schedules.expected(log)
    expect(f"the model gains {gained}", gained == {100: 12.5, 101: 12.5})
    expect(f"the model has {levels}", levels == {0: 5, 1: 20, 2: 5})
    return complaints
