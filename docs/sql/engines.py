"""Opens a folder of profiles, PROFILES/service=S/day=D/host=H/RUN.transect/, in an engine: a view of each table with the columns
service, day, host and run beside its own, then those of views.sql. All that differs between engines is here.

usage: engines.py duckdb|spark PROFILES QUESTION.sql..."""
import glob
import os
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = ("components", "processes", "threads", "flows", "tasks", "frames", "stacks", "sched_samples", "sched_moments", "sched_waits", "walk_system_calls")
# Folders of PROFILES that hold profiles: service, day, host, run. One of them can be given instead of all.
ALL = "service=*/day=*/host=*/*.transect"
RUN = "regexp_extract({path}, '([^/]*)[.]transect/[^/]*$', 1) as run"


def statements(file):
    with open(file) as text:
        code = "".join(line for line in text if not line.lstrip().startswith("--"))
    return [statement.strip() for statement in code.split(";\n") if statement.strip()]


def quoted(text):
    return text.replace("'", "''")


class DuckDB:
    def __init__(self, profiles, which=ALL):
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute("create macro regexp_like(text, pattern) as regexp_matches(text, pattern)")
        self.connection.execute("create macro joined_in_order(parts) as array_to_string(list_transform(list_sort(parts), lambda part: substr(part, 5)), ';')")
        for table in TABLES:
            path = quoted(os.path.join(profiles, which, table + ".parquet"))
            self.connection.execute(f"create temporary view {table} as select * exclude (filename), {RUN.format(path='filename')} "
                                    f"from read_parquet('{path}', hive_partitioning = true, hive_types_autocast = false, union_by_name = true, filename = true)")
        path = os.path.join(profiles, which.replace(".transect", ".findings.json"))
        if glob.glob(path):
            self.connection.execute(f"create temporary view findings as select service, day, host, kind, percent, saves_percent, \"where\".component as component, "
                                    f"\"where\".function as function from (select service, day, host, unnest(summary, max_depth := 2) "
                                    f"from read_json('{quoted(path)}', hive_partitioning = true, hive_types_autocast = false))")
        for file in ("system-calls.sql", "views.sql"):
            for statement in statements(os.path.join(HERE, file)):
                self.connection.execute(statement)

    def ask(self, question):
        """Names of the columns, and the rows, of a question's only statement."""
        return self.ask_text(*statements(question))

    def ask_text(self, statement):
        answer = self.connection.execute(statement)
        return [column[0] for column in answer.description], answer.fetchall()


def snappy():
    """Options for Java. Where musl is installed beside glibc, Spark's decompressor takes its own library for musl, which does
    not load: the one for glibc is unpacked and named instead."""
    if not os.path.exists("/lib/ld-musl-x86_64.so.1"):
        return ""
    import pyspark

    (library,) = glob.glob(os.path.join(os.path.dirname(pyspark.__file__), "jars/snappy-java-*.jar"))
    folder = os.path.join(os.path.dirname(library), "native")
    with zipfile.ZipFile(library) as packed:
        packed.extract("org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so", folder)
    return f"-Dorg.xerial.snappy.lib.path={folder}/org/xerial/snappy/native/Linux/x86_64 -Dorg.xerial.snappy.lib.name=libsnappyjava.so"


class Spark:
    """A local cluster of two workers, or the one that `master` names."""

    # Views that are computed once; to plan a question down to the files takes Spark minutes.
    KEPT = ("frame_names", "stack_frames", "stack_keys", "wait_stacks", "queued_stacks", "queued_parts", "lifetimes")

    def __init__(self, profiles, which=ALL, master="local-cluster[2,1,1024]"):
        from pyspark.sql import SparkSession

        settings = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false", "spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false",
                    # It takes minutes for plans of this depth.
                    "spark.sql.constraintPropagation.enabled": "false"}
        for who in ("driver", "executor"):
            settings[f"spark.{who}.extraJavaOptions"] = snappy()
        settings["spark.sql.warehouse.dir"] = os.path.join(tempfile.gettempdir(), "spark-warehouse")
        self.session = SparkSession.builder.master(master).appName("transect").config(map=settings).getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")
        self.session.sql("create or replace temporary function joined_in_order(parts array<string>) returns string "
                         "return array_join(transform(array_sort(parts), part -> substr(part, 5)), ';')")
        for table in TABLES:
            files = self.session.read.option("basePath", profiles).parquet(os.path.join(profiles, which, table + ".parquet"))
            files.selectExpr("*", RUN.format(path="_metadata.file_path")).createOrReplaceTempView(table)
        path = os.path.join(profiles, which.replace(".transect", ".findings.json"))
        if glob.glob(path):
            self.session.read.option("basePath", profiles).option("multiLine", True).json(path).selectExpr("service", "day", "host", "inline(summary)") \
                .selectExpr("service", "day", "host", "kind", "percent", "saves_percent", "where.component", "where.function").createOrReplaceTempView("findings")
        for file in ("system-calls.sql", "views.sql"):
            for statement in statements(os.path.join(HERE, file)):
                self.session.sql(statement)
                view = statement.split()[5]
                if view in self.KEPT:
                    self.session.table(view).localCheckpoint(eager=False).createOrReplaceTempView(view)

    def ask(self, question):
        return self.ask_text(*statements(question))

    def ask_text(self, statement):
        answer = self.session.sql(statement)
        return answer.columns, [tuple(row) for row in answer.collect()]


def main():
    engine, profiles, *questions = sys.argv[1:]
    engine = {"duckdb": DuckDB, "spark": Spark}[engine](profiles)
    for question in questions:
        columns, rows = engine.ask(question)
        print("\t".join(columns))
        for row in rows:
            print("\t".join("–" if value is None else str(value) for value in row))


if __name__ == "__main__":
    main()
