"""What happens around a walk: no rights, programs that end, idle or fork, a walker that is killed; nothing is left behind
and the program is not changed."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import walked

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
TESTS, LONG = [], set()
# A busy machine can make it so.
OVER = "the program was over before it could be looked at"


class NotRun(Exception):
    """This machine can't run the test."""


def test(function):
    """The name of a test says what holds; it returns complaints, or raises NotRun. With a pair of complaints, the second are
    of times and of samples: a busy machine can put those off."""
    TESTS.append(function)
    return function


def long_test(function):
    """A test that `--quick` leaves out."""
    LONG.add(function)
    return test(function)


class Setting:
    """What the tests share."""

    def __init__(self, tool, build, folder, quick):
        self.tool, self.build, self.folder, self.quick = tool, build, folder, quick
        # How often what meets a moment by chance is tried.
        self.rounds = 1 if quick else 3

    def program(self, name):
        return os.path.join(self.build, name)

    def walk(self, options, command=(), timeout=60, before=(), **more):
        """`transect walk` with these options; text, as users see it."""
        line = [*before, self.tool.transect, "walk", *self.tool.options, *options] + (["--", *command] if command else [])
        return subprocess.run(line, capture_output=True, text=True, errors="replace", timeout=timeout, stdin=subprocess.DEVNULL, preexec_fn=walked.undisturbed, **more)

    def start(self, *command):
        return subprocess.Popen([self.program(command[0]), *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)

    def profile(self):
        return self.tool.fresh() + ".transect"


def code_of(pid):
    """{file: its executable segments in the process that differ from the file's bytes, as addresses}: probes are there."""
    changed = {}
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) < 6 or "x" not in fields[1] or not fields[5].startswith("/") or "(deleted)" in fields[5] or "memfd" in fields[5]:
                continue
            low, high = (int(x, 16) for x in fields[0].split("-"))
            path = fields[5].strip()
            memory.seek(low)
            there = memory.read(high - low)
            with open(path, "rb") as file:
                file.seek(int(fields[2], 16))
                written = file.read(high - low)
            at = [low + i for i in range(min(len(there), len(written))) if there[i] != written[i]] if there[:len(written)] != written else []
            if at:
                changed[path] = at
    return changed


def kernel_programs(folder=None):
    """Ids and names of BPF programs that are loaded; with `folder` without those that processes of others hold (ours name
    the folder of their answers)."""
    done = subprocess.run(["bpftool", "prog", "list", "--json"], capture_output=True, text=True)
    if done.returncode:
        raise NotRun("bpftool is absent or refused")
    held_by_others = lambda row: folder and row.get("pids") and not any(folder in command_line(holder["pid"]) for holder in row["pids"])
    return {row["id"]: row.get("name", "") for row in json.loads(done.stdout or "[]") if not held_by_others(row)}


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().replace("\0", " ")
    except OSError:
        return ""


