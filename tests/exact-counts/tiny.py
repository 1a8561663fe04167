"""Times of what takes a few nanoseconds each, or is many calls in one: locks held for short, calls that jump on to each other."""
import json
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = {"m": "mutex", "w": "rwlock", "r": "rwlock", "s": "spin"}


def record(options, profile, timing, argv):
    shutil.rmtree(profile, ignore_errors=True)
    done = subprocess.run([options.transect, "record", "-q", "--collect", "flow", "--timing", timing, "-o", profile, "--", *argv],
                          capture_output=True, text=True, timeout=120)
    if done.returncode:
        return None, [f"status {done.returncode}: {done.stderr[-200:]}"]
    shown = subprocess.run([options.transect, "report", "--format", "json", profile], capture_output=True, text=True, check=True, timeout=60)
    return (json.loads(shown.stdout), done.stdout), []


def held(options, folder, results):
    """A lock is held for as long as what is done in it takes, however short that is beside what taking its time costs; the truth is
    that work alone, in a loop without the lock."""
    subprocess.run(["cc", "-O2", "-g", "-pthread", f"{HERE}/held.c", "-o", f"{folder}/held"], check=True)
    for timing, calls in (("adaptive", 2_000_000), ("full", 200_000), ("every=97", 2_000_000)):
        for kind, steps in (("m", 0), ("m", 25), ("w", 5), ("r", 25), ("s", 12)):

            def attempt(timing=timing, calls=calls, kind=kind, steps=steps):
                seen, wrong = record(options, os.path.join(folder, "held-profile"), timing, [f"{folder}/held", kind, str(calls), str(steps)])
                if not seen:
                    return wrong, []
                (report, printed) = seen
                truth = int(printed) / 1000
                rows = [row for row in report["locks"] if row["acquisitions"] == calls and row["object"].startswith(KINDS[kind])]
                if len(rows) != 1:
                    return [f"{[(row['object'], row['acquisitions']) for row in report['locks']]}: not one of {calls}"], []
                low, shown, high = (rows[0][key] / calls for key in ("hold_ns_low", "hold_ns", "hold_ns_high"))
                if not 0 <= low <= shown <= high or high * calls > report["meta"]["wall_ns"]:
                    wrong.append(f"{shown} ns, {low} to {high}")
                off = [] if low <= truth + 4 and truth <= high and shown < 1.3 * truth + 12 else [
                    f"held for {shown:.1f} ns, {low:.1f} to {high:.1f}; what is done in it takes {truth:.1f}"]
                return wrong, off

            results.judge_measured(f"a lock held for {steps} steps, {KINDS[kind]} {kind} [{timing}]", attempt)


def jumps(options, folder, results):
    """Functions of two objects that jump on to each other are in each other: all their calls take what the first takes."""
    both = (("one", "leap_one", "leap_two"), ("two", "leap_two", "leap_one"))
    for _ in range(2):
        for name, this, other in both:
            linked = [f"-L{folder}", f"-lleap{'two' if name == 'one' else 'one'}"] if os.path.exists(f"{folder}/libleapone.so") else []
            subprocess.run(["cc", "-O2", "-fPIC", "-shared", f"-DTHIS={this}", f"-DOTHER={other}", f"{HERE}/libleap.c", "-o", f"{folder}/libleap{name}.so",
                            *linked, "-Wl,-rpath,$ORIGIN"], check=True)
    subprocess.run(["cc", "-O2", f"{HERE}/leap.c", "-o", f"{folder}/leap", f"-L{folder}", "-lleapone", "-lleaptwo", "-Wl,-rpath,$ORIGIN"], check=True)
    for timing, calls, depth in (("adaptive", 3000, 100), ("adaptive", 300, 1000), ("adaptive", 30000, 10), ("every=7", 3000, 100), ("full", 300, 100)):

        def attempt(timing=timing, calls=calls, depth=depth):
            seen, wrong = record(options, os.path.join(folder, "leap-profile"), timing, [f"{folder}/leap", str(calls), str(depth), "200"])
            if not seen:
                return wrong, []
            report, printed = seen
            truth, off = int(printed), []
            rows = [row for row in report["flows"] if row["api"].startswith("leap_")]
            if sum(row["calls"] for row in rows) != calls * (depth + 1):
                return [f"{[(row['caller'], row['api'], row['calls']) for row in rows]}: not {calls * (depth + 1)}"], []
            for row in rows:
                low, high = row.get("total_ns_low") or row["total_ns"], row.get("total_ns_high") or row["total_ns"]
                # Those behind the first begin one and two calls later.
                if not low * 0.9 <= truth <= high / 0.7 or not 0.65 * truth < row["total_ns"] < 1.2 * truth:
                    off.append(f"{row['caller']} -> {row['api']}: {row['total_ns']} ns, {low} to {high}; {truth} by the program's clock")
            return [], off

        results.judge_measured(f"jumps between libraries, {depth} deep [{timing}]", attempt)
