"""The programs whose regions were judged: how each is built, and builds of them with and without the plugin."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../../..")
sys.path.insert(0, os.path.join(ROOT, "benches"))
import feature_programs  # noqa: E402
from feature_programs import Absent  # noqa: E402

# `./configure` of GNU programs, without what differs between machines.
GNU = "./configure CC={cc} CFLAGS='-g -O2' --disable-nls --disable-dependency-tracking"
REGION = re.compile(r"^transect: region +\{([^}]*)\} (\S+?):(\d+)-(\d+) (\w+) in (.*?)(?:: irregular: [^;]*)?; (\S*)$", re.M)
DECISION = re.compile(r"^transect: decision \d+ \{([^}]*)\} (\S+):(\d+) in (.*)$", re.M)


class Judged(feature_programs.Program):
    """`version` is the upstream version that was judged; `parts` are the folders whose lines count as the program's own."""

    def __init__(self, name, package, version, configure, make, binary, parts=(".",), needs=(), note=""):
        super().__init__(name, package, configure, make, binary, [], "", needs, note)
        self.version, self.parts = version, parts
        self.model = os.path.join(HERE, "models", f"{name}.toml")


PROGRAMS = [
    Judged("units", "units", "2.22", GNU + " --without-readline", "make -j2 units", "units"),
    Judged("dos2unix", "dos2unix", "7.4.3", None, "make CC={cc} ENABLE_NLS= CFLAGS_OS='-g' dos2unix", "dos2unix"),
    Judged("less", "less", "590", GNU, "make -j2 less", "less"),
    Judged("gifsicle", "gifsicle", "1.93", "./bootstrap.sh && " + GNU + " --disable-gifview --disable-gifdiff", "make -j2 -C src gifsicle", "src/gifsicle", ("src",)),
    Judged("lz4", "lz4", "1.9.4", None, "make -j2 -C programs CC={cc} CFLAGS='-g -O2' lz4", "programs/lz4", ("programs", "lib")),
    Judged("lbzip2", "lbzip2", "2.5", "sed -i 's/^ #error .Please port gnulib fse.*/ (void) fp;/' lib/fseterr.c && " + GNU, "make -j2", "src/lbzip2", ("src",), note="threads"),
    Judged("gddrescue", "gddrescue", "1.27", "./configure CXX={cxx} CXXFLAGS='-g -O2'", "make -j2 ddrescue", "ddrescue", note="C++"),
    Judged("ninja", "ninja-build", "1.11.1", "cmake -S . -B . -DCMAKE_CXX_COMPILER={cxx} -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_TESTING=OFF -DCMAKE_AR={ar} -DCMAKE_RANLIB={ranlib}",
           "make -j2 ninja", "ninja", ("src",), note="C++"),
    Judged("advancecomp", "advancecomp", "2.5", "autoreconf -fi && ./configure CC={cc} CXX={cxx} CFLAGS='-g -O2' CXXFLAGS='-g -O2'", "make -j2 advzip", "advzip", note="C++, exceptions"),
    Judged("gperf", "gperf", "3.1", "./configure CC={cc} CXX='{cxx} -std=gnu++98' CFLAGS='-g -O2' CXXFLAGS='-g -O2'", "make", "src/gperf", ("src", "lib"), note="C++"),
    Judged("sed", "sed", "4.9", GNU, "make -j2", "sed/sed", ("sed", "lib")),
    Judged("diffutils", "diffutils", "3.8", GNU, "make -j2", "src/diff", ("src", "lib")),
]


class Build(feature_programs.Build):
    """A build by `transect-cc`, with the list of its regions, or by clang alone."""

    def __init__(self, program, work, compilers, llvm="19", plain=False):
        super().__init__(program, work, compilers, llvm)
        self.plain = plain
        self.names.update({tool: shutil.which(f"llvm-{tool}-{llvm}") or f"llvm-{tool}-{llvm}" for tool in ("ar", "ranlib", "nm")})
        if plain:
            self.folder += "-plain"
            self.values.pop("TRANSECT_FEATURE_MODEL")
            self.values.update(AR=self.names["ar"], RANLIB=self.names["ranlib"], NM=self.names["nm"])
            flags = "-w -flto=full -fuse-ld=lld -Wno-unused-command-line-argument"
            self.names.update({key: self.wrapper(f"plain-{key}", f'{compiler}-{llvm} {flags} "$@"') for key, compiler in (("cc", "clang"), ("cxx", "clang++"))})
        else:
            # Configured programs keep the path of their compiler; another one is to link them, too.
            self.names.update({key: self.wrapper(f"transect-{key}", f'{shlex.quote(self.names[key])} "$@"') for key in ("cc", "cxx")})
            if shutil.which(f"llvm-ar-{llvm}"):
                self.values.update(AR=self.names["ar"], RANLIB=self.names["ranlib"])

    def wrapper(self, name, command):
        os.makedirs(os.path.join(self.work, "tools"), exist_ok=True)
        path = os.path.join(self.work, "tools", name)
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\nexec {command}\n")
        os.chmod(path, 0o755)
        return path

    def prepared(self):
        found = feature_programs.fetch(self.work, self.program.package)
        version = feature_programs.version(self.work, self.program.package)
        if version != self.program.version:
            raise Absent(f"version {self.program.version} was judged, {found} is {version}")
        super().prepared()

    def linked(self, report="1"):
        """Links the program once more, after a first build of everything: what was said, seconds of CPU and MiB at most."""
        self.prepared()
        made = os.path.join(self.folder, self.program.binary)
        if not os.path.exists(made):
            self.shell(self.program.make, "make", TRANSECT_SITES="none")
        os.remove(made)
        values = dict(self.values, TRANSECT_SITES="none", TRANSECT_FEATURE_REPORT=report)
        with open(os.path.join(self.folder, "transect-link.log"), "w+", errors="replace") as said:
            start = time.monotonic()
            child = subprocess.Popen(["sh", "-c", self.program.make.format(**self.names)], cwd=self.folder, env=values, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            text = said.read()
        if status or not os.path.exists(made):
            raise Absent(f"the link failed: {shlex.quote(text[-300:])}")
        return text, time.monotonic() - start, usage.ru_maxrss / 1024

    def source(self, path):
        """The file that a region's path means."""
        for folder in (self.folder, *(os.path.join(self.folder, part) for part in self.program.parts)):
            if os.path.exists(os.path.join(folder, path)):
                return os.path.join(folder, path)
        found = [os.path.join(folder, name) for folder, _, names in os.walk(self.folder) for name in names if name == os.path.basename(path)]
        return found[0] if found else None

    def lines(self):
        total = 0
        for part in self.program.parts:
            for folder, _, names in os.walk(os.path.join(self.folder, part)):
                for name in names:
                    if name.endswith((".c", ".h", ".cc", ".cpp", ".hpp", ".cxx")):
                        with open(os.path.join(folder, name), "rb") as file:
                            total += sum(1 for _ in file)
            if part == ".":
                break
        return total
