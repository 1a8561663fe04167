#!/usr/bin/env python3
"""Programs that this project has nothing to do with, recorded in every way: same output, same status, a profile that can be
read, and nothing left behind; also where the recorder is ended or killed at a random moment, and where it is attached at one.

Runs a fifth of the programs, another one each day; all of them with `--all`. `--write` makes docs/COMPATIBILITY.md, in which the
rows of programs that were not run are kept."""
import argparse
import concurrent.futures
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.dirname(HERE), HERE]
from commands import COMMANDS  # noqa: E402
from harness.results import Results  # noqa: E402
from leftovers import Before, session_processes  # noqa: E402
from programs import PROGRAMS  # noqa: E402

TABLE = os.path.join(ROOT, "docs/COMPATIBILITY.md")
LONGEST = 90  # seconds, of any run
ORPHANS_END = 10  # seconds after their parent in which processes that hold its output have to end
ENDINGS = ("", "SIGTERM", "SIGKILL")


class Ran:
    """One run of a program, natively or recorded. `beside` is what is attached to it meanwhile: a function of its pid. Processes
    that hold its output `lasting` seconds after its end are its orphans."""

    def __init__(self, argv, program, folder, ending="", after=0.0, beside=None, lasting=ORPHANS_END):
        private = os.path.join(folder, "tmp")
        os.makedirs(private, exist_ok=True)
        shell = f"{program.before}; exec \"$@\"" if program.before else "exec \"$@\""
        begin = time.monotonic()
        with open(os.path.join(folder, "stdin"), "w+b") as stdin:
            stdin.write(program.stdin)
            stdin.seek(0)
            process = subprocess.Popen(["bash", "-c", shell, "bash", *argv], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       start_new_session=True, env={**os.environ, "TMPDIR": private, "LC_ALL": "C"})
        self.session = process.pid
        if ending or beside:
            time.sleep(after)
        if ending and process.poll() is None:
            process.send_signal(getattr(signal, ending))
        if beside:
            beside(process.pid)
        self.hung, self.orphans, ended = False, [], None
        while True:
            try:
                self.stdout, self.stderr = process.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                now = time.monotonic()
                ended = ended or (now if process.poll() is not None else None)
                if ended and now - ended > lasting and not self.orphans:
                    self.orphans = session_processes(process.pid)
                self.hung = now - begin > LONGEST
                if self.hung or self.orphans:
                    os.killpg(process.pid, signal.SIGKILL)
        self.took = time.monotonic() - begin
        self.status = process.returncode

    def output(self, program):
        """What the program wrote, without what varies by itself and without the recorder's own messages."""
        kept = [line for line in self.stdout.split(b"\n") if not any(line.startswith(v.encode()) for v in program.varies)]
        errors = [line for line in self.stderr.split(b"\n") if not line.startswith((b"transect:", b"  ")) and line]
        return kept, errors


def compared(native, recorded, program, ending):
    """How a recorded run differs from the native one."""
    complaints = []
    if recorded.hung:
        return [f"hung for {LONGEST} s"]
    if recorded.orphans:
        return [f"left behind: process {pid} ({name})" for pid, name in recorded.orphans]
    if ending == "SIGTERM":
        return []  # It ends the program as well, wherever that is.
    same_status = recorded.status in (native.status, 128 - native.status if native.status < 0 else native.status)
    if not ending and not same_status:
        complaints.append(f"status {recorded.status} instead of {native.status}: {recorded.stderr[-300:].decode(errors='replace').strip()}")
    (out, errors), (want, want_errors) = recorded.output(program), native.output(program)
    # One that was held for a recorder that died is never begun.
    unbegun = ending == "SIGKILL" and not recorded.stdout
    if out != want and not unbegun:
        complaints.append(f"output differs: {b' | '.join(l for l in out if l not in want)[:120]!r} instead of {b' | '.join(l for l in want if l not in out)[:120]!r}")
    if errors != want_errors and not ending:
        complaints.append(f"messages differ: {b' | '.join(errors)[:200]!r} instead of {b' | '.join(want_errors)[:200]!r}")
    return complaints


