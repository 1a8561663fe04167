-- What did each thread of each host do? The rows of a host add up to its threads' lifetime.
-- report: --by thread,state
select host, thread, state, sum(value) as ns
from cut where measure = 'time'
group by host, thread, state
order by ns desc, host nulls first, thread nulls first, state nulls first;
