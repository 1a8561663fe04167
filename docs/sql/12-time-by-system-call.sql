-- How long are threads in each system call, running, queued and blocked? By samples and waits.
-- report: --by system-call,kernel-function,state
select system_call, kernel_function, state, sum(value) as ns
from cut where measure = 'time'
group by system_call, kernel_function, state
order by ns desc, system_call nulls first, kernel_function nulls first, state nulls first;