def accompanied(transect, program, command, native, seed):
    """Complaints about a program that a command was attached to, or looked at, at a random moment of its life."""
    with tempfile.TemporaryDirectory(prefix="outside-") as folder:
        before, complaints = Before(), []
        profile, view = os.path.join(folder, "profile"), os.path.join(folder, "view")

        def attach(pid):
            argv = [*command.argv(transect, profile, view), *(() if command.watching else ("-p", str(pid)))]
            try:
                done = subprocess.run(argv, capture_output=True, timeout=LONGEST, env={**os.environ, "TMPDIR": folder})
            except subprocess.TimeoutExpired:
                complaints.append(f"the command hung for {LONGEST} s")
                return
            # Programs end meanwhile, belong to others, or have no such function: it says so.
            if done.returncode and not done.stderr.startswith(b"transect: "):
                complaints.append(f"status {done.returncode} without a word: {done.stderr[-200:].decode(errors='replace').strip()}")
            if b"panicked" in done.stderr or done.returncode < 0:
                complaints.append(f"the command crashed: {done.stderr[-300:].decode(errors='replace').strip()}")
            if os.path.exists(profile) and not command.watching:
                complaints.extend(profile_complaints(transect, profile))

        argv = [transect, "record", "--quiet", "-o", profile, "--", *program.argv] if command.watching else program.argv
        after = random.Random(seed).uniform(0, native.took)
        ran = Ran(argv, program, folder, after=after, beside=attach)
        if command.watching and program.kind in command.refuses and ran.status and b"transect:" in ran.stderr:
            return []
        complaints += compared(native, ran, program, "")
        complaints += [f"left behind: {what}" for what in before.left(ran.session)]
        return [f"{complaint} (attached after {after:.3f} s)" for complaint in complaints]


def orphans_natively(program, native, tries=200):
    """Names of processes that a program leaves behind if it is ended at an early moment without any recorder.

    strace stops a child of its own to see what `ptrace` can do. If it is ended meanwhile, nobody continues that child."""
    for attempt in range(tries):
        with tempfile.TemporaryDirectory(prefix="outside-") as folder:
            ran = Ran(program.argv, program, folder, "SIGTERM", random.Random(attempt).uniform(0, native.took), lasting=0.5)
            if ran.orphans:
                return {name for _, name in ran.orphans}
    return set()


def profile_complaints(transect, profile):
    shown = subprocess.run([transect, "report", profile, "--format", "json"], capture_output=True, timeout=LONGEST)
    if shown.returncode:
        return [f"the profile can't be read: {shown.stderr[-200:].decode(errors='replace').strip()}"]
    meta = json.loads(shown.stdout)["meta"]
    return [] if meta.get("processes", 1) else ["the profile has no process"]


def judged(transect, program, command, ending, native, seed):
    """Complaints about one recording, and how the command refused, if it may."""
    with tempfile.TemporaryDirectory(prefix="outside-") as folder:
        before = Before()
        profile, view = os.path.join(folder, "profile"), os.path.join(folder, "view")
        argv = [*command.argv(transect, profile, view), "--", *program.argv]
        kept = profile if "{profile}" in command.arguments else view
        after = random.Random(seed).uniform(0, max(0.3, 2 * native.took))
        ran = Ran(argv, program, folder, ending, after)
        if program.kind in command.refuses and ran.status and b"transect:" in ran.stderr and (b"File too large" in ran.stderr or not os.path.exists(profile)):
            return [], True
        complaints = compared(native, ran, program, ending)
        if ran.orphans and ending == "SIGTERM" and {name for _, name in ran.orphans} <= orphans_natively(program, native):
            complaints = []
        if kept == view:
            complaints += [] if ending or os.path.exists(view) else ["no table"]
        elif not ending or (ending == "SIGTERM" and os.path.exists(profile)):
            complaints += profile_complaints(transect, profile)
        complaints += [f"left behind: {what}" for what in before.left(ran.session)]
        if ending == "SIGKILL":
            # The next start clears what is left of one that died some time ago: what is young may belong to one that begins.
            for name in os.listdir(os.path.join(folder, "tmp")):
                os.utime(os.path.join(folder, "tmp", name), times=(time.time() - 60,) * 2, follow_symlinks=False)
            Ran([transect, "record", "--quiet", "--collect", "flow", "-o", os.path.join(folder, "next"), "--", "/bin/true"], PROGRAMS[0], folder)
        complaints += [f"left behind: {name}" for name in os.listdir(os.path.join(folder, "tmp")) if "transect" in name]
        complaints += [f"left behind: {name}" for name in os.listdir(folder) if ".transect-tmp." in name]
        where = f" after {after:.2f} s" if ending else ""
        return [complaint + where for complaint in complaints], False


