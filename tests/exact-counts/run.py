#!/usr/bin/env python3
"""Compares a profile's counts and times with what the programs themselves know.

usage: run.py --transect PATH [--programs N] [--seed N] [--work DIR] [--timing MODE]... [--only counts|spin|killed|ends]... [--keep]
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import callback  # noqa: E402
import edges  # noqa: E402
import tiny  # noqa: E402
from generate import Program, run as compile_step  # noqa: E402
from harness import kept  # noqa: E402
from harness.results import Results  # noqa: E402


GENERATOR = kept.content(os.path.join(HERE, "generate.py"))


def flows_of(transect, profile):
    shown = subprocess.run([transect, "report", profile, "--format", "json"], capture_output=True, text=True, timeout=60)
    if shown.returncode:
        raise RuntimeError(f"report: {shown.stderr[-300:]}")
    report = json.loads(shown.stdout)
    odd = list(implausible(report))
    if odd:
        raise RuntimeError("; ".join(odd[:4]))
    return report["flows"], report["loss"]


def implausible(report):
    """What no run can have: more timed calls than calls, more time than all threads lived."""
    lived = sum(row["wall_ns"] for row in report["threads"]) * 1.02 + 10_000_000
    attributed = sum(row["attributed_ns"] or 0 for row in report["threads"]) * 1.02 + 10_000_000
    for row in report["locks"]:
        if not 0 <= row["hold_ns"] <= lived:
            yield f"{row['object']}: held for {row['hold_ns']} ns, threads lived {lived:.0f}"
    for row in report["flows"]:
        name = f"{row['caller']} -> {row['callee']} -> {row['api']}"
        if row["timed_calls"] > row["calls"]:
            yield f"{name}: {row['timed_calls']} of {row['calls']} calls timed"
        for key in ("total_ns", "self_ns", "attributed_ns"):
            most = attributed if key == "attributed_ns" else lived
            if not 0 <= (row[key] or 0) <= most:
                yield f"{name}: {key} {row[key]}, threads have {most:.0f}"


def record(transect, timing, profile, argv, timeout=120, collect=("--collect", "flow")):
    return subprocess.run([transect, "record", "--quiet", *collect, "--timing", timing, "-o", profile, "--"] + argv, capture_output=True, text=True, timeout=timeout)


def sums(flows):
    table = {}
    for row in flows:
        key = (row["caller"], row["callee"], row["api"])
        table[key] = table.get(key, 0) + row["calls"]
    return table


def check_counts(options, seed, folder):
    """One random program under each timing mode."""
    program = Program(seed)
    where = os.path.join(folder, f"seed-{seed}")
    os.makedirs(where, exist_ok=True)
    path = os.path.join(kept.folder(["cc"], ["exact counts", seed, GENERATOR], program.build), "program")
    outcomes = []
    try:
        native = subprocess.run([path, os.path.join(where, "native.json")], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [(f"seed {seed}: {program.describe()}", [f"natively: {error}"])]
    for timing in options.timing or ["adaptive", "full", "count"]:
        truth_file, profile = os.path.join(where, f"truth-{timing}.json"), os.path.join(where, f"profile-{timing}")
        complaints = []
        try:
            done = record(options.transect, timing, profile, [path, truth_file])
            expected = 128 - native.returncode if native.returncode < 0 else native.returncode
            if done.returncode != expected:
                complaints.append(f"status {done.returncode}, natively {expected}; {done.stderr[-200:]}")
            if os.path.exists(truth_file):
                truth = {(c, e, a): n for c, e, a, n in (row for row in json.load(open(truth_file)) if row)}
                flows, loss = flows_of(options.transect, profile)
                got = sums(flows)
                ours = {program.object_name(i) for i in range(program.libraries + 1)}
                for key, count in sorted(truth.items()):
                    if got.get(key, 0) != count:
                        complaints.append(f"{' -> '.join(key)}: {got.get(key, 0)} calls, the program counted {count}")
                for key in got:
                    if re.match(r"f\d+_\d+$", key[2]) and key not in truth:
                        complaints.append(f"{' -> '.join(key)}: {got[key]} calls that nobody made")
                if complaints:
                    complaints.append(f"loss: {json.dumps([l for l in loss if any(o in l['where'] for o in ours)])[:400]}")
            else:
                complaints.append("the program did not get as far as its counters")
        except (RuntimeError, subprocess.TimeoutExpired, KeyError, json.JSONDecodeError) as error:
            complaints.append(f"{type(error).__name__}: {error}"[:500])
        outcomes.append((f"seed {seed} [{timing}]: {program.describe()}", complaints))
    if not options.keep and not any(c for _, c in outcomes):
        shutil.rmtree(where, ignore_errors=True)
    return outcomes


def check_spin(options, folder, results):
    """A callee's reported time against its own measure of it, every call timed."""
    cc = ["cc", "-O2", "-g", "-pthread"]
    compile_step(cc + ["-fPIC", "-shared", f"{HERE}/libspin.c", "-o", f"{folder}/libspin.so"])
    compile_step(cc + [f"{HERE}/spin.c", "-o", f"{folder}/spin", "-rdynamic", f"-L{folder}", "-lspin", "-Wl,-rpath,$ORIGIN"])
    for timing in ("full", "adaptive"):
        for ns, calls, depth in ((1000, 200000, 1), (10000, 30000, 1), (1000000, 300, 1), (10000, 4000, 5)):
            api = "spin_deep" if depth > 1 else "spin_known"

            def attempt(timing=timing, ns=ns, calls=calls, depth=depth, api=api):
                profile = os.path.join(folder, f"spin-{timing}-{ns}-{depth}")
                shutil.rmtree(profile, ignore_errors=True)
                done = record(options.transect, timing, profile, [f"{folder}/spin", str(calls), str(ns), *([str(depth)] if depth > 1 else [])])
                if done.returncode:
                    return [f"status {done.returncode}: {done.stderr[-200:]}"], []
                truth, undisturbed = map(int, done.stdout.split())
                if timing == "full":
                    undisturbed = truth  # a sample may miss a preemption, a full measurement may not
                row = next((r for r in flows_of(options.transect, profile)[0] if r["api"] == api), None)
                if not row or row["calls"] != calls * depth:
                    return [f"{row and row['calls']} of {calls * depth} calls"], []
                if depth == 1 and row["self_ns"] != row["total_ns"]:
                    return [f"{row['self_ns']} of {row['total_ns']} ns are its own, and it calls nothing"], []
                # A preemption between the program's clock and ours is the machine's.
                off = [f"{key}: {row[key]} ns reported, {undisturbed} to {truth} ns spun" for key in ("total_ns", "self_ns")
                       if not undisturbed * 0.98 <= row[key] <= truth * 1.02]
                return [], off

            results.judge_measured(f"callee of {ns} ns{f', {depth} deep' if depth > 1 else ''} [{timing}]", attempt)


