"""Inputs of the case studies, made the same way each time."""
import os
import random


def make_input(work, kind, size, seed=1):
    """A file of `size` bytes (of a formula: variables)."""
    path = os.path.join(work, "input", f"{kind}-{size}")
    if os.path.exists(path):
        return path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    chance = random.Random(seed)
    with open(path + ".new", "wb") as file:
        if kind == "formula":
            clauses = int(size * 4.26)
            file.write(f"p cnf {size} {clauses}\n".encode())
            for _ in range(clauses):
                literals = chance.sample(range(1, size + 1), 3)
                file.write((" ".join(str(chance.choice((-1, 1)) * literal) for literal in literals) + " 0\n").encode())
        elif kind == "text":
            words = ["".join(chance.choice("etaoinshrdlucmfwyp") for _ in range(chance.randint(2, 10))) for _ in range(5000)]
            while file.tell() < size:
                # Some words are frequent, as in a language.
                line = " ".join(words[int(5000 * chance.random() ** 3)] for _ in range(2000))
                file.write((line + ".\n").encode())
            file.truncate(size)
        else:
            blocks = [chance.randbytes(chance.randint(16, 4096)) for _ in range(400)]
            while file.tell() < size:
                file.write(chance.choice(blocks) if chance.random() < 0.6 else bytes(chance.choices(range(64), k=1024)))
            file.truncate(size)
    os.rename(path + ".new", path)
    return path
