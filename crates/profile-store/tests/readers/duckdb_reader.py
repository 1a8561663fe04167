"""Reads a profile with DuckDB alone and prints what it finds as JSON. Usage: duckdb_reader.py FOLDER"""

import json
import sys

import duckdb

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
    columns = duckdb.sql(f"describe from '{file}'").fetchall()
    found["tables"][table] = {
        "rows": duckdb.sql(f"select count(*) from '{file}'").fetchall()[0][0],
        "types": sorted({column[1] for column in columns}),
        "columns": [column[0] for column in columns],
    }
found["flows"] = duckdb.sql(
    f"""select caller, callee, api, sum(calls)::bigint, sum(total_ns)::bigint
        from '{folder}/flows.parquet' group by all order by all"""
).fetchall()
found["null_totals"] = duckdb.sql(
    f"select count(*) from '{folder}/flows.parquet' where total_ns is null"
).fetchall()[0][0]
# Row numbers and readable names must say the same.
found["joined"] = duckdb.sql(
    f"""select count(*) from '{folder}/flows.parquet' f
        join '{folder}/components.parquet' c on c.id = f.caller_id
        join '{folder}/components.parquet' d on d.id = f.callee_id
        join '{folder}/threads.parquet' t on t.id = f.thread_id
        where c.path = f.caller_path and d.name = f.callee and t.tid = f.tid and t.name = f.thread"""
).fetchall()[0][0]
found["arguments"] = duckdb.sql(
    f"select min(arg4), max(arg5), min(arg3) from '{folder}/events.parquet'"
).fetchall()[0]
# Per function: samples of the row, of its histogram, of its slices, and the median bucket.
found["latency"] = duckdb.sql(
    f"""select l.id, l.component, l.function, l.samples,
               (select coalesce(sum(h.count), 0)::bigint from '{folder}/latency_histogram.parquet' h
                where h.latency_id = l.id and h.function = l.function),
               (select coalesce(sum(s.count), 0)::bigint from '{folder}/latency_slices.parquet' s
                where s.latency_id = l.id and s.component = l.component and s.start_ns < s.end_ns)
        from '{folder}/latency.parquet' l order by l.id"""
).fetchall()
# Time per kind of wait, object, waiter and waker; a flame graph's lines; time of slices before a wait for a lock.
found["sched_waits"] = duckdb.sql(
    f"""select w.kind, w.object, t.name, w.waker, sum(w.ns)::bigint from '{folder}/sched_waits.parquet' w
        join '{folder}/tasks.parquet' t on t.id = w.task_id where t.tid = w.tid and t.pid = w.pid
        group by all order by all"""
).fetchall()
found["stacks"] = duckdb.sql(
    f"""with lines as (select stack_id, coalesce(string_agg(function, ';' order by depth), '') as line
                       from '{folder}/stacks.parquet' group by stack_id)
        select line, sum(criticality_ns)::bigint from '{folder}/sched_samples.parquet' join lines using (stack_id)
        group by line order by line"""
).fetchall()
found["slices"] = duckdb.sql(
    f"""select w.kind, sum(s.active_ns)::bigint, min(s.start_ns), max(s.criticality_ns)
        from '{folder}/slices.parquet' s left join '{folder}/sched_waits.parquet' w on w.id = s.wait_id
        group by w.kind order by w.kind nulls first"""
).fetchall()
# Each chain as a line; time of its last function; does its share agree with the tree?
found["chains"] = duckdb.sql(
    f"""select c.pid, string_agg(f.function, ';' order by f.depth),
               (arg_max(n.total, f.depth))::bigint,
               any_value(c.share) = arg_max(n.total, f.depth)::double / any_value(g.total)
        from '{folder}/walk_frames.parquet' f join '{folder}/walk_chains.parquet' c on c.id = f.chain_id
        join '{folder}/walk_nodes.parquet' n on n.id = f.node_id
        join '{folder}/walk_groups.parquet' g on g.id = c.group_id
        where n.function = f.function and g.thread_group = c.thread_group group by c.id, c.pid"""
).fetchall()
found["chains"].sort(key=lambda row: json.dumps(row, separators=(",", ":")))
# Time of each set of features alone; time of each feature, by the regions on each stack.
found["active_sets"] = duckdb.sql(
    f"""select active, sum(exclusive_ns)::bigint from '{folder}/region_nodes.parquet' group by active order by active"""
).fetchall()
found["feature_times"] = duckdb.sql(
    f"""with recursive stack as (
            select id as node, id as above, exclusive_ns from '{folder}/region_nodes.parquet'
            union all
            select s.node, n.parent_id, s.exclusive_ns from stack s
            join '{folder}/region_nodes.parquet' n on n.id = s.above where n.parent_id is not null),
        active as (
            select distinct s.node, f.feature, s.exclusive_ns from stack s
            join '{folder}/region_nodes.parquet' n on n.id = s.above
            join '{folder}/region_features.parquet' f on f.region_id = n.region_id)
        select feature, sum(exclusive_ns)::bigint from active group by feature order by feature"""
).fetchall()
json.dump(found, sys.stdout)
