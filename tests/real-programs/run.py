#!/usr/bin/env python3
"""Runs real projects' own test suites with and without the agent and compares the results, test by test.

usage: run.py --transect PATH [--work DIR] [--suite python|perl|zstd|tcl]... [--quick] [--timing MODE]

Suites: CPython's `test` package (Debian's python3 and libpython3-testsuite), Perl's core tests, zstd's playTests.sh and
Tcl's tests. The last three come from Debian's source packages, fetched with apt-get into --work (default:
target/real-programs) the first time; a suite whose source or program is missing is reported as NOT RUN.
A test that fails with the agent and passes without is run a second time both ways before it counts.
"""

import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
PYTHON_TESTS = ["test_json", "test_threading", "test_ctypes", "test_sqlite3", "test_ssl", "test_subprocess", "test_signal", "test_multiprocessing_fork"]
PYTHON_QUICK = ["test_json", "test_threading", "test_ctypes", "test_sqlite3"]


class Suite:
    """One project's tests: of `units` so many run `at_once`; `outcome` gives what is compared."""

    at_once = 1

    def __init__(self, options):
        self.options = options

    def prefix(self, folder):
        return [self.options.transect, "record", "--quiet", "--timing", self.options.timing, "-o", tempfile.mkdtemp(dir=folder) + "/profile", "--"]

    def run(self, argv, prefix, cwd, env=None, timeout=600):
        process = subprocess.Popen(prefix + argv, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, preexec_fn=os.setpgrp)  # not a session of its own: a leader may do less
        try:
            out, _ = process.communicate(timeout=timeout)
            return process.returncode, out.decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return "timed out", ""


class Python(Suite):
    name = "python"
    at_once = 2  # it sleeps most of the time

    def missing(self):
        if not os.path.exists(PYTHON):
            return f"{PYTHON} is not installed"
        if subprocess.run([PYTHON, "-c", "import test.test_json"], capture_output=True).returncode:
            return "libpython3-testsuite is not installed"
        self.package = subprocess.run([PYTHON, "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"], capture_output=True, text=True).stdout.strip()
        self.without_sqlite = None
        if subprocess.run([PYTHON, "-c", "import test.test_sqlite3"], capture_output=True).returncode:
            self.without_sqlite = fetch(self.options.work, self.package)
            if self.without_sqlite:
                print(f"NOT RUN: python: test_sqlite3: {self.without_sqlite}")

    def units(self):
        return PYTHON_QUICK if self.options.quick else PYTHON_TESTS

    def outcome(self, unit, prefix, folder):
        argv = [PYTHON, "-m", "test", "-v", "-u", "none", unit]
        if unit == "test_sqlite3":  # not in Debian's testsuite package: taken from the source package
            if self.without_sqlite:
                return {"status": "NOT RUN"}, self.without_sqlite
            where = os.path.join(self.options.work, self.package, "Lib", "test")
            modules = sorted(f"test.test_sqlite3.{os.path.basename(p)[:-3]}" for p in glob.glob(f"{where}/test_sqlite3/test_*.py"))
            start = "import sys, test, unittest; test.__path__.append(sys.argv[1]); unittest.main(module=None, argv=sys.argv[1:])"
            argv = [PYTHON, "-c", start, where, "-v"] + modules
        status, out = self.run(argv, prefix, folder)
        # A verbose line may be cut in two by the test's own output: outcomes are taken from the summary and the names that fail.
        bad = sorted(set(re.findall(r"^(?:FAIL|ERROR): (\S+ \(\S+\))", out, re.M)))
        ran = re.findall(r"^Ran (\d+) tests?", out, re.M)
        return {"status": status, "failing": bad, "ran": ran}, out


