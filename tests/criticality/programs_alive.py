"""Attaching to what runs already, and users without rights."""
import os
import re
import shutil
import signal
import subprocess
import time

from measured import Refused, broken_invariants, undisturbed
from run_clock import RunClock
from whole_programs import mariadb_data, need, real

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def test_steady(results, tool, build):
    """Threads that never change their state give no event that could put a wrong n right: the seed must be right."""
    for workers, waiters in ((1, 5), (2, 3), (4, 40)):
        def check():
            program = subprocess.Popen([os.path.join(build, "steady"), str(workers), str(waiters)], stdout=subprocess.PIPE)
            try:
                program.stdout.readline()
                answer = tool.attached(["-p", str(program.pid), "--duration", "1s"])
                complaints, off = broken_invariants(answer), []
                if answer.rows:
                    levels = {row["n"]: row["ns"] for row in answer.rows["parallelism"]}
                    whole = sum(levels.values())
                    if levels.get(workers, 0) < 0.995 * whole:
                        complaints.append(f"{workers} threads work all the time, but n was {levels}")
                    if not 0.95e9 < whole < 1.15e9:
                        off.append(f"1 s was asked for, {whole / 1e9:.2f} s recorded")
                    if len(answer.threads()) != 1 + workers + waiters:
                        complaints.append(f"{len(answer.threads())} threads of {1 + workers + waiters}")
                if program.poll() is not None:
                    complaints.append("the program ended")
                return complaints, off
            finally:
                program.kill()
                program.wait()

        results.test_measured(f"attach: {workers} threads at work and {waiters} that wait", check)

    def several():
        programs = [subprocess.Popen([os.path.join(build, "steady"), "1", "2"], stdout=subprocess.PIPE) for _ in range(2)]
        try:
            for program in programs:
                program.stdout.readline()
            pids = ",".join(str(p.pid) for p in programs)
            complaints, off = [], []
            for how, n, busy in (("together", 2, 1e9), ("apart", 1, 2e9)):
                answer = tool.attached(["-p", pids, "--processes", how, "--duration", "1s"])
                complaints += broken_invariants(answer)
                levels = {}
                for row in answer.rows.get("parallelism", []):
                    levels[row["n"]] = levels.get(row["n"], 0) + row["ns"]
                if levels.get(n, 0) < 0.95 * sum(levels.values()) or not 0.9 * busy < answer.rows.get("busy_ns", 0) < 1.2 * busy:
                    off.append(f"{how}: n {levels}, busy {answer.rows.get('busy_ns')}")
            return complaints, off
        finally:
            for program in programs:
                program.kill()
                program.wait()

    results.test_measured("attach: two processes, together and apart", several)

    def gone():
        answer = tool.attached(["-p", "4194303", "--duration", "1s"])
        return [] if answer.status and "4194303" in answer.err else [f"status {answer.status}: {answer.err[-200:]!r}"]

    def ends():
        program = subprocess.Popen(["sleep", "2"])
        began = time.monotonic()
        answer = tool.attached(["-p", str(program.pid), "--duration", "30s"])
        program.wait()
        return broken_invariants(answer) + ([] if time.monotonic() - began < 25 else ["it waits on although the process is gone"])

    def interrupted():
        program = subprocess.Popen([os.path.join(build, "steady"), "1", "2"], stdout=subprocess.PIPE)
        program.stdout.readline()
        file = tool.fresh()
        recorder = subprocess.Popen([tool.transect, "criticality", "-o", file + ".transect", "-p", str(program.pid), "--format", "json", "--output", file], stderr=subprocess.PIPE, text=True, preexec_fn=undisturbed)
        try:
            time.sleep(2)
            recorder.send_signal(signal.SIGINT)
            err = recorder.communicate(timeout=20)[1]
            return broken_invariants(tool.answer(file, subprocess.CompletedProcess([], recorder.returncode, "", err)))
        finally:
            recorder.kill()
            program.kill()
            program.wait()

    results.test("attach: a process that isn't there", gone)
    results.test("attach: the process ends first", ends)
    results.test("attach: until interrupted", interrupted)


