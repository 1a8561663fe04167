"""Some regions only (`--feature`), and some processes only (`--no-follow`), by each method."""
import re

from emission import compiled
from recorded import record, truth, wanted_regions

# method, sites
HOW = [("trace", "trace"), ("probe", "probe"), ("usdt", "probe"), ("sample", "probe")]
CHOICES = ("inside,throwing", "throwing", "around", "around,throwing")


def features(build, results):
    source = build.program("chosen.cpp")
    lines = {line: (k, names[0]) for k, (line, names) in wanted_regions(source).items()}
    for method, sites in HOW:
        name = f"chosen features, {method}"
        if not results.wanted(name):
            continue
        program = build.file("chosen")
        status, said = compiled(build, source, program, [], {"TRANSECT_SITES": sites}, build.program("models.toml"), "transect-c++")
        if status:
            results.judge(name, [said[-500:]])
            continue
        status, _, err, _ = record(build, method, [program, "1", "1", "1"], options=["--feature", CHOICES[0]])
        if status and ("watches regions from the kernel" in err or "can't be sampled" in err):
            results.absent(name, err.strip())
            continue
        status, _, err, _ = record(build, method, [program, "1", "1", "1"], options=["--feature", "nothing"])
        refused = [] if status and "around" in err else [f"a feature that it has not is taken: {err[-300:]}"]

        def attempt():
            wrong, off = list(refused), []
            for choice in CHOICES:
                status, out, err, rows = record(build, method, [program, "1", "1", "1"], options=["--feature", choice])
                if status or rows is None:
                    return [*wrong, f"{choice}: status {status}: {err[-300:]}"], []
                more_wrong, more_off = of_choice(choice.split(","), method, lines, out, rows)
                wrong, off = wrong + [f"{choice}: {one}" for one in more_wrong], off + [f"{choice}: {one}" for one in more_off]
            return wrong, off

        results.judge_measured(name, attempt)


def of_choice(choice, method, lines, out, rows):
    sampled = method == "sample"
    own = {int(k): int(cpu_ns if sampled else ns) for k, ns, cpu_ns in re.findall(r"^took (\d) (\d+) (\d+)$", out, re.M)}
    if sampled:
        # A busy machine's waits are divided as few samples are; time on CPUs is without that of regions inside.
        inner = [k for k in sorted(own) if next(feature for number, feature in lines.values() if number == k) in choice]
        own.update({k: own[k] - own[next_k] for k, next_k in zip(inner, inner[1:])})
    wrong, off = [], []
    for row in rows["regions"]:
        k, feature = lines[row["line"]]
        wanted, time = own[k] if feature in choice else 0, row["cpu_ns" if sampled else "inclusive_ns"] or 0
        if abs(time - wanted) > (0.4 if sampled else 0.05) * wanted + 5_000_000 * bool(wanted):
            off.append(f"{feature} took {time} ns instead of {wanted}")
        entries = truth(out)[k] if feature in choice else 0
        if not sampled and (row["entries"] or 0) != entries:
            wrong.append(f"{feature} entered {row['entries']} times instead of {entries}")
    return wrong, off


def processes(build, results):
    source = build.program("processes.c")
    for method, sites in HOW:
        name = f"children not followed, {method}"
        if method == "sample" or not results.wanted(name):
            continue
        program = build.file("processes")
        status, said = compiled(build, source, program, [], {"TRANSECT_SITES": sites}, build.program("models.toml"))
        if status:
            results.judge(name, [said[-500:]])
            continue
        status, _, err, rows = record(build, method, [program, "1"], options=["--no-follow"])
        if status and "watches regions from the kernel" in err:
            results.absent(name, err.strip())
            continue
        entries = [row["entries"] for row in rows["regions"]] if rows else err[-300:]
        # The child's 70 are not among them.
        results.judge(name, [] if entries == [80] else [f"status {status}: entries {entries} instead of 80"])


def run(build, results):
    features(build, results)
    processes(build, results)