class Perl(Suite):
    name = "perl"

    def source(self):
        return os.path.join(self.options.work, "perl", "t")

    def missing(self):
        if not shutil.which("perl"):
            return "perl is not installed"
        return fetch(self.options.work, "perl")

    def units(self):
        folders = ["base", "cmd", "io"] if self.options.quick else ["base", "cmd", "comp", "io", "op", "re", "mro", "uni"]
        # Long-running, or dependent on a build tree in a way that makes the outcome chance.
        skip = ("op/threads-dirh.t", "op/alarm.t", "re/fold_grind", "re/uniprops", "io/socket.t", "op/time.t", "op/sleep.t", "re/speed", "io/shm.t", "io/sem.t", "io/msg.t")
        return [u for folder in folders for u in sorted(os.path.relpath(p, self.source()) for p in glob.glob(f"{self.source()}/{folder}/*.t")) if not u.startswith(skip)]

    def outcome(self, unit, prefix, folder):
        status, out = self.run(["perl", unit], prefix, self.source(), {"PERL_CORE": "", "LC_ALL": "C", "PERL_HASH_SEED": "0", "PERL_RAND_SEED": "1"}, 120)
        lines = [re.sub(r"0x[0-9a-f]+|\b\d{4,}\b", "N", l) for l in out.splitlines() if re.match(r"(not )?ok \d+", l) or re.match(r"1\.\.\d", l)]
        return {"status": status, "tests": lines}, out


class Zstd(Suite):
    name = "zstd"

    def missing(self):
        if not shutil.which("zstd"):
            return "zstd is not installed"
        why = fetch(self.options.work, "libzstd")
        if why:
            return why
        self.datagen = os.path.join(self.options.work, "datagen")
        where = os.path.join(self.options.work, "libzstd")
        built = subprocess.run(["cc", "-O2", "-I../programs", "-I../lib/common", "-I../lib", "-o", self.datagen, "datagencli.c", "../programs/datagen.c"],
                               cwd=f"{where}/tests", capture_output=True, text=True)
        return f"datagen does not build: {built.stderr[-200:]}" if built.returncode else None

    def units(self):
        return ["playTests.sh"]

    def outcome(self, unit, prefix, folder):
        copy = tempfile.mkdtemp(dir=folder)
        where = os.path.join(self.options.work, "libzstd")
        for name in ("tests", "programs"):
            shutil.copytree(f"{where}/{name}", f"{copy}/{name}")
        status, out = self.run(["sh", "./playTests.sh"], prefix, f"{copy}/tests", {"ZSTD_BIN": shutil.which("zstd"), "DATAGEN_BIN": self.datagen}, 600)
        shutil.rmtree(copy, ignore_errors=True)
        return {"status": status, "sections": re.findall(r"^===>.*", out, re.M)}, out


class Tcl(Suite):
    name = "tcl"

    def missing(self):
        if not shutil.which("tclsh8.6"):
            return "tclsh8.6 is not installed"
        return fetch(self.options.work, "tcl8.6")

    def units(self):
        names = "string str* list l* dict* regexp* exec* thread* event* namespace* proc* expr* coroutine* io.test ioCmd*" if not self.options.quick else "dict* exec* string.test"
        folder = os.path.join(self.options.work, "tcl8.6", "tests")
        return sorted({os.path.basename(p) for pattern in names.split() for p in glob.glob(f"{folder}/{pattern if pattern.endswith('.test') else pattern + '.test'}")})

    def outcome(self, unit, prefix, folder):
        # Results are compared by the totals and the names of failing tests, which the package tcltest prints.
        status, out = self.run(["tclsh8.6", unit, "-tmpdir", tempfile.mkdtemp(dir=folder)], prefix, os.path.join(self.options.work, "tcl8.6", "tests"), {}, 120)
        return {"status": status, "total": re.findall(r"Total\s+(\d+)\s+Passed\s+(\d+)\s+Skipped\s+(\d+)\s+Failed\s+(\d+)", out), "failing": sorted(re.findall(r"^==== (\S+) .*FAILED", out, re.M))}, out