def check_short_recursion(options, folder, results):
    """Of a recursion of short calls few are timed, most of those within calls that are not: stack samples tell what it takes."""

    def attempt():
        profile = os.path.join(folder, "short-recursion")
        shutil.rmtree(profile, ignore_errors=True)
        done = record(options.transect, "adaptive", profile, [f"{folder}/spin", "400000", "200", "5"], collect=())
        if done.returncode:
            return [f"status {done.returncode}: {done.stderr[-200:]}"], []
        truth = int(done.stdout.split()[0])
        rows = {row["api"]: row for row in flows_of(options.transect, profile)[0]}
        deep, again = rows.get("spin_deep"), rows.get("again")
        if not deep or not again or (deep["calls"], again["calls"]) != (2000000, 1600000):
            return [f"calls: {deep and deep['calls']} and {again and again['calls']}"], []
        off = [f"{key} of spin_deep: {deep[key]}, {truth} ns spun" for key in ("total_ns", "self_ns") if not 0.9 * truth <= deep[key] <= 1.1 * truth]
        if again["self_ns"] > 0.1 * truth:
            off.append(f"self_ns of again, which only calls: {again['self_ns']} beside {truth} ns spun")
        return [], off

    results.judge_measured("recursion of short calls, with samples", attempt)


def check_chosen(options, folder, results):
    """Few of many calls take nearly all of the time. The loader has chosen what one function is, the other jumps on: samples have
    other names than the flows."""
    compile_step(["gcc", "-O2", "-g", "-fPIC", "-shared", f"{HERE}/libchosen.c", "-o", f"{folder}/libchosen.so"])
    compile_step(["gcc", "-O2", "-g", f"{HERE}/chosen.c", "-o", f"{folder}/chosen", f"-L{folder}", "-lchosen", "-Wl,-rpath,$ORIGIN"])

    def attempt():
        profile = os.path.join(folder, "chosen-profile")
        shutil.rmtree(profile, ignore_errors=True)
        done = record(options.transect, "adaptive", profile, [f"{folder}/chosen"], collect=())
        if done.returncode:
            return [f"status {done.returncode}: {done.stderr[-200:]}"], []
        rows = {row["api"]: row for row in flows_of(options.transect, profile)[0]}
        off, wrong = [], []
        for api, ns in (line.split() for line in done.stdout.splitlines()):
            row, truth = rows.get(api), int(ns)
            if not row or row["calls"] != 1000000:
                wrong.append(f"calls of {api}: {row and row['calls']}")
            elif not 0.8 * truth <= row["total_ns"] <= 1.2 * truth:
                off.append(f"total of {api}: {row['total_ns']}, {truth} ns by its own clock")
        return wrong, off

    results.judge_measured("functions whose code has other names, with samples", attempt)


