#!/usr/bin/env python3
"""The scheduler's view of whole programs against what they know of themselves: schedules that log their own activity,
seeded bottlenecks with their fix, storms of threads and processes, runtimes, servers that are attached to, users without
rights. Needs root or the capabilities, and gcc, g++.

Usage: run.py --transect PATH [--only WORD] [--rounds N] [--real-time] [--keep]
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import checker  # noqa: E402
import programs_alive  # noqa: E402
import schedules  # noqa: E402
import seeded  # noqa: E402
import whole_programs  # noqa: E402
import recorded_program  # noqa: E402
from harness import results as counted  # noqa: E402
from measured import Refused, Tool, broken_invariants  # noqa: E402


class Results(counted.Results):
    def test(self, name, check):
        """Judges by what `check` complains of; a tool or program that isn't there is no failure."""
        self.judged(name, lambda: self.judge(name, check()))

    def test_measured(self, name, check):
        """`check` says what is wrong and what is off: others at work on the machine can put a measurement off."""
        self.judged(name, lambda: self.judge_measured(name, check))

    def judged(self, name, judge):
        if not self.wanted(name):
            return
        with self.guarded(name, subprocess.TimeoutExpired, OSError, ValueError, KeyError, StopIteration, RuntimeError):
            try:
                judge()
            except Refused as why:
                self.absent(name, str(why))


def test_schedules(results, tool, build):
    for seed, threads, phases, most, hop in schedules.CASES:
        name = f"schedule {seed}: {threads} threads, at most {most} at work" + (", hopping" if hop else "")
        command = [os.path.join(build, "schedule"), str(seed), str(threads), str(phases), str(most)] + ["hop"] * hop

        def check():
            # The log and the kernel may differ by what others do to the machine between a note and the system call.
            answer = tool.run(command)
            wrong = broken_invariants(answer)
            if wrong:
                return wrong, []
            off, worst = schedules.compared(answer)
            print(f"   worst deviation of a thread {worst:.2%}")
            return [], off

        results.test_measured(name, check)


def test_seeded(results, tool, build, folder, rounds, timing):
    """Each bottleneck once for place, kind and holder, then its fix; goals are shares over all of them."""
    share = {"place": [], "kind": [], "object": []}
    right_holders = all_holders = 0
    what_if = []
    for name in seeded.NAMES:
        if not results.wanted(f"seeded {name}"):
            continue
        try:
            answer, verdicts = seeded.judged(tool, name, build, folder)
        except (subprocess.TimeoutExpired, OSError, ValueError) as error:
            results.judge(f"seeded {name}", [str(error)[:300]])
            continue
        if answer.status == 77:
            results.absent(f"seeded {name}", answer.err.strip()[-100:])
            continue
        truth = answer.truth()
        complaints = broken_invariants(answer) if truth else [f"status {answer.status}: {answer.err[-300:]}"]
        results.judge(f"seeded {name}: invariants, streams and status", complaints)
        if not truth or not answer.rows:
            for what in share:
                share[what].append(False)
            continue
        held = seeded.holders(answer, truth)
        if held and verdicts.pop("holder") is not None:
            right_holders, all_holders = right_holders + held[0], all_holders + held[1]
            print(f"   holder right in {held[0]} of {held[1]} waits of {name}")
        for what, right in verdicts.items():
            if right is None:
                results.cannot_judge(f"seeded {name}: {what}", "wrong while others had the CPUs")
            else:
                share[what].append(right)
        if truth["speedup"] and timing:
            foretold = seeded.predicted(answer, truth)
            real = seeded.saving(name, build, folder, rounds)
            if foretold and real is not None:
                low, best, high = foretold
                off = best / real - 1 if real else float("inf")
                what_if.append(abs(off) <= 0.15)
                print(f"   what-if of {name}: {low:.1%} to {high:.1%}, best {best:.1%}; the fix saved {real:.1%} ({off:+.0%})")
            elif real is not None:
                what_if.append(False)
                print(f"   what-if of {name}: no row for {truth['function']} at {truth['speedup']}; the fix saved {real:.1%}")
    for what, goal in (("place", 0.9), ("kind", 0.9), ("object", 0.9)):
        if share[what]:
            reached = sum(share[what]) / len(share[what])
            results.judge(f"seeded: right {what} in {sum(share[what])} of {len(share[what])}",
                          [] if reached >= goal else [f"{reached:.0%}, goal {goal:.0%}"])
    if all_holders:
        reached = right_holders / all_holders
        results.judge(f"seeded: right holder in {right_holders} of {all_holders} waits",
                      [] if reached >= seeded.HOLDERS else [f"{reached:.1%}, goal {seeded.HOLDERS:.0%}"])
    if what_if:
        enough = min(8, len(what_if))
        results.judge(f"seeded: what-if within 15 % of the fix in {sum(what_if)} of {len(what_if)}",
                      [] if sum(what_if) >= enough else [f"goal {enough}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", required=True)
    parser.add_argument("--build", default=os.path.join(HERE, "../../target/tests/criticality"))
    parser.add_argument("--only", help="tests whose name contains this")
    parser.add_argument("--rounds", type=int, default=3, help="runs with and without the fix")
    parser.add_argument("--timing", action="store_true", help="judge predictions by timing the fixes: a benchmark, for a quiet machine")
    parser.add_argument("--real-time", action="store_true", help="programs before all others, for a machine that is busy with other work")
    parser.add_argument("--keep", action="store_true", help="leaves the answers in a folder")
    arguments = parser.parse_args()
    recorded_program.real_time = arguments.real_time
    build = os.path.realpath(arguments.build)
    for source in (os.path.join(HERE, "programs"), os.path.join(HERE, "../../workloads/criticality")):
        subprocess.run(["make", "-s", "-C", source, f"BUILD={build}"], check=True)
    folder = tempfile.mkdtemp(prefix="transect-criticality-", dir="/var/tmp")
    tool = Tool(os.path.abspath(arguments.transect), folder)
    results = Results(arguments.only)
    try:
        results.test("the checker finds what is wrong in made-up answers", checker.check)
        why = tool.refusal()
        if why:
            results.absent("criticality of whole programs", why)
        else:
            test_schedules(results, tool, build)
            whole_programs.test(results, tool, build, folder)
            programs_alive.test(results, tool, build, folder)
            test_seeded(results, tool, build, folder, arguments.rounds, arguments.timing)
    finally:
        if arguments.keep:
            print(f"answers are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
