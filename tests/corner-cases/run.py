#!/usr/bin/env python3
"""Runs every corner case natively and under `transect record`, and compares output, errors and exit status byte for byte.

usage: run.py --transect PATH [--build DIR] [--timing MODE]... [--quick] [--jobs N] [--only WORD] [--repeat N] [--keep]
Exit status 1 if anything differed. Needs nothing but Python and the programs (built by the Makefile beside it).
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases import CASES  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = ["adaptive", "full", "count", "every=7"]
# Between them these run every stub: untimed calls, sampled ones and those that are always timed.
QUICK_MODES = ["adaptive", "full"]


def default_signals():
    """Under nohup a test run has SIGHUP ignored, and so would its programs."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def launch(argv, env, stdin, timeout, folder, cwd):
    """Runs argv in a session of its own; returns (stdout, stderr, status as a shell reports it) or None at timeout."""
    with open(os.path.join(folder, "out"), "wb") as out, open(os.path.join(folder, "err"), "wb") as err:
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            process = subprocess.Popen(argv, env=env, stdin=given, stdout=out, stderr=err, start_new_session=True, cwd=cwd,
                                       preexec_fn=default_signals)
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        status = None
    read = lambda name: open(os.path.join(folder, name), "rb").read()
    if status is not None and status < 0:
        status = 128 - status
    return read("out"), read("err"), status


def environment(case):
    env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}
    env.update(case.env)
    return {k: v for k, v in env.items() if v is not None}


def argv_of(case, build, tmp):
    fill = lambda word: word.replace("{build}", build).replace("{tmp}", tmp)
    head = case.argv[0] if case.argv[0].startswith("/") else os.path.join(build, case.argv[0])
    return [fill(head)] + [fill(word) for word in case.argv[1:]]


def first_difference(expected, got):
    e, g = expected.split(b"\n"), got.split(b"\n")
    for i in range(max(len(e), len(g))):
        a, b = e[i] if i < len(e) else b"(end)", g[i] if i < len(g) else b"(end)"
        if a != b:
            return f"line {i + 1}: expected {a[:200]!r}, got {b[:200]!r}"
    return "no difference"


def compare(case, native, recorded):
    problems = []
    if recorded[2] is None:
        problems.append("timed out")
    elif recorded[2] != native[2]:
        problems.append(f"status: expected {native[2]}, got {recorded[2]}; stderr {recorded[1][-300:]!r}")
    streams = [("stdout", 0)] + ([("stderr", 1)] if case.same_stderr else [])
    scrub = case.scrub or (lambda data: data)
    for name, index in streams:
        if scrub(native[index]) != scrub(recorded[index]):
            problems.append(f"{name}: {first_difference(scrub(native[index]), scrub(recorded[index]))}")
    return problems


def untimed(options, profile):
    shown = subprocess.run([options.transect, "report", profile, "--view", "loss", "--format", "json"], capture_output=True, text=True)
    if shown.returncode:
        return [f"report: {shown.stderr[-300:]}"]
    return [f"{row['count']} untimed calls: {row['reason']}" for row in json.loads(shown.stdout)["loss"] if row["what"] == "untimed calls"]


def is_refused(case, options):
    """What the agent can't enter is recorded by the scheduler's events alone, where these are collected."""
    return case.refused is not None and not (case.refused == "static" and options.collect == "default" and os.geteuid() == 0)


def run_case(case, mode, options, native_results, folder):
    scratch = tempfile.mkdtemp(dir=folder)
    argv = argv_of(case, options.build, folder)
    env = environment(case)
    profile = os.path.join(scratch, "profile")
    collect = [] if options.collect == "default" else ["--collect", options.collect]
    # A flag of flows is refused where these are left out; and this mode is the one without it.
    timing = [] if options.collect == "default" and mode == "adaptive" else ["--timing", mode]
    record = [options.transect, "record", "--quiet", *collect, *timing, "-o", profile, "--"] + argv
    result = launch(record, env, case.stdin, case.timeout * 2, scratch, folder)
    if is_refused(case, options):
        problems = []
        if result[2] in (0, None):
            problems.append(f"not refused: status {result[2]}")
        if case.refused.encode() not in result[1]:
            problems.append(f"message without {case.refused!r}: {result[1][:300]!r}")
        if b"panicked" in result[1]:
            problems.append("panic")
    else:
        problems = compare(case, native_results, result)
        if not os.path.isdir(profile) and not problems:
            problems.append("no profile was written")
        elif case.none_lost and not problems:
            problems += untimed(options, profile)
    if not options.keep:
        shutil.rmtree(scratch, ignore_errors=True)
    return problems


def main():
    # Started in the background, a shell has these ignored, and what is ignored is inherited by the programs under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", default=os.path.join(HERE, "../../target/release/transect"))
    parser.add_argument("--build", default=os.path.join(HERE, "../../target/corner-cases"))
    parser.add_argument("--timing", action="append", help="timing mode, may be repeated (default: all)")
    parser.add_argument("--collect", default="flow", help="collectors, as for record; `default`: those of a recording without --collect")
    parser.add_argument("--quick", action="store_true", help=f"only the modes {' and '.join(QUICK_MODES)}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", help="run cases whose name contains this word")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep outputs and profiles, and print where")
    parser.add_argument("--native", action="store_true", help="only run each case natively twice and compare the two")
    options = parser.parse_args()
    options.build = os.path.realpath(options.build)
    options.transect = os.path.realpath(options.transect)
    if not options.native and not os.access(options.transect, os.X_OK):
        sys.exit(f"{options.transect} is missing: run `make build` first")

    folder = tempfile.mkdtemp(prefix="transect-corner-")
    passed, failed, skipped = 0, [], 0
    jobs = []
    for case in CASES:
        if options.only and not any(word in case.name for word in options.only):
            continue
        if case.prepare and (case.needs is None or case.needs(options.build) is None):
            case.prepare(options.build)
        why = case.needs(options.build) if case.needs else None
        if why:
            print(f"NOT RUN: {case.name}: {why}")
            skipped += 1
            continue
        jobs.append(case)

    def whole_case(case):
        scratch = tempfile.mkdtemp(dir=folder)
        native = None
        outcomes = []
        if not is_refused(case, options):
            native = launch(argv_of(case, options.build, folder), environment(case), case.stdin, case.timeout, scratch, folder)
            if native[2] is None:
                return [("native", ["the program itself timed out"])]
        if options.native:
            if case.refused is not None:
                return []
            again = launch(argv_of(case, options.build, folder), environment(case), case.stdin, case.timeout, scratch, folder)
            return [("native", compare(case, native, again))]
        for mode in options.timing or case.modes or (QUICK_MODES if options.quick else MODES):
            for _ in range(options.repeat):
                outcomes.append((mode, run_case(case, mode, options, native, folder)))
        return outcomes

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for case, outcomes in zip(jobs, pool.map(whole_case, jobs)):
            for mode, problems in outcomes:
                if problems:
                    failed.append((case.name, mode))
                    print(f"FAILED: {case.name} [{mode}]: " + "; ".join(problems), flush=True)
                else:
                    passed += 1
                    print(f"ok {case.name} [{mode}]", flush=True)
    if options.keep:
        print(f"kept in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {len(failed)} failed" + (f", {skipped} not run" if skipped else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
