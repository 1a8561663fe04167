#!/usr/bin/env python3
"""Makes profiles of many hosts of one that was recorded, and measures what each host adds to the time of a question.

Each host has its profile's threads many times over, with other numbers and at other times, so that every sum by function, stack,
wait or call is the recorded one times hosts times copies: what each answer is held against.

usage: many.py --transect PATH --profile DIR [--hosts N] [--samples N] [--engine duckdb|spark]... [--question FILE]... [--scope N]... [--work DIR] [--keep]
"""
import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "../../docs/sql")]
import engines  # noqa: E402
from run import Reports, differences  # noqa: E402

ASKED = ("02-on-cpu-by-function", "05-blocked-by-wait-and-object", "09-samples-by-component-and-function")
# Hosts of each day, as shares of all: what was measured of some days is compared with that of more.
DAYS = {"2026-11-01": 8, "2026-11-02": 8, "2026-11-03": 4, "2026-11-04": 2}
SCOPES = ("2026-11-01", "2026-11-0[1-2]", "2026-11-0[1-3]", "2026-11-0[1-4]")
# What makes another thread of each row: its columns that are numbers of threads, processes and waits, and times.
COPIED = {
    "tasks": "id + copy * tasks as id, parent_id + copy * tasks as parent_id, process_id + copy * processes as process_id, pid + copy as pid, tid + copy as tid, "
             "start_ns + copy * wall as start_ns, end_ns + copy * wall as end_ns",
    "processes": "id + copy * processes as id, pid + copy as pid, parent_pid + copy as parent_pid, start_ns + copy * wall as start_ns",
    "sched_moments": "task_id + copy * tasks as task_id, pid + copy as pid, tid + copy as tid, time_ns + copy * wall as time_ns",
    "sched_samples": "task_id + copy * tasks as task_id, pid + copy as pid, tid + copy as tid",
    "sched_waits": "id + copy * waits as id, task_id + copy * tasks as task_id, holder_id + copy * tasks as holder_id, waker_id + copy * tasks as waker_id, "
                   "pid + copy as pid, tid + copy as tid, begin_ns + copy * wall as begin_ns, end_ns + copy * wall as end_ns",
}


def cpu_seconds():
    """CPU time of this process and of those that it started: what a busy machine leaves as it is."""
    times, children = {}, {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.split("/")[2])
        times[pid] = int(fields[11]) + int(fields[12])
        children.setdefault(int(fields[1]), []).append(pid)
    ours = [os.getpid()]
    for pid in ours:
        ours += children.get(pid, [])
    return sum(times.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Time since it was made."""

    def __init__(self):
        self.wall, self.cpu = time.monotonic(), cpu_seconds()

    def __str__(self):
        return f"{time.monotonic() - self.wall:.1f} s, CPU {cpu_seconds() - self.cpu:.1f} s"


def make(profile, folder, hosts, samples):
    """The folder of profiles; how often each host has the recorded one."""
    import duckdb

    connection = duckdb.connect()
    table = lambda name: f"'{os.path.join(profile, name + '.parquet')}'"
    count = lambda name: connection.execute(f"select count(*) from {table(name)}").fetchone()[0]
    copies = max(1, round(samples / hosts / count("sched_moments")))
    numbers = {"tasks": count("tasks"), "processes": count("processes"), "waits": count("sched_waits"),
               "wall": connection.execute(f"select max(end_ns) + 1000 from {table('tasks')}").fetchone()[0]}
    made = os.path.join(folder, "service=web")
    days = [day for day, share in DAYS.items() for _ in range(hosts // share)]
    for host, day in enumerate(days if not os.path.exists(made) else []):
        to = os.path.join(folder, f"service=web/day={day}/host=host-{host:03}/run-1.transect")
        os.makedirs(to)
        for name in engines.TABLES:
            if name not in COPIED:
                shutil.copy(os.path.join(profile, name + ".parquet"), to)
                continue
            columns = {row[0]: row[1] for row in connection.execute(f"describe select * from {table(name)}").fetchall()}
            changes = COPIED[name]
            for word, number in numbers.items():
                changes = changes.replace(f"copy * {word}", f"(copy + {host}) * {number}" if word == "wall" else f"copy * {number}")
            typed = ", ".join(f"cast({change.split(' as ')[0]} as {columns[change.split(' as ')[1]]}) as {change.split(' as ')[1]}" for change in changes.split(", "))
            order = "time_ns" if name == "sched_moments" else "end_ns" if name == "sched_waits" else "copy"
            connection.execute(f"copy (select * replace ({typed}) from (select *, t.copy from {table(name)} cross join range({copies}) as t(copy)) order by {order}) "
                               f"to '{os.path.join(to, name + '.parquet')}' (format parquet, compression snappy)".replace("select * replace", "select * exclude (copy) replace"))
    return copies, len(days)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transect", required=True)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--samples", type=int, default=20_000_000)
    parser.add_argument("--engine", action="append", choices=("duckdb", "spark"))
    parser.add_argument("--question", action="append")
    parser.add_argument("--scope", type=int, action="append", help="which of the scopes, from 0")
    parser.add_argument("--work", help="where profiles are made, or were by an earlier call with --keep")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    folder = options.work or tempfile.mkdtemp(prefix="transect-many-")
    begin = time.monotonic()
    copies, hosts = make(options.profile, folder, options.hosts, options.samples)
    size = subprocess.run(["du", "-sm", folder], capture_output=True, text=True).stdout.split()[0]
    print(f"{hosts} hosts, the profile {copies} times in each, {size} MB, made in {time.monotonic() - begin:.0f} s", flush=True)
    place = os.path.basename(options.profile.rstrip("/"))[: -len(".transect")]
    reports = Reports(options.transect, os.path.dirname(os.path.abspath(options.profile)))
    wrong = 0
    try:
        for kind in options.engine or ["duckdb"]:
            for scope in [SCOPES[at] for at in options.scope or range(len(SCOPES))]:
                watch = Watch()
                engine = {"duckdb": engines.DuckDB, "spark": engines.Spark}[kind](folder, f"service=*/day={scope}/host=*/*.transect")
                _, ((found, rows),) = engine.ask_text("select count(distinct host), count(*) from sched_moments")
                print(f"{kind}: {found} hosts, {rows} samples: opened in {watch}", flush=True)
                for name in options.question or ASKED:
                    question = os.path.join(HERE, "../../docs/sql", name + ".sql")
                    watch = Watch()
                    columns, answer = engine.ask(question)
                    took = str(watch)
                    expected = [(*row[:-1], row[-1] * copies * found) for row in reports.rows(question, columns, [place])]
                    complaints = differences(columns, answer, expected, True)
                    wrong += bool(complaints)
                    print(f"{kind}: {found} hosts: {name}: {took}, {len(answer)} rows{''.join(', WRONG: ' + text for text in complaints)}", flush=True)
    finally:
        if not options.keep:
            shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