def check_nested(options, folder, results):
    """A call's own time is without what it calls, and its total with it, also where few of either are timed."""
    cc = ["cc", "-O2", "-g"]
    compile_step(cc + ["-fPIC", "-shared", f"{HERE}/libnested.c", "-o", f"{folder}/libnested.so", f"-L{folder}", "-lspin", "-Wl,-rpath,$ORIGIN"])
    compile_step(cc + [f"{HERE}/nested.c", "-o", f"{folder}/nested", "-rdynamic", f"-L{folder}", "-lnested", "-lspin", "-Wl,-rpath,$ORIGIN"])
    for timing, collect in (("adaptive", ("--collect", "flow")), ("adaptive", ()), ("every=7", ("--collect", "flow"))):
        name = f"nested calls [{timing}{'' if collect else ', default'}]"

        def attempt(timing=timing, collect=collect):
            profile = os.path.join(folder, "nested-profile")
            shutil.rmtree(profile, ignore_errors=True)
            done = record(options.transect, timing, profile, [f"{folder}/nested", "100000", "5000"], collect=collect)
            if done.returncode:
                return [f"status {done.returncode}: {done.stderr[-200:]}"], []
            own, whole = map(int, done.stdout.split())
            row = next((r for r in flows_of(options.transect, profile)[0] if r["api"] == "nested"), None)
            if not row or row["calls"] != 100000:
                return [f"{row and row['calls']} of 100000 calls"], []
            off = [f"{key}: {row[key]} ns reported, {truth} ns by its own clock" for key, truth, part in
                   (("total_ns", whole, 0.08), ("self_ns", own, 0.25)) if abs(row[key] - truth) > part * truth]
            return [], off

        results.judge_measured(name, attempt)


def check_reenter(options, folder, results):
    """Calls inside calls of the same flow, by callbacks: a total is that of the outermost ones, however few calls are timed."""
    flow, forms = ("--collect", "flow"), (("none", "300000", "0", "0", "0", "0"), ("chains", "50000", "5000", "50", "0", "0"), ("chains from the start", "0", "5000", "50", "0", "0"), ("trees", "50000", "0", "0", "30", "13"))
    builds = [(name, os.path.join(folder, f"reenter-{name}"), ["cc", "-O2", "-g", flag]) for name, flag in
              (("calls", "-fno-optimize-sibling-calls"), ("jumps", "-foptimize-sibling-calls"))]
    for _, where, cc in builds:
        os.makedirs(where, exist_ok=True)
        compile_step(cc + ["-fPIC", "-shared", f"{HERE}/libreenter.c", "-o", f"{where}/libreenter.so"])
        compile_step(cc + [f"{HERE}/reenter.c", "-o", f"{where}/reenter", f"-L{where}", "-lreenter", "-Wl,-rpath,$ORIGIN"])
    for (build, where, _), (form, *numbers) in itertools.product(builds, forms):
        calls = int(numbers[0]) + int(numbers[1]) * int(numbers[2]) + int(numbers[3]) * (2 ** (int(numbers[4]) + 1) - 2)
        for timing, collect in (("full", flow), ("adaptive", flow), ("adaptive", ()), ("every=97", flow)):
            if form == "none" and timing == "full":
                continue  # each call is as long as its timing, which the program's clock has too
            # What is left by jumps inside a timed call, four at most, is in its frame, and in no sample of its own.
            bound = 0.2 if build == "calls" or timing == "full" else 0.4

            def attempt(build=build, where=where, numbers=numbers, calls=calls, timing=timing, collect=collect, bound=bound):
                profile = os.path.join(folder, "reenter-profile")
                shutil.rmtree(profile, ignore_errors=True)
                done = record(options.transect, timing, profile, [f"{where}/reenter", *numbers], collect=collect)
                if done.returncode:
                    return [f"status {done.returncode}: {done.stderr[-200:]}"], []
                truth = int(done.stdout)
                row = next((r for r in flows_of(options.transect, profile)[0] if r["api"] == "reenter"), None)
                if not row or row["calls"] != calls:
                    return [f"{row and row['calls']} of {calls} calls"], []
                keys = ("total_ns", "self_ns") if build == "calls" else ("total_ns",)
                return [], [f"{key}: {row[key]} ns reported, {truth} ns by its own clock" for key in keys if abs(row[key] - truth) > bound * truth]

            results.judge_measured(f"{build} inside each other, {form} [{timing}{'' if collect else ', default'}]", attempt)


