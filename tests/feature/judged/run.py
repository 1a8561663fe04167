#!/usr/bin/env python3
"""Features of regions of real programs, against what a reader of their sources says.

    run.py --transect PATH [--only NAME]... [--wrong] [--no-plain]

`judgements/NAME.tsv` has places drawn at random among a program's regions, and some decisions to which no option was given; of each, the
options on which its decision depends, judged from the source and the list of options alone: an option or a copy of it is compared, or a
value computed from it, or a constant that was stored under a branch on it, and some run would decide otherwise there because of it.
Sources come from Debian; a program that can't be fetched or built is counted as NOT RUN. `--wrong` lists pairs that differ.

REGIONS and FEATURES are the program's; BROAD: share of its regions with more than half of its options; of the judged places PRECISION is
the share of the pairs (place, option) by the analysis that the reader has, RECALL that of the reader's pairs that the analysis has;
LINK: seconds and MiB at most of the last link, with the plugin and by clang-19 -flto.
"""
import argparse
import collections
import csv
import os
import sys

import programs

COLUMNS = "{:12} {:>8} {:>7} {:>8} {:>6} {:>6} {:>9} {:>7} {:>16} {:>16}"


def judgements(name):
    """Places with the options that were judged: (file, line, kind, function), options, why."""
    path = os.path.join(programs.HERE, "judgements", f"{name}.tsv")
    if not os.path.exists(path):
        raise programs.Absent("nothing is judged")
    with open(path, newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row and not row[0].startswith("#")]
    return [(row[0], int(row[1]), row[2], row[3], frozenset(filter(None, row[4].replace("-", "").split(","))), row[5] if len(row) > 5 else "") for row in rows]


def found(text):
    """Of each place the features of its regions, by kind and together."""
    places = collections.defaultdict(dict)
    for features, path, line, _, kind, function, dependences in programs.REGION.findall(text):
        for use in filter(None, dependences.split(",")):
            name, _, dependence = use.partition("=")
            if name in features.split(","):
                for key in ((path, int(line), kind, function), (path, int(line), "decision", function)):
                    places[key][name] = dependence
    return places


def compare(name, text, wrong):
    """Pairs that both have, that the analysis has, that the reader has; by dependence how many of how many are right."""
    places, right, have, want, by = found(text), 0, 0, 0, collections.defaultdict(lambda: [0, 0])
    for path, line, kind, function, judged, why in judgements(name):
        given = places.get((path, line, kind, function), {})
        right, have, want = right + len(judged & given.keys()), have + len(given), want + len(judged)
        for feature, dependence in given.items():
            by[dependence][0] += feature in judged
            by[dependence][1] += 1
        if wrong:
            for title, features in (("too many", sorted(given.keys() - judged)), ("missing", sorted(judged - given.keys()))):
                if features:
                    print(f"  {title}: {path}:{line} {kind} in {function}: {', '.join(f'{f}={given[f]}' if f in given else f for f in features)}  {why}")
    return right, have, want, by


def share(part, whole):
    return f"{part / whole:.3f}" if whole else "-"


def one(program, options, totals, dependences):
    build = programs.Build(program, options.work, os.path.dirname(options.transect))
    text, seconds, mebibytes = build.linked()
    lost = [line for line in text.splitlines() if line.startswith("transect: variable ") and ": lost" in line]
    regions = [(features.split(","), path) for features, path, *_ in programs.REGION.findall(text) if features]
    names = {line.split()[2].rstrip(":") for line in text.splitlines() if line.startswith("transect: feature ")}
    plain = "-"
    if not options.no_plain:
        try:
            _, plain_seconds, plain_mebibytes = programs.Build(program, options.work, "", plain=True).linked()
            plain = f"{plain_seconds:.1f} s {plain_mebibytes:.0f} MiB"
        except programs.Absent as why:
            print(f"  {program.name} by clang: {why}")
    right, have, want, by = compare(program.name, text, options.wrong)
    for dependence, (good, all_of) in by.items():
        dependences[dependence][0] += good
        dependences[dependence][1] += all_of
    broad = sum(len(features) > len(names) / 2 for features, _ in regions) / max(len(regions), 1)
    totals.append((right, have, want))
    for line in lost:
        print(f"  {program.name}: {line.removeprefix('transect: ')}")
    print(COLUMNS.format(program.name, build.lines(), len(regions), len(names), f"{broad:.0%}", len(judgements(program.name)), share(right, have), share(right, want),
                         f"{seconds:.1f} s {mebibytes:.0f} MiB", plain), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transect", required=True, type=os.path.abspath, help="transect-cc and transect-c++ are beside it")
    parser.add_argument("--only", action="append", choices=[program.name for program in programs.PROGRAMS])
    parser.add_argument("--work", default=os.path.join(programs.ROOT, "target/judged"), type=os.path.abspath)
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--no-plain", action="store_true", help="without the build by clang alone")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    totals, dependences, absent = [], collections.defaultdict(lambda: [0, 0]), 0
    print(COLUMNS.format("PROGRAM", "LINES", "REGIONS", "FEATURES", "BROAD", "JUDGED", "PRECISION", "RECALL", "LINK", "CLANG -flto"), flush=True)
    for program in programs.PROGRAMS:
        if options.only and program.name not in options.only:
            continue
        try:
            one(program, options, totals, dependences)
        except programs.Absent as why:
            absent += 1
            print(f"NOT RUN: {program.name}: {why}", flush=True)
    if totals:
        right, have, want = (sum(row[i] for row in totals) for i in range(3))
        print(f"{len(totals)} programs, {have} pairs by the analysis, {want} by the reader, {right} by both; precision {share(right, have)}, recall {share(right, want)}")
        print("precision by dependence: " + ", ".join(f"{name} {good}/{count}" for name, (good, count) in sorted(dependences.items())))
    print(f"{len(totals)} run, {absent} not run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
