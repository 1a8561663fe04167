/* A table of rows, an index, queries, a function and a collation of the program's own. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void twice(sqlite3_context *c, int n, sqlite3_value **v) { (void)n; sqlite3_result_int64(c, 2 * sqlite3_value_int64(v[0])); }
static int backwards(void *p, int n, const void *a, int m, const void *b) { (void)p; int k = n < m ? n : m; return -memcmp(a, b, k); }
static int row(void *sum, int n, char **values, char **names) { (void)n, (void)names; *(long *)sum += values[0] ? atol(values[0]) : 0; return 0; }

int main(int argc, char **argv) {
  int rows = argc > 1 ? atoi(argv[1]) : 3000;
  sqlite3 *db;
  sqlite3_stmt *s;
  long sum = 0;
  if (sqlite3_open(":memory:", &db)) return 1;
  sqlite3_create_function(db, "twice", 1, SQLITE_UTF8, 0, twice, 0, 0);
  sqlite3_create_collation(db, "backwards", SQLITE_UTF8, 0, backwards);
  sqlite3_exec(db, "create table t(id integer primary key, name text, value real); begin", 0, 0, 0);
  sqlite3_prepare_v2(db, "insert into t(name, value) values(?, ?)", -1, &s, 0);
  for (int i = 0; i < rows; i++) {
    char name[32];
    snprintf(name, sizeof name, "name %d", i * 7919 % 1009);
    sqlite3_bind_text(s, 1, name, -1, SQLITE_TRANSIENT);
    sqlite3_bind_double(s, 2, i / 3.0);
    if (sqlite3_step(s) != SQLITE_DONE) return 2;
    sqlite3_reset(s);
  }
  sqlite3_finalize(s);
  sqlite3_exec(db, "commit; create index i on t(name)", 0, 0, 0);
  sqlite3_exec(db, "select twice(id) from t where value > 10 order by name collate backwards limit 500", row, &sum, 0);
  sqlite3_exec(db, "select count(*) from t a join t b on a.name = b.name", row, &sum, 0);
  sqlite3_exec(db, "select length(group_concat(name)) from t group by id % 7", row, &sum, 0);
  printf("%ld %s\n", sum, sqlite3_errmsg(db));
  sqlite3_close(db);
  return 0;
}
