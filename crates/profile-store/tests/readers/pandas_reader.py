"""Reads a profile with pandas (pyarrow) alone and prints what it finds as JSON. Usage: pandas_reader.py FOLDER"""

import json
import sys

import pandas
import pyarrow.parquet

folder = sys.argv[1]
found = {"tables": {}}
TABLES = ["components", "processes", "threads", "flows", "waits", "locks", "events"]
TABLES += ["latency", "latency_histogram", "latency_slices"]
TABLES += ["tasks", "parallelism", "frames", "stacks", "stack_instructions", "stack_addresses", "sched_samples", "sched_moments", "sched_waits", "slices"]
TABLES += ["walk_groups", "walk_nodes", "walk_chains", "walk_frames", "walk_steps", "walk_system_calls"]
TABLES += ["features", "regions", "region_features", "region_nodes", "region_slices", "region_contexts"]
TABLES += ["feature_variables"]
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
# Each chain as a line; time of its last function; does its share agree with the tree?
frames = pandas.read_parquet(f"{folder}/walk_frames.parquet").sort_values(["chain_id", "depth"])
tables = [pandas.read_parquet(f"{folder}/walk_{name}.parquet") for name in ("chains", "nodes", "groups")]
for table, key in zip(tables, ("chain_id", "node_id", "c_group_id")):
    prefix = key.removeprefix("c_")[0] + "_"
    frames = frames.merge(table.add_prefix(prefix), left_on=key, right_on=f"{prefix}id")
frames = frames[(frames.n_function == frames.function) & (frames.g_thread_group == frames.c_thread_group)]
found["chains"] = [
    [int(last.c_pid), ";".join(rows.function), int(last.n_total), bool(last.c_share == last.n_total / last.g_total)]
    for _, rows in frames.sort_values("depth").groupby("chain_id")
    for last in [rows.iloc[-1]]
]
found["chains"].sort(key=lambda row: json.dumps(row, separators=(",", ":")))
# Time of each set of features alone; time of each feature, by the regions on each stack.
nodes = pandas.read_parquet(f"{folder}/region_nodes.parquet").set_index("id")
sums = nodes.groupby("active")["exclusive_ns"].sum()
found["active_sets"] = [[active, int(ns)] for active, ns in sorted(sums.items())]
of_region = pandas.read_parquet(f"{folder}/region_features.parquet").groupby("region_id")["feature"].agg(set)
active = {}
for node in nodes.itertuples():
    above = set() if pandas.isna(node.parent_id) else active[int(node.parent_id)]
    active[node.Index] = above if pandas.isna(node.region_id) else above | of_region.get(int(node.region_id), set())
times = {}
for node in nodes.itertuples():
    for feature in active[node.Index]:
        times[feature] = times.get(feature, 0) + int(node.exclusive_ns)
found["feature_times"] = sorted([feature, ns] for feature, ns in times.items())
json.dump(found, sys.stdout)
