#!/usr/bin/env python3
"""Runs the healthy programs of healthy.toml: programs of Debian that do what they are for, with nothing to be fixed.

usage: healthy.py [--only WORD]...

Each must end well in 0.5 to 4 s. What is not installed is NOT RUN. Inputs are generated and kept by content.
"""
import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../harness")]
import kept  # noqa: E402
from patched import WORK, NotRun, read  # noqa: E402

GENERATOR = os.path.join(HERE, "healthy/inputs.py")


def programs():
    with open(os.path.join(HERE, "healthy.toml"), "rb") as file:
        return tomllib.load(file)["program"]


def inputs(program):
    """The folder of the generated input."""
    arguments = shlex.split(program["input"])
    return kept.folder([], ["healthy", read(GENERATOR), arguments],
                       lambda folder: subprocess.run([sys.executable, GENERATOR, *arguments], cwd=folder, check=True))


class Prepared:
    """A command ready to be run: `argv` in the folder `cwd`, with `stdin`; remove() takes the folder away."""

    def __init__(self, program):
        command = shlex.split(program["command"].format(input="{input}"))
        if not shutil.which(command[0]):
            raise NotRun(f"{command[0]} is not installed")
        folder = inputs(program)
        os.makedirs(WORK, exist_ok=True)
        self.cwd = tempfile.mkdtemp(prefix=program["name"] + "-", dir=WORK)
        self.argv = shlex.split(program["command"].format(input=folder))
        self.stdin = program.get("stdin", "/dev/null").format(input=folder)
        self.env = {**os.environ, "LC_ALL": "C"}
        os.sync()

    def remove(self):
        shutil.rmtree(self.cwd, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="programs whose name contains this")
    options = parser.parse_args()
    failed = 0
    for program in programs():
        if options.only and not any(word in program["name"] for word in options.only):
            continue
        try:
            prepared = Prepared(program)
        except NotRun as why:
            print(f"NOT RUN: {program['name']}: {why}", flush=True)
            continue
        start = time.monotonic()
        with open(prepared.stdin, "rb") as stdin:
            done = subprocess.run(prepared.argv, cwd=prepared.cwd, env=prepared.env, stdin=stdin, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, timeout=120)
        seconds = time.monotonic() - start
        prepared.remove()
        wrong = done.returncode or not 0.5 <= seconds <= 4
        print(f"{'FAILED' if wrong else 'ok'}: {program['name']}: {seconds:.2f} s, status {done.returncode} {done.stderr[-200:].decode(errors='replace')}", flush=True)
        failed += bool(wrong)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