def in_the_end(condition, seconds=20):
    """Whether it holds within this time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def left_in(setting, pid, before):
    """Complaints if probes are in the process or the kernel."""
    complaints = []
    # What is loaded for others comes and goes as well: ours have names, what is left of ours is a fault.
    ours = lambda: {i: n for i, n in kernel_programs(setting.folder).items() if i not in before and re.search(r"sched|sample|walk|time|sys_|fault|fork|exit", n)}
    try:
        left = ours()

        def are_gone():
            now = ours()
            for program in [i for i in left if i not in now]:
                del left[program]
            return not left

        if not in_the_end(are_gone):
            complaints.append(f"BPF programs are left: {left}")
    except NotRun:
        pass
    if pid:
        try:
            in_the_end(lambda: not code_of(pid))
            for path, at in code_of(pid).items():
                complaints.append(f"{len(at)} bytes of {path} differ, the first at {at[0]:#x}")
        except (ProcessLookupError, FileNotFoundError):
            complaints.append(OVER)
    return complaints


# -- The program is not changed -------------------------------------------------------------------------------------------


@test
def output_and_status_of_the_program_are_its_own(setting):
    complaints = []
    for status in (0, 3, 128 + signal.SIGTERM, 128 + signal.SIGKILL):
        done = setting.walk(["--quiet", "-o", setting.profile()], [setting.program("brief"), str(status)])
        if done.returncode != status:
            complaints.append(f"status {done.returncode} instead of {status}: {done.stderr[-300:]}")
        if done.stdout != "output 1\n":
            complaints.append(f"output {done.stdout!r} with status {status}")
        if "complaint\n" not in done.stderr:
            complaints.append(f"the program's stderr is not there with status {status}")
    return complaints


@test
def json_leaves_both_streams_to_the_program(setting):
    file = setting.tool.fresh()
    done = setting.walk(["--quiet", "-o", file + ".transect", "--format", "json", "--output", file], [setting.program("brief"), "0"])
    complaints = [] if (done.stdout, done.stderr) == ("output 1\n", "complaint\n") else [f"streams {done.stdout!r}, {done.stderr[:400]!r}"]
    if not os.path.exists(file):
        return complaints + ["no JSON"]
    with open(file) as text:
        return complaints + ([] if "chains" in json.load(text).get("walk", {}) else ["no walk.chains"])


@test
def programs_of_fifty_milliseconds_get_an_answer(setting):
    complaints, off = [], []
    for milliseconds in ("50", "5", "0"):
        answer = setting.tool.run([setting.program("brief"), "0", milliseconds])
        if answer.status or "chains" not in answer.walk:
            complaints.append(f"{milliseconds} ms: status {answer.status}: {answer.complaint()}")
        elif milliseconds == "50" and not any(walked.follow(c, ["main"])[0] for c in answer.chains):
            off.append(f"50 ms: main is in no chain of {[walked.shown(c) for c in answer.chains]}")
        complaints += walked.broken(answer)
    return complaints, off


@test
def program_that_cannot_be_started_is_an_error(setting):
    done = setting.walk(["-o", setting.profile()], ["/does/not/exist"])
    return [] if done.returncode in (126, 127, 1) and "/does/not/exist" in done.stderr else [f"status {done.returncode}: {done.stderr[-300:]}"]


@test
def json_of_a_launched_program_needs_a_file(setting):
    done = setting.walk(["-o", setting.profile(), "--format", "json"], [setting.program("brief")])
    return [] if done.returncode and "--output" in done.stderr else [f"status {done.returncode}: {done.stderr[-300:]}"]


# -- Arguments ----------------------------------------------------------------------------------------------------------------


@test
def bad_arguments_are_told(setting):
    complaints = []
    for options, word in ((["--threshold", "0"], "threshold"), (["--threshold", "150"], "threshold"), (["--threshold", "x"], "threshold"), (["--window", "0"], "window"),
                          (["--max-probes", "1"], "max-probes"), (["--metric", "colour"], "metric"), (["--kernel-timing", "guess"], "kernel-timing")):
        done = setting.walk([*options, "-o", setting.profile()], ["true"])
        if done.returncode == 0 or word not in done.stderr or "panicked" in done.stderr:
            complaints.append(f"{' '.join(options)}: status {done.returncode}: {done.stderr[-200:]!r}")
    for options in ([], ["-p", "0"], ["-p", "4194304"], ["-p", "notanumber"]):
        done = setting.walk([*options, "-o", setting.profile()])
        if done.returncode == 0 or "panicked" in done.stderr or not done.stderr.strip():
            complaints.append(f"{' '.join(options) or 'nothing to walk'}: status {done.returncode}: {done.stderr[-200:]!r}")
    return complaints


@test
def metric_that_this_machine_has_not_is_told(setting):
    complaints = []
    for metric in ("cycles", "cache-misses"):
        done = setting.walk(["--metric", metric, "-o", setting.profile()], [setting.program("brief")])
        if done.returncode and (metric.split("-")[0] not in done.stderr.lower() or "panicked" in done.stderr):
            complaints.append(f"{metric}: status {done.returncode}: {done.stderr[-300:]}")
    return complaints


@test
def thread_group_that_is_not_there_is_told(setting):
    done = setting.walk(["--thread-group", "nosuchgroup", "-o", setting.profile()], [setting.program("threads"), "0.5", "groups"])
    return [] if "nosuchgroup" in done.stderr else [f"status {done.returncode}: {done.stderr[-400:]}"]


@test
def one_thread_group_can_be_asked_for(setting):
    answer = setting.tool.run([setting.program("threads"), "1", "groups"], ["--thread-group", "parser"])
    groups = {c["thread_group"] for c in answer.chains}
    return [], [] if groups == {"parser"} else [f"groups {groups}: {answer.complaint()}"]


@test
def processor_time_leaves_waiting_out(setting):
    answer = setting.tool.run([setting.program("pipe-ping-pong"), "1"], ["--metric", "cpu"])
    chain = next((c for c in answer.chains if c["process"] == answer.truth()["pid"]), None)
    if not chain:
        return [], [f"no chain: {answer.complaint()}"]
    return [], [f"ends in waiting: {walked.shown(chain)}"] if chain["ends"] == "waiting" else []


@test
def page_faults_lead_to_who_makes_them(setting):
    answer = setting.tool.run([setting.program("system-calls"), "1", "memset", "--folder", setting.folder], ["--metric", "page-faults"])
    right = [c for c in answer.chains if walked.follow(c, ["main", "fill_new_memory"])[0] == 2]
    return [], [] if right else [f"{[walked.shown(c) for c in answer.chains]}: {answer.complaint()}"]


# -- Rights -------------------------------------------------------------------------------------------------------------------


def as_nobody(setting, options, command, hidden=False):
    """(done, folder): the command of somebody without rights, where he may write."""
    own = tempfile.mkdtemp(dir="/tmp", prefix="transect-nobody-")
    os.chown(own, 65534, 65534)
    copy = os.path.join(own, "transect")
    shutil.copy(setting.tool.transect, copy)
    os.chmod(copy, 0o755)
    program = os.path.join(own, os.path.basename(command[0]))
    shutil.copy(command[0], program)
    try:
        return subprocess.run([*NOBODY, copy, "walk", *options, "-o", os.path.join(own, "p"), "--", program, *command[1:]], capture_output=True, text=True,
                              errors="replace", timeout=60, cwd=own, stdin=subprocess.DEVNULL, env={**os.environ, "HOME": own, "XDG_CONFIG_HOME": own})
    finally:
        shutil.rmtree(own, ignore_errors=True)


@test
def without_permission_it_says_what_grants_it(setting):
    if os.geteuid() != 0:
        raise NotRun("takes root to become somebody without rights")
    done = as_nobody(setting, [], [setting.program("brief"), "0"])
    if done.returncode == 0:
        return ["it worked without rights"]
    return [f"{word} is not in: {done.stderr[-500:]}" for word in ("cap_bpf", "cap_perfmon") if word not in done.stderr.lower()]


@test
def hidden_addresses_of_the_kernel_are_told_or_got_around(setting):
    """With kptr_restrict=2 nobody reads addresses from /proc/kallsyms."""
    path = "/proc/sys/kernel/kptr_restrict"
    try:
        with open(path) as level:
            old = level.read()
        with open(path, "w") as level:
            level.write("2")
    except OSError as error:
        raise NotRun(f"{path}: {error}") from error
    try:
        answer = setting.tool.run([setting.program("system-calls"), "1", "getrandom"])
        named = any(walked.follow(c, ["main", "random_bytes", "k:getrandom"])[0] == 3 for c in answer.chains)
        report = subprocess.run([setting.tool.transect, "report", setting.tool.last + ".transect", "--view", "loss"], capture_output=True, text=True, timeout=60)
        spoken = re.search(r"kptr_restrict|kallsyms|kernel.*(name|address)", answer.err + report.stdout, re.I)
        complaints = walked.broken(answer) if answer.chains else [f"no answer: {answer.complaint()}"]
        return complaints + ([] if named or spoken else [f"neither getrandom nor a word on it: {[walked.shown(c) for c in answer.chains]}"])
    finally:
        with open(path, "w") as level:
            level.write(old)


def elsewhere(setting, mount, command):
    """A walk where something of the system is covered by another mount."""
    script = f'{mount} && exec "$@"'
    line = [setting.tool.transect, "walk", *setting.tool.options, "-o", setting.profile(), "--", *command]
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", *line], capture_output=True, text=True, errors="replace", timeout=60, stdin=subprocess.DEVNULL)
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        raise NotRun(done.stderr.strip().splitlines()[0])
    return done


@test
def without_type_information_it_says_so_and_what_works_without(setting):
    done = elsewhere(setting, "mount -t tmpfs none /sys/kernel/btf", [setting.program("brief"), "0"])
    complaints = [f"{word!r} is not in: {done.stderr[-500:]}" for word in ("CONFIG_DEBUG_INFO_BTF", "transect run") if word not in done.stderr]
    return complaints + ([] if done.returncode else ["it worked"])


@test
def without_names_of_the_kernel_the_system_call_is_told(setting):
    done = elsewhere(setting, "mount --bind /dev/null /proc/kallsyms", [setting.program("system-calls"), "1", "getrandom"])
    complaints = [f"{word!r} is not in: {done.stderr[-900:]}" for word in ("random_bytes", "getrandom", "unresolved names") if word not in done.stderr]
    return complaints + ([] if done.returncode == 0 else [f"status {done.returncode}"])


# -- A running program --------------------------------------------------------------------------------------------------------


@test
def attached_walk_finds_the_chain_and_leaves_no_probe(setting):
    running = setting.start("deep-call", "300")
    before = known_programs()
    try:
        time.sleep(0.3)
        began = time.monotonic()
        answer = setting.tool.attached(running.pid)
        took = time.monotonic() - began
        complaints, off = walked.broken(answer), []
        if not any(walked.follow(c, ["main", "Scene::draw", "slow_gamma"])[0] == 3 for c in answer.chains):
            off.append(f"chains {[walked.shown(c) for c in answer.chains]}: {answer.complaint()}")
        if took > 6:
            off.append(f"took {took:.1f} s")
        if running.poll() is not None:
            return complaints + [f"the program ended: {running.returncode}"], off
        complaints += left_in(setting, running.pid, before)
        return complaints, off
    finally:
        running.kill()
        running.wait()


def known_programs():
    try:
        return kernel_programs()
    except NotRun:
        return {}


@test
def program_that_sleeps_since_before_the_walk_shows_where(setting):
    running = subprocess.Popen(["sleep", "60"])
    try:
        in_the_end(lambda: command_line(running.pid).startswith("sleep"))
        time.sleep(0.2)
        answer = setting.tool.attached(running.pid)
        chain = answer.chains[0] if answer.chains else None
        if not chain:
            return [], [f"no chain: {answer.complaint()}"]
        complaints, off = walked.broken(answer) + ([] if running.poll() is None else ["the program ended"]), []
        if walked.follow(chain, ["u:clock_nanosleep|nanosleep", "k:clock_nanosleep"])[0] < 2 or chain["waiting_for"] != "sleep":
            off.append(f"{walked.shown(chain)}, waiting for {chain['waiting_for']!r}")
        return complaints, off
    finally:
        running.kill()
        running.wait()


@test
def attached_again_and_again_the_program_is_as_before(setting):
    running = setting.start("deep-call", "300")
    before = known_programs()
    complaints = []
    try:
        for _ in range(3):
            answer = setting.tool.attached(running.pid, ["--duration", "1s"])
            if not answer.chains:
                complaints.append(f"no chain: {answer.complaint()}")
            complaints += left_in(setting, running.pid, before)
        running.send_signal(signal.SIGUSR1)
        out, err = running.communicate(timeout=30)
        if running.returncode or '"truth"' not in out or err:
            complaints.append(f"the program ended with {running.returncode}: {out[:100]!r} {err[:200]!r}")
    finally:
        running.kill()
        running.wait()
    return complaints


@test
def static_program_is_attached_to(setting):
    running = setting.start("deep-call-static", "300")
    before = known_programs()
    try:
        answer = setting.tool.attached(running.pid)
        complaints, off = walked.broken(answer) + left_in(setting, running.pid, before), []
        if not any(walked.follow(c, ["main", "Scene::draw", "slow_gamma"])[0] == 3 for c in answer.chains):
            off.append(f"chains {[walked.shown(c) for c in answer.chains]}: {answer.complaint()}")
        return complaints + ([f"the program ended: {running.returncode}"] if running.poll() is not None else []), off
    finally:
        running.kill()
        running.wait()


@test
def process_that_exits_during_the_walk_ends_it(setting):
    complaints, off = [], []
    for seconds in ("0.5", "1", "1.6"):
        running = setting.start("deep-call", seconds)
        try:
            time.sleep(0.1)
            began = time.monotonic()
            answer = setting.tool.attached(running.pid, ["--duration", "10s"])
            took = time.monotonic() - began
            if took > 6:
                off.append(f"{seconds} s: took {took:.1f} s")
            gone = answer.status and "no process" in answer.err
            if gone and seconds == "1.6":
                off.append("the walk began only when the program was over")
            if (answer.status or not answer.chains) and not gone:
                complaints.append(f"{seconds} s: status {answer.status}: {answer.complaint()}")
            complaints += walked.broken(answer)
            out, err = running.communicate(timeout=10)
            if running.returncode or '"truth"' not in out:
                complaints.append(f"{seconds} s: the program ended with {running.returncode}: {err[:200]!r}")
        finally:
            running.kill()
            running.wait()
    return complaints, off


@test
def program_killed_during_the_walk_ends_it(setting):
    running = setting.start("shapes", "300", "two-heavy")
    line = setting.tool.line(setting.tool.fresh(), ["--duration", "20s"]) + ["-p", str(running.pid)]
    walker = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(1.2)
        running.kill()
        running.wait()
        began = time.monotonic()
        _, err = walker.communicate(timeout=15)
        took = time.monotonic() - began
        return [f"panicked: {err[-300:]}"] if "panicked" in err else [], [f"went on for {took:.1f} s"] if took > 4 else []
    finally:
        walker.kill()
        walker.wait()


def state_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return re.search(r"State:\s+(\S)", status.read())[1]


@test
def killed_walker_leaves_no_probe(setting):
    """SIGKILL at several moments, while functions are being timed as well."""
    complaints = []
    for after in (0.3, 0.7, 1.1, 1.6, 2.2):
        running = setting.start("shapes", "300", "near-threshold")
        before = known_programs()
        walker = subprocess.Popen(setting.tool.line(setting.tool.fresh(), ["--duration", "10s"]) + ["-p", str(running.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(after)
            walker.kill()
            walker.wait()
            complaints += [f"after {after} s: {text}" for text in left_in(setting, running.pid, before)]
            if running.poll() is not None:
                complaints.append(f"after {after} s: the program ended with {running.returncode}")
                continue
            # The guard holds it once more while it takes the last of it out.
            until = time.monotonic() + 3
            while (state := state_of(running.pid)) in "tT" and time.monotonic() < until:
                time.sleep(0.05)
            if state in "tT":
                complaints.append(f"after {after} s: the program is left stopped")
        finally:
            walker.kill()
            walker.wait()
            running.kill()
            running.wait()
    return complaints


@test
def interrupted_walk_shows_what_it_has(setting):
    """Ctrl-C: the program that was attached to goes on, the chain so far is printed, no probe is left."""
    running = setting.start("deep-call", "300")
    before = known_programs()
    file = setting.tool.fresh()
    walker = subprocess.Popen(setting.tool.line(file, ["--duration", "10s"]) + ["-p", str(running.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=walked.undisturbed)
    try:
        time.sleep(2)
        if walker.poll() is not None:
            raise NotRun("the walk was over in two seconds")
        walker.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, err = walker.communicate(timeout=15)
        took = time.monotonic() - began
        complaints, off = [], [f"took {took:.1f} s to end"] if took > 3 else []
        if not os.path.exists(file):
            complaints.append(f"no answer, status {walker.returncode}: {err[-300:]}")
        if running.poll() is not None:
            return complaints + [f"the program ended: {running.returncode}"], off
        return complaints + left_in(setting, running.pid, before), off
    finally:
        walker.kill()
        walker.wait()
        running.kill()
        running.wait()


@test
def storm_of_children_is_survived(setting):
    answer = setting.tool.run([setting.program("system-calls"), "2", "exec", "--folder", setting.folder], timeout=60)
    complaints = walked.broken(answer)
    if answer.status or not answer.truth():
        complaints.append(f"status {answer.status}: {answer.complaint()}")
    return complaints


@long_test
def thread_that_cannot_be_stopped_for_long_goes_on_when_it_wakes(setting):
    """The parent of a vfork child sleeps uninterruptibly for longer than a stop is tried for."""
    complaints, off, losses = [], [], []
    for others in ([], ["alone"]):
        for target in ("launched", "running"):
            if target == "launched":
                done = setting.walk(["-o", setting.profile()], [setting.program("vfork"), "6.5", *others])
                out, said = done.stdout, done.stderr
                losses += loss_of(setting)
            else:
                running = setting.start("vfork", "6.5", *others)
                said = setting.walk(["-o", setting.profile(), "-p", str(running.pid), "--duration", "2s"]).stderr
                out, _ = running.communicate(timeout=20)
            over = re.search(r"over 0 after ([\d.]+) s", out)
            if not over:
                complaints.append(f"{target} {others}: {out!r}: {said[-300:]}")
            elif float(over[1]) > 9.5:
                off.append(f"{target} {others}: {out!r} instead of 8.5 s: {said[-300:]}")
            if "panicked" in said:
                complaints.append(f"{target} {others}: {said[-300:]}")
    return complaints, off + ([] if any("can't be stopped" in why for why in losses) else [f"it was not tried: {losses}"])


@test
def children_that_are_forked_while_functions_are_timed_throw_and_return(setting):
    """Out of functions whose probes are gone by then."""
    complaints, off = [], []
    answer = setting.tool.run([setting.program("forking-throws"), "4"])
    if ", 0 wrong" not in answer.out:
        complaints.append(f"{answer.out!r}: {answer.complaint()}")
    if not answer.walk.get("probes_inserted"):
        off.append("nothing was timed")
    for after in (0.8, 1.3)[:setting.rounds]:
        running = setting.start("forking-throws", "3")
        walker = subprocess.Popen(setting.tool.line(setting.tool.fresh(), ["--duration", "10s"]) + ["-p", str(running.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(after)
            walker.kill()
            walker.wait()
            out, err = running.communicate(timeout=20)
            if ", 0 wrong" not in out:
                complaints.append(f"killed after {after} s: {out!r}, {err[-200:]!r}")
        finally:
            walker.kill()
            running.kill()
            running.wait()
    return complaints, off


@test
def program_that_throws_all_the_time_goes_on(setting):
    """Most windows begin, and end, while an exception is on its way through the functions that are timed."""
    complaints, off = [], []
    for _ in range(setting.rounds):
        answer = setting.tool.run([setting.program("unwinding"), "2"], ["--threshold", "3"])
        if answer.status or "all caught" not in answer.out.replace("not all", ""):
            complaints.append(f"status {answer.status}: {answer.out!r}: {answer.complaint()}")
        if not answer.walk.get("probes_inserted"):
            off.append("nothing was timed")
    return complaints, off


@test
def calls_on_two_stacks_of_a_thread_end_by_exceptions(setting):
    """When timing ends one of them may be on the stack that doesn't run."""
    complaints, off = [], []
    for _ in range(setting.rounds):
        answer = setting.tool.run([setting.program("fibers"), "4"])
        if answer.status or not re.search(r"[1-9]\d* thrown, all caught", answer.out):
            complaints.append(f"status {answer.status}: {answer.out!r}: {answer.complaint()}")
        if not answer.walk.get("probes_inserted"):
            off.append("nothing was timed")
    return complaints, off


