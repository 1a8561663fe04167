-- Whose time is it while others wait?
-- report: --by thread --measure critical
select host, thread, sum(value) as ns
from cut where measure = 'critical'
group by host, thread
order by ns desc, host nulls first, thread nulls first;
