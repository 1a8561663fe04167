-- Which code runs while others wait, and what is waited for while nobody runs?
-- report: --by component,function,wait --measure critical
select component, function, wait, sum(value) as ns
from cut where measure = 'critical'
group by component, function, wait
order by ns desc, component nulls first, function nulls first, wait nulls first;
