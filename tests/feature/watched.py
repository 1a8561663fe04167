"""Region sites as other tools see them, and regions without sites, which only samples see."""
import os
import re
import shutil
import subprocess

import elf_sites
from emission import compiled
from recorded import record, wanted_regions


def listed(program):
    """Names of the program's USDT points by bpftrace, and how many."""
    done = subprocess.run(["bpftrace", "-l", f"usdt:{program}:*"], capture_output=True, text=True, timeout=120)
    return sorted(re.findall(r":transect:(\w+)$", done.stdout, re.M)), done.stderr


def points(build, results):
    source = build.workload("listing22")
    for mode in ("probe", "trace", "shared"):
        name = f"USDT points, {mode}"
        if not results.wanted(name):
            continue
        if not shutil.which("bpftrace") or os.geteuid() != 0:
            results.absent(name, "takes bpftrace, and root")
            continue
        program = build.file("listing22")
        status, said = compiled(build, source + ".c", program, [], {"TRANSECT_SITES": mode}, source + ".toml")
        if status:
            results.judge(name, [said[-500:]])
            continue
        elf = elf_sites.Elf(program)
        numbers = {address: fields["number"] for letter, fields, address in elf_sites.regions(elf) if letter == "R"}
        if mode == "shared":
            wanted = {"init", "begin", "end", "finalize"}
        else:
            wanted = {
                f"{('begin', 'end')[kind]}_{numbers[region]}" for _, region, kind, _ in elf_sites.sites(elf) if region and kind < 2
            }
        found, error = listed(program)
        wrong = [] if set(found) == wanted and wanted else [f"bpftrace lists {found} instead of {sorted(wanted)}: {error[-300:]}"]
        results.judge(name, wrong)


def without_sites(build, results):
    """Regions that are in the debug information only."""
    name = "regions without sites, sample"
    if not results.wanted(name):
        return
    source, program = build.workload("listing22"), build.file("listing22")
    status, said = compiled(build, source + ".c", program, ["-g"], {"TRANSECT_SITES": "inlined"}, source + ".toml")
    if status:
        results.judge(name, [said[-500:]])
        return
    if elf_sites.sites(elf_sites.Elf(program)):
        results.judge(name, ["it has sites"])
        return
    status, out, err, rows = record(build, "sample", [program, "a", "b", "unit=60"])
    if status and "can't be sampled" in err:
        results.absent(name, err.strip())
        return
    if status or rows is None:
        results.judge(name, [f"status {status}: {err[-300:]}"])
        return
    wrong = []
    for k, (line, features) in wanted_regions(source + ".c").items():
        same = [row for row in rows["regions"] if row["line"] == line]
        if not same or sorted(same[0]["features"]) != features:
            wrong.append(f"region {k} {features} is {same}")
            continue
        row = same[0]
        if row["entries"] is not None or row["method"] != "sample":
            wrong.append(f"region {k} has entries {row['entries']}, method {row['method']}")
        # Those that hold a call of their own, directly (a nested one's is outside of its range).
        if k <= 2 and not row["inclusive_ns"]:
            wrong.append(f"region {k} took no time")
    results.judge(name, wrong)


def run(build, results):
    points(build, results)
    without_sites(build, results)
