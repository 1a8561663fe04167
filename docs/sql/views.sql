-- The cut as views: `cut` has one row per weighted stretch of a thread's life, with every key that `transect report --by` knows.
-- Runs unchanged on DuckDB and on Spark, over the tables of profiles as engines.py gives them: each with the
-- columns service, day, host and run beside its own. All integers are exact; where time is divided among samples, parts are
-- whole nanoseconds that add up (largest remainder).

-- Components by the names of reports: the file name; of two with the same one the shortest path suffix that differs, of two
-- with the same path the start of the build-id. Paths have at most 16 segments that matter.
create or replace temporary view component_names as
with files as (
    select service, day, host, run, id, path, build_id, regexp_extract(path, '([^/]*)$', 1) as file
    from components
), same_file as (
    select *, count(*) over (partition by service, day, host, run, file) as namesakes,
        count(*) over (partition by service, day, host, run, path) as same_path,
        count(*) over (partition by service, day, host, run, path, build_id) as same_build
    from files
), suffixes as (
    select service, day, host, run, id, segments,
        regexp_extract(path, '((?:[^/]*/){0,' || cast(segments - 1 as string) || '}[^/]*)$', 1) as suffix
    from same_file cross join (values (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16))
        as numbers (segments)
    where namesakes > 1
), unique_suffixes as (
    select service, day, host, run, id, segments, suffix,
        count(*) over (partition by service, day, host, run, segments, suffix) as holders
    from suffixes
), shortest as (
    select service, day, host, run, id, min_by(suffix, segments) as suffix
    from unique_suffixes where holders = 1 group by service, day, host, run, id
)
select service, day, host, run, id as component_id,
    case when namesakes = 1 then file
        when suffix is not null then suffix
        when same_path > same_build and build_id <> '' then file || ' (' || substr(build_id, 1, 8) || ')'
        else file end as name,
    regexp_like(path, '(^|/)libtransect_(probe_)?agent[.]so$') or regexp_like(path, '(^|/)transect-[^/]*/libtransect[.]so$')
        as is_agent,
    regexp_like(file, '^(libc[.]so|libc-|libc[.]musl|ld-linux|ld-musl|ld-2|libpthread|libm[.]so|librt[.]so|libdl[.]so'
        || '|linux-vdso)') or file like '[vdso]%' as is_c_library
from same_file left join shortest using (service, day, host, run, id);

