"""Calls between components by feature: programs that count under which features they call what, recorded with flows."""
import json
import os
import re
import subprocess

from emission import compiled
from recorded import METHODS

# name, source, options of the compiler, arguments, timing
PROGRAMS = [
    ("calls by feature", "calls.c", ["-pthread", "-lm"], ["1", "1", "1", "1"], "adaptive"),
    ("calls by feature, all timed", "calls.c", ["-pthread", "-lm"], ["1", "1", "1", "0"], "full"),
    ("calls by feature, none active", "calls.c", ["-pthread", "-lm"], ["0", "0", "0", "0"], "count"),
    ("calls by feature, exceptions", "thrown_calls.cpp", [], ["1", "1"], "adaptive"),
]


def truth(output):
    """{(features, api): calls}; a set with `alarms` stands for all of its supersets."""
    counts = {}
    for features, api, times in re.findall(r"^called (\S+) (\w+) (\d+)$", output, re.M):
        key = (tuple(sorted(filter(None, features.rstrip("-").split(",")))), api)
        counts[key] = counts.get(key, 0) + int(times)
    return counts


def recorded_calls(rows, apis):
    counts = {}
    for row in rows:
        if row["api"] in apis:
            # A signal's handler has come into any other region.
            features = ("alarms",) if "alarms" in row["features"] else tuple(sorted(row["features"]))
            counts[features, row["api"]] = counts.get((features, row["api"]), 0) + row["calls"]
    return counts


def report(build, profile, *options):
    done = subprocess.run([build.transect, "report", profile, "--format", "json", *options], capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout)


def judged(build, profile, output):
    """What is wrong with calls per set of features and API, and what times are off."""
    full = report(build, profile)
    wanted = truth(output)
    apis = {api for _, api in wanted}
    found = recorded_calls(full.get("feature_apis") or [dict(row, features=[]) for row in full["flows"]], apis)
    wrong = [
        f"{api} under {{{','.join(of)}}}: {wanted.get((of, api), 0)} calls, reported {found.get((of, api), 0)}"
        for of, api in sorted(set(wanted) | set(found))
        if wanted.get((of, api), 0) != found.get((of, api), 0)
    ]
    if not wanted:
        wrong.append("the program said nothing")
    # Whatever the contexts, the flows are the same calls and times.
    by_feature = full.get("feature_apis", [])
    for key in ("calls", "total_ns", "self_ns"):
        of_flows = sum(row[key] or 0 for row in full["flows"])
        of_features = sum(row[key] or 0 for row in by_feature)
        if by_feature and of_flows != of_features:
            wrong.append(f"{key}: {of_flows} in flows, {of_features} by feature")
    # Its regions' times still add up to the threads' lives, less what passes between the beginnings of two collectors.
    off = []
    lives = sum(row["wall_ns"] for row in full["threads"])
    exclusive = sum(row["exclusive_ns"] for row in full["features"])
    if abs(lives - exclusive) > 0.01 * lives:
        off.append(f"features add up to {exclusive} ns of {lives}")
    return wrong, off


def run(build, results):
    model = build.program("calls.toml")
    for title, source, options, arguments, timing in PROGRAMS:
        for method in METHODS:
            name = f"{title}, {method}"
            if not results.wanted(name):
                continue
            program, profile = build.file("program"), build.file("profile")
            compiler = "transect-c++" if source.endswith(".cpp") else "transect-cc"
            status, said = compiled(build, build.program(source), program, options, {"TRANSECT_SITES": method}, model, compiler)
            if status:
                results.judge(name, [said[-500:]])
                continue
            command = [build.transect, "record", "--quiet", "--collect", "flow,feature", "--feature-method", method, "--timing", timing, "-o", profile, "--", program,
                       *arguments]

            def attempt(command=command, profile=profile):
                done = subprocess.run(command, capture_output=True, text=True, timeout=300)
                return judged(build, profile, done.stdout) if done.returncode == 0 else ([f"status {done.returncode}: {done.stderr[-300:]}"], [])

            results.judge_measured(name, attempt)
