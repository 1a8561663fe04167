"""Models and binaries that are wrong: the message must say what and where, and what to do."""
import os
import subprocess

from emission import compiled

ENTITY_BOMB = """<?xml version="1.0"?>
<!DOCTYPE vm [
<!ENTITY a "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
<!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">
<!ENTITY e "&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;">
]>
<vm name="bomb" root="."><binaryOptions><configurationOption><name>&e;</name></configurationOption></binaryOptions></vm>
"""

TWO_OF_A_NAME = """
static int first(void) { int level = rand(); if (level) puts("1"); return level; }
static int second(void) { int level = rand(); if (level) puts("2"); return level; }
int main(void) { return first() + second(); }
"""


def feature(variable, name="A"):
    return f'[[feature]]\nname = "{name}"\nvars = ["{variable}"]\n'


def run(build, results):
    def model(name, text):
        path = build.file(name)
        with open(path, "w") as file:
            file.write(text)
        return path

    source = build.workload("listing22") + ".c"
    twice = build.file("twice.c")
    with open(twice, "w") as file:
        file.write("#include <stdio.h>\n#include <stdlib.h>\n" + TWO_OF_A_NAME)
    # title, source, model, must fail, words of the message
    cases = [
        ("unknown variable", source, model("m.toml", feature("listing22.c:main:nothing") + feature("listing22.c:main:B", "B")), False, ["nothing", "A"]),
        ("no variable of the model is known", source, model("m.toml", feature("listing22.c:main:nothing")), False, ["nothing"]),
        ("two variables of a name", twice, model("m.toml", feature(f"{os.path.basename(twice)}:level")), True, ["level", "first", "second"]),
        ("malformed XML", source, model("m.xml", "<vm name='x'><binaryOptions>"), True, ["m.xml"]),
        ("entity bomb", source, model("m.xml", ENTITY_BOMB), True, ["m.xml"]),
        ("malformed TOML", source, model("m.toml", "[[feature]\nname = 1"), True, ["m.toml"]),
        ("unknown parent", source, model("m.toml", feature("listing22.c:main:A") + 'parent = "Z"\n'), True, ["Z"]),
        ("no such model", source, os.path.join(build.folder, "absent.xml"), True, ["absent.xml"]),
    ]
    for title, code, path, fails, words in cases:
        name = f"bad input: {title}"
        if not results.wanted(name):
            continue
        status, said = compiled(build, code, build.file("bad"), [], {}, path)
        wrong = [] if (status != 0) == fails else [f"status {status}: {said[-400:]!r}"]
        wrong += [f"{word!r} is not in the message {said[-400:]!r}" for word in words if word not in said]
        if status > 1 or "Stack dump" in said:
            wrong.append(f"crash: {said[-300:]}")
        results.judge(name, wrong)
    settings = [("TRANSECT_SITES", "all"), ("TRANSECT_IMPLICIT", "some"), ("TRANSECT_LLVM", "7"), ("TRANSECT_SCOPE", "world")]
    for variable, value in settings:
        name = f"bad input: {variable}={value}"
        if results.wanted(name):
            status, said = compiled(build, source, build.file("bad"), [], {variable: value}, build.workload("listing22") + ".toml")
            results.judge(name, [] if status and variable in said and value in said else [f"status {status}: {said[-300:]!r}"])
    binaries(build, results, model)


def binaries(build, results, model):
    """A program without marks, one of another model."""
    listing = build.workload("listing22")

    def recorded(options, command):
        done = subprocess.run([build.transect, "record", "--quiet", "--collect", "feature", *options, "-o", build.file("profile"), "--", *command],
                              capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    name = "bad input: binary without marks"
    if results.wanted(name):
        plain = build.file("plain")
        subprocess.run(["cc", listing + ".c", "-o", plain], check=True)
        status, said = recorded([], [plain, "unit=0"])
        results.judge(name, [] if status and "transect-cc" in said else [f"status {status}: {said[-300:]!r}"])
    marked = build.file("marked")
    compiled(build, listing + ".c", marked, [], {}, listing + ".toml")
    name = "bad input: model of another build"
    if results.wanted(name):
        status, said = recorded(["--model", model("other.toml", feature("listing22.c:main:A", "Other"))], [marked, "unit=0"])
        results.judge(name, [] if status and "model" in said else [f"status {status}: {said[-300:]!r}"])
    name = "stripped binary is measured"
    if results.wanted(name):
        subprocess.run(["strip", marked], check=True)
        status, said = recorded([], [marked, "a", "unit=0"])
        results.judge(name, [] if status == 0 else [f"status {status}: {said[-300:]!r}"])
