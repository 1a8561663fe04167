#!/usr/bin/env python3
"""Real programs from Debian's sources, marked, tested by their own suites, recorded: regions, cost and time per feature.

usage: case_studies.py [--transect PATH] [--work DIR] [--document FILE] [--program NAME]... [--minutes M] [--seconds S] [--rounds N] [--quick] [--no-check] [--no-run]

All of it takes M minutes (default 50) at most: builds and the programs' own tests take what they need, the tests no more than
a quarter of it, and the workloads share the rest. Each run is as long as that allows, at most 30 s; with --seconds each is as
long as that says (30: some 70 minutes without the tests), and workloads for which no time is left are not measured anew. What
was measured is kept in the work folder, program by program; the document has all of it. --quick takes a second for each run, to try things out; --no-check leaves the programs' own tests
out, --no-run their workloads.
"""
import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import case_study_document as document  # noqa: E402
import case_study_loop as loop  # noqa: E402
import case_study_measures as measures  # noqa: E402
import feature_programs as real  # noqa: E402
from case_study_workload import Workload  # noqa: E402

LONGEST_RUN = 30
# What one workload takes beside its runs, s, and how many times a run of it: to find its size, recorded, counted.
BESIDE, RECORDED = 10, 13


class Results:
    """What is known of one program, in a file that is written after each step."""

    def __init__(self, work, name):
        self.path = os.path.join(work, "results", f"{name}.json")
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self.facts = {}
        if os.path.exists(self.path):
            with open(self.path) as file:
                self.facts = json.load(file)

    def add(self, key, value):
        self.facts[key] = value
        self.facts.setdefault("conditions", {})[key] = conditions()
        with open(self.path + ".new", "w") as file:
            json.dump(self.facts, file, indent=1)
        os.rename(self.path + ".new", self.path)


def conditions():
    """When something was measured and how busy the machine was."""
    return {"when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "load": round(os.getloadavg()[1], 1), "cpus": os.cpu_count()}


class Study:
    """One run of the benchmark: what it does in which order, and what was not done."""

    def __init__(self, options, say):
        self.options, self.say, self.missing = options, say, 0
        self.end = time.monotonic() + 60 * options.minutes

    def step(self, name, what, work):
        """Does one step and keeps what it gave; None if it can't be done."""
        try:
            facts = work()
        except (real.Absent, OSError, subprocess.SubprocessError) as why:
            self.missing += 1
            self.say(f"NOT RUN: {name}: {what}: {why}")
            Results(self.options.work, name).add("absent", str(why))
            return None
        Results(self.options.work, name).add(what, facts)
        return facts

    def build(self, programs):
        """{program: its build}, of those that can be built with all kinds of sites."""
        builds = {}
        for program in programs:
            build = real.Build(program, self.options.work, os.path.dirname(self.options.transect))
            facts = self.step(program.name, "build", lambda: measures.built(build))
            if facts:
                builds[program] = build
                self.say(f"{program.name}: {facts}")
        return builds

    def test(self, builds):
        """The programs' own tests, in a quarter of the whole time."""
        end = time.monotonic() + 15 * self.options.minutes
        for number, (program, build) in enumerate(builds.items()):
            # Two recordings, and more where one fails.
            seconds = max(60, 0.75 * (end - time.monotonic()) / (len(builds) - number))
            facts = self.step(program.name, "tests", lambda: measures.own_tests(build, self.options.transect, seconds))
            self.say(f"{program.name}: own tests: {facts}")

    def measure(self, builds):
        """All workloads: the first one of each program, then the others."""
        most = max((len(program.workloads) for program in builds), default=0)
        kept = {program: Results(self.options.work, program.name).facts.get("workloads", []) for program in builds}
        left = [(program, build, number) for number in range(most) for program, build in builds.items() if number < len(program.workloads)]
        found = {program: [] for program in builds}
        while left:
            program, build, number = left.pop(0)
            share = (self.end - time.monotonic()) / (len(left) + 1)
            if self.options.seconds and share < 0:
                self.missing += 1
                self.say(f"NOT RUN: {program.name}: {program.workloads[number][0]}: no time is left")
                continue
            runs = len(measures.WAYS) * self.options.rounds + RECORDED
            seconds = self.options.seconds or min(LONGEST_RUN, max(1, (share - BESIDE) / runs))
            patience = 40 * seconds if self.options.seconds else max(10, share / 2)
            work = Workload(self.options.work, program, *program.workloads[number])
            try:
                found[program].append(measures.workload(self.options, build, work, seconds, patience))
            except (real.Absent, subprocess.SubprocessError) as why:
                self.missing += 1
                found[program].append({"title": work.title, "absent": str(why)})
            known = {one["title"] for one in found[program]}
            others = [one for one in kept[program] if one["title"] not in known]
            Results(self.options.work, program.name).add("workloads", found[program] + others)
            self.say(f"{program.name}: {work.title}: {document.one_line(found[program][-1])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", default=os.path.join(HERE, "../target/release/transect"))
    parser.add_argument("--work", default=os.path.join(HERE, "../target/case-studies"))
    parser.add_argument("--document", help="[default: docs/case-studies.md; with --quick: case-studies.md in the work folder]")
    parser.add_argument("--program", action="append", choices=["loop", *[program.name for program in real.PROGRAMS]])
    parser.add_argument("--minutes", type=float, default=50, help="how long all of it may take")
    parser.add_argument("--seconds", type=float, help="CPU time of each run [default: what the minutes allow]")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--no-run", action="store_true")
    options = parser.parse_args()
    options.transect, options.work = os.path.abspath(options.transect), os.path.abspath(options.work)
    options.seconds = options.seconds or (1 if options.quick else None)
    options.document = options.document or (os.path.join(options.work, "case-studies.md") if options.quick else os.path.join(HERE, "../docs/case-studies.md"))
    os.makedirs(options.work, exist_ok=True)
    say = lambda text: print(time.strftime("%H:%M:%S "), text, flush=True)
    chosen = [program for program in real.PROGRAMS if not options.program or program.name in options.program]
    count = sum(len(program.workloads) for program in chosen)
    how_long = f"at most {options.minutes:g} minutes from now" + (f", runs of {options.seconds:g} s" if options.seconds else "")
    say(f"{len(chosen)} programs, {count} workloads, {len(measures.WAYS)} builds in {options.rounds} rounds and {len(measures.METHODS)} recordings each: {how_long}")
    study = Study(options, say)
    builds = study.build(chosen)
    if not options.program or "loop" in options.program:
        study.step("loop", "loop", lambda: loop.study(options, say))
    if not options.no_check:
        study.test(builds)
    if not options.no_run:
        study.measure(builds)
    document.write(options, [program.name for program in real.PROGRAMS], Results)
    say(f"written: {options.document}")
    return 1 if study.missing else 0


if __name__ == "__main__":
    sys.exit(main())
