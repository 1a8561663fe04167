-- Where do threads queue for a CPU?
-- report: --by component,function --measure runnable
select component, function, sum(value) as ns
from cut where measure = 'time' and state = 'runnable'
group by component, function
order by ns desc, component nulls first, function nulls first;
