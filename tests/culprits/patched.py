#!/usr/bin/env python3
"""Checks the programs of Debian that got a seeded performance bug: patched.toml says what is wrong in each, patched/ has
the patches and the generator of the inputs.

usage: patched.py [--only WORD]... [--rounds N] [--keep]

Each program is built as it is and with its patch, both are run with the same input, and both must give the same. The
patched one must take at least 2.5 times as long, so that the bug is at least 60 % of its time whatever a profiler says;
none is used here. Sources, builds and inputs are kept by content. Without a network a program is NOT RUN.
"""
import argparse
import hashlib
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../harness"))
import kept  # noqa: E402

RATIO = 2.5
KINDS = ("compute", "io", "lock", "wait", "spin", "memory", "child", "run-queue")
GENERATOR = os.path.join(HERE, "patched/inputs.py")
# On the disk, as kept programs are: what waits for the disk must not be in memory.
WORK = os.path.join(kept.ROOT, "target/tests/culprits")


class NotRun(Exception):
    """Why a program cannot be run here."""


class Fault(Exception):
    """Why a program cannot be built although everything is there."""


def programs():
    with open(os.path.join(HERE, "patched.toml"), "rb") as file:
        return [{**program, "patch": program["name"] + ".patch"} for program in tomllib.load(file)["program"]]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def patch_path(program):
    return os.path.join(HERE, "patched", program["patch"])


def archive(program):
    """The upstream archive of the Debian source package."""
    def make(folder):
        why = "no URL"
        for url in program["urls"]:
            try:
                with urllib.request.urlopen(url, timeout=60) as answer:
                    data = answer.read()
            except OSError as error:
                why = f"{url}: {error}"
                continue
            found = hashlib.sha256(data).hexdigest()
            if found != program["sha256"]:
                raise Fault(f"{url} has SHA-256 {found}, not {program['sha256']}")
            with open(os.path.join(folder, "archive"), "wb") as file:
                file.write(data)
            return
        raise NotRun(why)
    return os.path.join(kept.folder([], ["archive", program["sha256"]], make), "archive")


