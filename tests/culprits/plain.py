#!/usr/bin/env python3
"""Checks the small programs with a marked culprit in plain/: plain.toml says what is wrong in each.

usage: plain.py [--only WORD]... [--rounds N]

Each is built, kept by content, and run by itself. Its own clock says how long it was in its culprit: that must be at
least 60 % of its time, so that there is one right answer. No profiler is used here. What has no compiler is NOT RUN.
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../harness")]
import kept  # noqa: E402
from patched import KINDS, WORK, Fault, NotRun, read  # noqa: E402

SHARE = 0.6
SETS = ("plain", "unseen", "unseen2", "go")
COMPILERS = {".go": "go", ".c": "cc", ".S": "cc", ".cpp": "c++", ".rs": "rustc"}
OPTIONS = {"cc": "-O2 -g -pthread", "c++": "-O2 -g -pthread", "rustc": "-O -g"}


def programs(name="plain"):
    """Those of a set: what NAME.toml says, and in which folder the sources are."""
    with open(os.path.join(HERE, f"{name}.toml"), "rb") as file:
        return [program | {"folder": os.path.join(HERE, name)} for program in tomllib.load(file)["program"]]


def built(program):
    """The folder of the program. The sources stay where they are, so that their lines can be shown."""
    compilers = sorted({COMPILERS[os.path.splitext(name)[1]] for name in program["sources"]})
    for tool in compilers:
        if not shutil.which(tool):
            raise NotRun(f"{tool} is not installed")
    folder = program["folder"]
    sources = [os.path.join(folder, name) for name in program["sources"]]
    command = program.get("build")
    if not command:
        command = f"{compilers[0]} {OPTIONS[compilers[0]]} -o {program['name']} " + " ".join("{plain}/" + name for name in program["sources"])

    def make(folder):
        done = subprocess.run(["nice", "-n", "5", "sh", "-ec", command.format(plain=shlex.quote(program["folder"]))], cwd=folder,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise Fault(f"{program['name']} does not build: {done.stdout.decode(errors='replace')[-2000:]}")
    # The path is in what the compiler says of the lines.
    clocks = [os.path.join(HERE, "own_clock.h"), os.path.join(HERE, "unseen/hclock.h")]
    parts = [command, folder, [read(path) for path in sources], [read(path) for path in clocks]]
    return kept.folder(compilers, parts, make)


class Prepared:
    """A command ready to be run: `argv` in the folder `cwd`, with `stdin`; remove() takes the folder away."""

    def __init__(self, program):
        folder = built(program)
        os.makedirs(WORK, exist_ok=True)
        self.cwd = tempfile.mkdtemp(prefix=program["name"] + "-", dir=WORK)
        self.argv = [os.path.join(folder, program["name"]), *shlex.split(program["args"])]
        self.stdin = "/dev/null"
        self.env = {**os.environ, "LC_ALL": "C"}
        # Pages of an earlier run that still go to the disk would slow whoever waits for it.
        os.sync()

    def run(self):
        """The seconds from start to end, and what the program says of itself."""
        start = time.monotonic()
        done = subprocess.run(self.argv, cwd=self.cwd, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        seconds = time.monotonic() - start
        if done.returncode:
            raise Fault(f"exit status {done.returncode}: {done.stderr[-300:]}")
        return seconds, json.loads(done.stdout)

    def remove(self):
        shutil.rmtree(self.cwd, ignore_errors=True)


def faults(program):
    """What is wrong with the expectations themselves."""
    first, last = program["lines"]
    if program["file"] not in program["sources"]:
        return [f"{program['file']} is none of its sources"]
    lines = read(os.path.join(program["folder"], program["file"])).decode().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if "// culprit" in line}
    return [what for what, wrong in (
        (f"{program['file']} has no lines {first} to {last}", not 1 <= first <= last <= len(lines)),
        (f"no mark is in lines {first} to {last} of {program['file']}", not marked & set(range(first, last + 1))),
        (f"the kind {program['kind']} is unknown", program["kind"] not in KINDS),
        ("the function is not among the names", program["function"] not in program["names"]),
        ("the call is not among the names", bool(program["call"]) and program["call"] not in program["names"]),
        (f"{program['file']} does not name {program['function']}", program["function"].split("::")[-1] not in "\n".join(lines)),
    ) if wrong]


def check(program, rounds):
    """Seconds, the least share of the culprit and what is wrong."""
    wrong, least, best = faults(program), 1.0, 1e9
    for _ in range(rounds):
        prepared = Prepared(program)
        try:
            seconds, said = prepared.run()
        except (subprocess.TimeoutExpired, ValueError) as error:
            raise Fault(str(error)[:300])
        finally:
            prepared.remove()
        best = min(best, seconds)
        least = min(least, said["culprit_s"] / said["wall_s"])
    # A clock that times one call in many can say a little more than there is.
    if not SHARE <= least <= 1.2:
        wrong.append(f"the culprit has {least:.0%} of the time")
    return best, least, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="programs whose name contains this")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each; the least share counts")
    options = parser.parse_args()
    passed = failed = skipped = 0
    for program in programs():
        if options.only and not any(word in program["name"] for word in options.only):
            continue
        try:
            seconds, share, wrong = check(program, options.rounds)
        except NotRun as why:
            print(f"NOT RUN: {program['name']}: {why}", flush=True)
            skipped += 1
            continue
        except Fault as why:
            print(f"FAILED: {program['name']}: {why}", flush=True)
            failed += 1
            continue
        print(f"{'FAILED' if wrong else 'ok'}: {program['name']} ({program['kind']}): {seconds:.2f} s, "
              f"{share:.0%} of it in {program['function']}", flush=True)
        for what in wrong:
            print(f"    {what}", flush=True)
        failed, passed = failed + bool(wrong), passed + (not wrong)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} not run" if skipped else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
