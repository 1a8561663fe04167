#!/usr/bin/env python3
"""Asks the questions of docs/sql of a folder of profiles, in an engine that did not write them, and compares the rows with what
`transect report` says: row by row for one profile, and over all hosts with the sums of the reports.

usage: run.py --transect PATH [--engine duckdb|spark] [--only WORD]... [--profiles DIR] [--keep]
"""
import argparse
import glob
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "../.."))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(ROOT, "docs/sql")]
from harness.results import Results  # noqa: E402

PYTHON = {"duckdb": os.environ.get("TRANSECT_PYTHON", os.path.join(ROOT, "target/readers/bin/python")), "spark": os.path.join(ROOT, "target/spark/bin/python")}
INSTALLED_BY = {"duckdb": "make readers", "spark": "make spark"}
QUESTIONS = sorted(glob.glob(os.path.join(ROOT, "docs/sql/[0-9]*.sql")))
# What a question says that it equals: options of `report`, or a view with its keys and values.
HEADER = re.compile(r"^-- (report|view): (.*)$", re.M)
# Keys of `--view flows` that the cut has other names for.
SAME = {"component": "callee"}


# Until system calls are counted to the end.
RECORDINGS = 4


def programs(folder):
    """Where each profile lies, and the command that it is of."""
    threads, text = os.path.join(folder, "threads"), os.path.join(folder, "text")
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", threads, os.path.join(HERE, "threads.c")], check=True)
    with open(text, "wb") as file:
        file.write(os.urandom(1 << 21))
    script = f"for i in 1 2 3; do sort -R {text} -a 2>/dev/null | tail -n 1; head -c 200000 {text} | od -x | sort | cksum; done"
    return {
        "service=web/day=2026-11-27/host=h1/run-1": [threads, text],
        "service=web/day=2026-11-28/host=h2/run-1": [threads, text],
        "service=batch/day=2026-11-28/host=h2/run-7": ["xz", "-1", "-T2", "--block-size=500000", "-k", "-c", text],
        "service=batch/day=2026-11-28/host=h3/run-7": ["sh", "-c", script],
    }


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:6])}: status {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


def calls_are_counted(profile):
    """Whether system calls were counted to the end: beside programs that make very many, that ends."""
    with open(os.path.join(profile, "meta.json")) as file:
        return (json.load(file).get("walk") or {}).get("system_calls_until_ns") is None


def record(transect, folder):
    """The folder of profiles; their findings are kept beside them."""
    profiles = os.path.join(folder, "profiles")
    for place, command in programs(folder).items():
        profile = os.path.join(profiles, place + ".transect")
        os.makedirs(os.path.dirname(profile), exist_ok=True)
        for _ in range(RECORDINGS):
            shutil.rmtree(profile, ignore_errors=True)
            run([transect, "record", "-q", "-o", profile, "--", *command])
            if calls_are_counted(profile):
                break
        with open(os.path.join(profiles, place + ".findings.json"), "w") as file:
            file.write(run([transect, "report", profile, "--view", "summary", "--format", "json"]))
    return profiles


class Reports:
    """What `transect report` says of profiles."""

    def __init__(self, transect, profiles):
        self.transect, self.profiles, self.known = transect, profiles, {}

    def json(self, place, *options):
        if (place, options) not in self.known:
            self.known[place, options] = self.read(place, *options)
        return self.known[place, options]

    def read(self, place, *options):
        return json.loads(run([self.transect, "report", os.path.join(self.profiles, place + ".transect"), *options, "--format", "json"]))

    def rows(self, question, columns, places):
        """The rows that the question should have, in their order."""
        with open(question) as text:
            kind, what = HEADER.search(text.read()).groups()
        if what == "findings":
            return self.findings(places)
        sums = {}
        for place in places:
            host = [re.search("host=([^/]*)", place)[1]] if columns[0] == "host" else []
            rows = self.cut(place, what.split()) if kind == "report" else self.view(place, *what.split())
            for keys, values in rows:
                key = (*host, *keys)
                sums[key] = [a + b for a, b in zip(sums[key], values)] if key in sums else values
        return [(*keys, *values) for keys, values in sums.items()]

    def cut(self, place, options):
        # Bytes of calls without a known size are none.
        return [(row["keys"], [row["value"]]) for row in self.json(place, "--by", options[1], *options[2:])["cut"]["rows"] if row["value"]]

    def view(self, place, view, keys, values):
        rows = self.json(place, "--view", view)[view.replace("-", "_")]
        for row in rows:
            amounts = [row.get(value) or 0 for value in values.split(",")]
            if any(amounts):
                yield [row[SAME.get(key, key)] for key in keys.split(",")], amounts

    def findings(self, places):
        found = {}
        for place in places:
            for row in self.json(place, "--view", "summary")["summary"]:
                hosts, percents = found.setdefault((row["kind"], row["where"]["component"], row["where"]["function"]), (set(), []))
                hosts.add(re.search("host=([^/]*)", place)[1])
                percents.append(row["percent"])
        return [(*key, len(hosts), len(percents), round(max(percents), 1)) for key, (hosts, percents) in found.items()]


def differences(columns, answered, expected, reports_order):
    """What is wrong with the answer, in words."""
    plain = lambda rows: [tuple(float(value) if isinstance(value, float) else value if value is None or isinstance(value, str) else int(value) for value in row) for row in rows]
    answered, expected = plain(answered), plain(expected)
    if not expected:
        return ["the reports have no row of this"]
    text = lambda row: [value if value is not None else "" for value in row]
    found, wanted = set(answered), set(expected)
    missing, more = [row for row in expected if row not in found], [row for row in answered if row not in wanted]
    wrong = [f"{len(rows)} of {len(expected)} rows {what}, first {rows[0]}" for rows, what in ((missing, "are missing"), (more, "are too many")) if rows]
    if not wrong and len(answered) != len(expected):
        wrong = [f"{len(answered)} rows in place of {len(expected)}"]
    if not wrong and reports_order and answered != expected:
        at = next(at for at, pair in enumerate(zip(answered, expected)) if pair[0] != pair[1])
        wrong = [f"row {at} is {text(answered[at])}, in the report {text(expected[at])}"]
    return wrong


def ask(results, engine, reports, places, scope):
    for question in QUESTIONS:
        name = f"{os.path.basename(question)[:-4]} {scope}"
        if not results.wanted(name):
            continue
        with open(question) as file:
            text = file.read()
        if "-- view: system-calls" in text and not all(calls_are_counted(os.path.join(reports.profiles, place + ".transect")) for place in places):
            results.absent(name, "beside other programs, system calls were not counted to the end")
            continue
        with results.guarded(name):
            columns, rows = engine.ask(question)
            in_order = len(places) == 1 and columns[0] != "host" and "-- report:" in text
            results.judge(name, differences(columns, rows, reports.rows(question, columns, places), in_order))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transect", required=True)
    parser.add_argument("--engine", default="duckdb", choices=PYTHON)
    parser.add_argument("--only", action="append")
    parser.add_argument("--profiles", help="a folder that --keep left, in place of recording one")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    module = {"duckdb": "duckdb", "spark": "pyspark"}[options.engine]
    results = Results(options.only)
    if not importlib.util.find_spec(module):
        python = PYTHON[options.engine]
        if sys.executable != python and os.path.exists(python) and not subprocess.run([python, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode:
            os.execv(python, [python, *sys.argv])
        results.absent(f"questions on {options.engine}", f"{module} is not installed ({INSTALLED_BY[options.engine]})")
        return results.end()
    if options.engine == "spark" and not shutil.which("java"):
        results.absent("questions on spark", f"there is no Java ({INSTALLED_BY['spark']})")
        return results.end()
    import engines

    folder = tempfile.mkdtemp(prefix="transect-sql-")
    try:
        profiles = options.profiles or record(options.transect, folder)
        reports = Reports(options.transect, profiles)
        places = sorted(os.path.relpath(path, profiles)[: -len(".transect")] for path in glob.glob(os.path.join(profiles, engines.ALL)))
        open_engine = {"duckdb": engines.DuckDB, "spark": engines.Spark}[options.engine]
        # In Spark each folder that is opened costs its plans anew.
        for place in places if options.engine == "duckdb" else places[-1:]:
            ask(results, open_engine(profiles, place + ".transect"), reports, [place], f"of {place}")
        ask(results, open_engine(profiles), reports, places, "over all hosts")
    finally:
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
