-- What is found on how many hosts, and how much could its repair save? Findings are what `report --view summary` says of each
-- profile; it is kept beside it as RUN.findings.json.
-- view: findings
select kind, component, function, count(distinct host) as hosts, count(*) as findings,
    round(max(percent), 1) as most_percent
from findings
group by kind, component, function
order by hosts desc, most_percent desc, kind, component nulls first, function nulls first;
