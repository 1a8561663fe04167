"""What a recording may leave behind: processes, uprobes, BPF programs, temporary files."""
import json
import os
import shutil
import subprocess
import time

UPROBES = "/sys/kernel/tracing/uprobe_events"


def session_processes(session):
    """Living processes of a session: [(pid, name)]."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        fields = rest.split()
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append((int(pid), name))
    return found


def uprobes():
    try:
        with open(UPROBES) as f:
            return {line.strip() for line in f}
    except OSError:
        return set()


def ownerless_programs():
    """BPF programs that no process holds: what is pinned or attached for good. None where they can't be listed."""
    if not shutil.which("bpftool"):
        return None
    shown = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True)
    if shown.returncode:
        return None
    return {(p["id"], p.get("name", "")) for p in json.loads(shown.stdout or "[]") if not p.get("pids")}


class Before:
    """How the machine was; others may use it meanwhile, so only what outlives them for seconds counts."""

    def __init__(self):
        self.uprobes, self.programs = uprobes(), ownerless_programs()

    def left(self, session, patience=5.0):
        """What is there now and was not, once the processes of the session have had time to end."""
        end = time.monotonic() + patience
        while True:
            complaints = [f"process {pid} ({name})" for pid, name in session_processes(session)]
            complaints += [f"uprobe {line}" for line in uprobes() - self.uprobes]
            if self.programs is not None:
                complaints += [f"BPF program {number} {name}" for number, name in (ownerless_programs() or set()) - self.programs]
            if not complaints or time.monotonic() > end:
                return complaints
            time.sleep(0.1)
