#!/usr/bin/env python3
"""Whether documents, comments and messages use the field's terms, and modules and types have names that say what they are.

usage: words.py [--list]     --list prints the words, each with the term to use instead
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# In documents, comments and string literals: the word, what to write instead.
TEXT = {
    r"(?<!pre)(?<!co)(?<!trace.)(?<!trace)\bprocessors?": "CPU",
    r"\btold (by|of)\b": "shown by, reported by; a subject and an active verb",
    r"\bstands? out\b": "finding",
    r"\brefused sites?\b": "skipped functions",
    r"\bstolen (time|milliseconds?)\b": "steal time",
    r"\btakers?\b": "consumer, reader",
    r"\bstays\b": "remains, is kept, is not changed",
    r"\bstrangers?\b": "other process, unknown thread",
    r"\bknowledge\b": "data, what is known",
    r"\bhindrances?\b": "cause, limit",
    r"\bcompanion\b": "helper thread",
    r"\brous(e|es|ed|ing)\b": "wake, wakes",
    r"\bso many times\b": "N times, by this factor",
    r"\bready (time|to run|without)\b|\b(on CPU|and), ready\b": "runnable",
    r"\bheld[ _]up\b": "delayed, blocked",
}
# In names of files and types, as words of the name: the word, what to write instead.
NAMES = {
    "processor": "cpu", "processors": "cpus", "taker": "consumer", "stays": "residence", "stranger": "unknown_task", "lives": "lifetimes",
    "presence": "existence", "rouse": "wake", "heat(?!_map)": "heat_map", "held_up": "delayed", "outer_number": "namespace_pid",
    "silent_regions": "regions_without_events", "companion": "helper", "told": "reported", "beside": "combined", "knowledge": "facts",
    "hindrance": "cause", "news": "changes", "wish": "request", "wishes": "settings", "party": "other_thread", "moment": "instant",
}
# Others' names and words: a file (or all below a folder), what it may contain.
ALLOWED = [
    ("LICENSE-APACHE", "knowledge"),
    ("docs/case-studies.md", "processors, block_size"),  # a feature of pbzip2's model
    ("docs/case-studies.md", "level, processors"),
    ("workloads/feature/models/pbzip2.toml", "processors"),
    ("crates/calibrate/src/lib.rs", 'rename = "processors"'),  # a key of its JSON
    ("crates/profile-export/tests/formats/trace_processor.mjs", ""),  # a program of Perfetto
    ("crates/profile-model/src/loss.rs", "=> Self::S"),  # in profiles of earlier builds
    ("tests/words.py", ""),
]
DOCUMENT = (".md", ".toml", ".css", ".1")
# Comments and literals of each language; what is left are names.
C_LIKE = r"//[^\n]*|/\*.*?\*/|r#+\".*?\"#+|\"(?:\\.|[^\"\\])*\""
LANGUAGES = {
    (".rs", ".c", ".h", ".cpp", ".s", ".S"): C_LIKE + r"|(?<=^)\s*#\s[^\n]*",
    (".ts", ".mjs"): C_LIKE + r"|`(?:\\.|[^`\\])*`|(?<=\W)'(?:\\.|[^'\\\n])*'",
    (".py", ".sh", ".sql"): r"\"\"\".*?\"\"\"|(?:#|--)[^\n]*|\"(?:\\.|[^\"\\])*\"",
}
TOKEN = {suffix: re.compile(pattern, re.DOTALL | re.MULTILINE) for suffixes, pattern in LANGUAGES.items() for suffix in suffixes}
TYPE = re.compile(r"\b(?:struct|enum|trait|type|union|class|interface|mod)\s+([A-Za-z_]\w*)")
WORD = re.compile("|".join(f"(?P<t{number}>{pattern})" for number, pattern in enumerate(TEXT)), re.IGNORECASE)
INSTEAD = list(TEXT.values())
NOT_OURS = re.compile(r"(^|/)(dist|patched|corpus)/|\.(lock|patch|svg|png|json)$|^LICENSE-MIT")


def allowed(path, line):
    return any(path == file and word in line for file, word in ALLOWED)


def texts(path, content):
    """The pieces of a file that are prose, with their offsets."""
    suffix = os.path.splitext(path)[1]
    if suffix in DOCUMENT or not suffix:
        return [(0, content)]
    if suffix not in TOKEN:
        return []
    return [(found.start(), found.group()) for found in TOKEN[suffix].finditer(content)]


def words_of(name):
    """`ReadAhead`, `read_ahead` and `read-ahead` as `_read_ahead_`."""
    return "_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower() + "_"


def bad_name(name):
    return next(((word, instead) for word, instead in NAMES.items() if re.search(f"_{word}_", words_of(name))), None)


def faults_of_names(path, content):
    if path.startswith(("crates/", "compiler-plugin/")):
        for part in path.split("/")[1:]:
            if found := bad_name(os.path.splitext(part)[0]):
                yield 0, f"{path}: a file named {found[0]}; rather {found[1]}"
        for found in TYPE.finditer(content):
            if bad := bad_name(found[1]):
                yield found.start(), f"{found[1]}; rather {bad[1]}"


def faults(path):
    with open(os.path.join(ROOT, path), errors="replace") as file:
        content = file.read()
    found = list(faults_of_names(path, content))
    for offset, text in texts(path, content):
        for hit in WORD.finditer(text):
            found.append((offset + hit.start(), f"{hit[0]}; rather {INSTEAD[int(hit.lastgroup[1:])]}"))
    for offset, what in sorted(set(found)):
        number = content.count("\n", 0, offset) + 1
        line = content.splitlines()[number - 1] if content else ""
        if not allowed(path, line):
            yield f"{path}:{number}: {what}"


def main():
    if "--list" in sys.argv:
        print("\n".join(f"{pattern:48} {instead}" for pattern, instead in (TEXT | NAMES).items()))
        return 0
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    files = [path for path in tracked if path and not NOT_OURS.search(path) and os.path.isfile(os.path.join(ROOT, path))]
    found = [fault for path in files for fault in faults(path)]
    print("\n".join(found) or f"{len(files)} files: no word that has a better one")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
