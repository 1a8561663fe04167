#!/usr/bin/env python3
"""Runs the parts of a lane (parts.py): those that compare times alone, the others side by side.

usage: run.py check|test|all|oldest [--part NAME]... [--list]
       run.py table [--write]

`all` is everything that `test` leaves out; `oldest` is the part of it that passed longest ago by passed.txt, which a
part that passes is written to. `table` compares the table in README.md with parts.py, or writes it.
"""
import argparse
import collections
import concurrent.futures
import datetime
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
from parts import JOBS, LANES, PARTS  # noqa: E402

LOGS = os.path.join(ROOT, "target/tests/logs")
PASSED = os.path.join(HERE, "passed.txt")
# Process groups of the parts at work.
RUNNING = set()
# The Python that has foreign readers of profiles, if `make readers` could install it.
READERS = {"TRANSECT_PYTHON": os.path.join(ROOT, "target/readers/bin/python")} if os.path.exists(os.path.join(ROOT, "target/readers/bin/python")) else {}
# Seconds that a part may take to build what it runs, on a busy machine.
COLD = 2000
README = os.path.join(HERE, "README.md")
# How each kind of runner counts.
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.M)
NEXTEST = re.compile(r"^\s+Summary \[.*?\] +\d+(?:/\d+)? tests? run: (\d+) passed(?: \([^)]*\))?(?:, (\d+) failed)?(?:, (\d+) exec failed)?(?:, (\d+) timed out)?", re.M)
OURS = re.compile(r"^(\d+) passed, (\d+) failed", re.M)
# nextest indents what a test said.
ABSENT = re.compile(r"NOT RUN:|^\s*SKIPPED ")
UNDECIDED = re.compile(r"^\s*NOT JUDGED:")

Outcome = collections.namedtuple("Outcome", "part status seconds passed failed skipped not_judged log")


def counted(part, status, seconds, log):
    with open(log, errors="replace") as file:
        text = re.sub(r"\x1b\[[0-9;]*m", "", file.read())
    passed = failed = 0
    for pattern in (CARGO, NEXTEST, OURS):
        for found in pattern.finditer(text):
            numbers = [int(number or 0) for number in found.groups()]
            passed, failed = passed + numbers[0], failed + sum(numbers[1:])
    if status and not failed:
        failed = 1
    if not (status or passed or failed or ABSENT.search(text) or UNDECIDED.search(text)):
        passed = 1  # formatter, linter: no tests of their own
    matching = lambda pattern: [line.strip() for line in text.splitlines() if pattern.search(line)]
    return Outcome(part, status, seconds, passed, failed, matching(ABSENT), matching(UNDECIDED), log)


def stop(number, _frame):
    """The parts, each a session of its own, end with this process."""
    for group in list(RUNNING):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
    os._exit(128 + number)


def run(part):
    """Runs one part with its output in a file; a part that takes many times what it should has failed."""
    log = os.path.join(LOGS, part.name + ".log")
    # Two runs in one tree would write, and count, each other's lines.
    with open(os.path.join(LOGS, part.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        begin, limit = time.monotonic(), max(COLD, 6 * part.seconds)
        with open(log, "w") as file:
            try:
                process = subprocess.Popen(part.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                                           env={**os.environ, "PYTHONUNBUFFERED": "1", **READERS})
                RUNNING.add(process.pid)
                status = process.wait(limit)
                RUNNING.discard(process.pid)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = process.wait()
                file.write(f"\nFAILED: {part.name} was stopped after {limit} s\n")
            except OSError as error:
                status = 127
                file.write(f"\nFAILED: {part.name} could not be run: {error}\n")
        return counted(part, status, time.monotonic() - begin, log)


class Progress:
    """Prints each part's outcome as it ends, and sums them up."""

    def __init__(self):
        self.outcomes, self.lock, self.begin = [], threading.Lock(), time.monotonic()

    def tell(self, outcome):
        with self.lock:
            self.outcomes.append(outcome)
            bad = outcome.status or outcome.failed
            more = [f"{len(outcome.skipped)} not run"] * bool(outcome.skipped) + [f"{len(outcome.not_judged)} not judged"] * bool(outcome.not_judged)
            # What did not run has not passed.
            if outcome.part.lane == "all" and outcome.passed and not bad:
                remember(outcome.part)
            print(f"{'FAILED' if bad else 'ok':6} {outcome.part.name:24} {outcome.seconds:5.0f} s  "
                  f"{', '.join([f'{outcome.passed} passed, {outcome.failed} failed', *more])}", flush=True)
            if bad:
                with open(outcome.log, errors="replace") as file:
                    lines = file.read().splitlines()
                shown = [line for line in lines[:-60] if re.search(r"FAIL|panicked|^error", line)][:40] + lines[-60:]
                print("\n".join(f"    {line[:600]}" for line in shown))
                print(f"    status {outcome.status}; all of it is in {os.path.relpath(outcome.log, ROOT)}", flush=True)

    def end(self):
        absent = collections.Counter(line for outcome in self.outcomes for line in outcome.skipped)
        for line, times in sorted(absent.items()):
            print(line + (f" ({times} times)" if times > 1 else ""))
        for outcome in self.outcomes:
            for line in outcome.not_judged:
                print(f"{line} [{outcome.part.name}]")
        passed, failed = sum(o.passed for o in self.outcomes), sum(o.failed for o in self.outcomes)
        print(f"{len(self.outcomes)} parts, {sum(o.seconds for o in self.outcomes):.0f} s of their own, in {time.monotonic() - self.begin:.0f} s; "
              f"{sum(len(o.not_judged) for o in self.outcomes)} tests not judged")
        # A test without a verdict is counted with those that did not run.
        print(f"{passed} passed, {failed} failed, {sum(len(o.skipped) + len(o.not_judged) for o in self.outcomes)} skipped", flush=True)
        return failed != 0


def run_all(parts):
    os.makedirs(LOGS, exist_ok=True)
    told = Progress()
    # The longest first, so that no CPU is left over in the end.
    together = sorted((part for part in parts if not part.alone), key=lambda part: -part.seconds)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run, part) for part in together]):
            told.tell(future.result())
    for part in parts:
        if part.alone:
            told.tell(run(part))
    return told.end()


