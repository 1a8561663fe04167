#!/usr/bin/env bash
# Profiles a real program and a bundled workload, prints the views, writes an HTML page; all of it in target/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
transect=$PWD/target/release/transect
make -s -C workloads
rm -rf target/demo
mkdir -p target/demo
cd target/demo

say() {
    if [ -t 1 ]; then printf '\n\033[1m$ %s\033[0m\n' "$*"; else printf '\n$ %s\n' "$*"; fi
}

cat >demo.sql <<'SQL'
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
    insert into t select i, 'text' || i, i * 1.5 from n;
create index ti on t(b);
select count(*), sum(c) from t where b like '%99%';
SQL

say "transect run -o sqlite3.transect -- sqlite3 :memory: '.read demo.sql'"
"$transect" run -o sqlite3.transect -- sqlite3 :memory: '.read demo.sql'

say "transect record -o convoy.transect -- ../workloads/lock-convoy"
"$transect" record -o convoy.transect -- ../workloads/lock-convoy
for view in summary components threads locks; do
    say "transect report convoy.transect --view $view"
    "$transect" report convoy.transect --view $view --top 8
done

say "transect report convoy.transect --html demo.html"
"$transect" report convoy.transect --html demo.html

printf '\nThe page is target/demo/demo.html; more views: cd target/demo && ../release/transect report convoy.transect --help\n'