@test
def functions_of_a_program_that_copies_stacks_are_not_timed(setting):
    """It is known by a file: greenlet's."""
    extension = os.path.join(setting.folder, "_greenlet.cpython-313-x86_64-linux-gnu.so")
    shutil.copy(setting.program("libplugin.so"), extension)
    answer = setting.tool.run(["env", f"LD_PRELOAD={extension}", setting.program("shapes"), "1.5", "near-threshold"])
    complaints = walked.broken(answer)
    if answer.walk.get("probes_inserted") != 0:
        complaints.append(f"{answer.walk.get('probes_inserted')} probes")
    if not any("greenlet" in text for text in loss_of(setting)):
        complaints.append(f"the losses don't say why: {loss_of(setting)}")
    return complaints


def loss_of(setting):
    """The reasons for losses in the last profile."""
    report = subprocess.run([setting.tool.transect, "report", setting.tool.last + ".transect", "--view", "loss", "--format", "json"], capture_output=True, text=True, timeout=60)
    return [row["reason"] for row in json.loads(report.stdout)["loss"]]


@test
def functions_are_timed_also_in_a_program_that_the_process_becomes(setting):
    answer = setting.tool.run([setting.program("execs"), "6"])
    exact = [(step["parent"], step["function"]) for step in answer.walk.get("steps", []) if step["method"] == "exact"]
    complaints = walked.broken(answer) + ([] if "over" in answer.out else [f"{answer.out!r}: {answer.complaint()}"])
    # The first may be over before its shares are told.
    return complaints, ([] if any((parent or "").startswith("second") for parent, _ in exact) else [f"nothing of the second was timed: {exact}"])


