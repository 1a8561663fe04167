#!/usr/bin/env python3
"""The walk against programs whose chain from main to the last function is known: is it found, and are the shares right?

Usage: run.py --transect PATH [--vm 6.1|6.12] [--kernel-timing NAME] [--cost] [--only WORD]... [--build DIR] [--folder DIR]
              [--seconds FACTOR] [--keep] [--quick] [--shard K/N] [--no-chains] [--no-robustness]
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import checker  # noqa: E402
import machine  # noqa: E402
from harness import results as counted  # noqa: E402
import robustness  # noqa: E402
import walked  # noqa: E402
from cases import CASES, QUICK  # noqa: E402


class Results(counted.Results):
    """With what whole chains are judged by in the end."""

    def __init__(self, only):
        super().__init__(only)
        self.right = self.wanted_chains = 0
        self.before = 0, 0
        self.off, self.first, self.speed, self.cost = {}, [], {}, {}


def on_disk(folder):
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
    return kind not in ("tmpfs", "ramfs", "overlayfs", "overlay", "fuseblk", "fuse")


def judged(case, answer, results, slack):
    """What is wrong with one run and what is off; `slack` multiplies what shares may be off."""
    if answer.status or not answer.chains:
        results.wanted_chains += len(case.chains)
        return [f"status {answer.status}, {len(answer.chains)} chains: {answer.complaint()}"], []
    wrong, complaints = walked.broken(answer), []
    truth = answer.truth()
    if not truth:
        wrong.append(f"the program's output is gone: {answer.out[:200]!r}")
    elif truth.get("wall_ns"):
        results.speed[case.name] = truth["operations"] / truth["wall_ns"]
    after = answer.walk.get("found_after_ns")
    if after is not None:
        results.first.append(after)
    if case.calls_sampled and not answer.walk.get("system_calls_until_ns"):
        complaints.append("system calls were counted to the end")
    for wanted in case.chains:
        results.wanted_chains += 1
        chain, why = walked.found(answer, wanted)
        if not chain:
            complaints.append(why)
            continue
        results.right += 1
        complaints += walked.judged(chain, wanted)
        if case.frames and len(chain["frames"]) < case.frames:
            complaints.append(f"{len(chain['frames'])} frames: {walked.shown(chain)}")
        # Programs tell shares of wall time.
        if not truth or "--metric" in case.options:
            continue
        rows = walked.shares(chain, truth, wanted.part)
        if case.end_share and chain["frames"]:
            last = chain["frames"][-1]
            rows.append((case.end_share, last, truth["shares"][case.end_share] * case.end_part))
        for name, frame, true in rows:
            method, said = frame["method"], frame["share"]
            results.off.setdefault(method, []).append(abs(said - true))
            if abs(said - true) > slack * walked.TOLERANCE[method]:
                complaints.append(f"{name} ({method}): {said:.1%} ({frame['share_low']:.1%}-{frame['share_high']:.1%}) instead of {true:.1%}")
    if complaints:
        complaints.append(walked.circumstances(answer, {wanted.group for wanted in case.chains}))
    return wrong, complaints


def processor_time(truth):
    """Nanoseconds on a CPU for one of the program's operations; None if it counts none."""
    return truth["cpu_ns"] / truth["operations"] if truth and truth.get("operations") and truth.get("cpu_ns") else None


def added_cost(command, answer, timeout):
    """How much more CPU time an operation took under the walk than in a run without it; None if it can't be told."""
    with_walk = processor_time(answer.truth())
    if not with_walk:
        return None
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout, stdin=subprocess.DEVNULL, preexec_fn=walked.undisturbed)
    without = processor_time(walked.Answer(done.returncode, done.stdout, done.stderr, None).truth())
    return with_walk / without - 1 if without else None


# What the chain pointed at was mended: the program is faster by at least this factor.
MENDED = [
    ("proxy: files are created, filled and unlinked", "proxy: the helper's queue is full", 2),
    ("proxy: the helper's queue is full", "proxy: with a longer queue it serves", 3),
    ("fsync log: each record waits for the disk", "fsync log: with a group of records they are made", 2),
]


