#!/usr/bin/env python3
"""Whether each relative link of the documents leads to a file of the repository, and to a heading where it names one."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")


def without_code(text):
    return INLINE_CODE.sub("``", CODE.sub("", text))


def anchors(path):
    """Those that GitHub and mdBook give headings."""
    with open(path) as file:
        headings = re.findall(r"^#+ +(.+?)\s*$", CODE.sub("", file.read()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(document):
    with open(os.path.join(ROOT, document)) as file:
        text = without_code(file.read())
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        path = os.path.normpath(os.path.join(ROOT, os.path.dirname(document), path)) if path else os.path.join(ROOT, document)
        if not os.path.exists(path):
            yield f"{document}: no file {target}"
        elif heading and path.endswith(".md") and heading not in anchors(path):
            yield f"{document}: no heading {target}"


def unlisted():
    """Pages of the guide that its table of contents leaves out."""
    folder = os.path.join(ROOT, "docs/guide/src")
    with open(os.path.join(folder, "SUMMARY.md")) as file:
        listed = set(LINK.findall(file.read()))
    pages = (os.path.relpath(os.path.join(parent, name), folder) for parent, _, names in os.walk(folder) for name in names)
    for page in sorted(pages):
        if page.endswith(".md") and page != "SUMMARY.md" and page not in listed:
            yield f"docs/guide/src/SUMMARY.md: does not list {page}"


def main():
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    faults = [fault for document in tracked for fault in broken(document)] + list(unlisted())
    print("\n".join(faults) or f"{len(tracked)} documents: every link leads somewhere")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
