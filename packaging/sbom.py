#!/usr/bin/env python3
"""What the packages are built from, as CycloneDX 1.5: the crates of Cargo.lock that the build uses, and what the page's script embeds.

usage: sbom.py SOURCE-FOLDER
"""
import json
import os
import subprocess
import sys
import tomllib

PACKAGES = ("transect-cli", "transect-agent", "transect-c-library", "transect-probe-agent", "transect-flow-agent", "transect-region-trace",
            "transect-feature-compiler", "transect-feature-model")


def crates(root):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]
    data = json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True).stdout)
    with open(os.path.join(root, "Cargo.lock"), "rb") as file:
        locked = {(package["name"], package["version"]): package.get("checksum") for package in tomllib.load(file)["package"]}
    by_id = {package["id"]: package for package in data["packages"]}
    # What tests and build scripts alone need is in no package.
    needed = {node["id"]: [dependency["pkg"] for dependency in node["deps"] if any(kind["kind"] is None for kind in dependency["dep_kinds"])]
              for node in data["resolve"]["nodes"]}
    waiting, found = [package["id"] for package in data["packages"] if package["name"] in PACKAGES], set()
    while waiting:
        crate = waiting.pop()
        if crate not in found:
            found.add(crate)
            waiting += needed[crate]
    for package in sorted((by_id[crate] for crate in found), key=lambda package: (package["name"], package["version"])):
        row = {"type": "library", "name": package["name"], "version": package["version"], "purl": f"pkg:cargo/{package['name']}@{package['version']}"}
        if package.get("license"):
            row["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        checksum = locked.get((package["name"], package["version"]))
        if checksum:
            row["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        yield row


def scripts(root):
    with open(os.path.join(root, "crates/report/web/package-lock.json")) as file:
        packages = json.load(file)["packages"]
    for path, package in sorted(packages.items()):
        if path and not package.get("dev"):
            name = path.rpartition("node_modules/")[2]
            yield {"type": "library", "name": name, "version": package["version"], "purl": f"pkg:npm/{name.replace('@', '%40')}@{package['version']}",
                   "licenses": [{"expression": package["license"]}]}


def main():
    root = sys.argv[1]
    with open(os.path.join(root, "Cargo.toml"), "rb") as file:
        version = tomllib.load(file)["workspace"]["package"]["version"]
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                "metadata": {"component": {"type": "application", "name": "transect", "version": version}},
                "components": [*crates(root), *scripts(root)]}
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