def check_tails(options, folder, results):
    """Few long calls among many short ones: the interval holds what the callee says of itself, with samples beside and without."""
    cc = ["cc", "-O2", "-g", "-pthread"]
    compile_step(cc + [f"{HERE}/tails.c", "-o", f"{folder}/tails", "-rdynamic", f"-L{folder}", "-lspin", "-lm", "-Wl,-rpath,$ORIGIN"])
    for kind, shape, calls in (("pareto", "1.5", 600000), ("twopoint", "1000", 800000), ("twopoint", "20000", 800000)):
        for beside, collect in (("default", ()), ("flow", ("--collect", "flow"))):
            # Without samples a tail that no timed call met is not seen.
            if beside == "flow" and shape == "20000":
                continue

            def attempt(kind=kind, shape=shape, calls=calls, beside=beside, collect=collect):
                profile = os.path.join(folder, f"tails-{kind}-{shape}-{beside}")
                shutil.rmtree(profile, ignore_errors=True)
                done = record(options.transect, "adaptive", profile, [f"{folder}/tails", kind, "500", shape, str(calls)], collect=collect)
                if done.returncode:
                    return [f"status {done.returncode}: {done.stderr[-200:]}"], []
                truth = int(done.stdout.split()[0])
                row = next((r for r in flows_of(options.transect, profile)[0] if r["api"] == "spin_known"), None)
                if not row or row["calls"] != calls:
                    return [f"{row and row['calls']} of {calls} calls"], []
                low, high = row["total_ns_low"] or row["total_ns"], row["total_ns_high"] or row["total_ns"]
                seen = f"{row['total_ns']} ns, {low} to {high}; {truth} ns spun"
                return [], [] if low * 0.97 <= truth <= high * 1.03 else [f"the interval does not hold it: {seen}"]

            results.judge_measured(f"tail {kind} {shape} [{beside}]", attempt)


def check_crowded(options, folder, results):
    """More threads than CPUs: what calls take without a CPU is theirs, of system calls, too. Without the scheduler's events nobody
    knows in which calls it was, and the recording says how much it is. Truth: each call by the program's clock."""
    compile_step(["cc", "-O2", "-g", "-pthread", f"{HERE}/crowded.c", "-o", f"{folder}/crowded"])
    for collect in ((), ("--collect", "flow")):

        def attempt(collect=collect):
            profile = os.path.join(folder, "crowded-profile")
            shutil.rmtree(profile, ignore_errors=True)
            done = record(options.transect, "adaptive", profile, [f"{folder}/crowded", "16", "6000"], collect=collect)
            if done.returncode:
                return [f"status {done.returncode}: {done.stderr[-200:]}"], []
            truths = dict(zip(("read", "memchr"), map(int, done.stdout.split())))
            (flows, loss), off = flows_of(options.transect, profile), []
            for api, truth in truths.items():
                rows = [r for r in flows if r["api"] == api and r["caller"] == "crowded"]
                if sum(r["calls"] for r in rows) != 16 * 6000:
                    return [f"{api}: {sum(r['calls'] for r in rows)} calls of {16 * 6000}"], []
                total = sum(r["total_ns"] for r in rows)
                if not collect and abs(total - truth) > 0.25 * truth:
                    off.append(f"{api}: {total} ns, {truth} by the program's clock")
            if collect and not any(row["what"] == "milliseconds without a CPU" for row in loss):
                off.append("time without a CPU is not among the losses")
            return [], off

        results.judge_measured(f"more threads than CPUs [{'flow' if collect else 'default'}]", attempt)


def check_crowded_long(options, folder, results):
    """The same of calls that take half a millisecond: who loses the CPU mostly loses it inside of them, not in what times them."""
    for timing, collect in (("adaptive", ()), ("adaptive", ("--collect", "flow")), ("full", ("--collect", "flow"))):

        def attempt(timing=timing, collect=collect):
            profile = os.path.join(folder, "crowded-profile")
            shutil.rmtree(profile, ignore_errors=True)
            done = record(options.transect, timing, profile, [f"{folder}/crowded", "6", "200", str(8 << 20)], collect=collect)
            if done.returncode:
                return [f"status {done.returncode}: {done.stderr[-200:]}"], []
            truth = int(done.stdout.split()[1])
            total = sum(r["total_ns"] for r in flows_of(options.transect, profile)[0] if r["api"] == "memchr")
            return [], [f"memchr: {total} ns, {truth} by the program's clock"] if abs(total - truth) > 0.1 * truth else []

        results.judge_measured(f"more threads than CPUs, long calls [{timing}, {'flow' if collect else 'default'}]", attempt)


