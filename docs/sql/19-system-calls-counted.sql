-- How often was each system call made, and how long did it take? Counted and timed one by one (recordings with a walk).
-- A new thread returns from the call that made it without having entered one: its wait for its first CPU is no time of the call.
-- view: system-calls system_call calls,on_cpu_ns,runnable_ns,blocked_ns
with summed as (
    select name as system_call, sum(calls) as calls, sum(on_ns) as on_cpu_ns, sum(runnable_ns) as runnable_ns,
        sum(blocked_ns) as blocked_ns
    from walk_system_calls
    where calls > 0 or name not in ('clone', 'clone3', 'fork', 'vfork')
    group by name
)
select system_call, calls, on_cpu_ns, runnable_ns, blocked_ns
from summed
order by on_cpu_ns + runnable_ns + blocked_ns desc, calls desc, system_call;
