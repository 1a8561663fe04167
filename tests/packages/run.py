#!/usr/bin/env python3
"""Installs the packages of target/packages in bare roots of distributions, records there and removes them again.

usage: run.py [--packages FOLDER] [--roots FOLDER] [--only WORD]...

Roots are made by debootstrap, once. It takes root and the network.
"""
import argparse
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
sys.path.insert(0, os.path.join(HERE, ".."))
from harness import results as counted  # noqa: E402

DEBIAN, UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"
ROOTS = {"Debian 12": ("bookworm", DEBIAN), "Debian 13": ("trixie", DEBIAN), "Ubuntu 22.04": ("jammy", UBUNTU), "Ubuntu 24.04": ("noble", UBUNTU)}
# Releases that are newer than debootstrap are made as the others of their kind.
SCRIPTS = {UBUNTU: ["/usr/share/debootstrap/scripts/gutsy"]}
# Bytes of the tool.
LIMIT = 25 << 20
# In the root: a program of the distribution is recorded, as each user, and the report names its library calls.
RECORD = """set -e
seq 200000 > /tmp/input
transect run -o /tmp/$USER.transect -- sort -o /tmp/$USER.sorted /tmp/input 2>/tmp/$USER.report
cmp /tmp/$USER.sorted - < /tmp/sorted
transect report /tmp/$USER.transect --format json > /tmp/$USER.json
"""


def shell(root, script, user="root", check=True):
    inner = ["chroot", root, "setpriv", "--reuid", user, "--regid", "0" if user == "root" else "65534", "--clear-groups",
             "env", "-i", "PATH=/opt/transect/bin:/usr/sbin:/usr/bin:/sbin:/bin", f"USER={user}", "HOME=/tmp", "sh", "-c", script]
    mounts = "mount -t proc proc $0/proc && mount -t tmpfs -o mode=1777 tmpfs $0/tmp && mount --rbind /sys $0/sys && exec \"$@\""
    done = subprocess.run(["unshare", "-m", "sh", "-c", mounts, root, *inner], capture_output=True, text=True, timeout=300)
    if check and done.returncode:
        raise ValueError(f"{script.splitlines()[-1][:60]}: status {done.returncode}: {(done.stdout + done.stderr)[-400:]}")
    return done.stdout


def recorded(root, how):
    """Installs, records as two users, removes: one mount namespace each, so nothing is left in /tmp."""
    install, remove = how
    shell(root, install)
    before = shell(root, "transect --version").strip()
    complaints = [] if before.startswith("transect ") else [f"version {before!r}"]
    for user in ("root", "nobody"):
        script = "seq 200000 | sort > /tmp/sorted\n" + RECORD + f"cat /tmp/{user}.json"
        data = json.loads(shell(root, script, user))
        apis = {flow["api"] for flow in data["flows"]}
        if not apis & {"memcmp", "strcoll", "__strcoll_l", "fwrite_unlocked", "malloc"}:
            complaints.append(f"{user}: no calls of sort's are seen, only {sorted(apis)[:8]}")
    shell(root, remove)
    left = shell(root, "ls -d /usr/bin/transect* /usr/lib/transect* /usr/share/doc/transect* /opt/transect* 2>/dev/null", check=False).split()
    return complaints + [f"left behind: {path}" for path in left]


def root_of(folder, name):
    suite, mirror = ROOTS[name]
    root = os.path.join(folder, suite)
    if not os.path.exists(os.path.join(root, "complete")):
        shutil.rmtree(root, ignore_errors=True)
        done = subprocess.run(["debootstrap", "--no-check-gpg", "--variant=minbase", suite, root, mirror, *SCRIPTS.get(mirror, [])], capture_output=True, text=True)
        if done.returncode:
            return None, (done.stdout + done.stderr).strip().splitlines()[-1:]
        open(os.path.join(root, "complete"), "w").close()
    return root, None


