#!/usr/bin/env python3
"""Regions that the compiler plugin finds in small programs, against what their sources say.

    run.py --plugins DIRECTORY [--only WORD] [--verbose]

A program's comments name the regions that a reader would see: `// region {A,B}` at the line of the decision. The
plugin's report gives those that it found; precision and recall are over pairs of (line, set of features), at -O0 and
-O2, with each version of LLVM that has a plugin under DIRECTORY (llvm-19/transect-features.so). `// options:` are the
compiler's. The exit status is 0 if both are at least 0.9 everywhere and at most 2 % of the regions are irregular.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).parent / "programs"
EXPECTED = re.compile(r"\bregion \{([^}]*)\}")
OPTIONS = re.compile(r"// options: (.*)")
MODEL = re.compile(r"// model: (\S+) (\S+) (\S+) (\S+)(?: (\S+))?")
FOUND = re.compile(r"transect: region +\{([^}]*)\} (\S+?):(\d+)-\d+ (.*); (\S*)")


def programs():
    """Name and source files of each program; a folder is one program of several files."""
    for path in sorted(PROGRAMS.iterdir()):
        if path.is_dir():
            yield path.name, sorted(path.glob("*.c*"))
        elif path.suffix in (".c", ".cpp"):
            yield path.stem, [path]


def expected(sources):
    regions = collections.Counter()
    for source in sources:
        for number, line in enumerate(source.read_text().splitlines(), 1):
            for features in EXPECTED.findall(line.partition("//")[2]):
                regions[(source.name, number, frozenset(features.split(",")))] += 1
    return regions


def model(sources, folder):
    """The model that the sources' comments tell, in the flat form."""
    places = []
    for source in sources:
        for kind, feature, first, second, third in MODEL.findall(source.read_text()):
            if kind == "member":
                places.append((feature, f"member\t%d\t{first}\t{second}" + (f"\t{third}" if third else "")))
            else:
                function, _, name = ("", "", third) if third else second.partition(":")
                places.append((feature, f"variable\t%d\t{first}\t{function}\t{name}"))
    if not places:
        return ""
    features = list(dict.fromkeys(feature for feature, _ in places))
    lines = ["transect-feature-model\t1\t" + "0" * 16] + [f"feature\t{feature}" for feature in features]
    lines += [text % features.index(feature) for feature, text in places]
    path = os.path.join(folder, "model")
    pathlib.Path(path).write_text("\n".join(lines) + "\n")
    return path


def found(sources, plugin, version, level, with_dependences):
    """Regions with the features that count by default, or with all of them and how each decision depends on them."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, TRANSECT_FEATURE_REPORT="1", TRANSECT_FEATURE_MODEL=model(sources, folder))
        compiler = {".c": f"clang-{version}", ".cpp": f"clang++-{version}"}
        common = ["-g", level, "-I", str(PROGRAMS), "-w"]
        for source in sources:
            common += " ".join(OPTIONS.findall(source.read_text())).split()
        if len(sources) == 1:
            command = [compiler[sources[0].suffix], *common, f"-fpass-plugin={plugin}", "-c", str(sources[0]), "-o",
                       os.path.join(folder, "out.o")]
        else:
            parts = []
            for source in sources:
                parts.append(os.path.join(folder, source.stem + ".bc"))
                subprocess.run([compiler[source.suffix], *common, "-Xclang", "-disable-llvm-passes", "-emit-llvm",
                                "-c", str(source), "-o", parts[-1]], check=True)
                subprocess.run([f"opt-{version}", f"-load-pass-plugin={plugin}", "-passes=transect-names",
                                parts[-1], "-o", parts[-1]], check=True)
            whole = os.path.join(folder, "whole.bc")
            subprocess.run([f"llvm-link-{version}", *parts, "-o", whole], check=True)
            command = [f"opt-{version}", f"-load-pass-plugin={plugin}", "-passes=transect-regions", whole, "-o",
                       os.path.join(folder, "out.bc")]
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{command} failed:\n{done.stderr}")
    regions, irregular = collections.Counter(), 0
    for features, path, line, rest, dependences in FOUND.findall(done.stderr):
        features = dependences if with_dependences else features
        if not features:
            continue
        regions[(os.path.basename(path), int(line), frozenset(features.split(",")))] += 1
        irregular += ": irregular" in rest and "hot loop" not in rest
    return regions, irregular


def show(region):
    return f"{region[0]}:{region[1]} {{{','.join(sorted(region[2]))}}}"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--plugins", required=True, type=pathlib.Path)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--level", action="append", help="optimisation levels; default -O0 and -O2")
    arguments.add_argument("--llvm", action="append", help="versions of LLVM; default all that have a plugin")
    options = arguments.parse_args()
    versions = options.llvm or [v for v in ("19", "16") if (options.plugins / f"llvm-{v}/transect-features.so").exists()]
    if not versions:
        sys.exit(f"no plugin under {options.plugins}; build it with `make plugin`")
    results = []
    for version in versions:
        plugin = (options.plugins / f"llvm-{version}/transect-features.so").resolve()
        for level in options.level or ("-O0", "-O2"):
            right = wanted = seen = broken = count = 0
            for name, sources in programs():
                if options.only not in name:
                    continue
                count += 1
                want = expected(sources)
                names_dependences = any("=" in feature for _, _, features in want for feature in features)
                have, irregular = found(sources, plugin, version, level, names_dependences)
                right += sum((want & have).values())
                wanted += sum(want.values())
                seen += sum(have.values())
                broken += irregular
                for region in want - have:
                    print(f"  {name}: missing {show(region)}")
                for region in have - want:
                    print(f"  {name}: not in the source {show(region)}")
            precision, recall = right / max(seen, 1), right / max(wanted, 1)
            results.append(precision >= 0.9 and recall >= 0.9 and broken <= 0.02 * max(seen, 1))
            print(f"LLVM {version} {level}: {count} programs, {wanted} regions; precision {precision:.3f}, "
                  f"recall {recall:.3f}, irregular {broken}", flush=True)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