def check_calling(options, folder, results):
    """Code that a library calls by a pointer is its own component's; a lock is held for as long as its holder says."""
    cc = ["cc", "-O2", "-g", "-pthread"]
    compile_step(cc + ["-fPIC", "-shared", f"{HERE}/libcalling.c", "-o", f"{folder}/libcalling.so"])
    compile_step(cc + [f"{HERE}/calling.c", "-o", f"{folder}/calling", f"-L{folder}", "-lcalling", "-Wl,-rpath,$ORIGIN"])

    # One acquisition in four has its time taken, and one in a hundred has half of it: fewer do not tell it to 5 %.
    calls = 160000

    def attempt():
        profile = os.path.join(folder, "calling-profile")
        shutil.rmtree(profile, ignore_errors=True)
        done = record(options.transect, "adaptive", profile, [f"{folder}/calling", str(calls), "10000"], collect=())
        if done.returncode:
            return [f"status {done.returncode}: {done.stderr[-200:]}"], []
        shown = subprocess.run([options.transect, "report", "--format", "json", profile], capture_output=True, text=True, check=True)
        report = json.loads(shown.stdout)
        library, held = map(int, done.stdout.split())
        wall = report["meta"]["wall_ns"]
        rows = {row["component"]: row for row in report["components"]}
        off = []
        own = rows["calling"]["self_ns"] / wall
        if own < 0.6:
            off.append(f"the program's own code has {own:.2f} of the time, {rows['libcalling.so']['self_ns'] / wall:.2f} the library that calls it")
        # It reads the clock all the time.
        called = sum(row["self_ns"] for name, row in rows.items() if name in ("libcalling.so", "libc.so.6", "[vdso]"))
        if not 0.8 * library < called < 1.25 * library:
            off.append(f"the library and the clock that it reads have {called} ns; {library} ns by its own clock")
        for name, row in rows.items():
            parts = [row[key] for key in ("on_cpu_ns", "runnable_ns", "blocked_ns")]
            if None not in parts and sum(parts) != row["self_ns"]:
                return [f"{name}: {parts} of {row['self_ns']} ns"], []
        passed = next(row for row in report["flows"] if row["api"] == "pass_on")
        if passed["calls"] != 300:
            return [f"{passed['calls']} calls of 300"], []
        if passed["self_ns"] > 0.2 * passed["total_ns"]:
            off.append(f"what goes on in read by a jump has {passed['self_ns']} of {passed['total_ns']} ns itself")
        lock = next(row for row in report["locks"] if row["acquisitions"] >= 1000)
        if lock["acquisitions"] != calls:
            return [f"{lock['acquisitions']} acquisitions of {calls}"], []
        if not 0.95 * held < lock["hold_ns"] < 1.05 * held:
            off.append(f"the lock is held for {lock['hold_ns']} ns, {held} ns by its holder's clock")
        return [], off

    results.judge_measured("code that is called by a pointer, and a lock's holder", attempt)


def check_holding(options, folder, results):
    """A recursive mutex is held from its first acquisition to its last release, one of a condition also after a wait."""
    compile_step(["cc", "-O2", "-g", "-pthread", f"{HERE}/holding.c", "-o", f"{folder}/holding"])
    for timing in ("adaptive", "full"):

        def attempt(timing=timing):
            profile = os.path.join(folder, f"holding-{timing}")
            shutil.rmtree(profile, ignore_errors=True)
            done = record(options.transect, timing, profile, [f"{folder}/holding", "100"])
            if done.returncode:
                return [f"status {done.returncode}: {done.stderr[-200:]}"], []
            report = json.loads(subprocess.run([options.transect, "report", "--format", "json", profile], capture_output=True, text=True, check=True).stdout)
            truth = dict(zip(("recursive", "waiting", "plain"), map(int, done.stdout.split())))
            off = []
            for name, held in truth.items():
                rows = [row for row in report["locks"] if f"({name})" in row["object"]]
                if sum(row["acquisitions"] for row in rows) != (200 if name == "recursive" else 100):
                    return [f"{name}: {[row['acquisitions'] for row in rows]} acquisitions"], []
                shown = sum(row["hold_ns"] for row in rows)
                if not 0.95 * held < shown < 1.05 * held:
                    off.append(f"{name} is held for {shown} ns, {held} ns by its holder's clock")
            return [], off

        results.judge_measured(f"mutexes that are held twice, or given away for a wait [{timing}]", attempt)


def check_trying(options, folder):
    """Locks that are tried: taken, or waited for in vain, as often as the program did, however often another had them."""
    compile_step(["cc", "-O2", "-g", "-pthread", f"{HERE}/trying.c", "-o", f"{folder}/trying"])
    for timing in ("adaptive", "full"):
        profile = os.path.join(folder, f"trying-{timing}")
        done = record(options.transect, timing, profile, [f"{folder}/trying"])
        if done.returncode:
            yield f"locks that are tried [{timing}]", [f"status {done.returncode}: {done.stderr[-200:]}"]
            continue
        report = json.loads(subprocess.run([options.transect, "report", "--format", "json", profile], capture_output=True, text=True, check=True).stdout)
        taken = {}
        for row in report["locks"]:
            taken[row["object"]] = taken.get(row["object"], 0) + row["acquisitions"]
        got = sorted(map(int, done.stdout.split()))
        found = sorted(count for count in taken.values() if count > 1000)
        wrong = [] if found == got else [f"taken {found} times, the program got them {got} times"]
        waited, contended = (sum(row[what] for row in report["locks"]) for what in ("wait_ns", "contended"))
        if waited < 60e6 or not 1253 <= contended <= sum(taken.values()):
            wrong.append(f"{contended} found the lock held and waited {waited / 1e6:.1f} ms: 1,253 at least, and 60 ms")
        yield f"locks that are tried [{timing}]", wrong


