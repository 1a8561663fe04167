"""Programs that know how often they enter their regions, recorded in each way."""
import itertools
import json
import os
import re
import subprocess

from emission import compiled
from recorded_program import undisturbed

# name, source, models, compiler, options of the compiler, arguments
PROGRAMS = [
    ("threads", "threads.c", [], ["-pthread"], ["1", "1"]),
    ("exceptions", "exceptions.cpp", [], [], ["1", "1"]),
    ("longjmp", "jumps.c", [], [], ["1", "1"]),
    ("fork", "processes.c", [], [], ["1"]),
    ("C++ policies", "policies.cpp", [], [], ["1", "9"]),
    ("short threads", "short_threads.c", [], ["-pthread"], ["1"]),
    ("CPU time", "cpu_time.c", [], ["-pthread"], ["1", "1", "1"]),
    ("static program", "threads.c", [], ["-static", "-pthread"], ["1", "1"]),
]
METHODS = ("trace", "probe")
# The kernel can watch every kind of site.
WATCHED = ("usdt, probe", "usdt, trace", "usdt, shared")


def wanted_regions(source):
    """{K: (line, features)} by the comments `region K {A,B}`."""
    found = {}
    with open(source) as file:
        for number, line in enumerate(file, 1):
            mark = re.search(r"// region (\d+) \{(.*?)\}", line)
            if mark:
                found[int(mark[1])] = (number, sorted(mark[2].split(",")))
    return found


def truth(output):
    counts = {}
    for k, times in re.findall(r"^entered (\d+) (\d+)$", output, re.M):
        counts[int(k)] = counts.get(int(k), 0) + int(times)
    return counts


def record(build, method, command, environment=None, options=()):
    """(status, stdout, stderr, the view `features` as JSON)."""
    profile = build.file("profile")
    values = dict(os.environ, **(environment or {}))
    done = subprocess.run(
        [build.transect, "record", "--quiet", "--collect", "feature", "--feature-method", method, *options, "-o", profile, "--", *command],
        capture_output=True, text=True, timeout=300, env=values, preexec_fn=undisturbed,
    )
    view = subprocess.run([build.transect, "report", profile, "--view", "features", "--format", "json"], capture_output=True, text=True, timeout=120)
    try:
        rows = json.loads(view.stdout)
    except ValueError:
        rows = None
        done.stderr += view.stderr
    return done.returncode, done.stdout, done.stderr, rows


def judged(source, output, rows, others=()):
    """Complaints about regions and their entries, and about times, which a busy machine puts off."""
    wanted, counts, wrong, off = wanted_regions(source), truth(output), [], []
    name = os.path.basename(source)
    for k, (line, features) in wanted.items():
        same = [row for row in rows["regions"] if os.path.basename(row["file"]) == name and row["line"] == line]
        if not same:
            wrong.append(f"no region at {name}:{line}")
            continue
        if sorted(same[0]["features"]) != features:
            wrong.append(f"{name}:{line} has features {same[0]['features']} instead of {features}")
        entries = sum(row["entries"] or 0 for row in same)
        if k in counts and entries != counts[k]:
            wrong.append(f"{name}:{line} entered {counts[k]} times, reported {entries}")
    lived = re.search(r"^threads (\d+) lived (\d+) to (\d+)$", output, re.M)
    if lived:
        # The first thread's begin and end are not seen by itself, nor are the last steps of those that are joined.
        threads, least, most = (int(number) for number in lived.groups())
        whole = next(row["inclusive_ns"] for row in rows["features"] if not row["features"])
        if not least * 0.99 <= whole <= most * 1.01 + 50_000_000:
            off.append(f"{threads} threads and the first lived for {least} to {most} ns, reported {whole}")
    for k, ns in re.findall(r"^on CPU (\d+) (\d+)$", output, re.M):
        line = wanted.get(int(k), (None,))[0]
        mine = [row["cpu_ns"] for row in (rows["regions"] if line else rows["features"]) if not line or row["line"] == line]
        # It reads its clock inside of the region, and begins and ends outside of all.
        if None in mine or abs(sum(mine) - int(ns)) > 0.02 * int(ns) + 8_000_000:
            off.append(f"region {k} was on a CPU for {ns} ns, reported {mine}")
    return wrong, off