-- Frames by the names of reports. `public`: the name under which the C library makes a function known (`memcpy` of
-- `__memcpy_avx_unaligned`). `is_runtime`: a function of C++'s or Rust's runtime, which belongs to the function that it is inlined into.
create or replace temporary view frame_names as
with bare as (
    select service, day, host, run, id as frame_id, function as symbol, space, inlined, component_id, file, line,
        regexp_extract(function, '^(__vdso_|__GI_|__isoc99_|__isoc23_|__libc_|___|__)', 1) as before,
        case when regexp_like(function, '^operator') then function
            else regexp_replace(function, '^([A-Za-z_0-9:*&]+ )+', '') end as untyped
    from frames
), stripped as (
    select *,
        case when regexp_like(substr(symbol, length(before) + 1), '^[a-z]') then substr(symbol, length(before) + 1)
            else symbol end as short
    from bare
), variants as (
    select *, regexp_extract(short, '^(.+?)(?:_avx|_evex|_sse|_ssse|_erms|_generic|_fma|_unaligned|_usercnt)', 1) as root,
        trim(leading '<&[' from untyped) as path,
        regexp_extract(untyped, '^<(.*?) as ', 1) as implementer,
        trim(leading '<&[' from regexp_extract(untyped, '^<.*? as (.*)$', 1)) as trait,
        regexp_extract(untyped, '^<(.*?)>::', 1) as type,
        '^(std::|core::|alloc::|parking_lot|hashbrown::|__gnu_cxx::|operator new|operator delete|__gthread|pthread_'
            || '|__pthread_|___pthread_|__lll_|__futex_|__libc_|__GI_|__clock_|__mem|__str|__syscall|__new_sem_|syscall'
            || '|runtime[.]|__rust_)'
            as runtime_path,
        -- Go's standard library, whose packages' paths begin with these; C's compilers append other words behind a dot.
        '^(archive|bufio|bytes|cmp|compress|container|context|crypto|database|debug|embed|encoding|errors|expvar|flag|fmt|go|hash|html|image|index|internal'
            || '|io|iter|log|maps|math|mime|net|os|path|plugin|reflect|regexp|runtime|slices|sort|strconv|strings|sync|syscall|text|time|unicode)(/[^.(]*)?[.]' as go_library,
        '^[a-z]+[.]([0-9]|(part|isra|constprop|cold|lto_priv|llvm|localalias)([.]|$))' as go_clone
    from stripped
), public_names as (
    select *,
        case when root <> '' then root
            when regexp_like(symbol, '^(__libc_start|__cxa_)') then symbol
            else short end as public
    from variants
)
select service, day, host, run, frame_id, symbol, public, space, inlined, component_id, name as component,
    coalesce(is_agent, false) as is_agent, coalesce(is_c_library, false) as is_c_library,
    case when symbol = '' or symbol like '0x%' then '[' || coalesce(name, 'unknown') || ']'
        when is_c_library then public else symbol end as function,
    case when file <> '' and line > 0 then file || ':' || cast(line as string) end as line,
    case when implementer <> '' then regexp_like(trait, runtime_path)
            and (regexp_like(trim(leading '<&[' from implementer), runtime_path) or not regexp_like(implementer, '::'))
        when type <> '' and not regexp_like(type, '[{]')
            and (type like '*%' or type like '[%' or regexp_like(type, '^[a-z]') and not regexp_like(type, '::')) then true
        else regexp_like(path, runtime_path) or regexp_like(untyped, '^(_ZSt|_ZNSt|_ZNKSt|_ZN9__gnu_cxx|_ZNK9__gnu_cxx)')
            or regexp_like(untyped, go_library) and not regexp_like(untyped, go_clone)
            or untyped in ('usleep', 'nanosleep', 'clock_nanosleep', 'sleep', 'fsync', 'fdatasync', 'read', 'write', 'recv', 'send',
                'poll', 'epoll_wait', 'malloc', 'free', 'calloc', 'realloc', '_int_malloc', '_int_free', 'memcpy', 'memset',
                'memmove') end as is_runtime
from public_names left join component_names using (service, day, host, run, component_id);

-- Frames of each stack, root first, without those of Transect's agent. `position` counts the program's frames from 0.
create or replace temporary view stack_frames as
with named as (
    select service, day, host, run, stack_id, depth, linked, symbol, public, space, inlined, component_id, component,
        is_c_library, is_runtime, frame_names.function as function, line
    from stacks join frame_names using (service, day, host, run, frame_id)
    where not (space = 'user' and is_agent)
), positions as (
    select *, row_number() over (partition by service, day, host, run, stack_id, space order by depth) - 1 as number,
        lag(component_id) over (partition by service, day, host, run, stack_id, space order by depth) as caller_id,
        lag(component) over (partition by service, day, host, run, stack_id, space order by depth) as caller
    from named
), users as (
    select *, case when space = 'user' then number end as position from positions
), places as (
    select *, max(position) over (partition by service, day, host, run, stack_id) as last,
        coalesce(min(case when symbol = 'main' then position end) over (partition by service, day, host, run, stack_id), 0)
            as main,
        coalesce(max(case when not is_c_library then position end) over (partition by service, day, host, run, stack_id), -1)
            as last_own,
        max(case when space = 'kernel' then number end) over (partition by service, day, host, run, stack_id) as last_kernel
    from users
)
select *,
    -- What the C library does inside of itself is the function that was called in it; inlined runtime is its caller's.
    coalesce(max(case when position <= least(last, last_own + 1) and not (inlined and is_runtime) then position end)
        over (partition by service, day, host, run, stack_id), 0) as leaf,
    -- The innermost call by a linkage table, from `main` on.
    max(case when position > main and not inlined and linked and component_id <> caller_id then position end)
        over (partition by service, day, host, run, stack_id) as call
