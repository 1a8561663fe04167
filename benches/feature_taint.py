#!/usr/bin/env python3
"""Features that the compiler plugin gives to decisions of real programs, against what data flow does in their runs.

usage: feature_taint.py --plugin transect-features.so [--work DIR] [--program NAME]... [--worst N] [--implicit LEVEL]

The truth is a build that confirms regions (TRANSECT_SITES=confirm) on the same bitcode: what is read from a feature's
variable is given a label, and each decision (branch, switch, indirect call) notes which labels its condition carries, over
all the runs. Labels of all addresses count in a second build only (`pointers`), since the analysis follows them through
tables but not through memory.

recall      of the pairs (decision, feature) that the runs saw, how many the analysis has
precision   of the analysis' pairs at decisions that the runs reached, how many the runs saw: a lower bound, since runs
            try few options, and constants under a decision carry labels only where the runs stored them: with --implicit
            none the comparison is of data flow alone
Needs clang-19, lld-19, libclang-rt-19-dev and llvm-19-dev; programs come from Debian's sources.
"""
import argparse
import collections
import glob
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import feature_inputs  # noqa: E402
import feature_programs as real  # noqa: E402

LLVM = "19"
DECISION = re.compile(r"^transect: decision (\d+) \{([^}]*)\} (\S+) in (.*)$", re.M)
LIMIT = 120

# Commands of a run in an empty folder; {bin} is the program, {text} and {data} are inputs, {in} a fresh copy of the text.
RUNS = {
    "gzip": ["{bin} -1c {text} > a.gz", "{bin} -9c {data} > b.gz", "{bin} -cv --rsyncable {text} > c.gz", "{bin} -dc a.gz > d", "{bin} -tv b.gz", "{bin} -lv a.gz",
             "{bin} -kS .z {in}", "{bin} -dfS .z {in}.z", "mkdir r && cp {text} r && {bin} -rn r && {bin} -rdqN r", "{bin} --synchronous -fm {in}"],
    "bzip2": ["{bin} -1c {text} > a.bz2", "{bin} -9vc {data} > b.bz2", "{bin} -dc a.bz2 > d", "{bin} -dsvc b.bz2 > e", "{bin} -tvv a.bz2", "{bin} -ktq a.bz2", "{bin} -kf {in}", "{bin} -df {in}.bz2"],
    "xz": ["{bin} -1c -T1 {text} > a.xz", "{bin} -6ec -T2 --block-size=65536 {data} > b.xz", "{bin} -3c -Flzma {text} > c.lzma", "{bin} -dc a.xz > d", "{bin} -dc -T2 b.xz > e", "{bin} -tv c.lzma",
           "{bin} -lv a.xz", "{bin} --robot -l a.xz", "{bin} -k -Csha256 {in}", "{bin} -dfv {in}.xz --no-sparse", "{bin} -Fraw --lzma2=preset=2 -c {text} > f",
           "{bin} -c -S .q --block-list=20000,0 --flush-timeout=1000 {text} > g", "{bin} -dc --single-stream --ignore-check a.xz > h", "{bin} -8c --memlimit-compress=30MiB {text} > i"],
    "brotli": ["{bin} -q 1 -c {text} > a.br", "{bin} -q 5 -w 16 -c {data} > b.br", "{bin} -q 9 -w 22 -c {text} > c.br", "{bin} -q 11 -c {text} > d.br", "{bin} -q 10 --large_window=26 -c {text} > e.br",
               "{bin} -dc a.br > f", "{bin} -tv c.br", "{bin} -dc --large_window=26 e.br > h", "{bin} -kS .b -q 4 {in}", "{bin} -jfn -q 2 -o z.br {in}", "{bin} -q 0 -c {data} > y.br"],
    "zstd": ["{bin} -1 -c {text} > a.zst", "{bin} -3 -T2 -c {data} > b.zst", "{bin} -9 --no-check -c {text} > c.zst", "{bin} -19 --long=24 -c {data} > d.zst", "{bin} --ultra -20 -c {text} > e.zst",
             "{bin} -dc a.zst > f", "{bin} -t d.zst --long=24", "{bin} -kv -5 {in}", "{bin} -df --rm --sparse {in}.zst -o g", "{bin} -4 --adapt -c {text} > h", "{bin} -q -6 --rsyncable -T2 -B65536 -c {text} > i",
             "{bin} -7 --no-row-match-finder --no-compress-literals --no-asyncio --stream-size=60000 -c < {text} > j"],
}


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", **options)
    if done.returncode:
        raise real.Absent(f"{' '.join(command)[:200]}: {done.stderr.strip()[-600:]}")
    return done


