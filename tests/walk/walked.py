"""Runs `transect walk` and judges its chains."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import recorded_program  # noqa: E402
from recorded_program import undisturbed  # noqa: E402, F401
from cases import ENDS, INLINED, LIBC_START, SCHEDULERS

# `bpf_lsm_*` and `__bpf_prog_enter*` are there on machines that guard themselves by such programs.
METHODS = ("exact", "sampled", "syscall-exact")
OURS = re.compile(r"^bpf_(?!lsm_)|^__bpf_(?!prog_)|^trace_call_bpf|^bpf_prog_|^perf_trace_|^__traceiter_|^__probestub_|_tracepoint$")
ENTRY = re.compile(r"^(entry_SYSCALL_64.*|do_syscall_64|x64_sys_call|__x64_sys_.*|__do_sys_.*|__se_sys_.*|schedule|__schedule|preempt_schedule.*)$")
# Points between the share that a frame is given and the truth.
TOLERANCE = {"exact": 0.02, "syscall-exact": 0.05, "sampled": 0.05}


class Answer(recorded_program.Answer):
    """One run under `transect walk`."""

    VIEW = "walk"

    def __init__(self, status, out, err, data):
        super().__init__(status, out, err, data)
        self.walk = self.rows
        self.chains = self.walk.get("chains", [])


class Tool(recorded_program.Tool):
    ANSWER = Answer

    def __init__(self, transect, folder, kernel_timing=None, timeout=60):
        super().__init__(transect, folder, ["--kernel-timing", kernel_timing] if kernel_timing else [])
        self.timeout = timeout

    def run(self, command, options=(), timeout=None, **more):
        return super().run(command, options, timeout or self.timeout, **more)

    def attached(self, pid, options=(), timeout=60):
        return self.told(["-p", str(pid)], options, timeout)


def plain(name):
    """A demangled name without parameters, template arguments and return type."""
    name = name.replace("(anonymous namespace)::", "")
    if "operator" not in name:
        while True:
            shorter = re.sub(r"<[^<>]*>", "", name)
            if shorter == name:
                break
            name = shorter
    name = re.sub(r"\(.*", "", name).strip()
    return name.split(" ")[-1] if "operator" not in name else name


def is_named(frame, wanted):
    """Whether a frame is one of "a|b", each "k:NAME", "u:NAME" or "NAME"; the first one's space is for all."""
    space, _, rest = wanted.rpartition(":") if wanted[:2] in ("k:", "u:") else ("", "", wanted)
    if space == "k" and frame["space"] != "kernel" or space == "u" and frame["space"] != "user":
        return False
    name = plain(frame["function"])
    return any(name == word or (".*" in word and re.fullmatch(word, name)) for word in rest.split("|"))


def follow(chain, path):
    """(names found in order, index of the last one's frame)."""
    at, found = 0, -1
    frames = chain["frames"]
    for count, wanted in enumerate(path):
        while at < len(frames) and not is_named(frames[at], wanted):
            at += 1
        if at == len(frames):
            return count, found
        found, at = at, at + 1
    return len(path), found


def shown(chain):
    """For a complaint: the frames of a chain."""
    return " > ".join(f"{plain(f['function'])} {f['share'] * 100:.0f}" for f in chain["frames"]) + f" [{chain['ends']}]"


def of_group(answer, wanted):
    """Chains of a group, of the program's own process or of those that it forked."""
    own = (answer.truth() or {}).get("pid")
    return [c for c in answer.chains if c["thread_group"] == wanted.group and (c["process"] != own) == wanted.child]


def found(answer, wanted):
    """(the right chain, or None; why not)."""
    candidates = of_group(answer, wanted)
    if not candidates:
        there = sorted({f"{c['process']}/{c['thread_group']}" for c in answer.chains})
        return None, f"no chain of {'a child' if wanted.child else 'the program'}/{wanted.group}, only of {', '.join(there) or 'nothing'}"
    best = max(candidates, key=lambda c: follow(c, wanted.path)[0])
    count, at = follow(best, wanted.path)
    if count < len(wanted.path):
        return None, f"{wanted.path[count]} is not in {shown(best)}"
    below = [plain(f["function"]) for f in best["frames"][at + 1:]]
    if wanted.closed and any(name not in SCHEDULERS | INLINED for name in below):
        return None, f"goes on below {wanted.path[-1]}: {shown(best)}"
    return best, ""


