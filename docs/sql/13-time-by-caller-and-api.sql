-- Which component pays for which call of another one?
-- report: --by caller,component,api
select caller, component, api, sum(value) as ns
from cut where measure = 'time'
group by caller, component, api
order by ns desc, caller nulls first, component nulls first, api nulls first;
