"""The case studies as one document, from what is kept of each program; and its figure."""
import os
import statistics

import case_study_figure as figure
import case_study_measures as measures

HEAD = """# Case studies

Made by `make case-studies`: real programs from Debian's source packages, built with `transect-cc` by their own build systems with
the models in `workloads/feature/models`, tested by their own tests, recorded in each way. Inputs are made by the benchmark. What
is compared is CPU time, system calls included, of runs that follow each other at once, each with a run without sites before
or after it, and counted instructions, which other work on the machine does not change. The setting is that of J. Kaufmann's *An Evaluation of Different Measurement Approaches for Feature Performance Analysis*
(2022), whose own figures stand beside ours where they compare.
"""

LOOP_HEAD = """## What an event costs

`workloads/feature/simple-busy-loop.c`: a loop that does nothing else, so an event is all that is seen. ns per event.

| | here | thesis |
|---|---|---|
"""


def write(options, names, results):
    """Writes the document and its figure from all results that there are."""
    known = [(name, results(options.work, name).facts) for name in names]
    known = [(name, facts) for name, facts in known if facts]
    parts = [HEAD, warning(known), built(known), loop(results(options.work, "loop").facts), inactive(known), recording(known), accuracy(known), own_tests(known), level(known)]
    parts += [regions(name, facts) for name, facts in known if facts.get("workloads")]
    picture = os.path.splitext(options.document)[0] + ".svg"
    bars = cost_rows(known)
    if bars:
        figure.write(picture, bars)
        parts.insert(5, f"![CPU time by the way of measuring, over the build without sites]({os.path.basename(picture)})\n")
    parts.append(circumstances(known))
    os.makedirs(os.path.dirname(options.document) or ".", exist_ok=True)
    with open(options.document, "w") as file:
        file.write("\n".join(part for part in parts if part))


def warning(known):
    """What makes this run's times less sure than they should be."""
    seconds = [base_s(one) for _, one in measured(known)]
    loads = [one["load"] / one["cpus"] for _, facts in known for what, one in facts.get("conditions", {}).items() if what == "workloads"]
    said = []
    if seconds and statistics.median(seconds) < 3:
        said.append(f"workloads of {min(seconds):.1f} to {max(seconds):.1f} s")
    if loads and max(loads) > 1.2:
        said.append(f"other work on the machine (up to {max(loads):.0f} runnable threads a CPU)")
    return f"**Not to be taken as final: {' and '.join(said)}; a difference of a few per cent in CPU time is noise here, the instruction counts are not.**\n" if said else ""


def percent(ratio):
    return "–" if ratio is None else f"{(ratio - 1) * 100:+.1f} %"


def share(part):
    return f"{part * 100:.1f} %"


def ratio(times, mode):
    """A way's time over that without sites: the median over the rounds, each against its own two runs without."""
    rounds = zip(times[mode], times["none"], times["again"])
    return statistics.median(one / ((none + again) / 2) for one, none, again in rounds)


def noise(times):
    """How far two runs of one build differ."""
    return statistics.median(max(pair) / min(pair) for pair in zip(times["none"], times["again"]))


def base_s(workload):
    return statistics.mean(workload["times"]["none"] + workload["times"]["again"])


def more_instructions(workload, mode):
    counts = workload.get("instructions") or {}
    return counts[mode] / counts["none"] if counts.get(mode) and counts.get("none") else None


def program_cost(workload, method):
    """The program's CPU time while it is recorded over its time without sites; None if it was not recorded."""
    one = workload["recorded"].get(method, {})
    return one["program_s"] / one.get("base_s", base_s(workload)) if "program_s" in one else None


def one_line(workload):
    if "absent" in workload:
        return workload["absent"]
    cost = {mode: percent(ratio(workload["times"], mode)) for mode in ("probe", "trace")}
    return f"{base_s(workload):.1f} s; over that: {cost}, noise {percent(noise(workload['times']))}; recorded: " + str({method: percent(program_cost(workload, method)) for method in measures.METHODS})


def measured(known):
    """(program, workload) of those that ran."""
    return [(name, one) for name, facts in known for one in facts.get("workloads", []) if "absent" not in one]


def built(known):
    lines = ["## Programs and their regions\n", "| program | lines | variables, lost | regions | irregular | hot, left to sampling | |", "|---|---|---|---|---|---|---|"]
    for name, facts in known:
        one = facts.get("build")
        if not one or "regions" not in one:
            lines.append(f"| {name} | NOT RUN: {facts.get('absent', 'not built')} | | | | | |")
            continue
        lines.append(f"| {name} {one['version']} | {one['lines']:,} | {one['variables']}, {one['lost']} | {one['regions']} | {one['irregular']} ({share(one['irregular'] / max(1, one['regions']))}) | {one['hot']} | {one['note']} |")
    reasons = [f"{name} {place}: {reason}" for name, facts in known for place, reason in facts.get("build", {}).get("reasons", [])]
    lines.append("\nIrregular regions are found but can't be marked" + (": " + "; ".join(reasons) + "." if reasons else "; there are none here.") + " The thesis drops 7–31 % of them, and runs out of memory at brotli.\n")
    return "\n".join(lines)


