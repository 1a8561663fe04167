#!/usr/bin/env python3
"""Scores the first screen: does its first finding name the culprit of each program of plain.toml, unseen.toml and patched.toml?

usage: score.py [--transect PATH] [--set plain|unseen|unseen2|go|patched|healthy]... [--only WORD]... [--rounds N] [--oracle] [--keep DIR] [--json FILE]

plain, unseen, unseen2, go, patched
                the first finding must name a function, call or lock of `names`, and a line where there are lines
healthy         no finding may claim more than 10 % to save, but for the one hot loop
--oracle        each collector also records by itself, and the best row that any of its views has is held against the same
                expectation: where a view knows it and the first screen does not, the order of the findings is at fault
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../harness")]
import healthy  # noqa: E402
import patched  # noqa: E402
import plain  # noqa: E402
from patched import Fault, NotRun  # noqa: E402

ROOT = os.path.join(HERE, "../..")
COLLECTORS = ("flow", "sched", "walk")
# A healthy program's finding may claim this much of the wall time.
MOST_PERCENT = 10


def bare(name):
    """`a::f` of `a::f<int>(int)`: no arguments, templates or hash of the compiler."""
    name = re.sub(r"\[clone [^]]*\]", "", name or "").strip()
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    while True:
        shorter = re.sub(r"<[^<>]*>(?!$)|<[^<>]*>$", "", name.replace("operator<", "operator\0").replace("operator()", "operator\1"))
        shorter = re.sub(r"\([^()]*\)( const)?", "", shorter).replace("\0", "<").replace("\1", "()")
        if shorter == name:
            break
        name = shorter
    return name.split(" ")[-1] if "operator" not in name else name


def is_named(name, program):
    name = bare(name).split("@")[0]
    return bool(name) and any(name == one or name.endswith("::" + one) for one in map(bare, program["names"]))


def has_line(file, line, program):
    first, last = program["lines"]
    return bool(file) and os.path.basename(file) == os.path.basename(program["file"]) and first <= (line or 0) <= last


def names_of(row, program):
    """Whether a finding names the culprit, and whether also its line."""
    where = row.get("where") or {}
    named = any(is_named(where.get(key), program) for key in ("function", "api", "object"))
    # In patched programs the changed line need not be one that takes time: any line of what is named will do. So it is where
    # somebody else said which lines they are. Without debug information there are none.
    exact = has_line(where.get("file"), where.get("line"), program)
    line = exact if program["lines"][0] < program["lines"][1] and program.get("folder", "").endswith("plain") else bool(where.get("line"))
    if "sources" in program and "build" in program and not re.search(r" -g\b", program["build"]):
        line = True
    return named, named and line


def record(options, prepared, name, collect=None):
    """The report of one recording, as JSON; of the kept one, if there is one."""
    with tempfile.TemporaryDirectory(prefix="transect-score-") as folder:
        profile = os.path.join(options.keep or folder, f"{name}-{collect or 'default'}.transect")
        if options.keep and os.path.isdir(profile):
            return reported(options, profile)
        command = [options.transect, "record", "-q", "-o", profile, *(["--collect", collect] if collect else []), "--", *prepared.argv]
        with open(prepared.stdin, "rb") as stdin:
            done = subprocess.run(command, cwd=prepared.cwd, env=prepared.env, stdin=stdin, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, timeout=300)
        if not os.path.isdir(profile):
            raise Fault(f"status {done.returncode}, no profile: {done.stderr[-300:].decode(errors='replace')}")
        return reported(options, profile)


def reported(options, profile):
    report = subprocess.run([options.transect, "report", profile, "--format", "json"], stdout=subprocess.PIPE, check=True, timeout=300)
    return json.loads(report.stdout)


def best_rows(report):
    """The best row of each view: what it names first."""
    rows = collections.defaultdict(list)
    flows = [row for row in report["flows"] if row.get("self_ns")]
    if flows:
        rows["flows"].append(max(flows, key=lambda row: row["self_ns"])["api"])
    critical = report.get("criticality") or {}
    places = [row for row in critical.get("functions", [])]
    if places:
        rows["functions"].append(places[0]["function"])
    for row in critical.get("paths", [])[:1]:
        rows["paths"] += [row["place"], row["stack"][-1] if row["stack"] else ""]
    for row in critical.get("waits", [])[:1]:
        rows["waits"] += [party["function"] for party in (row["holder"], row["waker"]) if party] + row["stack"][-1:]
    for chain in ((report.get("walk") or {}).get("chains") or [])[:1]:
        rows["walk"] += [frame["function"] for frame in chain["frames"][-3:]]
    return rows


def known_by(options, make, program):
    """The views that know the culprit, with each collector by itself."""
    known = []
    for collector in COLLECTORS:
        prepared = make()
        try:
            report = record(options, prepared, program["name"], collector)
        except (Fault, subprocess.SubprocessError):
            continue
        finally:
            prepared.remove()
        known += [view for view, names in best_rows(report).items() if any(is_named(name, program) for name in names)]
    return known


def shown(row):
    where = row.get("where") or {}
    place = f"{os.path.basename(where.get('file') or '?')}:{where.get('line')}"
    saves = row.get("saves_percent")
    return f"{'?' if saves is None else round(saves)} % {row['kind']}: {row['finding']} [{where.get('function')} {where.get('api')} {place}]"


def score_culprits(options, name, program, make, sums):
    for _ in range(options.rounds):
        prepared = make()
        try:
            report = record(options, prepared, program["name"])
        finally:
            prepared.remove()
        first = report["summary"][0]
        named, line = names_of(first, program)
        later = next((place + 1 for place, row in enumerate(report["summary"]) if names_of(row, program)[0]), None)
        known = known_by(options, make, program) if options.oracle else []
        for key, value in (("runs", 1), ("named", named), ("line", line), ("known", bool(known) or named)):
            sums[name][key] += value
        verdict = "ok" if line else "LINE" if named else f"NO (is {later}.)" if later else "NO"
        sums["rows"].append({"set": name, "program": program["name"], "named": named, "line": line, "known": known, "first": first})
        print(f"{verdict:9} {program['name']:22} {shown(first)}" + (f"  known by {' '.join(known)}" if options.oracle else ""), flush=True)


def write_table(file, rows):
    """What the first screen says beside what the best view of any collector knows."""
    rows = [row for row in rows if row["set"] != "healthy"]
    with open(file, "w") as out:
        sets = " ".join(f"--set {name}" for name in dict.fromkeys(row["set"] for row in rows))
        both = sum(row["named"] for row in rows if row["known"] or row["named"])
        known = sum(bool(row["known"]) or row["named"] for row in rows)
        out.write("# The first screen and what the views know\n\n")
        out.write(f"Made by `tests/culprits/score.py {sets} --oracle --table FILE`. A view knows a culprit if its first row names it, in a\n"
                  f"recording of its collector alone. Of {len(rows)} culprits any view or the screen knows {known}, the screen names {both}.\n\n")
        out.write("| set | program | first finding | screen | views that know |\n|---|---|---|---|---|\n")
        for row in rows:
            finding = row["first"]["finding"].replace("|", "\\|")
            verdict = "yes, with its line" if row["line"] else "yes" if row["named"] else "**no**"
            out.write(f"| {row['set']} | {row['program']} | {finding} | {verdict} | {', '.join(dict.fromkeys(row['known'])) or '–'} |\n")


def score_healthy(options, program, sums):
    for _ in range(options.rounds):
        prepared = healthy.Prepared(program)
        try:
            report = record(options, prepared, program["name"])
        finally:
            prepared.remove()
        claims = [row for row in report["summary"] if (row.get("saves_percent") or 0) > MOST_PERCENT]
        wrong = [row for row in claims if row["kind"] not in ("hot-code", "serial-code")]
        sums["healthy"]["runs"] += 1
        sums["healthy"]["quiet"] += not wrong
        sums["rows"].append({"set": "healthy", "program": program["name"], "claims": claims})
        print(f"{'NO' if wrong else 'ok':9} {program['name']:22} " + " | ".join(map(shown, wrong or claims[:1])), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", default=os.path.join(ROOT, "target/release/transect"))
    parser.add_argument("--set", action="append", choices=("plain", "unseen", "unseen2", "go", "patched", "healthy"))
    parser.add_argument("--only", action="append", help="programs whose name contains this")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--oracle", action="store_true")
    parser.add_argument("--keep", help="folder for the profiles; those that are in it are not recorded again")
    parser.add_argument("--least", action="append", type=float, help="percent that must be right, one for each --set; else the status is 1")
    parser.add_argument("--json", help="where the rows are written")
    parser.add_argument("--table", help="where the screen and what the views know are written side by side, as Markdown; needs --oracle")
    options = parser.parse_args()
    options.transect = os.path.abspath(options.transect)
    sums = collections.defaultdict(collections.Counter)
    sums["rows"] = []
    sets = options.set or ("plain", "unseen", "patched", "healthy")
    wanted = lambda program: not options.only or any(word in program["name"] for word in options.only)  # noqa: E731
    works = []
    for name in (name for name in plain.SETS if name in sets):
        works += [(name, p, lambda p=p: plain.Prepared(p)) for p in plain.programs(name)]
    if "patched" in sets:
        works += [("patched", p, lambda p=p: patched.Prepared(p, True)) for p in patched.programs()]
    if "healthy" in sets:
        works += [("healthy", p, None) for p in healthy.programs()]
    for name, program, make in works:
        if not wanted(program):
            continue
        try:
            if name == "healthy":
                score_healthy(options, program, sums)
            else:
                score_culprits(options, name, program, make, sums)
        except NotRun as why:
            sums["skipped"]["runs"] += 1
            print(f"NOT RUN: {program['name']}: {why}", flush=True)
        except (Fault, subprocess.SubprocessError, ValueError, KeyError, IndexError) as why:
            sums[name]["runs"] += 1
            print(f"FAILED    {program['name']:22} {type(why).__name__}: {str(why)[-300:]}", flush=True)
    passed = failed = 0
    for name, least in zip(sets, options.least or [0.0] * len(sets)):
        runs, right = sums[name]["runs"], sums[name]["quiet" if name == "healthy" else "line"]
        print(f"{name}: {right} of {runs} right, {dict(sums[name])}")
        if runs and 100 * right >= least * runs:
            passed += runs
        else:
            passed, failed = passed + right, failed + runs - right
    skipped = sums["skipped"]["runs"]
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    if options.table:
        write_table(options.table, sums["rows"])
    if options.json:
        with open(options.json, "w") as file:
            json.dump(sums["rows"], file, indent=1)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
