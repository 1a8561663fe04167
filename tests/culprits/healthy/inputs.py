#!/usr/bin/env python3
"""Writes the input of a healthy program to the folder it runs in, always the same. usage: inputs.py KIND AMOUNT"""
import random
import sys

SCRIPTS = {
    # Four functions of the same weight.
    "even.py": """import sys
def primes(most):
    sieve = bytearray([1]) * most
    for i in range(2, int(most ** 0.5) + 1):
        if sieve[i]:
            for k in range(i * i, most, i):
                sieve[k] = 0
    return sum(sieve) - 2
def collatz(most):
    longest = 0
    for start in range(1, most):
        n, steps = start, 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        longest = max(longest, steps)
    return longest
def words(count):
    seen = {}
    for i in range(count):
        word = f"w{i * 7919 % 1009}"
        seen[word] = seen.get(word, 0) + 1
    return len(seen)
def table(count):
    rows = [(i * 31 % 997, str(i)) for i in range(count)]
    rows.sort()
    return sum(len(text) for _, text in rows)
for _ in range(int(sys.argv[1])):
    print(primes(100000), collatz(2000), words(90000), table(70000))
""",
    "words.pl": """my %seen;
while (<>) { $seen{$_}++ for split }
my @most = sort { $seen{$b} <=> $seen{$a} || $a cmp $b } keys %seen;
print "$_ $seen{$_}\\n" for @most[0 .. 9];
""",
}


def text(megabytes):
    """Lines of ten words of a language of its own: common words come often."""
    vocabulary = ["".join(random.choice("bcdfghklmnprst") + random.choice("aeiou") for _ in range(random.randint(1, 4))) for _ in range(20000)]
    weights = [1 / (i + 10) for i in range(len(vocabulary))]
    with open("text", "w") as file:
        for _ in range(megabytes * 13):
            # About 78 KB of the megabyte.
            words = random.choices(vocabulary, weights, k=13000)
            file.writelines(" ".join(words[i:i + 10]) + "\n" for i in range(0, len(words), 10))


def numbers(thousands):
    with open("numbers", "w") as file:
        file.writelines(f"{random.randrange(10 ** 9)}\n" for _ in range(thousands * 1000))


def table(thousands):
    """Orders by customer, tab-separated."""
    with open("table", "w") as file:
        file.writelines(f"{i}\tc{random.randrange(5000)}\t{random.randrange(1, 100)}\t{random.random() * 100:.2f}\n" for i in range(thousands * 1000))


def sql(thousands):
    with open("script.sql", "w") as file:
        file.write("create table orders(id integer primary key, customer integer, price real, note text);\nbegin;\n")
        file.writelines(f"insert into orders values({i}, {random.randrange(5000)}, {random.random() * 100:.2f}, 'order {i}');\n" for i in range(thousands * 1000))
        file.write("create index by_customer on orders(customer);\ncommit;\n")
        file.write("select customer, count(*), sum(price) from orders group by customer order by 3 desc limit 10;\n")


def source(functions):
    """A C file of functions that are alike but not the same."""
    with open("source.c", "w") as file:
        for i in range(functions):
            a, b, c = (random.randrange(1, 1000) for _ in range(3))
            file.write(f"""static int table{i}[64];
int function{i}(int x, const int *from, int count) {{
    int sum = {a}, least = x;
    for (int i = 0; i < count; i++) {{
        if (from[i] % {b + 1} == 0)
            sum += from[i] * {c};
        else if (from[i] < least)
            least = from[i] - {a};
        table{i}[i & 63] = sum ^ least;
    }}
    switch (sum & 7) {{
    case 0: return least;
    case 1: return sum + least * {b};
    case 5: return sum / (least | 1);
    default: return {"function%d(x - 1, from, count / 2)" % (i - 1) if i else "x"};
    }}
}}
""")


def script(_):
    for name, content in SCRIPTS.items():
        with open(name, "w") as file:
            file.write(content)


if __name__ == "__main__":
    random.seed("healthy")
    {"text": text, "numbers": numbers, "table": table, "sql": sql, "source": source, "script": script}[sys.argv[1]](int(sys.argv[2]))
    if sys.argv[1] == "text":
        script(0)
