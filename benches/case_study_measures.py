"""What one case study measures: its build, its own tests, cost while nobody records, and recordings of each kind."""
import glob
import json
import os
import re
import shutil
import subprocess

import feature_inputs as inputs
import feature_programs as real

METHODS = ("auto", "probe", "trace", "sample")
# Recorded runs: what they cost is a share of the run, however long it is, and with all events they take four times as long.
LONGEST_RECORDED = 8
# Runs that nobody records, and their builds; `again` is the build without sites once more: what the machine's noise makes.
WAYS = {"none": "none", "probe": "probe", "trace": "trace", "again": "none"}


def source_lines(build):
    """Lines of C and C++ in the program's sources."""
    count = 0
    for ending in ("c", "h", "cc", "cpp", "hpp"):
        for path in glob.glob(os.path.join(real.fetch(build.work, build.program.package), f"**/*.{ending}"), recursive=True):
            with open(path, "rb") as file:
                count += file.read().count(b"\n")
    return count


def irregular_regions(report):
    """[(region, reason)] of those that could not be marked, hot loops left out."""
    found = re.findall(r"^transect: region (\d+) in (\S+?),? line (\d+): (.*)$", report, re.M)
    return [(f"{function}:{line}", reason) for _, function, line, reason in found if not reason.startswith("hot loop")]


def built(build):
    """Facts about the build; links it anew with and without a model to see what the analysis takes."""
    build.binary("probe")
    report = build.report
    numbers = re.findall(r"(\d+) variables found, (\d+) lost; (\d+) regions, (\d+) irregular", report)
    facts = {"version": real.version(build.work, build.program.package), "lines": source_lines(build), "note": build.program.note}
    if numbers:
        facts.update(zip(("variables", "lost", "regions", "irregular"), map(int, numbers[-1])))
    facts["hot"] = report.count("hot loop: sampling only")
    facts["reasons"] = irregular_regions(report)
    return facts


def own_tests(build, transect, seconds):
    """{how: "pass" or what failed}: while all that the tests run is recorded; where that fails, without a recording too."""
    for kind, name in real.OWN_INPUTS.items():
        inputs.make_input(build.work, kind, int(name.split("-")[1]))
    outcomes = {}
    for mode in ("probe", "trace"):
        profile = os.path.join(build.folder, "transect-check.profile")
        shutil.rmtree(profile, ignore_errors=True)
        recorder = [transect, "record", "--quiet", "--collect", "feature", "--feature-method", mode, "-o", profile, "--"]
        outcomes[f"{mode}, recorded"] = build.tested(mode, recorder, "recorded", seconds)
        if os.path.isdir(profile):
            session = meta(profile)
            outcomes[f"{mode}, events"] = [session.get("events", 0), session.get("dropped", 0)]
            shutil.rmtree(profile)
        if outcomes[f"{mode}, recorded"] != "pass":
            outcomes[mode] = build.tested(mode, seconds=seconds)
            outcomes.setdefault("none", build.tested("none", seconds=seconds))  # is it the sites?
    return outcomes


def meta(profile):
    with open(os.path.join(profile, "meta.json")) as file:
        return json.load(file).get("feature") or {}


def recorded(options, method, run):
    """One recording by `run(the recorder's command)`: its cost, its events and the view `features`."""
    profile = os.path.join(options.work, f"profile-{os.getpid()}")
    shutil.rmtree(profile, ignore_errors=True)
    recorder = [options.transect, "record", "--quiet", "--collect", "feature", "--feature-method", method, "-o", profile, "--"]
    own, program, output, status = run(recorder)
    if not os.path.isdir(profile):
        raise real.Absent(f"no recording, status {status}")
    view = subprocess.run([options.transect, "report", profile, "--view", "features", "--format", "json"], capture_output=True, text=True, timeout=300)
    rows, session = json.loads(view.stdout), meta(profile)
    shutil.rmtree(profile)
    return {"recorder_s": own, "program_s": program, "output": output, "status": status, "session": session, "rows": rows}


def top_regions(rows, count=40):
    """The regions that took most time alone, without regions inside."""
    whole = sum(row["exclusive_ns"] for row in rows["features"]) or 1
    found = []
    for row in sorted(rows["regions"], key=lambda row: -(row["exclusive_ns"] or 0))[:count]:
        if row["exclusive_ns"]:
            found.append([", ".join(row["features"]), f"{row['function']} {os.path.basename(row['file'])}:{row['line']}", row["entries"],
                          row["inclusive_ns"] / whole, row["exclusive_ns"] / whole])
    return found