def judged(chain, wanted):
    """What is wrong with the words of a right chain."""
    complaints = []
    if wanted.ends and chain["ends"] not in wanted.ends:
        complaints.append(f"ends {chain['ends']!r} instead of {' or '.join(wanted.ends)}")
    for key, pattern in (("waiting_for", wanted.waiting), ("woken_by", wanted.woken)):
        if pattern and not re.search(pattern, chain[key] or ""):
            complaints.append(f"{key} is {chain[key]!r}, not {pattern!r}")
    return complaints


def shares(chain, truth, part):
    """Every frame that the program measured itself: rows of (function, frame, its true share)."""
    rows = []
    for frame in chain["frames"]:
        name = plain(frame["function"])
        if name not in truth["shares"]:
            continue
        true = truth["shares"][name] * part.get(name, 1)
        whole = chain.get("total", 0)
        if "group" not in truth and whole and "wall_ns" in truth:
            # What the program does before and after it measures is in the walk's whole.
            true *= min(1, truth["wall_ns"] / whole)
        rows.append((name, frame, true))
    return rows


def circumstances(answer, wanted):
    """For a complaint: where the time of these groups went, and what was lost."""
    groups = [f"{group['thread_group']}: {group['on_ns'] / 1e9:.2f} s on CPU, {group['runnable_ns'] / 1e9:.2f} runnable, {group['blocked_ns'] / 1e9:.2f} blocked"
              for group in answer.walk.get("groups", []) if group["thread_group"] in wanted]
    calls = [f"{call['name']} {call['wall_ns'] / 1e9:.2f} s" for call in answer.walk.get("system_calls", []) if call["thread_group"] in wanted][:4]
    chains = [shown(chain) for chain in answer.chains if chain["thread_group"] in wanted]
    return f"[{', '.join(groups)}; {', '.join(calls)}; lost: {', '.join(answer.lost()) or 'nothing'}; {' | '.join(chains)}]"


def broken(answer):
    """What must hold in every answer."""
    complaints = []
    threshold = answer.walk.get("threshold", 0.25)
    for chain in answer.chains:
        where = f"{chain['process']}/{chain['thread_group']}"
        if chain["ends"] not in ENDS:
            complaints.append(f"{where}: ends {chain['ends']!r}")
        if not 0 <= chain["share"] <= 1:
            complaints.append(f"{where}: share {chain['share']}")
        frames = chain["frames"]
        if not frames and chain["ends"] != "nothing-above-threshold":
            complaints.append(f"{where}: no frames, but ends {chain['ends']}")
        if frames and abs(frames[-1]["share"] - chain["share"]) > 0.001:
            complaints.append(f"{where}: the last frame has {frames[-1]['share']:.3f}, the chain {chain['share']:.3f}")
        before, kernel = 1.0, False
        for frame in frames:
            name = frame["function"]
            if frame["share"] > before + 0.001:
                complaints.append(f"{where}: {name} has {frame['share']:.3f}, its caller {before:.3f}")
            before = frame["share"]
            if not frame["share_low"] - 1e-6 <= frame["share"] <= frame["share_high"] + 1e-6:
                complaints.append(f"{where}: {name}: {frame['share']} is not in {frame['share_low']}..{frame['share_high']}")
            if frame["share_high"] < threshold - 0.01:
                complaints.append(f"{where}: {name} is below the threshold: {frame['share']:.3f} (at most {frame['share_high']:.3f})")
            if frame["method"] not in METHODS:
                complaints.append(f"{where}: method {frame['method']!r}")
            if min(frame["on_ns"], frame["runnable_ns"], frame["blocked_ns"]) < 0:
                complaints.append(f"{where}: negative time in {name}")
            if kernel and frame["space"] == "user" and name not in ("handle",):
                complaints.append(f"{where}: user frame {name} below the kernel")
            kernel = frame["space"] == "kernel"
            if OURS.search(name):
                complaints.append(f"{where}: {name} is of the tool itself")
            if kernel and ENTRY.match(name):
                complaints.append(f"{where}: {name} is to be left out")
            if re.search(r"\.(isra|part|cold|constprop)\b", name):
                complaints.append(f"{where}: suffix in {name}")
        names = [f["function"] for f in frames]
        above = LIBC_START & set(names[:names.index("main")]) if "main" in names else set()
        if above:
            complaints.append(f"{where}: {' '.join(above)} although main is known")
    return sorted(set(complaints))