from places;

-- What each stack says.
create or replace temporary view stack_keys as
with picked as (
    select service, day, host, run, stack_id,
        max(case when position = leaf then component end) as component,
        max(case when position = leaf then function end) as function,
        max(case when position = leaf then line end) as line,
        max(case when position = call then function end) as api,
        max(case when position = call then caller end) as caller,
        max(case when position = last then public end) as wrapper,
        max(case when space = 'kernel' and number = 0 then symbol end) as entry,
        max(case when space = 'kernel' and number = last_kernel then symbol end) as kernel_function
    from stack_frames group by service, day, host, run, stack_id
), calls as (
    select picked.*,
        -- The kernel's first function, or where the compiler left that out, the wrapper's name (`mmap64` is `mmap`).
        coalesce(by_entry.name, case when not regexp_like(entry, '^asm_') then coalesce(by_wrapper.name, by_short.name) end)
            as system_call,
        case when regexp_like(wrapper, 'futex|^(__)?lll_lock') then 'futex' else coalesce(by_wrapper.name, by_short.name) end
            as wrapper_call
    from picked
    left join system_call_names by_entry on by_entry.name = entry
    left join system_call_names by_wrapper on by_wrapper.name = wrapper
    left join system_call_names by_short on by_short.name = regexp_replace(wrapper, '64$', '')
)
select service, day, host, run, stack_id, component, function, line, api, caller,
    case when kernel_function <> '' then kernel_function end as kernel_function, system_call,
    -- Of a thread that is blocked there the kernel's frames may have been left out, since the call says all.
    case when entry is null then wrapper_call else system_call end as blocked_call
from calls;

-- Whole stacks as text, root first, as flame graphs read them.
create or replace temporary view stack_texts as
select service, day, host, run, stack_id,
    joined_in_order(array_agg(lpad(cast(depth as string), 4, '0')
        || replace(case when space = 'kernel' then symbol || '_[k]' else function end, ';', ':'))) as stack
from stack_frames group by service, day, host, run, stack_id;

-- Threads of the scheduler by the names of reports.
create or replace temporary view task_keys as
with programs as (
    select service, day, host, run, id as process_id, pid, regexp_extract(executable, '([^/]*)$', 1) as file from processes
)
select service, day, host, run, id as task_id, file || ' (' || cast(programs.pid as string) || ')' as process,
    name || ' (' || cast(tid as string) || ')' as thread,
    case when thread_group <> '' then thread_group end as thread_group
from tasks left join programs using (service, day, host, run, process_id);

-- The stack of each wait: its own, or, where none was taken, that of most waits of its thread (else of its group) for the same.
create or replace temporary view wait_stacks as
with counts as (
    select service, day, host, run, kind, object, task_id, thread_group, stack_id, sum(count) as waits
    from sched_waits where stack_id is not null
    group by service, day, host, run, kind, object, task_id, thread_group, stack_id
), places as (
    select *,
        row_number() over (partition by service, day, host, run, kind, object, task_id order by waits desc, stack_id) as in_thread,
        row_number() over (partition by service, day, host, run, kind, object, thread_group order by waits desc, stack_id) as in_group
    from counts
), of_thread as (
    select service, day, host, run, kind, object, task_id, stack_id as thread_stack from places where in_thread = 1
), of_group as (
    select service, day, host, run, kind, object, thread_group, stack_id as group_stack from places where in_group = 1
)
select service, day, host, run, id as wait_id, task_id, kind, case when object <> '' then object end as object,
    coalesce(stack_id, thread_stack, group_stack) as stack_id, holder_id, waker_id, ns, idle_ns
