"""Regions confirmed by running: what labels show of programs whose sources say which feature reaches which region, and how."""
import json
import os
import re
import subprocess
import tomllib

from emission import compiled

PAIR = re.compile(r"pair (\w+) (when|never|none)(?: (\w+))?(?: else (\w+))?")
CXX = """
#include <cstdio>
#include <string>
static std::string name;
static int plain;
static volatile int sum;
__attribute__((noinline)) static void work(int n) { for (int i = 0; i < n; ++i) sum += i; }
int main(int argc, char **argv) {
  plain = argc > 1;
  name = argc > 2 ? argv[2] : "";
  if (plain)
    work(1);
  if (name.size() > 3)
    work(2);
}
"""


def pairs(folder, letters):
    """(file, line, feature) → verdict, as the sources' comments say."""
    expected = {}
    for name in os.listdir(folder):
        if not name.endswith(".c"):
            continue
        with open(os.path.join(folder, name)) as file:
            for number, line in enumerate(file, 1):
                for feature, how, when, otherwise in PAIR.findall(line.partition("//")[2]):
                    if how == "when":
                        shown = when == "always" or when in letters
                        verdict = "confirmed" if shown else {"none": "unseen"}[otherwise]
                    else:
                        verdict = {"never": "unconfirmed", "none": "unseen"}[how]
                    expected[(name, number, feature)] = verdict
    return expected


def found(path):
    with open(path, "rb") as file:
        confirmation = tomllib.load(file)
    verdicts = {}
    for program in confirmation["program"]:
        for region in program.get("region", []):
            for verdict in ("confirmed", "unconfirmed", "unseen"):
                for feature in region.get(verdict, []):
                    verdicts[(os.path.basename(region["file"]), region["line"], feature)] = verdict
    return verdicts


def differences(expected, verdicts):
    return [f"{place[0]}:{place[1]} {place[2]}: {verdicts.get(place, 'no pair')} instead of {verdict}" for place, verdict in sorted(expected.items()) if verdicts.get(place) != verdict]


def confirm(build, output, command, status=0):
    """Runs; complaints."""
    words = ["-o", output] if output else []
    done = subprocess.run([build.transect, "feature", "confirm", *words, "--", *command], capture_output=True, text=True, timeout=300)
    return [] if done.returncode == status else [f"{' '.join(command)}: status {done.returncode}: {done.stderr[-500:]}"]


def run(build, results):
    if not results.wanted("confirm"):
        return
    folder = build.program("confirm")
    model = os.path.join(folder, "model.toml")
    sources = [os.path.join(folder, name) for name in ("main.c", "worker.c")]
    program, marked = build.file("confirmed"), build.file("marked")
    for output, sites in ((program, "confirm"), (marked, "probe")):
        status, said = compiled(build, sources[0], output, [sources[1], "-lpthread"], {"TRANSECT_SITES": sites}, model)
        if status:
            if "libclang-rt-19-dev" in said:
                results.absent("confirm", "libclang-rt-19-dev is missing")
            else:
                results.judge("confirm: build", [said[-800:]])
            return
    results.judge("confirm: known pairs", known_pairs(build, folder, program))
    results.judge("confirm: processes", processes(build, folder, program))
    results.judge("confirm: another build", another_build(build, program, marked))
    results.judge("confirm: kept in a recording", recorded(build, program, marked))
    results.judge("confirm: C++", cxx(build))
    results.judge("confirm: errors", errors(build, sources, model, marked))


def known_pairs(build, folder, program):
    wrong, sums = [], build.file("sums.toml")
    # Each run alone; then all in one file.
    for letters in ("", "s", "vcl", "89", "vcls789x"):
        alone = build.file("alone.toml")
        wrong += confirm(build, alone, [program, letters])
        wrong += confirm(build, sums, [program, letters])
        wrong += [f"option {letters!r}: {text}" for text in differences(pairs(folder, letters), found(alone))]
    return wrong + [f"all runs: {text}" for text in differences(pairs(folder, "vcls789x"), found(sums))]


def processes(build, folder, program):
    """One that is killed, one that another command starts, and several."""
    killed, several = build.file("killed.toml"), build.file("several.toml")
    wrong = confirm(build, killed, [program, "s8k"], 134)
    wrong += [f"killed: {text}" for text in differences(pairs(folder, "s8"), found(killed))]
    wrong += confirm(build, several, ["sh", "-c", f"{program} s & {program} 8; wait; exit 3"], 3)
    wrong += [f"several: {text}" for text in differences(pairs(folder, "s8"), found(several))]
    return wrong


