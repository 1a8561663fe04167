"""Whether the judge of chains finds what is wrong in made-up answers."""
import walked
from cases import Chain


def made_up(*frames, **more):
    rows = [{"function": name, "space": space, "share": share, "share_low": share - 0.01, "share_high": min(1, share + 0.01), "method": "sampled", "on_ns": int(share * 1e9),
             "runnable_ns": 0, "blocked_ns": 0, "component": "", "inlined": False, "file": "", "line": 0} for name, space, share in frames]
    chain = {"process": 42, "thread_group": "main", "share": rows[-1]["share"], "ends": "function", "waiting_for": "", "woken_by": "", "frames": rows, "total": 1_000_000_000, **more}
    return walked.Answer(0, '{"truth": true, "pid": 42, "shares": {}}', "", {"walk": {"chains": [chain]}})


GOOD = (("main", "user", 1.0), ("Store::write(int)", "user", 0.8), ("write", "user", 0.79), ("write", "kernel", 0.79), ("vfs_write", "kernel", 0.7), ("io_schedule", "kernel", 0.5))


def check():
    complaints = []

    def expect(name, holds):
        if not holds:
            complaints.append(name)

    answer = made_up(*GOOD)
    chain = answer.chains[0]
    expect("a good answer is broken", not walked.broken(answer))
    expect("a right chain is not found", walked.found(answer, Chain(["main", "Store::write", "u:write", "k:write", "vfs_write"], closed=True))[0] is chain)
    expect("the wrong order is found", walked.found(answer, Chain(["main", "vfs_write", "u:write"]))[0] is None)
    expect("another group is found", walked.found(answer, Chain(["main"], group="worker"))[0] is None)
    expect("another process is found", walked.found(answer, Chain(["main"], child=True))[0] is None)
    expect("frames below a closed end are passed", walked.found(answer, Chain(["main", "Store::write"], closed=True))[0] is None)
    expect("one name may be two frames", walked.follow(chain, ["write", "write"])[0] == 2 and walked.follow(chain, ["u:write", "u:write"])[0] == 1)
    expect("the end is not judged", walked.judged(chain, Chain([], ends=("waiting",))))
    expect("the waker is not judged", walked.judged(chain, Chain([], woken="helper")))
    rows = walked.shares(chain, {"shares": {"Store::write": 0.9}, "wall_ns": 1e9}, {})
    expect(f"shares {rows}", len(rows) == 1 and abs(rows[0][2] - 0.9) < 1e-6)
    rows = walked.shares(chain, {"shares": {"Store::write": 0.9}, "wall_ns": 0.5e9}, {"Store::write": 0.5})
    expect(f"shares of a part {rows}", abs(rows[0][2] - 0.225) < 1e-6)
    for name, frames, more in (
        ("a callee above its caller", (("main", "user", 0.5), ("f", "user", 0.8)), {}),
        ("a frame below the threshold", (("main", "user", 1.0), ("f", "user", 0.1)), {}),
        ("a share above one", (("main", "user", 1.4),), {}),
        ("entry code", (("main", "user", 1.0), ("write", "kernel", 0.9), ("do_syscall_64", "kernel", 0.9)), {}),
        ("the scheduler", (("main", "user", 1.0), ("write", "kernel", 0.9), ("schedule", "kernel", 0.9)), {}),
        ("the program's start", (("_start", "user", 1.0), ("main", "user", 0.9)), {}),
        ("a suffix", (("main", "user", 1.0), ("f.constprop.0", "user", 0.9)), {}),
        ("the tool's own code", (("main", "user", 1.0), ("write", "kernel", 0.9), ("bpf_prog_12_sched", "kernel", 0.5)), {}),
        ("a user frame below the kernel", (("main", "user", 1.0), ("write", "kernel", 0.9), ("f", "user", 0.5)), {}),
        ("an unknown end", (("main", "user", 1.0),), {"ends": "somewhere"}),
        ("a share that is not the last frame's", (("main", "user", 1.0),), {"share": 0.4}),
    ):
        expect(f"{name} is passed", walked.broken(made_up(*frames, **more)))
    for name, want in (("foo(int, char const*)", "foo"), ("void ns::A<int>::f<3>(int) const", "ns::A::f"), ("(anonymous namespace)::g", "g"), ("h", "h"),
                       ("double Kernel<unsigned long, 20000u>::apply(unsigned long)", "Kernel::apply")):
        expect(f"{name} is {walked.plain(name)}", walked.plain(name) == want)
    return complaints
