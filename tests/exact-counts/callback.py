"""Calls that functions make which a library was given and calls back."""
import itertools
import json
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def of_libraries(options, folder, results):
    """What callbacks call is in the API's own time and in a flow of its own, and once in the components' times."""
    cc = ["cc", "-O2", "-g"]
    subprocess.run(cc + ["-fPIC", "-shared", f"{HERE}/libcallback.c", "-o", f"{folder}/libcallback.so"], check=True)
    linked = [f"-L{folder}", "-lcallback", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(cc + [f"{HERE}/callback.c", "-o", f"{folder}/callback", *linked], check=True)
    for timing, collect in itertools.product(("full", "adaptive", "every=7"), ((), ("--collect", "flow"))):

        def attempt(timing=timing, collect=collect):
            profile, argv = os.path.join(folder, "callback-profile"), [f"{folder}/callback", "600"]
            shutil.rmtree(profile, ignore_errors=True)
            done = subprocess.run([options.transect, "record", "-q", *collect, "--timing", timing, "-o", profile, "--", *argv],
                                  capture_output=True, text=True, timeout=120)
            if done.returncode:
                return [f"status {done.returncode}: {done.stderr[-200:]}"], []
            shown = subprocess.run([options.transect, "report", "--format", "json", profile], capture_output=True, text=True, check=True, timeout=60)
            report = json.loads(shown.stdout)
            outer, inner, own = map(int, done.stdout.split())
            flows = {row["api"]: row for row in report["flows"]}
            components = {row["component"]: row for row in report["components"]}
            outermost, called = flows["for_each"], flows["leaf"]
            if (outermost["calls"], called["calls"]) != (600, 60000):
                return [f"calls: {outermost['calls']} and {called['calls']}"], []
            edge = next(other for other in components["callback"]["others"] if other["component"] == "libcallback.so")
            truths = {
                "total of for_each": (outermost["total_ns"], outer),
                "total of leaf": (called["total_ns"], inner),
                "calls made by callbacks": (outermost["called_back_ns"], inner),
                "all calls into the library": (edge["total_ns"], outer),
                # Without samples nobody sees the program's own code run where the library calls it.
                "the library": (components["libcallback.so"]["self_ns"], outer if collect else outer - own),
                "all components": (sum(row["self_ns"] for row in components.values()), report["meta"]["wall_ns"]),
            }
            return [], [f"{name}: {ns} ns of {truth}" for name, (ns, truth) in truths.items() if abs(ns - truth) > 0.15 * truth]

        results.judge_measured(f"calls made by callbacks [{timing}{'' if collect else ', default'}]", attempt)