def fetch(work, package):
    """Unpacks the upstream source of a Debian source package; a reason if that is impossible."""
    where = os.path.join(work, package)
    if os.path.isdir(where):
        return None
    if not shutil.which("apt-get"):
        return "its source comes from apt-get, which is missing"
    cache = os.path.join(work, "apt")
    os.makedirs(f"{cache}/lists/partial", exist_ok=True)
    os.makedirs(f"{cache}/cache/archives/partial", exist_ok=True)
    release = subprocess.run(["sh", "-c", ". /etc/os-release; echo $ID $VERSION_CODENAME"], capture_output=True, text=True).stdout.split()
    archive = {"debian": ("http://deb.debian.org/debian", "main"), "ubuntu": ("http://archive.ubuntu.com/ubuntu", "main universe")}.get(release[0])
    if not archive:
        return f"no source archive is known for {release[0]}"
    with open(f"{cache}/sources.list", "w") as f:
        f.write(f"deb-src {archive[0]} {release[1]} {archive[1]}\n")
    apt = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={cache}/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null", "-o", f"Dir::State::lists={cache}/lists", "-o", f"Dir::Cache={cache}/cache"]
    for command in (apt + ["update"], apt + ["source", "--download-only", package]):
        done = subprocess.run(command, cwd=cache, capture_output=True, text=True)
        if done.returncode:
            return f"apt-get: {(done.stderr.strip().splitlines() or ['failed'])[-1][:150]}"
    archives = sorted(p for p in glob.glob(f"{cache}/{package}_*.orig.tar.*") if not p.endswith(".asc"))
    if not archives:
        return "the source package has no upstream archive"
    os.makedirs(where + ".new")
    if subprocess.run(["tar", "xf", archives[0], "-C", where + ".new", "--strip-components=1"], capture_output=True).returncode:
        return f"{archives[0]} does not unpack"
    os.rename(where + ".new", where)
    return None


def difference(native, recorded):
    for key in native:
        if native[key] != recorded[key]:
            if isinstance(native[key], list):
                changed = [x for x in recorded[key] if x not in native[key]][:3] + [f"(missing) {x}" for x in native[key] if x not in recorded[key]][:3]
                return f"{key}: {changed}"
            return f"{key}: {native[key]} natively, {recorded[key]} with the agent"
    return None


class Compared:
    """A unit run natively and recorded: what differs, and how long each took."""

    def __init__(self, suite, unit):
        folder = tempfile.mkdtemp(prefix="transect-real-")
        start = time.monotonic()
        native, self.native_log = suite.outcome(unit, [], folder)
        middle = time.monotonic()
        recorded, self.recorded_log = suite.outcome(unit, suite.prefix(folder), folder)
        self.native_s, self.recorded_s = middle - start, time.monotonic() - middle
        self.problem = difference(native, recorded)
        shutil.rmtree(folder, ignore_errors=True)

    def keep(self, base):
        os.makedirs(os.path.dirname(base), exist_ok=True)
        for suffix, text in ((".native", self.native_log), (".recorded", self.recorded_log)):
            with open(base + suffix, "w") as file:
                file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", default=os.path.join(HERE, "../../target/release/transect"))
    parser.add_argument("--work", default=os.path.join(HERE, "../../target/real-programs"))
    parser.add_argument("--suite", action="append", choices=["python", "perl", "zstd", "tcl"])
    parser.add_argument("--only", help="units whose name contains this")
    parser.add_argument("--timing", default="adaptive")
    parser.add_argument("--quick", action="store_true", help="the short half of each suite")
    parser.add_argument("--logs", help="folder for the outputs of units that differ")
    options = parser.parse_args()
    options.transect, options.work = os.path.realpath(options.transect), os.path.realpath(options.work)
    os.makedirs(options.work, exist_ok=True)
    passed, failed, skipped = 0, 0, 0
    for suite in (Python(options), Perl(options), Zstd(options), Tcl(options)):
        if options.suite and suite.name not in options.suite:
            continue
        why = suite.missing()
        if why:
            print(f"NOT RUN: {suite.name}: {why}", flush=True)
            skipped += 1
            continue
        begin, same = time.monotonic(), 0
        units = [unit for unit in suite.units() if not options.only or options.only in unit]
        with concurrent.futures.ThreadPoolExecutor(suite.at_once) as pool:
            compared = list(pool.map(lambda unit: Compared(suite, unit), units))
        for unit, first in zip(units, compared):
            # What differs once may be disturbed: it is run again, alone.
            result = first if not first.problem else Compared(suite, unit)
            if result.problem:
                failed += 1
                print(f"FAILED: {suite.name}: {unit}: {result.problem[:400]}", flush=True)
                if options.logs:
                    result.keep(os.path.join(options.logs, f"{suite.name}-{unit.replace('/', '-')}"))
            else:
                passed += 1
                same += 1
        native, recorded = (sum(getattr(one, clock) for one in compared) for clock in ("native_s", "recorded_s"))
        print(f"{suite.name}: {same} of {len(units)} units the same in {time.monotonic() - begin:.0f} s (native {native:.0f} s, recorded {recorded:.0f} s)", flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} not run" if skipped else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