def check_waiting(options, folder, results):
    """The time that threads wait, by thread and by API, against their own clocks."""
    compile_step(["cc", "-O2", "-g", "-pthread", f"{HERE}/waiting.c", "-o", f"{folder}/waiting"])
    for timing in ("full", "adaptive"):
        def attempt(timing=timing):
            profile = os.path.join(folder, f"waiting-{timing}")
            shutil.rmtree(profile, ignore_errors=True)
            done = record(options.transect, timing, profile, [f"{folder}/waiting", "300", "1000"])
            if done.returncode:
                return [f"status {done.returncode}: {done.stderr[-200:]}"], []
            report = json.loads(subprocess.run([options.transect, "report", "--format", "json", profile], capture_output=True, text=True, check=True).stdout)
            wrong, off = [], []
            for api, truth in zip(("usleep", "pthread_join"), map(int, done.stdout.split())):
                waits = sum(row["ns"] for row in report["waits"] if row["api"] == api)
                # Each of the two threads waits in one API only.
                thread = min((row["wait_ns"] for row in report["threads"]), key=lambda ns: abs(ns - truth), default=0)
                for where, ns in (("waits", waits), ("threads", thread)):
                    if not truth / 2 < ns < truth * 2:
                        wrong.append(f"{api}: {ns} ns in {where}, {truth} ns by its own clock")
                    elif not truth * 0.97 <= ns <= truth * 1.03:
                        off.append(f"{api}: {ns} ns in {where}, {truth} ns by its own clock")
            return wrong, off

        results.judge_measured(f"time that threads wait [{timing}]", attempt)