def preopt(folder, program):
    found = glob.glob(f"{folder}/**/{os.path.basename(program.binary)}.0.0.preopt.bc", recursive=True)
    return found[0] if found else None


def bitcode(program, work):
    """The whole program as its front ends left it."""
    folder = os.path.join(work, "bitcode", program.name)
    if found := preopt(folder, program):
        return found
    tools = os.path.join(work, "tools")
    os.makedirs(tools, exist_ok=True)
    for name in ("ar", "nm", "ranlib"):
        if not os.path.islink(os.path.join(tools, name)):
            os.symlink(shutil.which(f"llvm-{name}-{LLVM}"), os.path.join(tools, name))
    names = {}
    for key, compiler in (("cc", "clang"), ("cxx", "clang++")):
        names[key] = os.path.join(tools, "whole-" + key)
        with open(names[key], "w") as file:
            file.write(f'#!/bin/sh\nexec {compiler}-{LLVM} -w -g -flto=full -Xclang -disable-llvm-passes "$@" -fuse-ld=lld -Wl,-save-temps,--lto-O0 -Wno-unused-command-line-argument\n')
        os.chmod(names[key], 0o755)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(real.fetch(work, program.package), folder, symlinks=True)
    environment = dict(os.environ, PATH=tools + ":" + os.environ["PATH"], AR="ar", RANLIB="ranlib", NM="nm")
    configure, make = program.configure, program.make
    if configure and configure.startswith("cmake"):
        configure += f" -DCMAKE_AR={tools}/ar -DCMAKE_RANLIB={tools}/ranlib -DCMAKE_NM={tools}/nm"
    if program.name == "gzip":
        make = "make -j2 -C lib && make version.h && " + make
    for command in (configure, make):
        if command:
            run(["sh", "-c", command.format(**names)], cwd=folder, env=environment)
    if found := preopt(folder, program):
        return found
    raise real.Absent(f"the link left no bitcode in {folder}")


def truth_program(program, options, whole, pointers):
    """The program that tells which labels reach its decisions: a confirming build that counts all of them."""
    out = os.path.join(options.work, f"{program.name}-truth{'-pointers' if pointers else ''}")
    if os.path.exists(out):
        return out
    resources = run([f"clang-{LLVM}", "-print-resource-dir"]).stdout.strip()
    environment = dict(os.environ, TRANSECT_FEATURE_MODEL=program.model, TRANSECT_SITES="confirm", TRANSECT_FEATURE_REPORT="decisions", TRANSECT_IMPLICIT=options.implicit,
                       # The optimiser's own pipeline is not to look for regions again.
                       TRANSECT_COMPILE_STAGE="link", TRANSECT_CONFIRM_FUNCTIONS=os.path.join(resources, "share/dfsan_abilist.txt"))
    run([f"opt-{LLVM}", f"-load-pass-plugin={options.plugin}", "-passes=transect-regions,transect-labels,default<O1>", f"-dfsan-combine-pointer-labels-on-load={str(pointers).lower()}",
         "-dfsan-track-select-control-flow=false", whole, "-o", out + ".bc"], env=environment)
    run([f"clang-{LLVM}", "-O1", "-w", out + ".bc", "-c", "-o", out + ".o"])
    run([f"clang-{LLVM}", "-fsanitize=dataflow", "-fuse-ld=lld", out + ".o", os.path.join(os.path.dirname(options.plugin), "transect-confirm.o"), "-lm", "-lpthread", "-o", out])
    return out


def inputs(work):
    text = feature_inputs.make_input(work, "text", 120_000)
    data = feature_inputs.make_input(work, "binary", 150_000)
    return text, data


