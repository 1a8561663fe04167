"""Real programs built by transect-cc: sources from Debian, objects compiled once, linked once for each mode of sites."""
import glob
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "../workloads/feature/models")


class Absent(Exception):
    """Why a program can't be built or run here."""


class Program:
    """How one program is built, tested and run."""

    def __init__(self, name, package, configure, make, binary, workloads, check, needs=(), note="", several_files=True):
        self.name, self.package, self.configure, self.make, self.binary = name, package, configure, make, binary
        self.workloads, self.check, self.needs, self.note, self.several_files = workloads, check, needs, note, several_files
        self.model = os.path.join(MODELS, f"{name}.toml")


# Options of a workload (`{out}`: a file that it writes); its input is a file of text, or of mixed binary data, or a formula. Programs without
# tests of their own are checked by the way there and back.
PROGRAMS = [
    Program("gzip", "gzip", "./configure CC={cc}", "make -j2", "gzip", [("text -1", "text", ["-1c"]), ("text -9", "text", ["-9c"])],
            "make -j2 check"),
    Program("bzip2", "bzip2", None, "make -j2 CC={cc} bzip2", "bzip2", [("text -9", "text", ["-9c"]), ("binary -1", "binary", ["-1c"])],
            "make CC={cc} check"),
    Program("xz", "xz-utils", "./configure CC={cc} CXX={cxx} --disable-shared --enable-static --disable-nls", "make -j2", "src/xz/xz",
            [("text -6", "text", ["-6c", "-T1"]), ("binary -2, two threads", "binary", ["-2c", "-T2"])],
            "make -j2 check"),
    Program("brotli", "brotli", "cmake -S . -B . -DCMAKE_C_COMPILER={cc} -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF", "make -j2",
            "brotli", [("text -q 5", "text", ["-q", "5", "-c"]), ("binary -q 9", "binary", ["-q", "9", "-c"])], "ctest --output-on-failure",
            several_files=False),
    Program("zstd", "libzstd", None, "make -j2 CC={cc} zstd-release", "programs/zstd",
            [("text -3", "text", ["-3", "-c", "-T1"]), ("binary -12, two threads", "binary", ["-12", "-c", "-T2"])],
            "make -C tests CC={cc} datagen && cd tests && ZSTD_BIN=../programs/zstd DATAGEN_BIN=./datagen ./playTests.sh"),
    Program("picosat", "picosat", "CC={cc} ./configure.sh", "make -j2 CC={cc} picosat", "picosat",
            [("random formula", "formula", []), ("random formula, --plain", "formula", ["--plain"])],
            "./{binary} -o own.out {formula}; test $? = 10 -o $? = 20", several_files=False),
    Program("lrzip", "lrzip", "./autogen.sh CC={cc} CXX={cxx}", "make -j2", "lrzip",
            [("text, lzma", "text", ["-Q", "-f", "-o", "{out}"]), ("binary, bzip2", "binary", ["-Q", "-b", "-f", "-o", "{out}"])],
            "./{binary} -q -f -o own.lrz {text} && ./{binary} -q -d -f -o own.out own.lrz && cmp own.out {text}",
            needs=("autoconf", "automake", "libtool", "nasm", "liblzo2-dev", "libbz2-dev", "liblz4-dev", "zlib1g-dev"), several_files=False),
    Program("lzip", "lzip", "./configure CXX={cxx}", "make -j2", "lzip", [("text -6", "text", ["-6c"]), ("binary -0", "binary", ["-0c"])],
            "make check", note="C++, exceptions"),
    Program("pbzip2", "pbzip2", None, "make CXX='{cxx} -std=gnu++98'", "pbzip2", [("text -9, two threads", "text", ["-9c", "-p2"]), ("binary -1", "binary", ["-1c", "-p1"])],
            "./{binary} -c -p2 {text} | ./{binary} -dc -p2 | cmp - {text}", needs=("libbz2-dev",), note="C++, threads and exceptions"),
]


# Inputs of the programs that have no tests of their own, as feature_inputs makes them.
OWN_INPUTS = {"text": "text-4194304", "formula": "formula-120"}


def fetch(work, package):
    """Unpacks the upstream source of a Debian source package and gives its folder."""
    where = os.path.join(work, "source", package)
    if os.path.isdir(where):
        return where
    if not shutil.which("apt-get"):
        raise Absent("its source comes from apt-get, which is missing")
    cache = os.path.join(work, "apt")
    os.makedirs(f"{cache}/lists/partial", exist_ok=True)
    os.makedirs(f"{cache}/cache/archives/partial", exist_ok=True)
    release = subprocess.run(["sh", "-c", ". /etc/os-release; echo $ID $VERSION_CODENAME"], capture_output=True, text=True).stdout.split()
    archive = {"debian": ("http://deb.debian.org/debian", "main"), "ubuntu": ("http://archive.ubuntu.com/ubuntu", "main universe")}.get(release[0])
    if not archive:
        raise Absent(f"no source archive is known for {release[0]}")
    with open(f"{cache}/sources.list", "w") as file:
        file.write(f"deb-src {archive[0]} {release[1]} {archive[1]}\n")
    apt = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={cache}/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null", "-o", f"Dir::State::lists={cache}/lists", "-o", f"Dir::Cache={cache}/cache"]
    if not glob.glob(f"{cache}/lists/*Sources*"):
        subprocess.run(apt + ["update"], cwd=cache, capture_output=True, timeout=600)
    # The packaging itself is not wanted, and not always there any more.
    done = subprocess.run(apt + ["source", "--download-only", package], cwd=cache, capture_output=True, text=True, timeout=600)
    archives = sorted(path for path in glob.glob(f"{cache}/{package}_*.orig.tar.*") if not path.endswith(".asc"))
    if not archives:
        raise Absent(f"apt-get: {(done.stderr.strip().splitlines() or ['no upstream archive'])[-1][:150]}")
    os.makedirs(where + ".new")
    if subprocess.run(["tar", "xf", archives[0], "-C", where + ".new", "--strip-components=1"], capture_output=True).returncode:
        raise Absent(f"{archives[0]} does not unpack")
    os.rename(where + ".new", where)
    return where


