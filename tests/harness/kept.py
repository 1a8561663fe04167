"""Compiled test programs, kept by content: what the same compiler made of the same sources with the same options is not
made again. They are under target/tests/kept, or where TRANSECT_TEST_CACHE says; `make clean` removes them."""
import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
FOLDER = os.environ.get("TRANSECT_TEST_CACHE") or os.path.join(ROOT, "target/tests/kept")


@functools.lru_cache(maxsize=None)
def compiler(name):
    """What tells one compiler from another: its version, or the content of a program of ours."""
    path = shutil.which(name)
    if not path:
        return None
    if os.path.realpath(path).startswith(ROOT + os.sep):
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    return subprocess.run([path, "--version"], capture_output=True, text=True).stdout


def content(path):
    """The files under a path, by name and content."""
    if os.path.isdir(path):
        return [content(os.path.join(path, name)) for name in sorted(os.listdir(path))]
    with open(path, "rb") as file:
        return [os.path.basename(path), file.read()]


def sizes(where):
    """The files of a kept folder, as {name: size}."""
    paths = [os.path.join(base, name) for base, _, names in os.walk(where) for name in names]
    return {os.path.relpath(path, where): os.lstat(path).st_size for path in paths}


def is_whole(where):
    """Whether everything is there as it was made: a full disk or a lost machine leaves files cut short."""
    try:
        with open(os.path.join(where, ".made")) as file:
            return json.load(file).items() <= sizes(where).items()
    except (OSError, ValueError):
        return False


def folder(compilers, parts, make):
    """The folder that `make(folder)` fills, from what the parts (anything with a repr) and the compilers say. It is made
    in its final place, so that absolute paths in it hold; nobody writes to it afterwards."""
    key = hashlib.sha256(repr([[compiler(name) for name in compilers], parts]).encode()).hexdigest()[:24]
    where = os.path.join(FOLDER, key)
    if is_whole(where):
        return where
    os.makedirs(FOLDER, exist_ok=True)
    with open(where + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_whole(where):
            shutil.rmtree(where, ignore_errors=True)
            os.makedirs(where)
            make(where)
            made = sizes(where)
            with open(os.path.join(where, ".made"), "w") as file:
                json.dump(made, file)
    return where