def loop(facts):
    if "loop" not in facts:
        return ""
    one = facts["loop"]
    rows = []
    for mode, thesis in (("probe", "–"), ("trace", "92")):
        costs = one["inactive"][mode]
        rows.append(f"| {mode}, nobody records | {statistics.median(costs):.2f} ({min(costs):.2f} … {max(costs):.2f}) | {thesis} |")
    for mode, thesis in (("probe", "–"), ("trace", "270–362")):
        rows.append(f"| {mode}, recorded | {one[mode]['ns']:.1f} ({one[mode]['low']:.1f} … {one[mode]['high']:.1f}); {one[mode]['dropped']} of {one[mode]['events']:,} dropped | {thesis} |")
    if one.get("bpftrace"):
        rows.append(f"| the same points watched by bpftrace | {one['bpftrace']['ns']:.0f} | 1651 (bpftrace), 480 (BCC) |")
    known = ["\nPrograms that spin for known times, ms (recorded / by the program's own clock):\n", "| program | region | entries | probe | trace |", "|---|---|---|---|---|"]
    for title, key in (("listing 2.2", "listing22"), ("SimpleFeatureInteraction", "interaction")):
        for probe, trace in zip(one[key]["probe"], one[key]["trace"]):
            shown = [f"{row[3] / 1e6:.2f}" + (f" / {row[4] / 1e6:.2f}" if row[4] else "") for row in (probe, trace)]
            known.append(f"| {title} | {{{probe[0]}}} line {probe[1]} | {probe[2]}, {trace[2]} | {shown[0]} | {shown[1]} |")
    return LOOP_HEAD + "\n".join(rows) + "\n" + "\n".join(known) + "\n"


def inactive(known):
    rows = measured(known)
    if not rows:
        return ""
    lines = ["## While nobody records\n", "Sites are in the program, nothing is switched on. Default are `probe` sites; goal: 1 %, at worst 2 % (thesis: up to 5.5 %).",
             "Where the counts of instructions agree and the times don't, the code's place decides: a short loop that lies across two lines of the\ncache in one build and in one line in the other.\n",
             "| program | workload | CPU time | same build twice | probe | trace | instructions: probe | trace |", "|---|---|---|---|---|---|---|---|"]
    for name, one in rows:
        times = one["times"]
        lines.append(f"| {name} | {one['title']} | {base_s(one):.1f} s | {percent(noise(times))} | {percent(ratio(times, 'probe'))} | {percent(ratio(times, 'trace'))} | {percent(more_instructions(one, 'probe'))} | {percent(more_instructions(one, 'trace'))} |")
    for column, mode in (("probe", "probe"), ("trace", "trace")):
        ratios = [ratio(one["times"], mode) for _, one in rows]
        counts = [more_instructions(one, mode) for _, one in rows if more_instructions(one, mode)]
        lines.append(f"\n{column}: mean {percent(statistics.mean(ratios))}, worst {percent(max(ratios))}" + (f"; instructions: mean {percent(statistics.mean(counts))}, worst {percent(max(counts))}" if counts else "") + ".")
    return "\n".join(lines) + "\n"


def recording(known):
    rows = measured(known)
    if not rows:
        return ""
    lines = ["## While it is recorded\n", "The program's own CPU time over that without sites, and the recorder's beside it (of the program's time). Events that are",
             "dropped are counted; the recorder's default makes a thread wait instead. OUTPUT: the same as without sites, to the byte. `auto` is",
             "what is done without `--feature-method`: probes, of which those too hot for `--overhead` (3 %) are switched off, and samples of what they\nwould have told. Runs of at most 8 s.\n",
             "| program | workload | way | program | recorder | events | ns an event | dropped | not translated | output |", "|---|---|---|---|---|---|---|---|---|---|"]
    for name, one in rows:
        for method in measures.METHODS:
            record = one["recorded"].get(method)
            if not record:
                continue
            if "absent" in record:
                lines.append(f"| {name} | {one['title']} | {method} | NOT RUN: {record['absent']} | | | | | | |")
                continue
            session = record["session"]
            base = record.get("base_s", base_s(one))
            added = (record["program_s"] - base) / session["events"] * 1e9 if session["events"] > 10_000_000 else None
            lines.append(f"| {name} | {one['title']} | {method} | {percent(program_cost(one, method))} | {share(record['recorder_s'] / base)} | {session['events'] or session['samples']:,} | {'–' if added is None else f'{added:.0f}'} | {session['dropped']} | {share(session['untranslated'] / session['samples']) if session['samples'] else '–'} | {'same' if record['same_output'] else 'DIFFERENT'} |")
    for method in measures.METHODS:
        costs = [program_cost(one, method) for _, one in rows if program_cost(one, method)]
        if costs:
            lines.append(f"\n{method}: mean {percent(statistics.mean(costs))}, worst {percent(max(costs))}.")
    lines.append("\nThe program's time includes the system's.\n")
    return "\n".join(lines)


