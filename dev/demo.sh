#!/usr/bin/env bash
# Profiles a real program and a bundled workload, prints the views, writes demo.html.
set -euo pipefail
cd "$(dirname "$0")/.."
transect=$PWD/target/release/transect
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

cat >"$work/demo.sql" <<'SQL'
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
    insert into t select i, 'text' || i, i * 1.5 from n;
create index ti on t(b);
select count(*), sum(c) from t where b like '%99%';
SQL

say "transect run -- sqlite3 :memory: '.read demo.sql'"
"$transect" run -o "$work/sqlite3.transect" -- sqlite3 :memory: ".read $work/demo.sql"

make -s -C workloads
say "transect record -- target/workloads/lock-convoy"
"$transect" record -o "$work/convoy.transect" -- target/workloads/lock-convoy
for view in summary components threads locks; do
    say "transect report convoy.transect --view $view"
    "$transect" report "$work/convoy.transect" --view $view --top 8
done

say "transect report sqlite3.transect --html demo.html"
"$transect" report "$work/sqlite3.transect" --html demo.html
ls -l demo.html
