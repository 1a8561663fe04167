-- How long do calls between components take, from entry to return? An estimate where not every call was timed.
-- view: flows caller,callee,api total_ns
select caller, component, api, sum(total_ns) as ns
from calls
group by caller, component, api
having sum(total_ns) > 0
order by ns desc, caller nulls first, component nulls first, api nulls first;