def mended(results):
    for slow, fast, times in MENDED:
        if slow in results.speed and fast in results.speed:
            ratio = results.speed[fast] / results.speed[slow]
            results.judge(f"{fast}: {ratio:.1f} times as fast", [] if ratio >= times else [f"at least {times} times expected"])


def followed(results, transect, build, folder):
    """A default recording of a proxy that waits for its helper: the chain goes on in what the helper does meanwhile."""
    name = "a recording by default follows the wait into the helper"
    program = os.path.join(build, "proxy-server")
    if not results.wanted(name) or not os.path.exists(program):
        return

    def attempt():
        profile = os.path.join(folder, "followed.transect")
        command = [transect, "record", "--quiet", "-o", profile, "--", program, "1.0", "--fixed=1", "--folder", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        view = subprocess.run([transect, "report", profile, "--view", "walk", "--format", "json"], capture_output=True, text=True, timeout=60)
        shutil.rmtree(profile, ignore_errors=True)
        if done.returncode or view.returncode:
            return [f"{done.returncode} {done.stderr[-300:]} {view.stderr[-300:]}"], []
        chains = [chain for chain in json.loads(view.stdout)["walk"]["chains"] if chain["ends"] == "waiting" and "poll" in chain["waiting_for"]]
        continued = [part for chain in chains for part in chain["continues"] if part["thread_group"] == "url-helper"]
        paths = [[frame["function"] for frame in part["frames"]] for part in continued]
        right = any("look_up" in path and any("sleep" in function for function in path) for path in paths)
        # Beside others the helper may wait for a CPU for longer than it sleeps.
        return [], [] if right else [f"url-helper's look_up is in none of {paths}"]

    results.judge_measured(name, attempt)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", required=True)
    parser.add_argument("--kernel-timing")
    parser.add_argument("--build", help="folder with the programs; without it they are built")
    parser.add_argument("--folder", default="/var/tmp", help="where programs write their files")
    parser.add_argument("--only", action="append", help="tests whose name contains this")
    parser.add_argument("--vm", choices=("6.1", "6.12"), help="in a virtual machine with this kernel; one nanosecond of its clock is one instruction")
    parser.add_argument("--limit", type=int, default=7200, help="seconds of the host after which the virtual machine is ended")
    parser.add_argument("--inside", action="store_true", help="this is the virtual machine")
    parser.add_argument("--cost", action="store_true", help="each program also runs without the walk: what the walk adds to its CPU time")
    parser.add_argument("--seconds", type=float, default=1.0, help="factor of the programs' length")
    parser.add_argument("--slack", type=float, default=1.0, help="factor of what shares may be off: for programs that are cut short")
    parser.add_argument("--keep", action="store_true", help="leaves the answers in a folder")
    parser.add_argument("--quick", action="store_true", help="a third of the chains, in shorter programs, and the robustness tests that take seconds")
    parser.add_argument("--shard", default="1/1", help="K/N: every Nth chain, beginning with the Kth")
    parser.add_argument("--no-chains", action="store_true")
    parser.add_argument("--no-robustness", action="store_true")
    arguments = parser.parse_args()
    build = arguments.build
    if not build:
        build = os.path.realpath(os.path.join(HERE, "../../target/tests/walk"))
        for source in (os.path.join(HERE, "programs"), os.path.join(HERE, "../../workloads/walk")):
            subprocess.run(["make", "-s", "-C", source, f"BUILD={build}"], check=True)
    transect, base, patience = os.path.abspath(arguments.transect), arguments.folder, 60
    if arguments.vm:
        return machine.status_inside(arguments.vm, arguments.limit, transect, os.path.abspath(build), sys.argv[1:])
    if arguments.inside:
        transect, build, base, patience = machine.settle(transect, build)
    folder = tempfile.mkdtemp(prefix="transect-walk-", dir=base)
    os.chmod(folder, 0o755)
    tool = walked.Tool(transect, folder, arguments.kernel_timing, patience)
    results = Results(arguments.only)
    disk = on_disk(folder)
    try:
        if results.wanted("the judge finds what is wrong in made-up answers"):
            results.judge("the judge finds what is wrong in made-up answers", checker.check())
        probe = tool.run(["true"])
        if probe.status and arguments.inside:
            # That machine has all that it takes.
            results.judge("the shortest program is walked through", [probe.complaint()])
        elif probe.status:
            results.absent("the walk of whole programs", probe.complaint())
        shard, shards = map(int, arguments.shard.split("/"))
        chosen = [case for case in CASES if not arguments.quick or case.name in QUICK][shard - 1::shards]
        for case in chosen if not probe.status and not arguments.no_chains else []:
            if not results.wanted(case.name):
                continue
            if case.disk and not disk:
                results.absent(case.name, "needs a file system on a disk")
                continue
            program = os.path.join(build, case.command[0])
            if not os.path.exists(program):
                results.absent(case.name, f"{case.command[0]} was not built")
                continue
            # Making their files takes these a while, of which no more than a part is to be.
            least = 1.5 if case.disk else 0
            seconds = f"{max(case.seconds * arguments.seconds * (0.6 if arguments.quick else 1), least):.2f}"
            command = [program, seconds, *case.command[1:], "--folder", folder]

            def attempt(case=case, command=command, seconds=seconds):
                results.before = results.right, results.wanted_chains
                try:
                    answer = tool.run(command, case.options)
                    if arguments.cost and case.name not in results.cost:
                        added = added_cost(command, answer, patience)
                        if added is not None:
                            results.cost[case.name] = added
                    wrong, complaints = judged(case, answer, results, arguments.slack)
                    ran = (answer.truth() or {}).get("wall_ns", 0) / 1e9
                    if ran > 1.5 * float(seconds) + 1:
                        complaints.append(f"delayed: the program ran for {ran:.1f} s instead of {seconds}")
                    return wrong, complaints
                except (subprocess.TimeoutExpired, OSError, ValueError, KeyError) as error:
                    return [f"{type(error).__name__}: {str(error)[:300]}"], []

            def uncounted():
                results.right, results.wanted_chains = results.before

            results.judge_measured(case.name, attempt, uncounted=uncounted)
        if results.wanted_chains:
            rate = results.right / results.wanted_chains
            results.judge(f"right chain in {results.right} of {results.wanted_chains}, runs that were off on a quiet machine included", [] if rate >= 0.95 else [f"{rate:.1%}, goal 95%"])
        results.judge_repetitions()
        mended(results)
        if not probe.status and not arguments.no_chains and not arguments.inside and shard == 1:
            followed(results, transect, build, folder)
        for method, off in sorted(results.off.items()):
            print(f"   shares, {method}: {len(off)} compared, median off by {statistics.median(off) * 100:.2f} points, most {max(off) * 100:.2f}")
        if results.first:
            print(f"   first whole chain after {statistics.median(results.first) / 1e9:.2f} s (median), {max(results.first) / 1e9:.2f} s at most")
        for name, added in sorted(results.cost.items(), key=lambda row: -row[1]):
            print(f"   CPU time of an operation: {added:+6.1%}  {name}")
            most = next(case.most_cost for case in CASES if case.name == name)
            # Elsewhere it is not only the walk's.
            if most and arguments.inside:
                results.judge(f"{name}: the walk adds no more than {most:.0%}", [] if added <= most else [f"{added:.1%}"])
        if results.cost:
            print(f"   CPU time of an operation: {statistics.mean(results.cost.values()):+.1%} in the mean of {len(results.cost)} programs")
        if not arguments.no_robustness and not probe.status:
            robustness.test_all(results, tool, build, folder, arguments.quick)
    finally:
        if arguments.keep:
            print(f"answers are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
