#!/usr/bin/env python3
"""Time per feature, end to end: programs built by transect-cc, recorded, reported; they say themselves how often they
entered each region, and their models' mistakes must be told.

Usage: run.py --transect PATH [--only WORD] [--folder DIR] [--keep]
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import bad_input  # noqa: E402
import budget  # noqa: E402
import calls  # noqa: E402
import chosen  # noqa: E402
import confirm  # noqa: E402
import cuts  # noqa: E402
import emission  # noqa: E402
import recorded  # noqa: E402
import watched  # noqa: E402
import wrapped  # noqa: E402
from harness.results import Results  # noqa: E402


class Build:
    """Where things are."""

    def __init__(self, transect, folder):
        self.transect, self.folder = os.path.abspath(transect), folder
        self.compilers = os.path.dirname(self.transect)
        self.count = 0

    def plugin(self, llvm):
        path = os.path.join(self.compilers, "compiler-plugin", f"llvm-{llvm}", "transect-features.so")
        return path if os.path.exists(path) else None

    def file(self, name):
        """A new path."""
        self.count += 1
        return os.path.join(self.folder, f"{self.count}-{name}")

    def workload(self, name):
        """Path of a bundled workload without its extension."""
        return os.path.join(HERE, "../../workloads/feature", name)

    def program(self, name):
        return os.path.join(HERE, "programs", name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transect", required=True)
    parser.add_argument("--only")
    parser.add_argument("--folder")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    folder = options.folder or tempfile.mkdtemp(prefix="transect-feature-")
    os.makedirs(folder, exist_ok=True)
    build, results = Build(options.transect, folder), Results(options.only)
    if not os.path.exists(os.path.join(build.compilers, "transect-cc")) or not build.plugin("19"):
        print(f"NOT RUN: features: transect-cc and its plugin for LLVM 19 are not in {build.compilers}")
        return 0
    try:
        emission.run(build, results)
        bad_input.run(build, results)
        cuts.run(build, results)
        recorded.run(build, results)
        chosen.run(build, results)
        budget.run(build, results)
        watched.run(build, results)
        calls.run(build, results)
        wrapped.run(build, results)
        confirm.run(build, results)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