def listing(build, results):
    source = build.workload("listing22")
    for level in ("-O0", "-O2"):
        for method in METHODS:
            name = f"listing 2.2, {level}, {method}"
            if not results.wanted(name):
                continue
            program = build.file("listing22")
            status, said = compiled(build, source + ".c", program, [level], {"TRANSECT_SITES": method}, source + ".toml")
            if status:
                results.judge(name, [said[-500:]])
                continue
            results.judge_measured(name, lambda: listed(build, method, source, program))


def listed(build, method, source, program):
    wrong, off = [], []
    for arguments, expected in ((["a", "b"], {1: 1, 2: 1, 3: 1, 4: 1}), (["a"], {1: 1}), ([], {})):
        status, out, err, rows = record(build, method, [program, *arguments, "unit=20"])
        if status or rows is None:
            wrong.append(f"{arguments}: status {status}: {err[-300:]}")
            continue
        more_wrong, more_off = judged(source + ".c", out, rows)
        wrong, off = wrong + more_wrong, off + more_off
        own = {int(k): int(ns) for k, ns in re.findall(r"^took (\d) (\d+)$", out, re.M)}
        lines = {k: line for k, (line, _) in wanted_regions(source + ".c").items()}
        for k, line in lines.items():
            entries = expected.get(k, 0)
            for row in rows["regions"]:
                if row["line"] != line:
                    continue
                if (row["entries"] or 0) != entries:
                    wrong.append(f"{arguments}: region {k} entered {row['entries']} times instead of {entries}")
                # A program that is put aside between its clock and the site makes a difference of a slice.
                if abs((row["inclusive_ns"] or 0) - own[k]) > 0.02 * own[k] + 200_000:
                    off.append(f"{arguments}: region {k} took {row['inclusive_ns']} ns instead of {own[k]}")
    return wrong, off


def library(build, results):
    for method in METHODS:
        name = f"shared library, {method}"
        if not results.wanted(name):
            continue
        folder = build.file("library")
        os.makedirs(folder)
        options = {"TRANSECT_SITES": method}
        model = build.program("models.toml")
        shared, program = os.path.join(folder, "libwork.so"), os.path.join(folder, "user")
        status, said = compiled(build, build.program("library.c"), shared, ["-shared", "-fPIC"], options, model)
        if not status:
            status, said = compiled(build, build.program("library_user.c"), program, [shared, f"-Wl,-rpath,{folder}"], options, model)
        if status:
            results.judge(name, [said[-500:]])
            continue
        def attempt():
            status, out, err, rows = record(build, method, [program, "1", "1"])
            if status or rows is None:
                return [f"status {status}: {err[-300:]}"], []
            both = [judged(build.program(source), out, rows) for source in ("library.c", "library_user.c")]
            return tuple(sum(parts, []) for parts in zip(*both))

        results.judge_measured(name, attempt)


def by_default(build, results):
    """`record` without `--collect` takes every build: where regions can't be recorded beside the rest it says so."""
    source = build.workload("listing22")
    for sites in ("probe", "trace", "shared", "inlined", "none"):
        name = f"default collectors, sites {sites}"
        if not results.wanted(name):
            continue
        program, profile = build.file("listing22"), build.file("profile")
        status, said = compiled(build, source + ".c", program, ["-g"], {"TRANSECT_SITES": sites}, source + ".toml")
        if status:
            results.judge(name, [said[-500:]])
            continue
        done = subprocess.run([build.transect, "record", "--quiet", "-o", profile, "--", program, "a", "unit=2"], capture_output=True, text=True, timeout=300)
        wrong = [] if done.returncode == 0 else [f"status {done.returncode}: {done.stderr[-300:]}"]
        view = subprocess.run([build.transect, "report", profile, "--format", "json"], capture_output=True, text=True, timeout=120)
        meta = json.loads(view.stdout)["meta"] if view.returncode == 0 else {}
        told = "feature" in view.stdout
        collectors = meta.get("collectors", [])
        if sites in ("probe", "trace") and "sched" in collectors and "feature" not in collectors:
            wrong.append(f"features are not recorded beside the scheduler's events: {meta}")
        if "flow" not in collectors:
            wrong.append(f"no calls: {view.stdout[:300]} {view.stderr[-300:]}")
        if "feature" in collectors and "sched" in collectors:
            cut = subprocess.run([build.transect, "report", profile, "--by", "feature", "--format", "json"], capture_output=True, text=True, timeout=120)
            sets = {row["keys"][0]: row["value"] for row in json.loads(cut.stdout or '{"cut": {"rows": []}}')["cut"]["rows"]}
            if "A" not in sets or sum(sets.values()) == 0:
                wrong.append(f"no time of feature A in {sets} {cut.stderr[-300:]}")
        if sites != "none" and not told:
            wrong.append("nothing is said of features")
        results.judge(name, wrong)


