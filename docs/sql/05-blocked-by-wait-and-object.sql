-- What do threads wait for?
-- report: --by wait,object --measure blocked
select wait, object, sum(value) as ns
from cut where measure = 'time' and state = 'blocked'
group by wait, object
order by ns desc, wait nulls first, object nulls first;
