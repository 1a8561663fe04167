#!/usr/bin/env python3
"""Real programs with a probe on every function, switched at random while they work, then without: the output must be
that of an undisturbed run, and the text byte for byte that of the files. Also latency measurements of the same programs.

Usage: run.py --transect PATH [--seconds N] [--only NAME]...
"""
import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from harness.results import Results  # noqa: E402

SQL = ("with recursive c(x) as (select 1 union all select x+1 from c where x<{n}) "
       "select sum(x), count(*), sum(length(hex(x))), count(distinct x % 97) from c;")


def programs(folder):
    """(name, command for about `scale` tenths of a second of work)."""
    repository = os.path.join(folder, "repository")
    subprocess.run(
        "git init -q . && git config user.email a@b && git config user.name a && "
        "for i in $(seq 60); do seq $((i*50)) $((i*90)) > f$((i%7)); git add -A; git commit -qm $i; done",
        shell=True, cwd=os.makedirs(repository) or repository, check=True)
    return {
        "python3": lambda scale: ["/usr/bin/python3", os.path.join(HERE, "python_work.py"), str(scale * 60)],
        "sqlite3": lambda scale: ["sqlite3", ":memory:", SQL.format(n=scale * 40000)],
        "bash": lambda scale: ["bash", "-c", "s=0; for ((i=0; i<%d; i++)); do a[i%%100]=$i; t=${a[i%%50]}; s=$((s+t%%7));"
                               " [[ $t == *7 ]] && u=${t/7/x}; done; echo $s $u" % (scale * 9000)],
        "git": lambda scale: ["bash", "-c", "cd %s; for i in $(seq %d); do git log -p --stat; git fsck --full;"
                              " done 2>&1 | sha256sum" % (repository, max(1, scale // 2))],
    }


def descriptors():
    """(name, command that shows or exhausts the descriptors of its process)."""
    return {
        "descriptors": ["ls", "/proc/self/fd"],
        "the last descriptor": ["sh", "-c", "ulimit -n 4; exec ls /proc/self/fd"],
        "all descriptors closed": ["/usr/bin/python3", "-c", "import os\nfor i in range(3, 1024):\n try: os.close(i); print(i)\n"
                                   " except OSError: pass\nprint(os.open('/dev/null', 0))\nfor i in range(10**6): pass"],
    }


def texts_that_differ(pid):
    """Executable file mappings whose bytes are not the file's."""
    differ, compared = [], 0
    with open(f"/proc/{pid}/mem", "rb") as memory, open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            field = line.split()
            if len(field) < 6 or "x" not in field[1] or not field[5].startswith("/") or "memfd" in field[5]:
                continue
            first, last = (int(part, 16) for part in field[0].split("-"))
            memory.seek(first)
            there = memory.read(last - first)
            with open(field[5], "rb") as file:
                file.seek(int(field[2], 16))
                here = file.read(last - first)
            compared += 1
            if there[:len(here)] != here:
                differ.append(field[5])
    return differ, compared


def toggled(transect, command, seconds, randomness):
    """Runs the command with probes on everything, switched at random; gives its output or what went wrong."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    end = time.monotonic() + seconds
    said = []

    def probe(*words):
        done = subprocess.run([transect, "probe", words[0], "-p", str(process.pid), *words[1:]],
                              capture_output=True, text=True, timeout=120)
        if done.returncode != 0 and process.poll() is None:
            said.append(f"probe {' '.join(words)}: {done.returncode}: {done.stderr[-300:]}")

    time.sleep(0.3)
    probe("enable", "*")
    while time.monotonic() < end and process.poll() is None:
        letters = "".join(randomness.sample("abcdefghijklmnopqrstuvwxyz", 5))
        probe(randomness.choice(["enable", "disable"]), f"*[{letters}]*")
        if randomness.random() < 0.3:
            probe("time", "--for", "100ms", f"*[{letters}]*")
    probe("detach")
    if process.poll() is None:
        differ, compared = texts_that_differ(process.pid)
        if differ or compared == 0:
            said.append(f"after detach {len(differ)} of {compared} texts differ: {differ[:3]}")
    else:
        said.append("it ended before the probes were taken out: more work needed")
    output = process.communicate(timeout=600)[0]
    return output, process.returncode, said


def processor_seconds():
    """Time on a CPU of all that was run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--transect", required=True)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--only", action="append", help="a program; may be repeated")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    transect = os.path.abspath(arguments.transect)
    randomness = random.Random(arguments.seed)
    results = Results()
    with tempfile.TemporaryDirectory() as folder:
        for name, command in descriptors().items():
            # Without privileges the descriptor of the probes' memory has to be there.
            if os.geteuid() != 0 or arguments.only and name not in arguments.only:
                continue
            native = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            profile = os.path.join(folder, "descriptors.transect")
            measured = subprocess.run([transect, "latency", "-q", "-o", profile, "--", *command],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            same = (measured.stdout, measured.returncode) == (native.stdout, native.returncode)
            problems = [] if same else [f"status {measured.returncode}, {measured.stdout[-200:]!r} for {native.stdout[-200:]!r}"]
            results.judge(f"{name}: as without probes", problems)
        for name, command in programs(folder).items():
            if arguments.only and name not in arguments.only:
                continue
            began, used = time.monotonic(), processor_seconds()
            native = subprocess.run(command(20), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            # Not the time in which others had its CPU.
            took = min(time.monotonic() - began, processor_seconds() - used)
            tenths = max(took / 20, 1e-3)

            profile = os.path.join(folder, f"{name}.transect")
            measured = subprocess.run([transect, "latency", "-q", "-o", profile, "--", *command(20)],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            problems = []
            if (measured.stdout, measured.returncode) != (native.stdout, native.returncode):
                problems.append(f"status {measured.returncode}, output {measured.stdout[-200:]!r}")
            results.judge(f"{name}: latency of all functions leaves output and status alone", problems)

            # Work enough for the whole time, probes included.
            scale = int((arguments.seconds * 3 + 6) / tenths)
            truth = subprocess.run(command(scale), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            output, status, problems = toggled(transect, command(scale), arguments.seconds, randomness)
            if (output, status) != (truth.stdout, truth.returncode):
                problems.append(f"status {status}, output {output[-200:]!r}")
            results.judge(f"{name}: all functions probed and switched at random, then restored", problems)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