from sched_waits
left join of_thread using (service, day, host, run, kind, object, task_id)
left join of_group using (service, day, host, run, kind, object, thread_group);

-- Where threads that the timer met queued for a CPU: at each stack the active time that its samples stand for, less its time on
-- a CPU by the timer's.
create or replace temporary view queued_stacks as
with on_cpu as (
    select service, day, host, run, task_id, stack_id, sum(greatest(period_ns, 1)) as on_cpu_ns
    from sched_moments group by service, day, host, run, task_id, stack_id
), active as (
    select service, day, host, run, task_id, stack_id, sum(greatest(active_ns, 0)) as active_ns
    from sched_samples group by service, day, host, run, task_id, stack_id
), both_known as (
    select service, day, host, run, task_id, stack_id, on_cpu_ns, active_ns
    from on_cpu full outer join active using (service, day, host, run, task_id, stack_id)
), sums as (
    select *, sum(on_cpu_ns) over (partition by service, day, host, run, task_id) as all_on_cpu_ns,
        sum(active_ns) over (partition by service, day, host, run, task_id) as all_active_ns
    from both_known
), scaled as (
    select sums.*, runnable_ns, cast(on_cpu_ns as double) * (cast(running_ns as double) / cast(all_on_cpu_ns as double)) as ran,
        case when all_active_ns > 0
            then cast(active_ns as double) * (cast(running_ns + runnable_ns as double) / cast(all_active_ns as double))
            else 0e0 end as was_active
    from sums join (select service, day, host, run, id as task_id, running_ns, runnable_ns from tasks) as life
        using (service, day, host, run, task_id)
    where all_on_cpu_ns > 0 and active_ns is not null
)
select service, day, host, run, task_id, stack_id, runnable_ns, on_cpu_ns is not null as met,
    greatest(was_active - coalesce(ran, 0e0), 0e0) as rest,
    greatest(was_active - coalesce(ran, 0e0), 0e0) / greatest(ran, 1e0) as rate
from scaled;

-- Their time without a CPU: at stacks that no sample of the timer met by themselves (`stack_id`), the rest for all others (null).
create or replace temporary view queued_parts as
with weights as (
    select service, day, host, run, task_id, runnable_ns as total, case when met then -1 else stack_id end as place,
        sum(cast(floor(rest) as bigint)) as weight
    from queued_stacks
    group by service, day, host, run, task_id, runnable_ns, case when met then -1 else stack_id end
), products as (
    select *, cast(total as decimal(38, 0)) * cast(weight as decimal(38, 0)) as product,
        cast(sum(weight) over (partition by service, day, host, run, task_id) as decimal(38, 0)) as weights
    from weights where weight > 0
), quotients as (
    select *, product % weights as remainder,
        cast(round(cast(product - product % weights as double) / cast(weights as double)) as bigint) as quotient
    from products
), missing as (
    select *, total - sum(quotient) over (partition by service, day, host, run, task_id) as missing,
        row_number() over (partition by service, day, host, run, task_id order by remainder desc, place) as turn
    from quotients
)
select service, day, host, run, task_id, case when place >= 0 then place end as stack_id,
    quotient + case when turn <= missing then 1 else 0 end as ns
from missing;