def kept_rows():
    """Rows of docs/COMPATIBILITY.md as it is, by program; none if it has other columns."""
    try:
        with open(TABLE) as f:
            lines = f.read().splitlines()
    except OSError:
        return {}
    columns = f"| {' | '.join(c.name for c in COMMANDS)} |"
    if not any(line.endswith(columns) for line in lines):
        return {}
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}


def table(outcomes):
    """docs/COMPATIBILITY.md: a row a program, a column a way of recording."""
    before = kept_rows()
    lines = ["# Programs tried", "",
             "Made by `tests/outside/run.py --all --write`. Each program is run by itself and recorded in each way, to its end and with",
             "the recorder ended (`SIGTERM`) or killed (`SIGKILL`) at a random moment; with `-p` it is attached at one. *same*: the same",
             "output and status, a readable profile (a killed recorder leaves none of a launched program), and no process, uprobe, BPF",
             "program or file left behind. *refused*: with a message",
             "and a status of its own. *not for it*: it has nothing of what is recorded. *not run*: not installed, or its own output differs",
             "from run to run.", "",
             f"| program | kind | {' | '.join(c.name for c in COMMANDS)} |", f"|---|---|{'---|' * len(COMMANDS)}"]
    for program in PROGRAMS:
        cells = [outcomes.get((program.name, command.name), "not run") for command in COMMANDS]
        if "not run" in cells and program.name in before:
            lines.append(before[program.name])
            continue
        lines.append(f"| {program.name} | {program.kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def try_program(options, program, results):
    """All ways of recording one program: {(program, command): outcome}."""
    missing = program.missing()
    if missing:
        results.absent(program.name, f"{missing} is not installed")
        return {}
    with tempfile.TemporaryDirectory(prefix="outside-") as folder:
        native, again = Ran(program.argv, program, folder), Ran(program.argv, program, folder)
    if (native.output(program), native.status) != (again.output(program), again.status):
        results.cannot_judge(program.name, "its own output differs from run to run")
        return {}
    outcomes = {}
    for command in COMMANDS:
        if options.command and command.name not in options.command:
            continue
        failed, refused = [], False
        if not command.is_for(program):
            outcomes[program.name, command.name] = "not for it"
            continue
        beside = command.attached or command.watching
        if beside:
            name = f"{program.name} [{command.name}]"
            if results.wanted(name):
                with results.guarded(name):
                    failed = accompanied(options.transect, program, command, native, f"{options.seed} {name}")
                    results.judge(name, failed)
        for ending in () if beside else ENDINGS:
            name = f"{program.name} [{command.name}{' ' + ending if ending else ''}]"
            if not results.wanted(name):
                continue
            with results.guarded(name):
                complaints, no = judged(options.transect, program, command, ending, native, f"{options.seed} {name}")
                refused |= no
                failed += complaints
                results.judge(name, complaints)
        outcomes[program.name, command.name] = "; ".join(failed)[:80].replace("|", "/") if failed else "refused" if refused else "same"
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transect", default=os.path.join(ROOT, "target/release/transect"))
    parser.add_argument("--all", action="store_true", help="all programs, not the fifth of this day")
    parser.add_argument("--only", action="append", help="only tests whose name contains this")
    parser.add_argument("--command", action="append", choices=[c.name for c in COMMANDS])
    parser.add_argument("--seed", type=int, default=datetime.date.today().toordinal(), help="of the moments of kills; default: the day")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write docs/COMPATIBILITY.md")
    options = parser.parse_args()
    results, outcomes = Results(options.only), {}
    part = datetime.date.today().toordinal() % 5
    chosen = [p for i, p in enumerate(PROGRAMS) if options.all or options.only or i % 5 == part]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for found in pool.map(lambda program: try_program(options, program, results), chosen):
            outcomes.update(found)
    if options.write:
        text = table(outcomes)
        with open(TABLE, "w") as f:
            f.write(text)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
