-- How many samples met each function? The least work of all: no calibration.
-- report: --by component,function --measure samples
select component, function, sum(value) as samples
from cut where measure = 'samples'
group by component, function
order by samples desc, component nulls first, function nulls first;
