#!/usr/bin/env python3
"""Fuzzes all that reads what others wrote: ELF files, their tables, profiles, the memory that programs share with the recorder.

Guided by coverage (libFuzzer), with the toolchain of this repository. What fails is kept in target/fuzz/failed; put it into
fuzz/corpus/TARGET once it is mended, and it is run first from then on."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FUZZ = os.path.join(ROOT, "fuzz")
BUILT = os.path.join(ROOT, "target/fuzz")
TRIPLE = "x86_64-unknown-linux-gnu"
# As cargo-fuzz has them, without a sanitizer, which needs an unstable compiler.
FLAGS = ("-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters "
         "-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1")
# An input takes no longer, and all together no more memory.
SECONDS_PER_INPUT, MEGABYTES = 10, 3000
LONGEST = 1 << 16


def targets():
    return sorted(name.removesuffix(".rs") for name in os.listdir(os.path.join(FUZZ, "fuzz_targets")))


def build(names):
    environment = {**os.environ, "RUSTFLAGS": FLAGS}
    bins = [word for name in names for word in ("--bin", name)]
    subprocess.run(["cargo", "build", "--release", "--locked", "-q", "--target", TRIPLE, "--target-dir", BUILT, *bins], cwd=FUZZ, env=environment, check=True)


def run(name, seconds, runs):
    """True if nothing was found."""
    failed = os.path.join(BUILT, "failed", name)
    os.makedirs(failed, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="transect-fuzz-") as found:
        seeds = os.path.join(FUZZ, "corpus", name)
        if os.path.isdir(seeds):
            shutil.copytree(seeds, found, dirs_exist_ok=True)
        program = os.path.join(BUILT, TRIPLE, "release", name)
        limit = [f"-runs={runs}"] if runs is not None else [f"-max_total_time={seconds}"]
        options = [*limit, f"-timeout={SECONDS_PER_INPUT}", f"-rss_limit_mb={MEGABYTES}", f"-max_len={LONGEST}", f"-artifact_prefix={failed}/", "-print_final_stats=1", "-use_value_profile=1"]
        ended = subprocess.run([program, *options, found], cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    told = ended.stderr.splitlines()
    count = next((line.split()[-1] for line in told if line.startswith("stat::number_of_executed_units")), "?")
    if ended.returncode == 0:
        print(f"ok       {name}: {count} inputs")
        return True
    shown = [line for line in told if not line.startswith("#") and "NEW " not in line and "REDUCE" not in line]
    print(f"FAILED   {name}: after {count} inputs, status {ended.returncode}; the input is in {failed}")
    print("\n".join("         " + line[:240] for line in shown[-40:]))
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], choices=targets(), help="this target")
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("--corpus", action="store_true", help="only what is in fuzz/corpus, once")
    chosen = parser.parse_args()
    names = chosen.only or targets()
    build(names)
    passed = [run(name, max(1, chosen.seconds // len(names)), 0 if chosen.corpus else None) for name in names]
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