def accuracy(known):
    lines, sums = [], {"sample": [0, 0], "auto": [0, 0]}
    for name, one in measured(known):
        shares = {method: one["recorded"].get(method, {}).get("features") for method in measures.METHODS}
        if not shares["trace"] or not shares["sample"]:
            continue
        cells = [measures.agreement(shares["trace"], shares["sample"])]
        if shares["auto"]:
            cells.append(measures.overlap(shares["sample"], shares["auto"]))
        for (good, sets, _), sum_of in zip(cells, sums.values()):
            sum_of[0] += good
            sum_of[1] += sets
        shown = [f"{good} of {sets}, {far * 100:.1f}" for good, sets, far in cells]
        lines.append(f"| {name} | {one['title']} | {' | '.join(shown + ['–'] * (2 - len(shown)))} |")
    if not lines:
        return ""
    together = f"\nTogether: sampled {sums['sample'][0]} of {sums['sample'][1]}, auto {sums['auto'][0]} of {sums['auto'][1]}.\n"
    return "\n".join(["## Sampled against traced, auto against sampled\n", "Shares of the threads' time by set of features, those of 1 % and more. Sampled: the traced share lies within the 95 %\ninterval and a thousandth; traced runs are up to four times as long, by their events. Auto: its interval and that of samples have\nsomething in common. And the farthest two, in points. All are different runs. The thesis' samples gave whole region stacks in\n0–0.4 % of cases.\n",
                      "| program | workload | sampled: within, farthest | auto: within, farthest |", "|---|---|---|---|", *lines, together])


def own_tests(known):
    lines = ["## The programs' own tests\n", "While all that they run is recorded; where that fails, without a recording and without sites too. picosat, lrzip and pbzip2 have none:\na formula is solved, a text compressed and unpacked again.\n", "| program | probe sites, recorded | trace sites, recorded | events while tested | probe sites | trace sites | without sites |", "|---|---|---|---|---|---|---|"]
    for name, facts in known:
        one = facts.get("tests")
        if not one:
            continue
        cells = [one.get(key, "–").replace("|", "/")[:160] for key in ("probe, recorded", "trace, recorded", "probe", "trace", "none")]
        events = ", ".join(f"{one[key][0]:,}" for key in ("probe, events", "trace, events") if key in one)
        lines.append(f"| {name} | {' | '.join([*cells[:2], events, *cells[2:]])} |")
    return "\n".join(lines) + "\n" if len(lines) > 4 else ""


def regions(name, facts):
    parts = [f"## {name}: time per region\n"]
    for one in facts["workloads"]:
        if "absent" in one:
            parts.append(f"{one['title']}: NOT RUN: {one['absent']}\n")
            continue
        record = next((one["recorded"][method] for method in ("probe", "trace") if one["recorded"].get(method, {}).get("regions")), None)
        if not record:
            continue
        parts += [f"`{one['command']}`, {one['input']}; SHARE of the threads' time, ALONE without regions inside\n", "| features | place | entries | share | alone |", "|---|---|---|---|---|"]
        parts += [f"| {shortened(features)} | {place} | {'–' if entries is None else f'{entries:,}'} | {share(whole)} | {share(alone)} |" for features, place, entries, whole, alone in record["regions"][:6]]
        parts.append("")
    return "\n".join(parts)


def level(known):
    """gzip's levels against each other: the regions of its feature `level`."""
    works = [one for name, one in measured(known) if name == "gzip" and one["recorded"].get("probe", {}).get("regions")]
    if len(works) < 2:
        return ""
    rows = {}
    for number, one in enumerate(works):
        for features, place, entries, whole, _ in one["recorded"]["probe"]["regions"]:
            if "level" in features.split(", "):
                rows.setdefault((features, place), ["–"] * len(works))[number] = f"{share(whole)} ({whole * base_s(one) * 1e3:.0f} ms), {entries:,}"
    lines = ["## gzip -1 against gzip -9\n", "Regions that run because of the level: share of the time (of the time without sites, ms), entries. The thesis finds none.\n",
             "| features | place | " + " | ".join(f"{one['title']}" for one in works) + " |", "|---|---|" + "---|" * len(works)]
    lines += [f"| {shortened(features)} | {place} | {' | '.join(cells)} |" for (features, place), cells in list(rows.items())[:12]]
    return "\n".join(lines) + "\n"


def shortened(features, limit=5):
    names = features.split(", ")
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def cost_rows(known):
    """[(label, {way: ratio})] for the figure."""
    rows = []
    for name, one in measured(known):
        cost = {"probe, not recorded": ratio(one["times"], "probe"), "trace, not recorded": ratio(one["times"], "trace")}
        cost.update({f"{method}, recorded": program_cost(one, method) for method in measures.METHODS})
        rows.append((f"{name} {one['title']}", cost))
    return rows


def circumstances(known):
    lines = ["## When and where\n", "| program | what | when | load (5 min) on CPUs |", "|---|---|---|---|"]
    for name, facts in known:
        for what, one in facts.get("conditions", {}).items():
            if what in ("build", "tests", "workloads", "loop"):
                lines.append(f"| {name} | {what} | {one['when']} | {one['load']} on {one['cpus']} |")
    return "\n".join(lines) + "\n"
