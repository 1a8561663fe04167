"""Programs made for the purpose: what one event costs (SimpleBusyLoop), and known times (listing 2.2, SimpleFeatureInteraction)."""
import json
import os
import re
import shutil
import statistics
import subprocess

import case_study_measures as measures
import feature
import feature_programs as real
from case_study_workload import spent

WORKLOADS = os.path.join(real.HERE, "../workloads/feature")


def active_event(options, mode, turns):
    """ns that one event of a program whose events are recorded adds to the program's own time."""
    binaries = {one: feature.busy_loop(options.work, os.path.dirname(options.transect), WORKLOADS, one) for one in ("none", mode)}
    costs, lost = [], 0
    for _ in range(options.rounds):
        without = real.run_time([binaries["none"], str(turns), "4"])[1]
        one = measures.recorded(options, mode, lambda recorder: spent([*recorder, binaries[mode], str(turns), "4"], 300))
        costs.append((one["program_s"] - without) / (2 * turns) * 1e9)
        lost += one["session"]["dropped"]
        event_ns = one["session"]["event_ns"]
    return {"ns": statistics.median(costs), "low": min(costs), "high": max(costs), "events": 2 * turns, "dropped": lost, "event_ns": event_ns}


def bpftrace_event(options, turns):
    """The same by bpftrace, which watches the sites as USDT points; None if it is not there."""
    if not shutil.which("bpftrace"):
        return None
    binary = feature.busy_loop(options.work, os.path.dirname(options.transect), WORKLOADS, "probe")
    without = real.run_time([binary, str(turns), "4"])[1]
    script = "".join(f"usdt:{binary}:transect:{kind}_1 {{ @[{number}] = nsecs; @n = count(); }} " for number, kind in enumerate(("begin", "end")))
    command = ["bpftrace", "-q", "-e", script, "-c", f"{binary} {turns} 4"]
    try:
        _, program, _, _ = spent(command, 300)
    except real.Absent:
        return None
    # Where it could not attach, the program only ran.
    return {"ns": (program - without) / (2 * turns) * 1e9, "events": 2 * turns} if program > 2 * without else None


def known_times(options, name, arguments, unit):
    """Regions of a program that spins for known times: [(features, line, entries, ns, truth ns)] for each method."""
    binary = os.path.join(options.work, name)
    source = os.path.join(WORKLOADS, name)
    found = {}
    for mode in ("probe", "trace"):
        values = dict(os.environ, TRANSECT_FEATURE_MODEL=source + ".toml", TRANSECT_SITES=mode)
        subprocess.run([os.path.join(os.path.dirname(options.transect), "transect-cc"), "-O2", "-g", source + ".c", "-o", binary], env=values, check=True)
        profile = os.path.join(options.work, "profile-known")
        shutil.rmtree(profile, ignore_errors=True)
        done = subprocess.run([options.transect, "record", "--quiet", "--collect", "feature", "--feature-method", mode, "-o", profile, "--", binary, *arguments, f"unit={unit}"],
                              capture_output=True, text=True, timeout=300)
        truth = {int(number): int(ns) for number, ns in re.findall(r"^took (\d+) (\d+)$", done.stdout, re.M)}
        view = subprocess.run([options.transect, "report", profile, "--view", "features", "--format", "json"], capture_output=True, text=True, timeout=60)
        rows = sorted(json.loads(view.stdout)["regions"], key=lambda row: row["line"])
        found[mode] = [[", ".join(row["features"]), row["line"], row["entries"], row["inclusive_ns"], truth.get(number)] for number, row in enumerate(rows, 1)]
    return found


def study(options, say):
    turns = 1_000_000 if options.quick else 10_000_000
    facts = {"inactive": feature.one_site(options.work, os.path.dirname(options.transect), WORKLOADS, say, options.rounds)}
    for mode in ("probe", "trace"):
        facts[mode] = active_event(options, mode, turns)
        say(f"recorded event, {mode}: {facts[mode]['ns']:.1f} ns")
    facts["bpftrace"] = bpftrace_event(options, turns // 10)
    facts["listing22"] = known_times(options, "listing22", ["a", "b"], 50)
    facts["interaction"] = known_times(options, "simple-interaction", ["--compress", "--encrypt"], 50)
    return facts