-- What is to be divided: a total (`total`, exact) among rows by their weights, in the order of `place`, `tie`.
create or replace temporary view shares as
with lives as (
    select service, day, host, run, id as task_id, running_ns, runnable_ns, blocked_ns from tasks
), sampled as (
    select service, day, host, run, task_id, count(*) as moments from sched_moments group by service, day, host, run, task_id
), queued_elsewhere as (
    select service, day, host, run, task_id, sum(ns) as ns
    from queued_parts where stack_id is not null group by service, day, host, run, task_id
), rates as (
    select service, day, host, run, task_id, stack_id, rate from queued_stacks where met
), queue as (
    select service, day, host, run, task_id, stack_id, time_ns, greatest(period_ns, 1) as period_ns,
        cast(floor(coalesce(rate, 0e0) * cast(greatest(period_ns, 1) as double)) as bigint) as weight
    from sched_moments left join rates using (service, day, host, run, task_id, stack_id)
), queue_or_even as (
    select *, max(weight) over (partition by service, day, host, run, task_id) as most from queue
), unsampled as (
    select service, day, host, run, task_id, stack_id, n, origin, sum(active_ns) as active_ns
    from sched_samples left join sampled using (service, day, host, run, task_id)
    where moments is null and active_ns > 0
    group by service, day, host, run, task_id, stack_id, n, origin
), waited as (
    select service, day, host, run, task_id, sum(greatest(ns, 0)) as waited_ns from sched_waits
    group by service, day, host, run, task_id
)
-- Samples of the timer: time on a CPU by their periods, time without one by how often threads queued at their stacks.
select service, day, host, run, task_id, 'running' as state, stack_id, cast(null as int) as wait_id,
    running_ns as total, greatest(period_ns, 1) as weight, time_ns as place, stack_id as tie
from sched_moments join lives using (service, day, host, run, task_id)
union all
select service, day, host, run, task_id, 'runnable', stack_id, cast(null as int),
    runnable_ns - coalesce(ns, 0), case when most > 0 then weight else period_ns end, time_ns, stack_id
from queue_or_even join lives using (service, day, host, run, task_id)
left join queued_elsewhere using (service, day, host, run, task_id)
-- Threads too short for the timer: where they blocked, and what stands for threads of their kind.
union all
select service, day, host, run, task_id, 'running', stack_id, cast(null as int), running_ns, active_ns, stack_id,
    2 * n + case when origin = 'sample' then 0 else 1 end
from unsampled join lives using (service, day, host, run, task_id)
union all
select service, day, host, run, task_id, 'runnable', stack_id, cast(null as int), runnable_ns, active_ns, stack_id,
    2 * n + case when origin = 'sample' then 0 else 1 end
from unsampled join lives using (service, day, host, run, task_id)
-- Waits are known one by one; they are scaled only where they are longer than the thread was blocked.
union all
select service, day, host, run, task_id, 'blocked', stack_id, wait_id, least(blocked_ns, waited_ns), ns, wait_id, 0
from wait_stacks join lives using (service, day, host, run, task_id) join waited using (service, day, host, run, task_id);

-- The same divided: whole nanoseconds by the largest remainder.
create or replace temporary view parts as
with products as (
    select *, cast(total as decimal(38, 0)) * cast(weight as decimal(38, 0)) as product,
        cast(sum(weight) over (partition by service, day, host, run, task_id, state) as decimal(38, 0)) as weights
    from shares where weight > 0
), quotients as (
    select *, product % weights as remainder,
        cast(round(cast(product - product % weights as double) / cast(weights as double)) as bigint) as quotient
    from products
), missing as (
    select *, total - sum(quotient) over (partition by service, day, host, run, task_id, state) as missing,
        row_number() over (partition by service, day, host, run, task_id, state order by remainder desc, place, tie) as turn
    from quotients
)
select service, day, host, run, task_id, state, stack_id, wait_id,
    quotient + case when turn <= missing then 1 else 0 end as ns
from missing;

-- Threads' lifetime: the parts, queueing where no sample met, and what neither samples nor waits cover, without a stack.
create or replace temporary view lifetimes as
with rows_and_margins as (
    select service, day, host, run, task_id, state, stack_id, wait_id, ns, false as is_margin from parts
    union all
    select service, day, host, run, task_id, 'runnable', stack_id, cast(null as int), ns, false from queued_parts
    where stack_id is not null
    union all
    select service, day, host, run, id, 'running', cast(null as int), cast(null as int), running_ns, true from tasks
    union all
    select service, day, host, run, id, 'runnable', cast(null as int), cast(null as int), runnable_ns, true from tasks
    union all
    select service, day, host, run, id, 'blocked', cast(null as int), cast(null as int), blocked_ns, true from tasks
), rests as (
    select service, day, host, run, task_id, state, stack_id, wait_id,
        case when is_margin then ns - sum(case when is_margin then 0 else ns end)
            over (partition by service, day, host, run, task_id, state) else ns end as ns
    from rows_and_margins
)
select service, day, host, run, task_id, state, stack_id, wait_id, ns from rests where ns > 0;

