"""What marked regions cost while nobody measures: real programs with sites against the same build without, and one site."""
import os
import statistics
import subprocess

import feature_programs as real
from case_study_workload import Workload


def times(binaries, work, rounds):
    """{mode: CPU times, s}; `again` is the build without sites once more: what the machine's noise makes."""
    took = {"none": [], "probe": [], "trace": [], "again": []}
    for turn in range(rounds):
        # Both orders, so that a slower minute meets all of them.
        order = ["none", "probe", "trace", "again"] if turn % 2 == 0 else ["trace", "probe", "again", "none"]
        for mode in order:
            took[mode].append(work.run(binaries["none" if mode == "again" else mode], 3600)[0])
    return took


def ratios(took, mode):
    """Of each pair of neighbouring runs."""
    return [with_sites / without for with_sites, without in zip(took[mode], took["none"])]


def inactive(work, compilers, names, seconds, rounds, say):
    """Says a row per workload: program, workload, and each build's time over that of the build without sites."""
    for program in real.PROGRAMS:
        if names and program.name not in names:
            continue
        try:
            build = real.Build(program, work, compilers)
            binaries = {mode: build.binary(mode) for mode in ("none", "probe", "trace")}
        except real.Absent as why:
            say(f"NOT RUN: {program.name}: {why}")
            continue
        for title, kind, options in program.workloads:
            one = Workload(work, program, title, kind, options)
            one.size(binaries["none"], seconds)
            took = times(binaries, one, rounds)
            say("| {} | {} | {} |".format(program.name, title, " | ".join(shown(ratios(took, mode)) for mode in ("again", "probe", "trace"))))


def shown(values):
    return f"{(statistics.median(values) - 1) * 100:+.2f} % ({(min(values) - 1) * 100:+.1f} … {(max(values) - 1) * 100:+.1f})"


def busy_loop(work, compilers, workload, mode):
    """SimpleBusyLoop with sites of this mode in its loop."""
    source = os.path.join(workload, "simple-busy-loop")
    binary = os.path.join(work, f"simple-busy-loop-{mode}")
    values = dict(os.environ, TRANSECT_FEATURE_MODEL=source + ".toml", TRANSECT_SITES=mode, TRANSECT_HOT_LOOPS="sites")
    subprocess.run([os.path.join(compilers, "transect-cc"), "-O2", source + ".c", "-o", binary], env=values, check=True)
    return binary


def one_site(work, compilers, workload, say, rounds=5):
    """Cost of one inactive site on a loop that does nothing else, ns; {mode: costs}."""
    binaries = {mode: busy_loop(work, compilers, workload, mode) for mode in ("none", "probe", "trace")}
    turns, found = 50_000_000, {}
    for mode in ("probe", "trace"):
        costs = []
        for _ in range(rounds):
            took = {one: real.run_time([binaries[one], str(turns), "4"])[1] for one in ("none", mode)}
            costs.append((took[mode] - took["none"]) / (2 * turns) * 1e9)
        found[mode] = costs
        say(f"inactive site, {mode}: {statistics.median(costs):+.3f} ns ({min(costs):+.3f} … {max(costs):+.3f})")
    return found


def run(transect, work, quick, only, say=print):
    """The whole part, as benches/run.py calls it."""
    compilers = os.path.dirname(os.path.abspath(transect))
    if not os.path.exists(os.path.join(compilers, "transect-cc")):
        say("NOT RUN: features: transect-cc is not beside transect")
        return
    os.makedirs(work, exist_ok=True)
    one_site(work, compilers, os.path.join(real.HERE, "../workloads/feature"), say)
    say("\n| program | workload | same build twice | probe sites | trace sites, not recorded |\n|---|---|---|---|---|")
    inactive(work, compilers, [only] if only else [], 3 if quick else 30, 3 if quick else 7, say)
