-- Which stacks take the CPU time? The lines of a flame graph.
-- report: --by stack --measure on-cpu
select stack, sum(value) as ns
from cut left join stack_texts using (service, day, host, run, stack_id)
where measure = 'time' and state = 'running'
group by stack
order by ns desc, stack nulls first;
