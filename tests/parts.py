"""Every part of the tests: what it asks, what it holds the answer against, what it takes, and the lane that runs it.

`check` is for each change, `test` before each commit that others see, `all` is the rest. A part that compares times has
the machine to itself (`alone`). The table in README.md is made from this."""
import dataclasses
import os
import shlex

LANES = ("check", "test", "all")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRANSECT = os.path.join(ROOT, "target/release/transect")
# The same in a line for a shell.
QUOTED = shlex.quote(TRANSECT)
# One more than CPUs: some tests wait most of their time.
JOBS = (os.cpu_count() or 1) + 1
# Tests unwind in any case. Where the programs among them would not, cargo would build every crate twice.
UNWIND = "CARGO_PROFILE_DEV_PANIC=unwind"
# What the fuzz targets, a workspace of their own, use of the crates.
FUZZED = ",".join(f"transect-{name}/fuzzing" for name in ("attach", "bpf-collect", "intercept", "record"))
CRATES = "--workspace --exclude transect-agent --exclude transect-probe-agent --exclude transect-flow-agent --exclude transect-region-trace --locked"
NEXTEST = f"{UNWIND} cargo nextest run {CRATES} --no-fail-fast"


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    lane: str
    command: list
    question: str
    truth: str
    seconds: int  # from a built tree, on two idle CPUs
    needs: tuple = ()  # of root, packages, network, VM, browser; what is absent is told as NOT RUN
    alone: bool = False


def shell(line):
    return ["sh", "-c", line]


def runner(path, *options):
    return ["python3", f"tests/{path}", "--transect", TRANSECT, *options]


