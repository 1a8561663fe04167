"""Reads a profile with pandas (pyarrow) alone and prints what it finds as JSON. Usage: pandas_reader.py FOLDER"""

import json
import sys

import pandas
import pyarrow.parquet

folder = sys.argv[1]
found = {"tables": {}}
TABLES = ["components", "processes", "threads", "flows", "waits", "locks", "events"]
TABLES += ["latency", "latency_histogram", "latency_slices"]
TABLES += ["tasks", "parallelism", "frames", "stacks", "sched_samples", "sched_moments", "sched_waits", "slices"]
for table in TABLES:
    file = f"{folder}/{table}.parquet"
    schema = pyarrow.parquet.read_schema(file)
    found["tables"][table] = {
        "rows": len(pandas.read_parquet(file)),
        "types": sorted({str(kind) for kind in schema.types}),
        "columns": schema.names,
    }
flows = pandas.read_parquet(f"{folder}/flows.parquet", dtype_backend="numpy_nullable")
sums = flows.groupby(["caller", "callee", "api"], as_index=False)[["calls", "total_ns"]].sum(min_count=1)
sums = sums.astype(object).where(sums.notna(), None)
found["flows"] = sorted(sums.values.tolist(), key=lambda row: row[:3])
found["null_totals"] = int(flows.total_ns.isna().sum())
components = pandas.read_parquet(f"{folder}/components.parquet")
threads = pandas.read_parquet(f"{folder}/threads.parquet")
joined = (
    flows.merge(components.add_prefix("c_"), left_on="caller_id", right_on="c_id")
    .merge(components.add_prefix("d_"), left_on="callee_id", right_on="d_id")
    .merge(threads.add_prefix("t_"), left_on="thread_id", right_on="t_id")
)
right = (joined.c_path == joined.caller_path) & (joined.d_name == joined.callee)
found["joined"] = int((right & (joined.t_tid == joined.tid) & (joined.t_name == joined.thread)).sum())
events = pandas.read_parquet(f"{folder}/events.parquet")
found["arguments"] = [int(events.arg4.min()), int(events.arg5.max()), int(events.arg3.min())]
# Per function: samples of the row, of its histogram, of its slices.
latency = pandas.read_parquet(f"{folder}/latency.parquet")
histogram = pandas.read_parquet(f"{folder}/latency_histogram.parquet")
slices = pandas.read_parquet(f"{folder}/latency_slices.parquet")
slices = slices[slices.start_ns < slices.end_ns]
counts = [table.groupby("latency_id")["count"].sum() for table in (histogram, slices)]
found["latency"] = [
    [int(row.id), row.component, row.function, int(row.samples)] + [int(count.get(row.id, 0)) for count in counts]
    for row in latency.itertuples()
]
waits = pandas.read_parquet(f"{folder}/sched_waits.parquet")
tasks = pandas.read_parquet(f"{folder}/tasks.parquet")
joined = waits.merge(tasks.add_prefix("t_"), left_on="task_id", right_on="t_id")
joined = joined[(joined.t_tid == joined.tid) & (joined.t_pid == joined.pid)]
sums = joined.groupby(["kind", "object", "t_name", "waker"], as_index=False)["ns"].sum()
found["sched_waits"] = sorted(sums.values.tolist())
stacks = pandas.read_parquet(f"{folder}/stacks.parquet").sort_values(["stack_id", "depth"])
lines = stacks.groupby("stack_id")["function"].agg(";".join).rename("line")
samples = pandas.read_parquet(f"{folder}/sched_samples.parquet").merge(lines, left_on="stack_id", right_index=True)
found["stacks"] = sorted(samples.groupby("line", as_index=False)["criticality_ns"].sum().values.tolist())
slices = pandas.read_parquet(f"{folder}/slices.parquet").merge(waits, left_on="wait_id", right_on="id", how="left")
groups = slices.groupby("kind", dropna=False).agg(
    active=("active_ns", "sum"), start=("start_ns", "min"), criticality=("criticality_ns", "max")
)
rows = [[None if pandas.isna(kind) else kind] + [int(n) for n in row] for kind, row in zip(groups.index, groups.values)]
found["slices"] = sorted(rows, key=lambda row: (row[0] is not None, row[0]))
json.dump(found, sys.stdout)
