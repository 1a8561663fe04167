#!/usr/bin/env python3
"""Draws regions to be judged, and prints their places and sources without what the analysis says of them.

    draw.py --transect PATH NAME [--regions 40] [--others 10] [--seed 1] [--context 6]

Among the regions are some decisions to which the analysis gives no option, so that whoever judges can't expect any. Each place becomes a
line of a table as in `judgements/`, features still to be written, on standard output after `TABLE`; the sources come first.
"""
import argparse
import os
import random

import programs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transect", required=True, type=os.path.abspath)
    parser.add_argument("name")
    parser.add_argument("--work", default=os.path.join(programs.ROOT, "target/judged"), type=os.path.abspath)
    parser.add_argument("--regions", type=int, default=40)
    parser.add_argument("--others", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--context", type=int, default=6)
    options = parser.parse_args()
    program = next(program for program in programs.PROGRAMS if program.name == options.name)
    build = programs.Build(program, options.work, os.path.dirname(options.transect))
    chance = random.Random(options.seed)
    regions = sorted({(path, int(line), kind, function) for features, path, line, _, kind, function, _ in programs.REGION.findall(build.linked()[0]) if features})
    taken = {(path, line, function) for path, line, _, function in regions}
    places = chance.sample(regions, min(options.regions, len(regions)))
    own = sorted({(path, int(line), "decision", function) for features, path, line, function in programs.DECISION.findall(build.linked("decisions")[0])
                  if not any(dependence != "content" for dependence in (use.partition("=")[2] for use in features.split(",") if use))
                  and (path, int(line), function) not in taken and not path.startswith("/usr/") and int(line) > 0})
    places += chance.sample(own, min(options.others, len(own)))
    chance.shuffle(places)
    for number, (path, line, _, function) in enumerate(places, 1):
        print(f"\n### {number}: {path}:{line} in {function}")
        source = build.source(path)
        lines = open(source, errors="replace").read().split("\n") if source else []
        for at in range(max(0, line - 1 - options.context), min(len(lines), line + options.context)):
            print(f"{'>' if at + 1 == line else ' '}{at + 1:5d} {lines[at].expandtabs(4)[:170]}")
    print("\nTABLE")
    for path, line, kind, function in places:
        print(f"{path}\t{line}\t{kind}\t{function}\t")


if __name__ == "__main__":
    main()
