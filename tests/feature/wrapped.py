"""What options cost, by the regions of a program that another command starts (`transect influence`)."""
import json
import os
import subprocess

from emission import compiled

COMMANDS = {
    "the program": ["{program}", "unit=30", "{options}"],
    "env": ["env", "LEVEL=1", "{program}", "unit=30", "{options}"],
    "sh -c": ["sh", "-c", "cd / && {program} unit=30 {options}; true"],
    "timeout and nice": ["timeout", "60", "nice", "{program}", "unit=30", "{options}"],
}


def run(build, results):
    source = build.workload("simple-interaction")
    for sites in ("probe", "trace"):
        program = build.file(f"wrapped-{sites}")
        built = None
        for title, words in COMMANDS.items():
            name = f"influence under {title}, {sites}"
            if not results.wanted(name) or sites == "trace" and title != "sh -c":
                continue
            built = built or compiled(build, source + ".c", program, [], {"TRANSECT_SITES": sites}, source + ".toml")
            if built[0]:
                results.judge(name, [built[1][-500:]])
                continue
            command = [word.replace("{program}", program) for word in words]
            results.judge_measured(name, lambda command=command: judged(build, source + ".toml", command))


def judged(build, model, command):
    output = build.file("influence.json")
    if os.path.exists(output):
        os.remove(output)
    done = subprocess.run(
        [build.transect, "influence", "--quiet", "--model", model, "--repeat", "3", "--format", "json", "--output", output, "--", *command],
        capture_output=True, text=True, timeout=300,
    )
    if done.returncode:
        return [f"status {done.returncode}: {done.stderr[-400:]}"], []
    with open(output) as file:
        influence = json.load(file)["influence"]
    if influence["method"] != "regions":
        return [f"explained by {influence['method']}"], []
    # Milliseconds. A waiting shell's are no part of the base.
    wanted = {(): 60, ("compress",): 60, ("encrypt",): 120, ("compress", "encrypt"): -90}
    found = {tuple(sorted(term["features"])): term["ns"] / 1e6 for term in influence["terms"]}
    # A busy machine adds some; with the shell's it would be twice as much.
    return [], [f"{of} costs {found.get(of)} ms instead of {ms}" for of, ms in wanted.items() if abs(found.get(of, 0) - ms) > 25 + 0.25 * abs(ms)]