def test_mariadb(results, tool, folder):
    def check():
        need("mariadbd", "sysbench", "mariadb-install-db")
        base, port = mariadb_data(folder), real.free_port()
        where = os.path.join(folder, f"alive-{port}")
        os.makedirs(where)
        server = subprocess.Popen(real.mariadb_start(base)(port, where), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        load = None
        try:
            real.wait_for_port(port, server)
            load = subprocess.Popen(["sysbench", "oltp_read_write", "--mysql-host=127.0.0.1", f"--mysql-port={port}", "--mysql-user=root", "--mysql-db=bench",
                                     "--tables=1", "--table-size=5000", "--threads=4", "--time=30", "run"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(2)
            with RunClock(server.pid) as clock:
                answer = tool.attached(["-p", str(server.pid), "--duration", "4s"])
            complaints, off = broken_invariants(answer), []
            if answer.rows:
                ran = sum(t["running_ns"] for t in answer.threads())
                # The command takes longer than it records: which part of the time it was isn't told.
                least, most = clock.within(answer.rows["busy_ns"] + answer.rows["idle_ns"])
                print(f"   mariadbd: ran {ran / 1e9:.3f} s, by the kernel's clock {least / 1e9:.3f} to {most / 1e9:.3f} s; drift {answer.rows.get('drift')}")
                if not 0.99 * least < ran < 1.1 * most:
                    off.append(f"threads ran for {ran / 1e6:.0f} ms, by the kernel's clock {least / 1e6:.0f} to {most / 1e6:.0f} ms")
                if server.poll() is not None:
                    complaints.append("the server ended")
            return complaints, off
        finally:
            for process in (load, server):
                if process:
                    process.terminate()
                    process.wait(60)
            shutil.rmtree(where, ignore_errors=True)

    results.test_measured("attach: mariadbd under load, no drift", check)


def unified_hierarchy():
    with open("/proc/mounts") as mounts:
        for line in mounts:
            field = line.split()
            if field[2] == "cgroup2":
                return field[1]
    return None


def test_cgroup(results, tool, build):
    def check():
        root = unified_hierarchy()
        if not root:
            raise Refused("no cgroup2 is mounted")
        group = os.path.join(root, f"transect-test-{os.getpid()}")
        try:
            os.mkdir(group)
        except OSError as error:
            raise Refused(str(error))
        program = None
        try:
            empty = subprocess.run([tool.transect, "criticality", "--cgroup", group, "--duration", "100ms"], capture_output=True, text=True, check=False)
            if empty.returncode != 125 or "no process of the cgroup" not in empty.stderr:
                return [f"an empty group: status {empty.returncode}, {empty.stderr.strip()}"], []
            # A shell in the group starts two programs, the second one after the tool is there.
            program = subprocess.Popen(["sh", "-c", f"echo $$ > {group}/cgroup.procs && ({build}/steady 1 2 & sleep 2; timeout 1 {build}/steady 1 1 & wait)"],
                                       stdout=subprocess.PIPE, start_new_session=True)
            program.stdout.readline()
            answer = tool.attached(["--cgroup", group, "--duration", "4s"])
            complaints, off = broken_invariants(answer), []
            levels = {row["n"]: row["ns"] / 1e9 for row in answer.rows.get("parallelism", [])}
            if answer.rows and not (levels.get(1, 0) > 2 and 0.7 < levels.get(2, 0) < 1.3):
                off.append(f"one at work for 3 s and two for 1 s, but n was {levels}")
            return complaints, off
        finally:
            if program:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
            for _ in range(50):
                try:
                    os.rmdir(group)
                    break
                except OSError:
                    time.sleep(0.1)

    results.test_measured("attach: a control group and what joins it", check)


def test_rights(results, tool, folder):
    place = os.path.join(folder, "rights")

    def installed():
        """A copy that another user may run."""
        if os.geteuid() != 0:
            raise Refused("only root can become another user")
        need("setpriv", "setcap")
        os.chmod(folder, 0o755)
        if not os.path.isdir(place):
            os.makedirs(place)
            source = os.path.dirname(tool.transect)
            for name in ["transect", *(n for n in os.listdir(source) if n.startswith("libtransect") and n.endswith(".so"))]:
                shutil.copy(os.path.join(source, name), place)
            os.chmod(place, 0o777)
        return os.path.join(place, "transect")

    def as_nobody(command, file):
        environment = {**os.environ, "HOME": place, "XDG_CACHE_HOME": place, "TMPDIR": place}
        done = subprocess.run(NOBODY + command, capture_output=True, text=True, env=environment, cwd=place, timeout=60)
        return tool.answer(file, done)

    def refused():
        transect, file = installed(), os.path.join(place, "refused.json")
        answer = as_nobody([transect, "criticality", "--format", "json", "--output", file, "--", "sh", "-c", "echo ran; sleep 0.1"], file)
        complaints = []
        text = answer.err
        for word in ("setcap", "cap_bpf", "cap_perfmon", "estimate"):
            if word not in text:
                complaints.append(f"the message has no {word!r}")
        if answer.rows and not answer.rows.get("estimate"):
            complaints.append("an answer without rights isn't marked as an estimate")
        return complaints + ([text[-400:]] if complaints else [])

    def granted():
        transect, file = installed(), os.path.join(place, "granted.json")
        answer = as_nobody([transect, "criticality", "--format", "json", "--output", file, "--", "true"], file)
        command = re.search(r"setcap\s+(\S+)\s+(\S+)", answer.err)
        if not command:
            return [f"no setcap command to run in {answer.err[-300:]!r}"]
        subprocess.run(["setcap", command[1].strip("'\""), transect], check=True)
        status = "grep -E 'Cap(Eff|Prm|Inh|Amb)' /proc/self/status; grep -E 'Cap(Eff|Prm)' /proc/$PPID/status; sleep 0.3"
        answer = as_nobody([transect, "criticality", "--format", "json", "--output", file, "--", "sh", "-c", status], file)
        complaints = broken_invariants(answer)
        if answer.rows and answer.rows.get("estimate"):
            complaints.append("still an estimate")
        if re.search(r"Cap\w+:\s+0*[1-9a-f]", answer.out):
            complaints.append(f"capabilities are left in the program or in the tool: {answer.out!r}")
        return complaints

    results.test("rights: none: the message names the command, an estimate is offered", refused)
    results.test("rights: with the command it names it works, and keeps nothing", granted)


def test(results, tool, build, folder):
    test_steady(results, tool, build)
    test_mariadb(results, tool, folder)
    test_cgroup(results, tool, build)
    test_rights(results, tool, folder)