def built(program, patched):
    """The folder of the built sources, with or without the patch."""
    patch = read(patch_path(program)) if patched else None
    for tool in ["patch", "make", "cc", *program.get("tools", [])]:
        if not shutil.which(tool):
            raise NotRun(f"{tool} is not installed")
    for header in program.get("headers", []):
        if not os.path.exists(os.path.join("/usr/include", header)):
            raise NotRun(f"{header} is not installed")

    def make(folder):
        run = dict(cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        subprocess.run(["tar", "xf", archive(program), "--strip-components=1"], check=True, **run)
        if patched:
            # A patch that applies elsewhere than it says would make `lines` wrong.
            done = subprocess.run(["patch", "-p1", "--fuzz=0", "-i", patch_path(program)], **run)
            if done.returncode or b"offset" in done.stdout:
                raise Fault(f"{program['patch']} does not apply: {done.stdout.decode()}")
        done = subprocess.run(["nice", "-n", "5", "sh", "-ec", program["build"]], **run)
        if done.returncode:
            raise Fault(f"{program['name']} does not build: {done.stdout.decode(errors='replace')[-2000:]}")
    return kept.folder(["cc", "c++", "make"], [program["sha256"], program["build"], patch], make)


def inputs(program):
    """The folder of the generated input."""
    arguments = shlex.split(program["input"])
    return kept.folder([], ["input", read(GENERATOR), arguments],
                       lambda folder: subprocess.run([sys.executable, GENERATOR, *arguments], cwd=folder, check=True))


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Prepared:
    """A command ready to be run: `argv` in the folder `cwd`, with `stdin`; remove() takes the folder away."""

    def __init__(self, program, patched):
        self.program = program
        self.places = {"build": built(program, patched), "input": inputs(program)}
        os.makedirs(WORK, exist_ok=True)
        self.cwd = tempfile.mkdtemp(prefix=program["name"] + "-", dir=WORK)
        self.argv = shlex.split(program["command"].format(**self.places))
        self.stdin = program.get("stdin", "/dev/null").format(**self.places)
        self.env = {**os.environ, "LC_ALL": "C", **{name: value.format(**self.places) for name, value in program.get("env", {}).items()}}
        if "before" in program:
            subprocess.run(["sh", "-ec", program["before"].format(**self.places)], cwd=self.cwd, env=self.env, check=True)
        # Pages of an earlier run that still go to the disk would slow whoever waits for it.
        os.sync()

    def run(self):
        """Seconds, and what the program gave: its exit status, its output and its files."""
        with open(self.stdin, "rb") as stdin, open(self.cwd + ".out", "wb") as out, open(self.cwd + ".err", "wb") as err:
            used, start = cpu_seconds(), time.monotonic()
            status = subprocess.run(self.argv, cwd=self.cwd, env=self.env, stdin=stdin, stdout=out, stderr=err, timeout=120).returncode
            seconds = time.monotonic() - start
            self.cpu = cpu_seconds() - used
        if "compare" in self.program:
            gave = subprocess.run(["sh", "-ec", self.program["compare"].format(**self.places)], cwd=self.cwd, env=self.env, stdout=subprocess.PIPE, check=True).stdout
        else:
            gave = [[os.path.relpath(os.path.join(where, name), self.cwd), hashlib.sha256(read(os.path.join(where, name))).hexdigest()]
                    for where, _, names in sorted(os.walk(self.cwd)) for name in sorted(names)]
        said = read(self.cwd + ".err")[-300:].decode(errors="replace")
        return seconds, [status, hashlib.sha256(read(self.cwd + ".out")).hexdigest(), gave], said

    def remove(self):
        shutil.rmtree(self.cwd, ignore_errors=True)
        for suffix in (".out", ".err"):
            if os.path.exists(self.cwd + suffix):
                os.remove(self.cwd + suffix)


def changed_lines(patch, path):
    """The lines of the patched file that the patch put there; where it only takes lines away, the one that follows."""
    lines, here, at = set(), False, 0
    for line in patch.splitlines():
        if line.startswith("+++ "):
            here = line.split()[1] == "b/" + path
        elif line.startswith("@@ "):
            at = int(re.match(r"@@ -\S+ \+(\d+)", line)[1])
        elif not here or line.startswith("--- "):
            continue
        elif line.startswith("+"):
            lines.add(at)
            at += 1
        elif line.startswith("-"):
            lines.add(at)
        else:
            at += 1
    return lines


def faults(program):
    """What is wrong with the expectations themselves."""
    folder, (first, last) = built(program, True), program["lines"]
    path = os.path.join(folder, program["file"])
    if not os.path.exists(path):
        return [f"there is no {program['file']}"]
    lines = read(path).decode(errors="replace").splitlines()
    changed = changed_lines(read(patch_path(program)).decode(), program["file"])
    return [what for what, wrong in (
        (f"{program['file']} has no lines {first} to {last}", not 1 <= first <= last <= len(lines)),
        (f"the patch changes lines {sorted(changed)} of {program['file']}, not {first} to {last}", not changed or not first <= min(changed) or not max(changed) <= last),
        (f"lines {first} to {last} are more than the patch and what is around it", changed and (first < min(changed) - 12 or last > max(changed) + 12)),
        (f"the kind {program['kind']} is unknown", program["kind"] not in KINDS),
        ("the function is not among the names", program["function"] not in program["names"]),
        ("the call is not among the names", bool(program["call"]) and program["call"] not in program["names"]),
        (f"{program['file']} does not name {program['function']}", program["function"].split("::")[-1] not in "\n".join(lines)),
    ) if wrong]


def check(program, rounds, keep):
    """The wall and CPU seconds of both variants and what is wrong."""
    wrong, best, gave, cpu = faults(program), {}, {}, {}
    for _ in range(rounds):
        for patched in (False, True):
            prepared = Prepared(program, patched)
            seconds, result, said = prepared.run()
            best[patched] = min(seconds, best.get(patched, seconds))
            cpu[patched] = min(prepared.cpu, cpu.get(patched, prepared.cpu))
            if result[0] and not program.get("fails"):
                wrong.append(f"exit status {result[0]}: {said}")
            if gave.setdefault("result", result) != result:
                wrong.append(f"the output differs: {str(result)[:150]}, not {str(gave['result'])[:150]}")
            if keep:
                print(f"kept: {prepared.cwd}")
            else:
                prepared.remove()
    if best[True] < RATIO * best[False]:
        wrong.append(f"it takes only {best[True] / best[False]:.2f} times as long")
    return best, cpu, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="programs whose name contains this")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each variant; the shortest counts")
    parser.add_argument("--keep", action="store_true", help="leave the folders they ran in")
    options = parser.parse_args()
    passed = failed = skipped = 0
    for program in programs():
        if options.only and not any(word in program["name"] for word in options.only):
            continue
        try:
            wall, cpu, wrong = check(program, options.rounds, options.keep)
        except NotRun as why:
            print(f"NOT RUN: {program['name']}: {why}", flush=True)
            skipped += 1
            continue
        except Fault as why:
            print(f"FAILED: {program['name']}: {why}", flush=True)
            failed += 1
            continue
        print(f"{'FAILED' if wrong else 'ok'}: {program['name']} ({program['kind']}): {wall[True]:.2f} s with the bug, {wall[False]:.2f} s without, "
              f"x{wall[True] / wall[False]:.1f} (CPU {cpu[True]:.2f} and {cpu[False]:.2f} s)", flush=True)
        for what in dict.fromkeys(wrong):
            print(f"    {what}", flush=True)
        failed, passed = failed + bool(wrong), passed + (not wrong)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} not run" if skipped else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