-- What a cut sums up, by measure.
create or replace temporary view stretches as
with spins as (
    select distinct service, day, host, run, task_id, stack_id, 'running' as state, true as spin from sched_samples where spin
)
select 'time' as measure, service, day, host, run, task_id, state, stack_id, wait_id, coalesce(spin, false) as spin, ns as value
from lifetimes left join spins using (service, day, host, run, task_id, stack_id, state)
union all
select 'samples', service, day, host, run, task_id, state, stack_id, cast(null as int), coalesce(spin, false), samples
from (select service, day, host, run, task_id, 'running' as state, stack_id, count(*) as samples
    from sched_moments group by service, day, host, run, task_id, stack_id) as counted
left join spins using (service, day, host, run, task_id, stack_id, state)
union all
select 'critical', service, day, host, run, task_id, 'running', stack_id, cast(null as int), spin, criticality_ns
from sched_samples where criticality_ns > 0
union all
select 'critical', service, day, host, run, id, 'running', cast(null as int), cast(null as int), false, unattributed_ns
from tasks where unattributed_ns > 0
-- While no thread is active, time belongs to the wait that ends that.
union all
select 'critical', service, day, host, run, task_id, 'blocked', stack_id, wait_id, false, idle_ns
from wait_stacks where idle_ns > 0;

-- The cut: measures `time` (on-cpu, runnable, blocked by `state`), `samples` and `critical`. A null key is the remainder.
create or replace temporary view cut as
with wait_keys as (
    select service, day, host, run, wait_id, kind, object, holders.thread as holder, wakers.thread as waker
    from wait_stacks
    left join (select service, day, host, run, task_id as holder_id, thread from task_keys) as holders
        using (service, day, host, run, holder_id)
    left join (select service, day, host, run, task_id as waker_id, thread from task_keys) as wakers
        using (service, day, host, run, waker_id)
)
select measure, service, day, host, run, process, thread, thread_group, component, api, caller, function, line,
    kernel_function, case when state = 'blocked' then blocked_call else system_call end as system_call, state,
    case when kind is not null then kind when state = 'runnable' then 'run-queue' when spin then 'spin' end as wait,
    object, holder, waker, stack_id, value
from stretches
left join task_keys using (service, day, host, run, task_id)
left join stack_keys using (service, day, host, run, stack_id)
left join wait_keys using (service, day, host, run, wait_id);

-- Calls between components, which are counted, not sampled. `total_ns` is an estimate where not every call was timed.
create or replace temporary view calls as
with programs as (
    select service, day, host, run, id as process_id, regexp_extract(executable, '([^/]*)$', 1) as file, pid as process_pid
    from processes
), owners as (
    select service, day, host, run, id as thread_id, file || ' (' || cast(process_pid as string) || ')' as process,
        name || ' (' || cast(tid as string) || ')' as thread_key
    from threads left join programs using (service, day, host, run, process_id)
)
select service, day, host, run, process, thread_key as thread, case when thread_group <> '' then thread_group end as thread_group,
    caller_names.name as caller, callee_names.name as component, api, calls, bytes, total_ns
from flows
left join owners using (service, day, host, run, thread_id)
left join (select service, day, host, run, component_id as caller_id, name from component_names) as caller_names
    using (service, day, host, run, caller_id)
left join (select service, day, host, run, component_id as callee_id, name from component_names) as callee_names
    using (service, day, host, run, callee_id);
