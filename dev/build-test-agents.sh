#!/bin/sh
# Builds what tests put into programs and places it beside them, once for all; each test would ask cargo for it otherwise.
set -eu
. dev/toolchain.env.sh
target=${CARGO_TARGET_DIR:-target}
for package in transect-agent transect-region-trace transect-probe-agent transect-flow-agent; do
    cargo build --locked --quiet --release -p "$package"
done
# Renamed into place: a program may have the old one.
if [ -d "$target/debug" ]; then
    cp "$target/release/libtransect_probe_agent.so" "$target/debug/.probe-agent-$$"
    mv "$target/debug/.probe-agent-$$" "$target/debug/libtransect_probe_agent.so"
fi
[ -z "${NEXTEST_ENV-}" ] || echo TRANSECT_AGENTS_BUILT=1 >>"$NEXTEST_ENV"