@test
def program_that_begins_anew_all_the_time_goes_on(setting):
    """By exec, also between two of the short stops in which its threads make calls for us."""
    running = setting.start("anew", str(2 + 4 * setting.rounds))
    complaints = []
    try:
        for view in ["walk"] * (2 * setting.rounds) + ["latency"] * (2 * setting.rounds):
            span = ["--duration" if view == "walk" else "--for", "1s"]
            line = [setting.tool.transect, view, "-p", str(running.pid), *span, "-o", setting.profile()]
            done = subprocess.run(line, capture_output=True, text=True, errors="replace", timeout=30, stdin=subprocess.DEVNULL)
            if "panicked" in done.stderr:
                complaints.append(done.stderr[-300:])
            if running.poll() is not None:
                break
        out, _ = running.communicate(timeout=30)
        if running.returncode or "over" not in out:
            complaints.append(f"it ended with {running.returncode}: {out!r}")
    finally:
        running.kill()
        running.wait()
    return complaints


@test
def only_so_many_probes_are_live(setting):
    complaints = []
    for most in ("2", "4"):
        answer = setting.tool.run([setting.program("shapes"), "1.5", "near-threshold"], ["--max-probes", most])
        live = answer.walk.get("probes_live")
        if live is None:
            raise NotRun("the answer doesn't say how many probes were live")
        if live > int(most):
            complaints.append(f"{live} probes with --max-probes {most}")
    return complaints


