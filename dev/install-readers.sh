#!/bin/sh
# Makes sure there are foreign readers of profiles' tables and traces, in a Python of their own: target/readers.
set -eu
readers=target/readers
modules=duckdb,pandas,perfetto,pyarrow,viztracer
[ ! -x "$readers/bin/python" ] || ! "$readers/bin/python" -c "import $(echo $modules | sed 's/,/, /g')" 2>/dev/null || exit 0
python3 -m venv "$readers" && "$readers/bin/pip" install -q $(echo $modules | tr ',' ' ') ||
    echo "not available: foreign readers of tables and traces ($modules)"
