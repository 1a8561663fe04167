"""What the compiler makes: sites in each mode, by both versions of LLVM, in each kind of binary, judged by reading the file."""
import os
import shutil
import subprocess

import elf_sites

MODES = ("probe", "trace", "shared", "inlined", "none")
KINDS = {
    "plain": [],
    "not position-independent": ["-no-pie", "-fno-pie"],
    "static": ["-static"],
    "sections collected": ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"],
    "-O0": ["-O0"],
    "-O3 -march=native": ["-O3", "-march=native"],
    "no debug information asked for": ["-g0"],
}


def compiled(build, source, output, options=(), environment=None, model=None, compiler="transect-cc"):
    """Builds; (status, messages)."""
    values = dict(os.environ, **(environment or {}))
    values.pop("TRANSECT_FEATURE_MODEL", None)
    if model:
        values["TRANSECT_FEATURE_MODEL"] = model
    command = [os.path.join(build.compilers, compiler), "-O2", source, "-o", output, *options]
    done = subprocess.run(command, capture_output=True, text=True, env=values, timeout=300)
    return done.returncode, done.stdout + done.stderr


def run(build, results):
    listing = build.workload("listing22")
    for llvm in ("19", "16"):
        if not shutil.which(f"clang-{llvm}") or not build.plugin(llvm):
            results.absent(f"compiler of LLVM {llvm}", f"clang-{llvm} or its plugin is missing")
            continue
        for mode in MODES:
            for kind, options in KINDS.items() if mode in ("probe", "trace") else list(KINDS.items())[:1]:
                name = f"sites: LLVM {llvm}, {mode}, {kind}"
                if not results.wanted(name):
                    continue
                output = build.file("emission")
                status, said = compiled(build, listing + ".c", output, options, {"TRANSECT_LLVM": llvm, "TRANSECT_SITES": mode}, listing + ".toml")
                results.judge(name, [said[-600:]] if status else judged(output, mode))
        name = f"sites: LLVM {llvm}, one file at a time"
        if results.wanted(name):
            output = build.file("emission")
            status, said = compiled(build, listing + ".c", output, [], {"TRANSECT_LLVM": llvm, "TRANSECT_SCOPE": "file"}, listing + ".toml")
            results.judge(name, [said[-600:]] if status else judged(output, "probe"))
        name = f"computed gotos: LLVM {llvm}"
        if results.wanted(name):
            results.judge(name, computed_gotos(build, llvm))
        for mode in ("probe", "trace"):
            name = f"inputs: LLVM {llvm}, {mode}"
            if results.wanted(name):
                results.judge(name, inputs(build, llvm, mode, listing))


def computed_gotos(build, llvm):
    wrong = []
    for level in ("-O0", "-O1", "-O2"):
        output = build.file("gotos")
        status, said = compiled(build, build.program("gotos.c"), output, [level], {"TRANSECT_LLVM": llvm})
        if status:
            wrong.append(f"{level}: {said[-300:]}")
            continue
        done = subprocess.run([output], capture_output=True, text=True, timeout=60)
        if done.stdout != "fast done\nslow done\nslow done\n":
            wrong.append(f"{level}: status {done.returncode}, {done.stdout!r}")
        if not elf_sites.sites(elf_sites.Elf(output)):
            wrong.append(f"{level}: no sites")
    return wrong


def inputs(build, llvm, mode, listing):
    """Complaints about sources that are told in other ways than as a file with a known ending."""
    wrong = []
    with open(listing + ".c", "rb") as file:
        # What comes from standard input has no name, and the model wants one.
        source = b'#line 1 "listing22.c"\n' + file.read()
    folder = build.file("inputs")
    os.makedirs(folder)
    for name, content in (("main.c", source), ("words", b"-O2 -- main.c")):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    environment = dict(os.environ, TRANSECT_LLVM=llvm, TRANSECT_SITES=mode, TRANSECT_FEATURE_MODEL=listing + ".toml")
    include = ["-I", os.path.dirname(listing)]
    for words in (["-x", "c", "-"], ["-xc", "-x", "none", "-x", "c", "-"], ["--", "main.c"], ["@words"]):
        output = os.path.join(folder, "out")
        command = [os.path.join(build.compilers, "transect-cc"), "-O2", *include, "-o", output, *words]
        done = subprocess.run(command, input=source, capture_output=True, env=environment, cwd=folder, timeout=300)
        said = (done.stdout + done.stderr).decode()
        found = [said[-300:]] if done.returncode else judged(output, mode)
        wrong += [f"{' '.join(words)}: {one}" for one in found]
    return wrong


def judged(output, mode):
    wrong = elf_sites.complaints(output)
    rows = [fields for letter, fields, _ in elf_sites.regions(elf_sites.Elf(output)) if letter == "R"]
    if len(rows) != 4:
        wrong.append(f"{len(rows)} regions instead of 4")
    before = elf_sites.sites(elf_sites.Elf(output))
    if mode in ("probe", "trace", "shared") and not before:
        wrong.append("no sites")
    done = subprocess.run([output, "a", "b", "unit=0"], capture_output=True, text=True, timeout=60)
    if done.returncode or not done.stdout.endswith("done\n"):
        wrong.append(f"runs with status {done.returncode}, says {done.stdout!r} {done.stderr[-200:]!r}")
    subprocess.run(["strip", output], check=True)
    if elf_sites.sites(elf_sites.Elf(output)) != before or elf_sites.complaints(output):
        wrong.append("strip changes the sites")
    return wrong