@test
def text_says_the_chain_and_its_share(setting):
    done = setting.walk(["-o", setting.profile()], [setting.program("deep-call"), "1.5"])
    off = [f"{word} is not in: {done.stderr[-600:]}" for word in ("main", "slow_gamma", "%") if word not in done.stderr]
    return [] if done.returncode == 0 else [f"status {done.returncode}"], off


@test
def report_shows_the_walk_again(setting):
    profile = setting.profile()
    setting.walk(["--quiet", "-o", profile], [setting.program("deep-call"), "1.5"])
    complaints = []
    for form in ("text", "json"):
        done = subprocess.run([setting.tool.transect, "report", profile, "--view", "walk", "--format", form], capture_output=True, text=True, timeout=60)
        if done.returncode or "slow_gamma" not in done.stdout:
            complaints.append(f"{form}: status {done.returncode}: {(done.stdout + done.stderr)[-300:]}")
    return complaints


def run_all(results, setting):
    for function in TESTS:
        if setting.quick and function in LONG:
            continue
        name = function.__name__.replace("_", " ")
        if not results.wanted(name):
            continue
        with results.guarded(name):
            try:
                def attempt(function=function):
                    outcome = function(setting)
                    wrong, off = outcome if isinstance(outcome, tuple) else (outcome, [])
                    over = [text for text in wrong if OVER in text]
                    return [text for text in wrong if text not in over], off + over

                results.judge_measured(name, attempt)
            except NotRun as why:
                results.absent(name, str(why))


def test_all(results, tool, build, folder, quick):
    run_all(results, Setting(tool, build, folder, quick))
