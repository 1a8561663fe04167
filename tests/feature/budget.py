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
    # Entries are known of those that are not hot. A recorder that gets no CPU for a third of a second takes all for hot.
    lines = {region: line for region, (line, _) in wanted_regions(source).items()}
    wrong = [said for said in wrong if ":%d entered" % lines[1] not in said]
    uncounted = {row["line"] for row in rows["regions"] if row["entries"] is None}
    unseen = [said for said in wrong if lines[2] in uncounted and ":%d entered" % lines[2] in said]
    wrong, off = [said for said in wrong if said not in unseen], off + unseen
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
