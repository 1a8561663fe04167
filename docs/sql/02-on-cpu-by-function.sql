-- Which functions take the CPU time?
-- report: --by function --measure on-cpu
select function, sum(value) as ns
from cut where measure = 'time' and state = 'running'
group by function
order by ns desc, function nulls first;