VIEWS = {"flow": "flows", "sched": "criticality", "walk": "walk", "latency": "latency", "feature": "features"}


def sets_of_collectors(build, results):
    """Each set of collectors records one program, and every view of its collectors has rows."""
    source = build.workload("listing22")
    for sites in ("trace", "probe"):
        name = f"every set of collectors, sites {sites}"
        if not results.wanted(name):
            continue
        program, profile = build.file("listing22"), build.file("profile")
        status, said = compiled(build, source + ".c", program, ["-g"], {"TRANSECT_SITES": sites}, source + ".toml")
        if status:
            results.judge(name, [said[-500:]])
            continue
        wrong = []
        sets = [chosen for number in range(1, 6) for chosen in itertools.combinations(VIEWS, number)]
        # Of probes those that the other build does not answer for.
        for chosen in sets if sites == "trace" else [chosen for chosen in sets if "feature" in chosen]:
            command = [build.transect, "record", "--quiet", "-o", profile, "--collect", ",".join(chosen), "--", program, "a", "b"]
            # Probes of all functions take a moment.
            command += ["unit=80"] if "latency" in chosen else []
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            if sites == "probe" and {"latency", "feature"} <= set(chosen):
                if done.returncode != 125 or "tracer" not in done.stderr:
                    wrong.append(f"{chosen}: {done.returncode} {done.stderr[-200:]}")
                continue
            view = subprocess.run([build.transect, "report", profile, "--format", "json"], capture_output=True, text=True, timeout=60)
            if done.returncode or view.returncode:
                wrong.append(f"{chosen}: {done.returncode} {done.stderr[-200:]} {view.stderr[-200:]}")
                continue
            data = json.loads(view.stdout)
            rows = {"criticality": "paths", "walk": "chains"}
            empty = []
            for one in chosen:
                found = data[VIEWS[one]]
                found = found.get(rows[VIEWS[one]]) if isinstance(found, dict) else found
                empty += [] if found else [one]
            if empty:
                wrong.append(f"{chosen}: no rows of {empty}: {[loss for loss in data['loss'] if 'collector' in loss['what']]}")
        results.judge(name, wrong)


def run(build, results):
    by_default(build, results)
    sets_of_collectors(build, results)
    listing(build, results)
    library(build, results)
    for title, source, _, options, arguments in PROGRAMS:
        for how in METHODS + (WATCHED if title == "threads" else WATCHED[:1]):
            name = f"{title}, {how}"
            if not results.wanted(name):
                continue
            method, _, sites = how.partition(", ")
            program = build.file("program")
            path = build.program(source)
            compiler = "transect-c++" if source.endswith(".cpp") else "transect-cc"
            status, said = compiled(build, path, program, options, {"TRANSECT_SITES": sites or method}, build.program("models.toml"), compiler)
            if status:
                results.judge(name, [said[-500:]])
                continue
            first = record(build, method, [program, *arguments])
            if first[0] and "watches regions from the kernel" in first[2]:
                results.absent(name, first[2].strip())
                continue
            runs = [first]

            def attempt():
                status, out, err, rows = runs.pop() if runs else record(build, method, [program, *arguments])
                return ([f"status {status}: {err[-300:]}"], []) if status or rows is None else judged(path, out, rows)

            results.judge_measured(name, attempt)