def last_passed():
    """{part: day of its last pass}."""
    with open(PASSED) as file:
        rows = re.findall(r"^(\d{4}-\d\d-\d\d) (\S+)$", file.read(), re.M)
    return {name: day for day, name in rows}


def remember(part):
    """Called under the lock of `Progress`; a reader meets the file as it was or as it becomes."""
    days = {**last_passed(), part.name: datetime.date.today().isoformat()}
    with open(PASSED) as file:
        head = [line for line in file if line.startswith("#")]
    rows = sorted((day, name) for name, day in days.items() if any(part.name == name for part in PARTS))
    with open(PASSED + ".new", "w") as file:
        file.write("".join(head) + "".join(f"{day} {name}\n" for day, name in rows))
    os.replace(file.name, PASSED)


def oldest():
    days = last_passed()
    return min((part for part in PARTS if part.lane == "all"), key=lambda part: days.get(part.name, ""))


def table():
    rows = ["| part | question | truth | seconds | needs | lane |", "|---|---|---|---|---|---|"]
    for part in PARTS:
        needs = ", ".join([*part.needs, *["the machine to itself"] * part.alone])
        rows.append(f"| `{part.name}` | {part.question} | {part.truth} | {part.seconds} | {needs} | {part.lane} |")
    for lane in LANES:
        mine = [part for part in PARTS if part.lane == lane]
        rows.append(f"| {len(mine)} parts | | | {sum(part.seconds for part in mine)} | | {lane} |")
    return "\n".join(rows) + "\n"


def check_table(write):
    begin, end = "<!-- parts.py: begin -->\n", "<!-- parts.py: end -->\n"
    with open(README) as file:
        head, rest = file.read().split(begin)
    now, tail = rest.split(end)
    if write:
        with open(README, "w") as file:
            file.write(head + begin + table() + end + tail)
    elif now != table():
        print("FAILED: the table in tests/README.md is not that of parts.py: tests/run.py table --write")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lane", choices=[*LANES, "oldest", "table"])
    parser.add_argument("--part", action="append", help="only this part, of whatever lane; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the parts instead of running them")
    parser.add_argument("--write", action="store_true", help="table: write it into README.md")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    if options.lane == "table":
        return check_table(options.write)
    parts = [oldest()] if options.lane == "oldest" else [part for part in PARTS if part.lane == options.lane]
    if options.part:
        parts = [part for part in PARTS if part.name in options.part]
        unknown = set(options.part) - {part.name for part in parts}
        if unknown:
            parser.error(f"no part {', '.join(sorted(unknown))}; see --list")
    if options.list:
        for part in parts:
            print(f"{part.name:24} {part.seconds:5} s  {part.question}")
        return 0
    if options.lane == "oldest":
        print(f"{parts[0].name} passed longest ago. The others: make test-all, or tests/run.py all --part NAME; tests/run.py all --list names them.", flush=True)
    return run_all(parts)


if __name__ == "__main__":
    sys.exit(main())
