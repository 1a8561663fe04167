"""What a recording meets at its edges: other namespaces, system calls by number, another recording, a full disk."""
import json
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def record(options, profile, argv, *flags, command="record"):
    shutil.rmtree(profile, ignore_errors=True)
    return subprocess.run([options.transect, command, "-q", *flags, "-o", profile, "--", *argv], capture_output=True, text=True, timeout=120)


def report(options, profile):
    shown = subprocess.run([options.transect, "report", profile, "--format", "json"], capture_output=True, text=True, timeout=120)
    return json.loads(shown.stdout) if shown.returncode == 0 else {"flows": [], "loss": [], "failed": shown.stderr}


def namespaces(options, folder):
    """Libraries in a namespace of their own: what is not recorded of them is listed, by name."""
    subprocess.run(["cc", "-O1", "-fPIC", "-shared", f"{HERE}/libapart.c", "-o", f"{folder}/libapart.so"], check=True)
    subprocess.run(["cc", "-O1", f"{HERE}/apart.c", "-o", f"{folder}/apart", "-ldl"], check=True)
    for how in ("kept", "closed"):
        profile, argv = f"{folder}/apart-{how}", [f"{folder}/apart", f"{folder}/libapart.so", how]
        alone, done = subprocess.run(argv, capture_output=True, text=True), record(options, profile, argv, "--collect", "flow")
        wrong = [] if (done.stdout, done.returncode) == (alone.stdout, 0) else [f"status {done.returncode}: {done.stderr[-200:]}"]
        lost = {os.path.basename(row["where"]): row["count"] for row in report(options, profile)["loss"] if "namespace" in row["reason"]}
        wrong += [f"{name}: {lost.get(name)} slots lost" for name in ("libapart.so", "libc.so.6") if lost.get(name, 0) < 1]
        yield f"namespace of its own [{how}]", wrong


def system_calls(options, folder):
    """Calls by syscall(2): each is counted, few are timed, those that wait are."""
    subprocess.run(["cc", "-O1", f"{HERE}/systemcalls.c", "-o", f"{folder}/systemcalls"], check=True)
    for timing in ("adaptive", "full", "every=7", "count"):
        for more in ([], ["and gives up the clock"]):
            profile = f"{folder}/systemcalls-{timing}"
            done = record(options, profile, [f"{folder}/systemcalls", "50000", "20", *more], "--collect", "flow", "--timing", timing)
            name = f"system calls by number [{timing}{', ' if more else ''}{''.join(more)}]"
            if done.returncode:
                yield name, [f"status {done.returncode}: {done.stderr[-200:]}"]
                continue
            made, slept, took = map(int, done.stdout.split())
            row = next((row for row in report(options, profile)["flows"] if row["api"] == "syscall"), {})
            wrong = [] if row.get("calls") == made else [f"{row.get('calls')} calls, it made {made}"]
            if timing == "adaptive" and not 20 <= row.get("timed_calls", 0) < made / 4:
                wrong.append(f"{row.get('timed_calls')} of {made} calls are timed")
            # Of the calls that don't sleep, few hundred are timed of 50,000.
            most = 1.05 * took if timing == "full" else slept + 2 * (took - slept)
            if timing in ("adaptive", "full") and not more and not 0.95 * slept <= row.get("total_ns", 0) <= most:
                wrong.append(f"{row.get('total_ns')} ns, it slept for {slept} of {took}")
            yield name, wrong


def inside_of_another(options, folder):
    """A recording inside of a recording has the program; the outer one says that it has not."""
    outer, inner = f"{folder}/outer", f"{folder}/inner"
    for collect in (["--collect", "flow"], []):
        shutil.rmtree(inner, ignore_errors=True)
        argv = [options.transect, "record", "-q", *collect, "-o", inner, "--", "ls", "/"]
        done = record(options, outer, ["sh", "-c", '"$@"', "sh", *argv], *collect)
        wrong = [] if done.returncode == 0 else [f"status {done.returncode}: {done.stderr[-200:]}"]
        calls = sum(row["calls"] for row in report(options, inner)["flows"])
        wrong += [] if calls > 100 else [f"{calls} calls inside"]
        lost = [row for row in report(options, outer)["loss"] if row["what"] == "unprofiled children" and "another recording" in row["reason"]]
        wrong += [] if [row["count"] for row in lost] == [1] else [f"the outer one lists {lost}"]
        yield f"recording in a recording [{' '.join(collect) or 'default'}]", wrong


def no_room(options, folder):
    """A disk too small for the profile: the program's status is kept, and said."""
    place = f"{folder}/small"
    os.makedirs(place, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", place], capture_output=True).returncode:
        return
    try:
        for status, expected in ((7, 7), (0, 125)):
            done = record(options, f"{place}/p", ["sh", "-c", f"ls / > /dev/null; exit {status}"], "--collect", "flow")
            wrong = [] if done.returncode == expected else [f"status {done.returncode}"]
            words = ["no space left"] + ([f"ended with status {status}"] if status else [])
            wrong += [f"does not say '{word}': {done.stderr[-200:]}" for word in words if word not in done.stderr]
            yield f"full disk [{status}]", wrong
    finally:
        subprocess.run(["umount", place], check=True)


def all_of_them(options, folder):
    for checks in (namespaces, system_calls, inside_of_another, no_room):
        yield from checks(options, folder)
