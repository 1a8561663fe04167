-- How long did processes run, queue for a CPU and wait?
-- report: --by process,state
select process, state, sum(value) as ns
from cut where measure = 'time'
group by process, state
order by ns desc, process nulls first, state nulls first;
