-- Who holds the locks that others wait for?
-- report: --by holder,object --measure blocked
select host, holder, object, sum(value) as ns
from cut where measure = 'time' and state = 'blocked'
group by host, holder, object
order by ns desc, host nulls first, holder nulls first, object nulls first;
