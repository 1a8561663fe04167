-- Which lines take the CPU time?
-- report: --by function,line --measure on-cpu
select function, line, sum(value) as ns
from cut where measure = 'time' and state = 'running'
group by function, line
order by ns desc, function nulls first, line nulls first;
