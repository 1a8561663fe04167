-- What did threads of one kind do?
-- report: --by thread-group,state
select thread_group, state, sum(value) as ns
from cut where measure = 'time'
group by thread_group, state
order by ns desc, thread_group nulls first, state nulls first;