def check_killed(options, folder):
    """SIGKILL in the middle: the counts are the program's own, give or take the call in flight of each thread."""
    cc = ["cc", "-O2", "-g", "-pthread"]
    compile_step(cc + ["-fPIC", "-shared", f"{HERE}/libcalled.c", "-o", f"{folder}/libcalled.so"])
    compile_step(cc + [f"{HERE}/killed.c", "-o", f"{folder}/killed", f"-L{folder}", "-lcalled", "-Wl,-rpath,$ORIGIN"])
    for timing in ("adaptive", "full", "count"):
        for threads in (1, 8):
            profile, counters = os.path.join(folder, f"killed-{timing}-{threads}"), os.path.join(folder, f"counters-{timing}-{threads}")
            command = [options.transect, "record", "--quiet", "--collect", "flow", "--timing", timing, "-o", profile, "--", f"{folder}/killed", counters, str(threads)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            process.stdout.readline()
            time.sleep(0.4)
            complaints = []
            # The program is the child of the recorder.
            children = open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()
            for child in children:
                if os.path.realpath(f"/proc/{child}/exe") == os.path.realpath(f"{folder}/killed"):
                    os.kill(int(child), signal.SIGKILL)
            try:
                _, errors = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                yield f"SIGKILL with {threads} threads [{timing}]", ["the recorder did not end"]
                continue
            if process.returncode != 137:
                complaints.append(f"status {process.returncode}; {errors[-200:]}")
            words = struct.iter_unpack("8q", open(counters, "rb").read())
            totals = [sum(column) for column in zip(*words)]
            try:
                got = sums(flows_of(options.transect, profile)[0])
                for api, entered, left in (("called_often", totals[0], totals[1]), ("called_rarely", totals[2], totals[3])):
                    calls = got.get(("killed", "libcalled.so", api), 0)
                    if not left <= calls <= entered:
                        complaints.append(f"{api}: {calls} calls, the program counted {left} left, {entered} entered")
            except (RuntimeError, KeyError) as error:
                complaints.append(str(error))
            yield f"SIGKILL with {threads} threads [{timing}]", complaints


def check_ends(options, folder):
    """Threads and jumps that end where nobody expects it."""
    cc = ["cc", "-O1", "-g", "-pthread"]
    here = [f"-L{folder}", "-Wl,-rpath,$ORIGIN"]
    compile_step(cc + ["-fPIC", "-shared", f"{HERE}/libjump.c", "-o", f"{folder}/libjump.so"])
    compile_step(cc + ["-fPIC", "-shared", f"{HERE}/libjumping.c", "-o", f"{folder}/libjumping.so"] + here + ["-ljump"])
    compile_step(cc + [f"{HERE}/jumping.c", "-o", f"{folder}/jumping"] + here + ["-ljumping", "-ljump"])
    compile_step(cc + [f"{HERE}/ended.c", "-o", f"{folder}/ended"])

    def report(name, timing):
        profile = os.path.join(folder, f"{name}-{timing}")
        done = record(options.transect, timing, profile, [f"{folder}/{name}"])
        if done.returncode:
            raise RuntimeError(f"status {done.returncode}; {done.stderr[-200:]}")
        shown = subprocess.run([options.transect, "report", profile, "--format", "json"], capture_output=True, text=True, timeout=60)
        return json.loads(shown.stdout)

    compile_step(cc + ["-fPIC", "-shared", f"{HERE}/libexits.c", "-o", f"{folder}/libexits.so"])
    compile_step(cc + [f"{HERE}/exits.c", "-o", f"{folder}/exits"] + here + ["-lexits"])
    done = record(options.transect, "adaptive", f"{folder}/exits-profile", [f"{folder}/exits"])
    shown = subprocess.run([options.transect, "report", f"{folder}/exits-profile", "--format", "json"], capture_output=True, text=True, timeout=60)
    got, truth = json.loads(shown.stdout), int(done.stdout)
    row = next(row for row in got["flows"] if row["api"] == "run_program")
    program = next(row for row in got["components"] if row["component"] == "exits")
    complaints = [] if (row["total_ns"] or 0) >= truth else [f"{row['total_ns']} ns, {truth} by its own clock"]
    # Beside others at work the program itself can stand in a queue, before the call or after it.
    outside = max(row["wall_ns"] for row in got["threads"]) - truth
    if program["self_ns"] > truth / 10 + max(0, outside):
        complaints.append(f"the program, which only calls it, takes {program['self_ns']} ns")
    yield "a call that ends the program", complaints

    for timing in ("adaptive", "full"):
        got = report("ended", timing)
        complaints = [] if len(got["threads"]) == 51 else [f"{len(got['threads'])} threads of 51"]
        yield f"calls past the last destructor [{timing}]", complaints
        got = report("jumping", timing)
        complaints = [f"{row['count']} {row['what']}: {row['reason']}" for row in got["loss"] if row["what"] == "untimed calls"]
        calls = sum(row["calls"] for row in got["flows"] if row["api"] in ("catching", "jump", "jump_back"))
        if calls != 4500000:
            complaints.append(f"{calls} calls of 4500000")
        yield f"jumps back into a call [{timing}]", complaints


def check_lifetimes(options, folder):
    """Children that come one after another live no longer together than their parent."""
    for name, collect in (("flow", ("--collect", "flow")), ("default", ())):
        profile = os.path.join(folder, f"children-{name}")
        done = record(options.transect, "adaptive", profile, ["/bin/sh", "-c", "i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i+1)); done"], collect=collect)
        if done.returncode:
            yield f"lifetimes of children [{name}]", [f"status {done.returncode}; {done.stderr[-200:]}"]
            continue
        shown = subprocess.run([options.transect, "report", profile, "--format", "json"], capture_output=True, text=True, timeout=60)
        threads = json.loads(shown.stdout)["threads"]
        wall = max(row["start_ns"] + row["wall_ns"] for row in threads)
        children = [row["wall_ns"] for row in threads if row["executable"] == "true"]
        complaints = [] if len(children) == 60 else [f"{len(children)} children of 60"]
        if sum(children) > wall * 1.02:
            complaints.append(f"lived for {sum(children) / 1e6:.0f} ms, the run took {wall / 1e6:.0f}")
        yield f"lifetimes of children [{name}]", complaints


def check_orphan(options, folder):
    """The program of a recorder that is killed goes on, and is done at once when its own work is."""
    compile_step(["cc", "-O1", "-g", "-pthread", f"{HERE}/orphan.c", "-o", f"{folder}/orphan"])
    command = [options.transect, "record", "--quiet", "-o", os.path.join(folder, "orphan-profile"), "--", f"{folder}/orphan"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.kill()
    process.wait()
    start = time.monotonic()
    out, errors = process.communicate("\n", timeout=30)
    took = time.monotonic() - start
    wrong = [] if (out, errors) == ("child\ncommand\nend\n", "") else [f"wrote {out!r}, {errors!r}"]
    return wrong, [f"took {took:.1f} s"] if took > 2 else []


def check_stopped(options, folder):
    """Programs that are started while the recorder is stopped hardly wait for it, and are recorded."""
    profile = os.path.join(folder, "stopped-profile")
    shutil.rmtree(profile, ignore_errors=True)
    script = "sleep 0.5; kill -STOP $PPID; for i in 1 2 3 4; do /bin/true; done; kill -CONT $PPID"
    start = time.monotonic()
    done = record(options.transect, "adaptive", profile, ["/bin/sh", "-c", script], collect=())
    took = time.monotonic() - start
    if done.returncode:
        return [f"status {done.returncode}: {done.stderr[-200:]}"], []
    shown = subprocess.run([options.transect, "report", "--view", "threads", "--format", "json", profile], capture_output=True, text=True, check=True)
    seen = [row for row in json.loads(shown.stdout)["threads"] if row["name"] == "true"]
    wrong = [] if len(seen) == 4 else [f"{len(seen)} of 4 programs recorded"]
    return wrong, [f"took {took:.1f} s"] if took > 3 else []


def check_layered(options, folder):
    """Functions that are timed by a probe and go on in another library by a jump: two tools hold one return address."""
    land = "long land(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }\n"
    hop = "long land(long);\nlong hop(long n) { return land(n); }\nlong twice(long n) { return hop(n) + hop(n + 1); }\n"
    program = "#include <stdio.h>\nlong twice(long), hop(long);\nint main(void) { long s = 0; for (long i = 0; i < 60000; i++) s += twice(3000) + hop(i % 7); printf(\"%ld\\n\", s); return 5; }\n"
    for name, source in (("land", land), ("hop", hop), ("layered", program)):
        with open(f"{folder}/{name}.c", "w") as f:
            f.write(source)
    shared = ["cc", "-O2", "-fPIC", "-shared"]
    compile_step(shared + [f"{folder}/land.c", "-o", f"{folder}/libland.so"])
    compile_step(shared + [f"{folder}/hop.c", "-o", f"{folder}/libhop.so", f"-L{folder}", "-lland", "-Wl,-rpath,$ORIGIN"])
    compile_step(["cc", "-O2", f"{folder}/layered.c", "-o", f"{folder}/layered", f"-L{folder}", "-lhop", "-lland", "-Wl,-rpath,$ORIGIN"])
    alone = subprocess.run([f"{folder}/layered"], capture_output=True, text=True)
    profile, complaints = os.path.join(folder, "layered-profile"), []
    done = record(options.transect, "full", profile, [f"{folder}/layered"], collect=("--collect", "flow,latency"))
    if (done.returncode, done.stdout) != (alone.returncode, alone.stdout):
        complaints.append(f"status {done.returncode}, output {done.stdout[:80]!r}, {done.stderr[-200:]}")
    else:
        calls = {row["api"]: row["calls"] for row in flows_of(options.transect, profile)[0]}
        truth = {"twice": 60000, "hop": 60000, "land": 180000}
        complaints += [f"{calls.get(name)} calls of {name}, {n} were made" for name, n in truth.items() if calls.get(name) != n]
    return [("jumps under flow,latency", complaints)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", default=os.path.join(HERE, "../../target/release/transect"))
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", help="folder for generated programs (default: a temporary one)")
    parser.add_argument("--timing", action="append")
    parser.add_argument("--only", action="append", choices=["counts", "spin", "trying", "killed", "ends", "lifetimes", "layered", "edges"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--native", action="store_true", help="only build and run the programs")
    options = parser.parse_args()
    options.transect = os.path.realpath(options.transect)
    folder = options.work or tempfile.mkdtemp(prefix="transect-counts-")
    os.makedirs(folder, exist_ok=True)
    if options.native:
        for seed in range(options.seed, options.seed + options.programs):
            program = Program(seed)
            path = program.build(os.path.join(folder, f"seed-{seed}"))
            truth = os.path.join(folder, "truth.json")
            start = time.monotonic()
            done = subprocess.run([path, truth], capture_output=True, text=True)
            calls = sum(row[3] for row in json.load(open(truth)) if row)
            print(f"seed {seed}: status {done.returncode}, {calls} calls, {time.monotonic() - start:.2f} s, {program.describe()} {done.stderr}")
        return
    results = Results()
    wanted = lambda what: not options.only or what in options.only
    if wanted("counts"):
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for outcomes in pool.map(lambda seed: check_counts(options, seed, folder), range(options.seed, options.seed + options.programs)):
                for name, complaints in outcomes:
                    results.judge(name, complaints)
    if wanted("spin"):
        check_spin(options, folder, results)
        check_short_recursion(options, folder, results)
        check_chosen(options, folder, results)
        check_nested(options, folder, results)
        callback.of_libraries(options, folder, results)
        check_reenter(options, folder, results)
        check_tails(options, folder, results)
        check_crowded(options, folder, results)
        check_crowded_long(options, folder, results)
        check_calling(options, folder, results)
        check_holding(options, folder, results)
        tiny.held(options, folder, results)
        tiny.jumps(options, folder, results)
        check_waiting(options, folder, results)
        results.judge_measured("recorder killed", lambda: check_orphan(options, folder))
        results.judge_measured("recorder stopped", lambda: check_stopped(options, folder))
    for name, checks in (("trying", check_trying), ("killed", check_killed), ("ends", check_ends), ("lifetimes", check_lifetimes), ("layered", check_layered), ("edges", edges.all_of_them)):
        if wanted(name):
            for of, complaints in checks(options, folder):
                results.judge(of, complaints)
    if not options.keep and not options.work:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(results.end())


if __name__ == "__main__":
    main()
