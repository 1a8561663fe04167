"""Reads a profile with pandas (pyarrow) alone and prints what it finds as JSON. Usage: pandas_reader.py FOLDER"""

import json
import sys

import pandas
import pyarrow.parquet

folder = sys.argv[1]
found = {"tables": {}}
TABLES = ["components", "processes", "threads", "flows", "waits", "locks", "events"]
TABLES += ["latency", "latency_histogram", "latency_slices"]
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
json.dump(found, sys.stdout)
