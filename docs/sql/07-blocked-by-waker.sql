-- Who ends the waits?
-- report: --by wait,waker --measure blocked
select host, wait, waker, sum(value) as ns
from cut where measure = 'time' and state = 'blocked'
group by host, wait, waker
order by ns desc, host nulls first, wait nulls first, waker nulls first;
