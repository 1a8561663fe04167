#!/usr/bin/env python3
"""The kernel tests, from inside of the virtual machine (run.py starts it there)."""

import argparse
import os
import sys

TESTS = []


def test(function):
    """The name of a test says what holds; it returns complaints, or raises NotRun."""
    TESTS.append(function)
    return function


class NotRun(Exception):
    """This kernel or machine can't run the test."""


@test
def kernel_has_type_information(_options):
    return [] if os.path.getsize("/sys/kernel/btf/vmlinux") > 1_000_000 else ["/sys/kernel/btf/vmlinux is small"]


@test
def files_of_the_host_can_not_be_written(_options):
    try:
        with open(os.path.join(os.path.dirname(__file__), "written"), "w"):
            return ["a file of the host was made"]
    except OSError:
        return []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--transect", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    passed, failed = 0, 0
    for function in TESTS:
        name = function.__name__.replace("_", " ")
        if options.only not in name:
            continue
        try:
            complaints = function(options)
        except NotRun as why:
            print(f"NOT RUN: {name}: {why}", flush=True)
            continue
        except Exception as error:  # a test that breaks is a failure, not the end of the others
            complaints = [f"{type(error).__name__}: {error}"]
        if complaints:
            failed += 1
            print(f"FAILED: {name}: " + "; ".join(complaints[:6]), flush=True)
        else:
            passed += 1
    print(f"guest: {passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