def contents(packages, stage):
    """What is in the archive is what is in the RPM and in the Debian package, and is of the size that was promised."""
    complaints = []
    trees = {}
    for kind, command in (("deb", "dpkg-deb --fsys-tarfile *transect_*_amd64.deb | tar xf - -C $0"), ("rpm", "rpm2cpio transect-*.rpm | (cd $0 && cpio -idm --quiet)"),
                          ("archive", "tar xf $(ls transect-*-linux.tar.gz) -C $0 && mv $0/transect-* $0/usr")):
        tree = os.path.join(packages, "unpacked", kind)
        shutil.rmtree(tree, ignore_errors=True)
        os.makedirs(tree)
        done = subprocess.run(["sh", "-c", command, os.path.abspath(tree)], cwd=packages, capture_output=True, text=True)
        if done.returncode:
            complaints.append(f"{kind}: {done.stderr[-200:]}")
        files = [path for path in glob.glob(f"{tree}/usr/**", recursive=True) if os.path.isfile(path)]
        trees[kind] = {os.path.relpath(path, tree): hashlib.sha256(open(path, "rb").read()).hexdigest() for path in files}
    wanted = {os.path.relpath(path, stage) for path in glob.glob(f"{stage}/usr/**", recursive=True) if os.path.isfile(path)}
    for kind, files in trees.items():
        complaints += [f"{kind} lacks {path}" for path in sorted(wanted - set(files))[:3]]
        complaints += [f"{kind} differs in {path}" for path, digest in sorted(files.items()) if trees["archive"].get(path) != digest][:3]
    tool = os.path.join(stage, "usr/bin/transect")
    if os.path.getsize(tool) > LIMIT:
        complaints.append(f"transect has {os.path.getsize(tool) / 2**20:.1f} MiB")
    needed = subprocess.run(["readelf", "-d", tool], capture_output=True, text=True).stdout
    if "(NEEDED)" in needed:
        complaints.append("transect needs shared libraries")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", default=os.path.join(ROOT, "target/packages"))
    parser.add_argument("--roots", default=os.path.join(ROOT, "target/packages/roots"))
    parser.add_argument("--only", action="append", help="tests whose name contains this")
    arguments = parser.parse_args()
    results = counted.Results(arguments.only)
    packages = os.path.abspath(arguments.packages)
    found = {kind: glob.glob(os.path.join(packages, pattern)) for kind, pattern in
             (("deb", "transect_*_amd64.deb"), ("rpm", "transect-*.rpm"), ("archive", "transect-*-linux.tar.gz"))}
    missing = [kind for kind, paths in found.items() if not paths]
    if missing or os.geteuid() or not shutil.which("debootstrap"):
        results.absent("packages in bare roots", f"needs root, debootstrap and packages; missing: {', '.join(missing) or 'none'}")
        return results.end()
    if results.wanted("the three packages hold the same"):
        results.judge("the three packages hold the same", contents(packages, os.path.join(packages, "stage")))
    os.makedirs(arguments.roots, exist_ok=True)
    for name in ROOTS:
        if not (results.wanted(f"{name}: Debian package") or results.wanted(f"{name}: archive")):
            continue
        root, why = root_of(os.path.abspath(arguments.roots), name)
        if root is None:
            results.absent(name, f"debootstrap: {why}")
            continue
        os.makedirs(f"{root}/packages", exist_ok=True)
        for paths in found.values():
            shutil.copy(paths[0], f"{root}/packages")
        archive = os.path.basename(found["archive"][0])
        ways = {"Debian package": ("dpkg -i /packages/transect_*_amd64.deb >/dev/null", "dpkg --purge transect >/dev/null"),
                "archive": (f"mkdir -p /opt/transect && cd /opt/transect && tar xzf /packages/{archive} --strip-components=1", "rm -r /opt/transect")}
        for way, how in ways.items():
            if not results.wanted(f"{name}: {way}"):
                continue
            try:
                results.judge(f"{name}: {way}", recorded(root, how))
            except (ValueError, OSError, subprocess.TimeoutExpired, tarfile.TarError) as error:
                results.judge(f"{name}: {way}", [str(error)[:500]])
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
