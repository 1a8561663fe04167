"""Where a feature spreads (TRANSECT_FEATURE_CUTS), and what is left once the model cuts there."""
import os
import re

from emission import compiled

MODEL = """
{ignore}
[[feature]]
name = "verbose"
vars = ["cuts.c:verbose"]
[[feature]]
name = "plain"
vars = ["cuts.c:plain"]
"""
CUT = re.compile(r"transect: cut (\d+): (\d+) (?:further )?pairs? of (\d+) features?, at (\S+):(\d+) in (\w+)[^;]*; ignore = \[(.*)\] cuts it")
REGION = re.compile(r"transect: region +\{([^}]*)\} \S+?:\d+-\d+ \w+ in (\w+)")


def run(build, results):
    name = "cuts: a place through which a feature spreads"
    if not results.wanted(name):
        return
    source = build.program("cuts.c")
    with open(source) as file:
        spreads = next(number for number, line in enumerate(file, 1) if "// spreads" in line)

    def built(ignore, **environment):
        path = build.file("cuts.toml")
        with open(path, "w") as file:
            file.write(MODEL.format(ignore=f"ignore = [{ignore}]" if ignore else ""))
        return compiled(build, source, build.file("cuts"), [], environment, path)

    status, said = built("", TRANSECT_FEATURE_CUTS="1")
    cuts = CUT.findall(said)
    wrong = []
    if status or not cuts:
        wrong.append(f"status {status}, no place: {said[-500:]}")
    else:
        _, pairs, features, file, line, function, entries = cuts[0]
        if (int(pairs), int(features), file, int(line), function) != (4, 1, "cuts.c", spreads, "configure"):
            wrong.append(f"first place {cuts[0]}")
        if len(cuts) > 1:
            wrong.append(f"a second place: {cuts[1]}")
        if entries != '"log::level" or "cuts.c:configure"':
            wrong.append(f"the model's entries: {entries}")
        for entry in entries.split(" or "):
            status, said = built(entry, TRANSECT_FEATURE_REPORT="1")
            left = sorted(REGION.findall(said))
            if status or left != [("plain", "write_output"), ("verbose", "configure")]:
                wrong.append(f"with {entry}: {left}")
    results.judge(name, wrong)
