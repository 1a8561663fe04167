#!/bin/sh
# Makes sure there is Apache Spark, in a Python of its own: target/spark. It needs a Java.
set -eu
spark=target/spark
[ ! -x "$spark/bin/python" ] || ! "$spark/bin/python" -c "import pyspark" 2>/dev/null || exit 0
python3 -m venv "$spark" && "$spark/bin/pip" install -q pyspark || echo "not available: Apache Spark (pyspark)"
