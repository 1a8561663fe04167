#!/usr/bin/env python3
"""Writes the input of one patched program into the current folder: inputs.py KIND NUMBER... The same each time."""
import base64
import bz2
import os
import random
import sys

WORDS = "the of and to in is that it was for on are as with his they at be this from have or by one had not but what all were when".split()


def write(name, lines):
    with open(name, "w") as file:
        file.writelines(line + "\n" for line in lines)


def text(rng, count):
    """Lines of words, much like prose."""
    return (" ".join(rng.choice(WORDS) + ("" if rng.random() < 0.7 else str(rng.randrange(1000))) for _ in range(10)) for _ in range(count))


def make_text(rng, count):
    write("text", text(rng, count))


def make_repeated(rng, period, count):
    """The same random bytes again and again, and others at the end, so that no rotation of all is all of it."""
    pattern = bytes(rng.randrange(256) for _ in range(period))
    with open("repeated", "wb") as file:
        file.write(pattern * count + rng.randbytes(99))


def make_keys(rng, count):
    """Distinct words of one length."""
    write("keys", (f"key{number:07}" for number in rng.sample(range(10**7), count)))


def make_files(rng, count):
    """Many empty files."""
    for number in range(count):
        folder = f"files/{number // 1000:03}"
        os.makedirs(folder, exist_ok=True)
        open(f"{folder}/{number % 1000:03}", "w").close()


def make_lmdb(rng, count):
    lines = ["VERSION=3", "format=print", "type=btree", "mapsize=67108864", "HEADER=END"]
    for number in rng.sample(range(10**7), count):
        lines += [f" key{number:07}", f" value of {number}"]
    write("records", lines + ["DATA=END"])


def make_gdbm(rng, count):
    lines = ["# GDBM dump file", "#:version=1.1", "#:file=x", "#:format=standard", "# End of header"]
    for number in rng.sample(range(10**7), count):
        for word in (f"key{number:07}", f"value of {number}"):
            lines += [f"#:len={len(word)}", base64.b64encode(word.encode()).decode()]
    write("records", lines + [f"#:count={count}", "# End of data"])


def make_html(rng, count):
    write("page.html", ["<!DOCTYPE html>", "<html><head><title>page</title></head><body>", *(f"<p>{line}</p>" for line in text(rng, count)), "</body></html>"])


def make_images(rng, count, times):
    """Small files that tell by their first bytes what they are, and a list that has each so many times."""
    os.mkdir("images")
    for number in range(count):
        with open(f"images/{number:05}.gif", "wb") as file:
            file.write(b"GIF89a" + bytes([number & 255, 1, 1, 0, 0, 0, 0]))
    write("list", (f"images/{number:05}.gif" for number in list(range(count)) * times))


def make_sorted(rng, count):
    """A script that sorts a table which is sorted already."""
    write("sort.lua", [f"local t = {{}}; for i = 1, {count} do t[i] = i end", "table.sort(t)", "print(#t, t[1], t[#t // 2], t[#t])"])


def make_bc(rng, count):
    """The product of two large numbers."""
    first, second = ("".join(rng.choice("123456789") for _ in range(count)) for _ in range(2))
    write("product", [f"a = {first}", f"b = {second}", "a * b", "quit"])


def make_ed(rng, count):
    """A text, and a script for ed that changes each line."""
    make_text(rng, count)
    write("script", ["g/./s/$/./", "w", "q"])


def make_shell(rng, count):
    write("script.sh", ["number=0", f'while [ "$number" -lt {count} ]; do', "    printf '%s\\n' \"$number\"", "    number=$((number + 1))", "done"])


def make_code(rng, count):
    """A page with a large block of code in which most characters are escaped."""
    write("page.md", ["```", *(rng.choice("<>&") * 60 for _ in range(count)), "```"])


def make_noise(rng, count):
    with open("noise", "wb") as file:
        file.write(rng.randbytes(count))


def make_streams(rng, count):
    """Long runs of letters in bzip2 streams of 900 kB each."""
    with open("streams.bz2", "wb") as file:
        for number in range(count):
            file.write(bz2.compress(bytes([97 + number % 26]) * 900000))


def make_pairs(rng, count):
    """Files of one size, some of them the same."""
    os.mkdir("pairs")
    for number in range(count):
        with open(f"pairs/{number:05}", "w") as file:
            file.write(f"{number - number % 50 // 49:05} is the number of this file\n")


if __name__ == "__main__":
    globals()["make_" + sys.argv[1]](random.Random(1), *map(int, sys.argv[2:]))