PARTS = [
    Part("format", "check", shell("cargo fmt --all --check && python3 tests/fuzz/lock.py"), "is the code formatted, and is the fuzz targets' lock file whole?", "rustfmt", 2),
    Part("table", "check", ["python3", "tests/run.py", "table"], "is the table below that of parts.py?", "parts.py", 1),
    Part("links", "check", ["python3", "tests/links.py"], "does each link of the documents lead somewhere?", "files and headings", 1),
    Part("words", "check", ["python3", "tests/words.py"], "do documents, messages and names use the field's terms?", "a list of words, each with the term to use instead", 5),
    Part("clippy", "check", shell(f"cargo clippy --workspace --all-targets --locked --features {FUZZED} -- -D warnings"), "what does the linter find?", "clippy", 40),
    Part("doc", "check", shell("RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked"), "do all links of the documentation lead somewhere?", "rustdoc", 20),
    Part("unit", "check", shell(f"{NEXTEST} --profile check"), "do pure functions, state machines and views give what they should?",
         "models, property tests, goldens", 30),

    Part("crates", "test", shell(f"{NEXTEST} -j{JOBS} && {UNWIND} cargo test --doc {CRATES}"), "the same, and collectors, patching, exports and the page on live programs",
         "programs that note what they do; foreign readers; disassemblers; a browser", 270, ("root", "packages", "browser"), alone=True),
    Part("web", "test", ["dev/test-web.sh"], "is the committed page bundle the one its sources make?", "the bundler", 10, ("network",)),
    Part("corner-cases", "test", shell(f"make -s -j2 -C tests/corner-cases && python3 tests/corner-cases/run.py --transect {QUOTED} --quick"),
         "does a program behave to the byte and exit status as without us?", "the same program without us", 45, ("packages",)),
    Part("exact-counts", "test", runner("exact-counts/run.py", "--only", "counts", "--only", "trying", "--only", "killed", "--only", "ends", "--only", "layered", "--only", "edges"),
         "are counts exact, also after SIGKILL?", "random programs that count their own calls; counters in a file that outlive SIGKILL", 16),
    Part("attached-flows", "test", runner("attached-flows/run.py"), "are calls of a running process counted exactly, and is it left as it was?",
         "a program that counts its own calls; its mappings; recorders that are killed", 40),
    Part("exact-times", "test", runner("exact-counts/run.py", "--only", "spin"), "are times right to 2 %?", "a callee that measures itself; a clock", 4, alone=True),
    Part("static-components", "test", shell(f"cd tests/static-components && python3 run.py --transect {QUOTED} && python3 languages.py --transect {QUOTED} "
                                            f"&& python3 real.py --transect {QUOTED}"),
         "are calls of statically linked libraries counted exactly, whatever the compiler made of them?",
         "random programs and a C++ program that count their own calls; real libraries linked statically against the same linked dynamically", 35, ("packages",)),
    Part("probes", "test", runner("probes/run.py", "--seconds", "1", "--only", "python3", "--only", "git"),
         "can every function of a real program be probed and switched at random?", "its output undisturbed; the text in its file", 56, ("packages",)),
    Part("regions", "test", shell("python3 tests/feature/regions/run.py --plugins target/release/compiler-plugin --llvm 19 --level=-O2 && "
                                  "python3 tests/feature/regions/run.py --plugins target/release/compiler-plugin --llvm 16 --level=-O0"),
         "which code runs because of which option?", "what the sources' comments say", 14, ("packages",)),
    Part("translation", "test", runner("feature/translation/run.py"), "are samples translated to the right region stack?", "a shadow stack that the sites keep", 25, ("packages",)),
    Part("features", "test", runner("feature/run.py"), "what does each option cost, is a wrong model told, and what do runs confirm?",
         "programs that know when they enter each region, how long they are in it, and on what way an option reaches it",
         55, ("root", "packages"), alone=True),
    Part("features-sampled", "test", runner("feature/sampling/run.py", "--rounds", "2"), "is the time of features by samples right?", "the program's own clock", 8, ("packages",), alone=True),
    Part("criticality", "test", runner("criticality/run.py"), "does the scheduler's view name the bottleneck, its kind and its holder, and do its sums hold?",
         "schedules that log their own activity; programs with a known bottleneck; threads that never change their state", 110, ("root", "packages"), alone=True),
    Part("walk", "test", runner("walk/run.py", "--quick", "--no-robustness"), "does the walk find the chain to the function that holds the time, with the right shares?",
         "programs whose chain is known from their source, and that time their own functions", 55, ("root",), alone=True),
    Part("walk-robustness", "test", runner("walk/run.py", "--quick", "--no-chains"), "does a walk leave the program and the kernel as they were?",
         "the program's output; its text in its file; the kernel's list of programs", 75, ("root",)),
    Part("sets", "test", runner("sets/run.py"), "does every set of collectors record every way to choose what is recorded, or say why not?",
         "the flags that were given; the list of processes", 90, ("root", "packages"), alone=True),
    Part("culprits-quick", "test", shell(f"python3 tests/culprits/score.py --transect {QUOTED} --set plain --least 95 "
                                         "--only bad_hash --only digest_in_fork --only fork_storm --only frame_copy --only journal_sync "
                                         "--only ledger_lock --only slow_reply --only run_queue --only sleep_poll --only spin_for_tile --only straggler --only throwing_cells"),
         "does the first finding of a recording by default name the culprit?", "programs with one marked culprit, each of another kind", 35, ("root", "packages")),
    Part("workloads", "test", shell(f"make -s -C workloads && python3 workloads/run.py test --transect {QUOTED}"), "do the views point at the bottleneck?",
         "five programs with a known bottleneck and its fix", 8, alone=True),
    Part("sql", "test", runner("sql/run.py"), "do the questions of docs/sql have the rows of `report`, of one profile and over hosts?", "DuckDB", 45, ("root", "packages")),
    Part("real-tcl-quick", "test", runner("real-programs/run.py", "--suite", "tcl", "--quick"), "does a real project's test suite give the same results?", "the suite without us", 20, ("network",)),

    Part("outside", "all", runner("outside/run.py"), "do a fifth of 80 programs of Debian, another one each day, run as ever under every command, and is nothing left, also after kills?",
         "the programs without us", 300, ("root", "packages")),
    Part("packages", "all", shell("make -s tarball deb rpm && python3 tests/packages/run.py"), "do the packages install, record and go without a trace in bare roots of Debian and Ubuntu?",
         "a program of the distribution, as root and as nobody", 900, ("root", "packages", "network")),
    Part("corner-cases-default", "all", shell(f"make -s -j2 -C tests/corner-cases && python3 tests/corner-cases/run.py --transect {QUOTED} --collect default --timing adaptive"),
         "corner cases with all collectors of a recording by default", "the same program without us", 120, ("root", "packages")),
    Part("culprits", "all", shell(f"python3 tests/culprits/score.py --transect {QUOTED} --set plain --set patched --least 95 --least 90"),
         "does the first finding name the culprit?", "seeded bugs, marked in their sources and checked by their own clock", 400, ("root", "packages", "network")),
    Part("culprits-unseen", "all", shell(f"python3 tests/culprits/score.py --transect {QUOTED} --set unseen --set unseen2 --set go --least 90 --least 90 --least 85"),
         "does the first finding name the culprit of programs by somebody else?", "expectations that were written down before the first recording", 140, ("root", "packages")),
    Part("culprits-healthy", "all", shell(f"python3 tests/culprits/score.py --transect {QUOTED} --set healthy --rounds 2 --least 95"),
         "does nothing claim to save much in healthy programs?", "programs of Debian", 200, ("root", "packages")),
    Part("corner-cases-all-modes", "all", shell(f"make -s -j2 -C tests/corner-cases && python3 tests/corner-cases/run.py --transect {QUOTED} --timing count --timing every=7"),
         "corner cases in the timing modes that `test` leaves out", "the same program without us", 40, ("packages",)),
    Part("exact-counts-long", "all", runner("exact-counts/run.py", "--only", "counts", "--programs", "150", "--seed", "1000"), "exact counts of 150 more random programs", "programs that count their own calls", 240),
    Part("static-components-long", "all", ["python3", "tests/static-components/run.py", "--transect", TRANSECT, "--programs", "150", "--seed", "1000"],
         "calls of 150 more programs of static components", "programs that count their own calls", 240, ("packages",)),
    Part("probes-long", "all", runner("probes/run.py", "--seconds", "8"), "every function of four real programs, probed and switched at random", "their output undisturbed; the text in their files", 260, ("packages",)),
    Part("regions-all", "all", ["python3", "tests/feature/regions/run.py", "--plugins", "target/release/compiler-plugin"], "regions with both versions of LLVM at both levels",
         "what the sources' comments say", 28, ("packages",)),
    Part("what-if", "all", runner("criticality/run.py", "--timing", "--rounds", "3", "--only", "seeded"), "do the predicted savings come true?", "the fix, applied and timed", 180, ("root",), alone=True),
    Part("what-if-pairs", "all", shell(f"python3 tests/culprits/pairs.py --transect {QUOTED}"), "does the what-if predict what a fix saves, in programs of Debian, too?",
         "26 pairs of program and fix, timed", 420, ("root", "packages", "network"), alone=True),
    Part("walk-long", "all", runner("walk/run.py"), "all chains in programs of full length, and the robustness tests that take long", "as `walk` and `walk-robustness`", 350, ("root",), alone=True),
    *[Part(f"crates-full-{name}", "all", shell(f"TRANSECT_ALL_SUITES= {NEXTEST} --profile all -E '{which}'"),
           "the crates' tests in full size: long sequences, more random cases, storms", "as `crates`", seconds, ("root", "packages", "browser"), alone=True)
      for name, which, seconds in (("recording", "package(transect-record) | package(transect-bpf-collect) | package(transect-attach) | package(transect-cli)", 300),
                                   ("patching", "package(transect-text-patch) | package(transect-probe) | package(transect-probe-plan) | package(transect-c-library)", 300),
                                   ("others", "not (package(transect-record) | package(transect-bpf-collect) | package(transect-attach) | package(transect-cli) | package(transect-text-patch)"
                                    " | package(transect-probe) | package(transect-probe-plan) | package(transect-c-library))", 300))],
    Part("sql-spark", "all", runner("sql/run.py", "--engine", "spark"), "the same questions, unchanged", "Apache Spark, a cluster of two workers", 400, ("root", "packages", "network")),
    Part("dependencies", "all", shell("if command -v cargo-deny >/dev/null; then cargo deny check licenses bans sources; "
         "else echo 'NOT RUN: licences of dependencies: cargo-deny is not installed (make deny)'; fi"),
         "are licences and sources of what is depended on allowed?", "cargo-deny, deny.toml", 10),
    Part("crates-minutes", "all", shell("cargo test --release --locked -p transect-probe-plan -- --ignored && "
                                        "cargo test --release --locked -p transect-bpf-collect --test sched_state -- --ignored && "
                                        "cargo test --release --locked -p transect-record --lib -- --ignored && "
                                        "cargo test --release --locked -p transect-report --test browser -- --ignored"),
         "millions of scheduler events, every window of large libraries, a page of a large recording", "models; a disassembler; a browser", 600, ("packages", "browser")),
    Part("fuzz", "all", ["python3", "tests/fuzz/run.py", "--seconds", "200"], "does all that reads what others wrote bear any bytes?",
         "no panic, no overflow, no input that takes ten seconds or 3 GB", 600, ("packages", "network")),
    Part("case-studies-quick", "all", ["python3", "benches/case_studies.py", "--transect", TRANSECT, "--quick", "--minutes", "8", "--program", "gzip", "--program", "bzip2"],
         "do real programs' own tests pass with regions, and what do their features cost?", "their test suites; the program's own clock", 600, ("packages", "network"), alone=True),
    *[Part(f"real-{suite}", "all", runner("real-programs/run.py", "--suite", suite), f"does {project}'s own test suite give the same results?", "the suite without us", seconds, ("packages", "network"))
      for suite, project, seconds in (("python", "CPython", 150), ("perl", "Perl", 400), ("zstd", "zstd", 200), ("tcl", "Tcl", 200))],
    *[Part(f"vm-{kernel}", "all", runner("vm/run.py", "--kernel", kernel), f"do the collectors load, count and refuse as they should under Linux {kernel}?",
           "programs with analytic schedules; a clock that counts instructions", 300, ("VM",)) for kernel in ("6.1", "6.12")],
    *[Part(f"walk-vm-{kernel}-{timing}-{shard}", "all",
           runner("walk/run.py", "--vm", kernel, "--kernel-timing", timing, "--seconds", "0.3", "--cost", "--no-robustness", "--shard", f"{shard}/8"),
           f"an eighth of the walk's chains under Linux {kernel}, kernel timing {timing}", "a clock that counts instructions", 700, ("VM",))
      for kernel in ("6.1", "6.12") for timing in ("auto", "sampling") for shard in range(1, 9)],
]
