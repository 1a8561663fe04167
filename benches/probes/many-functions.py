#!/usr/bin/env python3
"""Writes N small functions and a table of them: many-functions.py N FILE."""
import sys

n = int(sys.argv[1])
with open(sys.argv[2], "w") as out:
    out.write("typedef long (*function)(long, long);\n")
    for i in range(n):
        # Long enough for every tool, and not all alike.
        body = [f"return a * {i % 97 + 2} + b", f"return (a ^ {i}) - b * 3", f"if (a > b) a -= b * {i % 13 + 5}; return a + {i}"][i % 3]
        out.write(f"__attribute__((noinline)) long many{i}(long a, long b) {{ {body}; }}\n")
    out.write("const function many[] = {" + ", ".join(f"many{i}" for i in range(n)) + f"}};\nconst int many_count = {n};\n")
