#!/usr/bin/env python3
"""Keeps docs/BENCHMARKS.md: each section of a run's output replaces the section of the same title, with its machine and date.

usage: document.py OUTPUT DOCUMENT      OUTPUT is what run.py printed; sections that it lacks keep their last measurement.
"""
import datetime
import os
import re
import sys

INTRODUCTION = """# Benchmarks

Written by `make bench`, which repeats all of it; do not edit. Runs are interleaved (native, tool, native, tool, ...). Absolute times
are the machine's; ratios are what to read. A tool or program that was not there is given as NOT RUN.
"""
TITLE = re.compile(r"^### (.+)$", re.MULTILINE)


def cpu_model():
    with open("/proc/cpuinfo") as file:
        found = re.search(r"^model name\s*: (.+)$", file.read(), re.MULTILINE)
    return found.group(1) if found else "unknown CPU"


def sections(text):
    """Title to body, in the order of the text."""
    pieces = TITLE.split(text)[1:]
    return dict(zip(pieces[::2], (body.strip() for body in pieces[1::2])))


def with_origin(body, preamble):
    """The section's body below the line that says where and when it was measured."""
    how = re.search(r"^Machine: (.+)$", preamble, re.MULTILINE)
    return f"Measured {datetime.date.today()} on {cpu_model()}; {how.group(1) if how else 'unknown machine'}\n\n{body}"


def merged(document, output):
    known = sections(document)
    for title, body in sections(output).items():
        known[title] = with_origin(body, output)
    return INTRODUCTION + "".join(f"\n### {title}\n\n{body}\n" for title, body in known.items())


def main():
    output, document = sys.argv[1:]
    with open(output) as file:
        measured = file.read()
    if not TITLE.search(measured):
        sys.exit(f"{output}: no section: nothing was measured")
    before = ""
    if os.path.exists(document):
        with open(document) as file:
            before = file.read()
    with open(document, "w") as file:
        file.write(merged(before, measured))


if __name__ == "__main__":
    main()
