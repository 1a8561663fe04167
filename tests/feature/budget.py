"""Regions whose events would cost more of the run than they may are switched off, and leave nothing behind in the loop. Samples
tell what they take, and what regions in loops take that have no sites."""
import re

from emission import compiled
from recorded import judged, record, wanted_regions


def run(build, results):
    for method in ("auto", "probe"):
        name = f"hot loop, {method}"
        if not results.wanted(name):
            continue
        source, program = build.program("hot_loop.c"), build.file("hot_loop")
        options = ["-O2", "-D_GNU_SOURCE"]
        status, said = compiled(build, source, program, options, {"TRANSECT_SITES": "probe"}, build.program("models.toml"))
        if status:
            results.judge(name, [said[-500:]])
            continue
        results.judge_measured(name, lambda: looped(build, method, source, program))


def looped(build, method, source, program):
    status, out, err, rows = record(build, method, [program, "1", "1", "1"])
    if status or rows is None:
        return [f"status {status}: {err[-300:]}"], []
    changed = int(re.search(r"^bytes changed (-?\d+)$", out, re.M)[1])
    wrong, off = judged(source, out, rows)
    if method == "probe":
        # Who names the method gets all events, and pays.
        return wrong + ([f"{changed} bytes of the loop are changed"] if changed <= 0 else []), off
    # Entries are known of those that are not hot.
    wrong = [said for said in wrong if ":%d entered" % wanted_regions(source)[1][0] not in said]
    if changed:
        wrong.append(f"{changed} bytes of the loop are changed at the end")
    return wrong, off + times(out, rows)


def times(out, rows):
    """Complaints about regions whose times samples tell."""
    wrong = []
    for feature in ("often", "inner"):
        own = int(re.search(rf"^{feature} (\d+)$", out, re.M)[1])
        row = next((row for row in rows["features"] if row["features"] == [feature]), None)
        if not row or row["method"] != "sample" or row["entries"] is not None:
            wrong.append(f"{feature} is not sampled: {row}")
        elif not 0.85 * own <= row["inclusive_ns"] <= 1.1 * own:
            wrong.append(f"{feature} took {row['inclusive_ns']} ns instead of {own}")
    return wrong
