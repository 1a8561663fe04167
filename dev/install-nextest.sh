#!/bin/sh
# Makes sure there is a cargo-nextest new enough for .config/nextest.toml.
set -eu
. dev/toolchain.env.sh
need=0.9.128
newest() { printf '%s\n%s\n' "$1" "$2" | sort -V | tail -n 1; }
have=$(cargo nextest --version 2>/dev/null | awk 'NR == 1 { print $2 }' || true)
if [ -n "$have" ] && [ "$(newest "$have" "$need")" = "$have" ]; then
    exit 0
fi
# The newest one that the workspace's oldest compiler builds.
cargo install cargo-nextest --locked --version "$need" --no-default-features --features default-no-update