def feature_shares(rows):
    """{set of features: (share, low, high)} of the threads' time, inclusive."""
    whole = sum(row["exclusive_ns"] for row in rows["features"]) or 1
    shares = {}
    for row in rows["features"]:
        if row["features"]:
            low, high = row.get("inclusive_ns_low"), row.get("inclusive_ns_high")
            share = row["inclusive_ns"] / whole
            shares[", ".join(row["features"])] = [share, share if low is None else low / whole, share if high is None else high / whole]
    return shares


def share_of(sampled, name):
    """Share of a set of features that samples need not have met alone: that of the sets which contain it."""
    wanted = set(name.split(", "))
    return sampled.get(name) or max((share for key, share in sampled.items() if wanted <= set(key.split(", "))), default=[0, 0, 0])


def agreement(traced, sampled, floor=0.01):
    """(sets whose traced share lies in the sampled interval, sets with a share worth the name, the farthest's distance)."""
    sets = [name for name, (share, _, _) in traced.items() if share >= floor]
    told = {name: share_of(sampled, name) for name in sets}
    inside = [name for name in sets if told[name][1] - 0.001 <= traced[name][0] <= told[name][2] + 0.001]
    return len(inside), len(sets), max((abs(traced[name][0] - told[name][0]) for name in sets), default=0)


def overlap(one, other, floor=0.01):
    """The same for two recordings with intervals: sets whose intervals have something in common."""
    sets = [name for name, (share, _, _) in one.items() if share >= floor]
    told = {name: share_of(other, name) for name in sets}
    common = [name for name in sets if told[name][1] - 0.001 <= one[name][2] and one[name][1] <= told[name][2] + 0.001]
    return len(common), len(sets), max((abs(one[name][0] - told[name][0]) for name in sets), default=0)


def instructions(work, command, seconds):
    """Instructions that a run executes, None without valgrind."""
    if not shutil.which("valgrind"):
        return None
    # Debian's valgrind can't read all debug information that clang writes.
    bare, counts = f"{command[0]}-bare", os.path.join(work, "callgrind.out")
    subprocess.run(["strip", "-g", "-o", bare, command[0]], check=True)
    _, _, errors = real.ended(["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", bare, *command[1:]], seconds, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    found = re.search(r"Collected : (\d+)", errors)
    return int(found[1]) if found else None


def workload(options, build, work, seconds, patience):
    """All figures of one workload; no run takes longer than `patience`."""
    binaries = {mode: build.binary(mode) for mode in ("none", "probe", "trace")}
    work.size(binaries["none"], seconds)
    command, size = work.shown()
    facts = {"title": work.title, "input": size, "command": command, "times": {way: [] for way in WAYS}}
    for turn in range(options.rounds):
        # Both orders, so that a slower minute meets all of them.
        for way in WAYS if turn % 2 == 0 else reversed(WAYS):
            took, _, output, _ = work.run(binaries[WAYS[way]], patience)
            facts["times"][way].append(took)
            if output != facts.setdefault("output", output):
                raise real.Absent(f"{work.title}: other output with sites ({way})")
    # Valgrind takes fifty times as long.
    share = 0.01 * options.rounds / max(sum(facts["times"]["none"]), 0.05) * min(seconds, 30)
    size = 110 if work.kind == "formula" else max(1 << 16, int(sum(map(os.path.getsize, work.files)) * share))
    small = inputs.make_input(options.work, work.kind, size)
    facts["instructions"] = {mode: instructions(options.work, work.command(binary, [small]), 300) for mode, binary in binaries.items()}
    facts["recorded"] = recordings(options, work, binaries, seconds, patience)
    return facts


def recordings(options, work, binaries, seconds, patience):
    """{method: a recording and the time of the same run without sites}, each between two runs that are not recorded."""
    if seconds > LONGEST_RECORDED:
        work.size(binaries["none"], LONGEST_RECORDED)
    found = {}
    before, _, output, _ = work.run(binaries["none"], patience)
    for method in METHODS:
        binary = binaries["trace" if method == "trace" else "probe"]
        try:
            one = recorded(options, method, lambda recorder: work.run(binary, patience, recorder))
        except real.Absent as why:
            found[method] = {"absent": str(why)}
            continue
        after = work.run(binaries["none"], patience)[0]
        one["base_s"], before = (before + after) / 2, after
        one["same_output"] = one.pop("output") == output
        rows = one.pop("rows")
        one["regions"], one["features"] = top_regions(rows), feature_shares(rows)
        found[method] = one
    return found
