-- How many bytes does which component ask which API for?
-- report: --by caller,component,api --measure bytes
select caller, component, api, sum(bytes) as bytes
from calls
group by caller, component, api
having sum(bytes) > 0
order by bytes desc, caller nulls first, component nulls first, api nulls first;