def version(work, package):
    archives = sorted(path for path in glob.glob(os.path.join(work, "apt", f"{package}_*.orig.tar.*")) if not path.endswith(".asc"))
    return re.sub(r"^[^_]*_|\.orig\.tar.*$", "", os.path.basename(archives[0])) if archives else ""


def reported(said):
    """What the plugin said of variables and regions."""
    return "\n".join(line for line in said.splitlines() if line.startswith("transect: "))


def ended(command, seconds, **options):
    """As subprocess.run, but everything that the command started ends with it after so long."""
    child = subprocess.Popen(command, start_new_session=True, **options)
    try:
        out, errors = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise Absent(f"not done after {seconds} s: {shlex.join(command)[:200]}") from None
    return child.returncode, out, errors


class Build:
    """One program in a folder of its own."""

    def __init__(self, program, work, compilers, llvm="19"):
        self.program, self.work = program, work
        self.folder = os.path.join(work, "build", f"{program.name}-{llvm}")
        self.values = dict(os.environ, TRANSECT_FEATURE_MODEL=os.path.abspath(program.model), TRANSECT_LLVM=llvm)
        self.values.pop("TRANSECT_FEATURE_REPORT", None)
        self.names = {"cc": os.path.join(compilers, "transect-cc"), "cxx": os.path.join(compilers, "transect-c++")}
        self.names.update(binary=program.binary, **{kind: os.path.join(work, "input", name) for kind, name in OWN_INPUTS.items()})
        self.report = ""

    def shell(self, command, log, before=(), seconds=1800, **values):
        """Runs a shell's command in the folder, under the command `before`; what it said is kept in a log."""
        path = os.path.join(self.folder, f"transect-{log}.log")
        with open(path, "w+", errors="replace") as said:
            status, _, _ = ended([*before, "sh", "-c", command.format(**self.names)], seconds, cwd=self.folder, env=dict(self.values, **values),
                                 stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
            said.seek(0)
            text = said.read()
        if status:
            raise Absent(f"{log} failed: {' / '.join(text.strip().splitlines()[-3:])[:300]} (see {path})")
        return text

    def prepared(self):
        """Unpacks and configures, once."""
        if os.path.isdir(self.folder):
            return
        missing = [package for package in self.program.needs if subprocess.run(["dpkg", "-s", package], capture_output=True).returncode]
        if missing:
            raise Absent(f"apt install {' '.join(missing)}")
        source = fetch(self.work, self.program.package)
        shutil.copytree(source, self.folder, symlinks=True)
        if self.program.configure:
            try:
                self.shell(self.program.configure, "configure")
            except Absent:
                os.rename(self.folder, f"{self.folder}.failed-{os.getpid()}")
                raise

    def made(self, mode):
        """Links the program in its folder with sites of this mode; what the build said."""
        self.prepared()
        made = os.path.join(self.folder, self.program.binary)
        if os.path.exists(made):
            os.remove(made)
        return self.shell(self.program.make, f"make-{mode}", TRANSECT_SITES=mode, TRANSECT_FEATURE_REPORT="1")

    def binary(self, mode):
        """Path of the program with sites of this mode."""
        path = os.path.join(self.folder, f"transect-bin-{mode}")
        if not os.path.exists(path):
            self.made(mode)
            shutil.copy2(os.path.join(self.folder, self.program.binary), path)
        with open(os.path.join(self.folder, f"transect-make-{mode}.log"), errors="replace") as file:
            self.report = reported(file.read()) or self.report
        return path

    def tested(self, mode, before=(), name="alone", seconds=1800):
        """Runs the program's own tests on the binary with sites; "pass" or what failed."""
        try:
            binary = self.binary(mode)
            made = os.path.join(self.folder, self.program.binary)
            if os.path.exists(made):
                os.remove(made)
            shutil.copy(binary, made)  # newer than its objects: not linked again
            self.shell(self.program.check, f"check-{mode}-{name}", before, seconds, TRANSECT_SITES=mode)
        except Absent as problem:
            return str(problem)
        return "pass"


def run_time(command, **options):
    """(wall, CPU time in user mode, status) of one run without output."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    status = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=3600, **options).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - start, after.ru_utime - before.ru_utime, status