def another_build(build, program, marked):
    """What was confirmed with one build is shown of another; without -o the file lies beside the program."""
    wrong = confirm(build, None, [program, "v"])
    beside = program + ".confirmed.toml"
    if not os.path.exists(beside):
        return [*wrong, f"no {beside}"]
    for words in ([program], [marked, "--confirmed", beside]):
        done = subprocess.run([build.transect, "feature", "regions", *words], capture_output=True, text=True, timeout=60)
        verdicts = list(found(beside).values())
        sums = ", ".join(f"{verdicts.count(verdict)} {'pairs of region and feature ' if verdict == 'confirmed' else ''}{verdict}" for verdict in ("confirmed", "unconfirmed", "unseen"))
        for part in (sums, "UNCONFIRMED", "VERBOSE"):
            if part not in done.stdout:
                wrong.append(f"{words[0]}: no {part!r} in {(done.stdout + done.stderr)[:400]}")
    return wrong


def recorded(build, program, marked):
    """A recording keeps what the file beside its program says, and its report marks what is unconfirmed."""
    beside, profile = marked + ".confirmed.toml", build.file("profile")
    wrong = confirm(build, beside, [program, "v"])
    record = [build.transect, "record", "--quiet", "--collect", "feature", "--feature-method", "probe", "-o", profile, "--", marked, "v"]
    done = subprocess.run(record, capture_output=True, text=True, timeout=60)
    if done.returncode:
        return [*wrong, f"recording: {done.stderr[-300:]}"]

    def shown(*words):
        return subprocess.run([build.transect, "report", profile, "--view", "features", *words], capture_output=True, text=True, timeout=60).stdout

    view = json.loads(shown("--format", "json"))
    known = {}
    for region in [*view["regions"], *view.get("silent", [])]:
        for feature, verdict in zip(region["features"], region["verdicts"], strict=True):
            known[(os.path.basename(region["file"]), region["line"], feature)] = verdict
    for place, verdict in found(beside).items():
        if known.get(place) != verdict:
            wrong.append(f"{place}: {known.get(place)} instead of {verdict}")
    ran = [region for region in view["regions"] if (region["entries"] or 0) > 0]
    questions = sorted(f"{feature}?" for region in ran for feature, verdict in zip(region["features"], region["verdicts"], strict=True) if verdict == "unconfirmed")
    text = shown()
    wrong += [f"no {mark!r} in {text[-600:]}" for mark in questions if mark not in text]
    os.remove(beside)
    return wrong


def cxx(build):
    """The C++ library carries no labels: what could have gone through it is unseen, what did not is confirmed."""
    source, model, program, output = build.file("text.cpp"), build.file("text.toml"), build.file("text"), build.file("text.confirmed.toml")
    with open(source, "w") as file:
        file.write(CXX)
    with open(model, "w") as file:
        file.write("".join(f'[[feature]]\nname = "{name}"\nvars = ["{os.path.basename(source)}:{name}"]\n' for name in ("plain", "name")))
    status, said = compiled(build, source, program, [], {"TRANSECT_SITES": "confirm"}, model, "transect-c++")
    if status:
        return [said[-600:]]
    wrong = confirm(build, output, [program, "a", "long name"])
    verdicts = {feature: verdict for (_, _, feature), verdict in found(output).items()}
    if verdicts.get("plain") != "confirmed" or verdicts.get("name") not in ("unseen", "confirmed"):
        wrong.append(f"verdicts {verdicts}")
    return wrong


def errors(build, sources, model, marked):
    """What can't be confirmed is told, with what to do."""
    wrong = []
    for options, environment, word in ((["-static"], {}, "-static"), ([], {"TRANSECT_LLVM": "16"}, "TRANSECT_LLVM"), ([], {"TRANSECT_SCOPE": "file"}, "TRANSECT_SCOPE"), (["-fsanitize=address"], {}, "sanitizers")):
        status, said = compiled(build, sources[0], build.file("none"), [sources[1], "-lpthread", *options], {"TRANSECT_SITES": "confirm", **environment}, model)
        if not status or word not in said:
            wrong.append(f"{options} {environment}: status {status}, {said[-300:]!r}")
    for command, output, status, word in (
        ([marked], None, 1, "TRANSECT_SITES=confirm"),
        (["/nowhere/program"], None, 127, "/nowhere/program"),
    ):
        done = subprocess.run([build.transect, "feature", "confirm", "--", *command], capture_output=True, text=True, timeout=60)
        if done.returncode != status or word not in done.stderr:
            wrong.append(f"{command}: status {done.returncode}, {done.stderr[-300:]!r}")
    other = build.file("other.toml")
    with open(other, "w") as file:
        file.write("version = 99\n")
    done = subprocess.run([build.transect, "feature", "regions", marked, "--confirmed", other], capture_output=True, text=True, timeout=60)
    if done.returncode == 0 or "version 99" not in done.stderr:
        wrong.append(f"version 99: status {done.returncode}, {done.stderr[-300:]!r}")
    return wrong
