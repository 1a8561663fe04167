#!/usr/bin/env python3
"""Whether fuzz/Cargo.lock has what this project's crates depend on: the fuzz targets are a workspace of their own, which no other
build looks at."""

import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def wanted(manifest: dict) -> set[str]:
    """Packages that a crate always builds with."""
    tables = [manifest, *manifest.get("target", {}).values()]
    shared = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    names = set()
    for table in tables:
        for kind in ("dependencies", "build-dependencies"):
            for name, value in table.get(kind, {}).items():
                value = value if isinstance(value, dict) else {}
                whole = shared.get(name) if value.get("workspace") else value
                whole = whole if isinstance(whole, dict) else {}
                if not value.get("optional"):
                    names.add(whole.get("package", name))
    return names


def main() -> int:
    locked = tomllib.loads((ROOT / "fuzz/Cargo.lock").read_text())["package"]
    locked = {package["name"]: package for package in locked if "source" not in package}
    missing = []
    for manifest in [*ROOT.glob("crates/*/Cargo.toml"), ROOT / "fuzz/Cargo.toml"]:
        crate = tomllib.loads(manifest.read_text())
        package = locked.get(crate["package"]["name"])
        if package:
            has = {name.split()[0] for name in package.get("dependencies", [])}
            missing += [f"{package['name']} needs {name}" for name in sorted(wanted(crate) - has)]
    for line in missing:
        print(f"fuzz/Cargo.lock: {line}")
    if missing:
        print("update it: cargo metadata --manifest-path fuzz/Cargo.toml > /dev/null")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
