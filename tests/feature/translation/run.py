#!/usr/bin/env python3
"""Samples translated to region stacks, held against a shadow stack that the sites themselves keep.

Each program is built by transect-cc with sites that call, linked to shadow.c in place of the runtime, and run; a thread
interrupts the others at odd times, and the handler writes the call stack beside the shadow stack of the same instant.

usage: run.py --transect PATH [--only WORD] [--keep FOLDER]
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# Of all samples with a whole stack.
GOAL = 0.999
PROGRAMS = [
    ("interpreter.c", "transect-cc", [["1", "1", "400000"], ["0", "1", "400000"], ["1", "0", "400000"]]),
    ("shapes.cpp", "transect-c++", [["1", "1", "12000"], ["0", "1", "40000"], ["1", "0", "30000"]]),
    ("records.cpp", "transect-c++", [["1", "1", "12000"], ["0", "1", "20000"], ["1", "0", "20000"]]),
]


def run(command, **options):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--transect", required=True, type=pathlib.Path)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--keep", type=pathlib.Path)
    arguments = arguments.parse_args()
    compilers = arguments.transect.resolve().parent
    folder = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="transect-translation-"))
    folder.mkdir(parents=True, exist_ok=True)
    shadow = folder / "shadow.o"
    run(["gcc", "-O2", "-g", "-mgeneral-regs-only", "-c", HERE / "shadow.c", "-o", shadow])
    translate = ["cargo", "run", "-q", "--locked", "-p", "transect-feature-region", "--example", "translate_samples", "--"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRANSECT_")}
    # Sites that call; linkage stubs of lld have no unwind tables, so there are none.
    build = {**environment, "TRANSECT_SITES": "trace"}
    right = whole = inside = 0
    for name, compiler, runs in PROGRAMS:
        for level in ("-O0", "-O2"):
            if arguments.only not in f"{name} {level}":
                continue
            program = folder / f"{name}{level}"
            source = HERE / "programs" / name
            run([compilers / compiler, level, "-g", "-fno-plt", source, shadow, "-o", program, "-pthread"], env=build)
            for options in runs:
                samples = folder / "samples"
                run([program, *options], env={**environment, "SHADOW_FILE": str(samples)})
                told = json.loads(run([*translate, program, samples], cwd=ROOT))
                all_of = told["right"] + told["wrong"] + told["untold"]
                print(f"{name} {level} {' '.join(options):14} {all_of:7} samples, {told['inside']:6} in regions: "
                      f"{told['wrong']} wrong, {told['untold']} not told; sites {told['sites']}, "
                      f"doubts {len(told['doubts'])}", flush=True)
                right, whole, inside = right + told["right"], whole + all_of, inside + told["inside"]
    if not arguments.keep:
        shutil.rmtree(folder)
    share = right / max(whole, 1)
    print(f"{right} of {whole} samples translated right: {share:.4%} ({inside} inside of regions)")
    good = whole >= 1000 and share >= GOAL
    print("1 passed, 0 failed" if good else f"FAILED: {GOAL:.1%} of at least 1000 samples are wanted\n0 passed, 1 failed")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
