-- How often does which component call which API? Exact in every timing mode.
-- report: --by caller,component,api --measure calls
select caller, component, api, sum(calls) as calls
from calls
group by caller, component, api
having sum(calls) > 0
order by calls desc, caller nulls first, component nulls first, api nulls first;