def observed(program, work, binary, count):
    """Executions of each decision, and the features that reached it in any run."""
    kept = binary + ".counts"
    if not os.path.isdir(kept):
        text, data = inputs(work)
        shutil.rmtree(kept + ".new", ignore_errors=True)
        os.makedirs(kept + ".new")
        for group in range((count + 7) // 8):
            folder = binary + ".run"
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            for command in RUNS[program.name]:
                shutil.copy(text, os.path.join(folder, "input"))
                environment = dict(os.environ, TRANSECT_CONFIRM=kept + ".new", TRANSECT_CONFIRM_GROUP=str(group), DFSAN_OPTIONS="warn_unimplemented=0:strict_data_dependencies=0")
                done = subprocess.run(["sh", "-c", command.format(bin=binary, text=text, data=data, **{"in": "input"})], cwd=folder, env=environment, capture_output=True, text=True,
                                      errors="replace", timeout=LIMIT, stdin=subprocess.DEVNULL)
                if done.returncode not in (0, 2):
                    print(f"  {command}: status {done.returncode}: {done.stderr.strip()[-200:]}", flush=True)
        os.rename(kept + ".new", kept)
    executed, features = collections.Counter(), collections.defaultdict(set)
    # FILE_FORMAT.md, "Counts of a confirming run".
    for path in glob.glob(os.path.join(kept, "*.counts")):
        with open(path, "rb") as file:
            counts = file.read()
        group, = struct.unpack_from("<Q", counts, 24)
        for decision, (times, labels) in enumerate(struct.iter_unpack("<QB7x", counts[8192:])):
            if times:
                executed[decision] += times
                features[decision].update(8 * group + bit for bit in range(8) if labels >> bit & 1)
    return executed, features


def analysed(program, whole, plugin, implicit):
    """Features of each decision by the analysis: place, names; and its cost."""
    environment = dict(os.environ, TRANSECT_FEATURE_MODEL=program.model, TRANSECT_FEATURE_REPORT="decisions", TRANSECT_SITES="none", TRANSECT_IMPLICIT=implicit)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = run([f"opt-{LLVM}", f"-load-pass-plugin={plugin}", "-passes=transect-regions", whole, "-disable-output"], env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - start
    rows = {int(number): (place, function, frozenset(filter(None, features.split(",")))) for number, features, place, function in DECISION.findall(done.stderr)}
    names = re.findall(r"^transect: feature (\S+): (\d+) region", done.stderr, re.M)
    sets = collections.Counter(re.findall(r"^transect: region +(\{[^}]*\})", done.stderr, re.M))
    return rows, [name for name, _ in names], sets, cost


def compare(program, options):
    work = options.work
    whole = bitcode(program, work)
    rows, names, sets, cost = analysed(program, whole, options.plugin, options.implicit)
    total = sum(sets.values())
    size = sum(len(text.strip("{}").split(",")) * count for text, count in sets.items()) / max(total, 1)
    print(f"\n## {program.name}: {len(rows)} decisions, {sum(1 for row in rows.values() if row[2])} with features; {total} regions, {size:.2f} features each; {cost[0]:.1f} s of CPU", flush=True)
    for text, count in sets.most_common(options.sets):
        print(f"  {count:5d} {text}")
    for pointers in ((False,) if options.fast else (False, True)):
        executed, seen = observed(program, work, truth_program(program, options, whole, pointers), len(names))
        true = {(decision, names[feature]) for decision, found in seen.items() for feature in found if feature < len(names)}
        have = {(decision, feature) for decision, row in rows.items() if decision in executed for feature in row[2]}
        right = len(true & have)
        print(f"{'pointers' if pointers else 'values'}: {len(executed)} decisions ran; {len(true)} pairs seen, {len(have)} found; recall {right / max(len(true), 1):.3f}, precision {right / max(len(have), 1):.3f}")
        if not pointers:
            by = collections.Counter()
            for decision, feature in have - true:
                by[feature] += 1
            print("  too many, by feature: " + ", ".join(f"{feature} {count} (seen {sum(1 for _, f in true if f == feature)})" for feature, count in by.most_common(12)))
            for title, pairs in (("missing", true - have), ("too many", have - true)):
                for decision, feature in sorted(pairs, key=lambda pair: -executed[pair[0]])[:options.worst]:
                    place, function, found = rows.get(decision, ("?", "?", frozenset()))
                    print(f"  {title}: {feature} at {place} in {function} ({executed[decision]} executions; found {{{','.join(sorted(found))}}})")
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", required=True, type=os.path.abspath)
    parser.add_argument("--work", default=os.path.join(HERE, "../target/feature-taint"), type=os.path.abspath)
    parser.add_argument("--program", action="append", choices=list(RUNS))
    parser.add_argument("--worst", type=int, default=0, help="pairs of each kind to print")
    parser.add_argument("--sets", type=int, default=6, help="sets of regions to print")
    parser.add_argument("--implicit", default="constant", choices=["none", "constant", "all"])
    parser.add_argument("--fast", action="store_true", help="without the build that counts addresses")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    for program in real.PROGRAMS:
        if program.name in (options.program or RUNS):
            try:
                compare(program, options)
            except real.Absent as why:
                print(f"NOT RUN: {program.name}: {why}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
