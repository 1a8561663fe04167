#!/usr/bin/env bash
# Every test: unit and integration tests of the crates, corner-case programs, exact counts, workloads, real programs.
# A part that can't run here says so ("NOT RUN: ...") and is counted.
set -uo pipefail
cd "$(dirname "$0")/.."
. dev/toolchain.env.sh
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

part() {
    local name=$1
    shift
    printf '\n== %s\n' "$name"
    if ! "$@" 2>&1 | tee -a "$log"; then
        echo "FAILED PART: $name"
        failed=$((failed + 1))
    fi
}

transect=$PWD/target/release/transect
part "crates" cargo test --workspace --exclude transect-agent --locked --no-fail-fast
[ -f crates/report/web/package.json ] && part "web bundle and browser" dev/test-web.sh
part "corner cases" sh -c "make -s -C tests/corner-cases && python3 tests/corner-cases/run.py --transect '$transect'"
part "exact counts" python3 tests/exact-counts/run.py --transect "$transect"
part "workloads" sh -c "make -s -C workloads && python3 workloads/run.py test --transect '$transect'"
part "real programs" python3 tests/real-programs/run.py --transect "$transect" ${TRANSECT_ALL_SUITES:---quick}

# Totals over all runners: cargo's "test result" lines and the runners' "N passed, N failed".
passed=$(sed -n 's/.*test result: [a-zA-Z]*\. \([0-9]*\) passed; .*/\1/p; s/^\([0-9]*\) passed, [0-9]* failed.*/\1/p' "$log" | paste -sd+ | bc)
bad=$(sed -n 's/.*test result: [a-zA-Z]*\. [0-9]* passed; \([0-9]*\) failed.*/\1/p; s/^[0-9]* passed, \([0-9]*\) failed.*/\1/p' "$log" | paste -sd+ | bc)
not_run=$(grep -c 'NOT RUN:' "$log")
grep 'NOT RUN:' "$log" | sort | uniq -c
printf '\n%s passed, %s failed, %s skipped\n' "${passed:-0}" "$((${bad:-0}))" "$not_run"
[ "$failed" = 0 ] && [ "${bad:-0}" = 0 ]
