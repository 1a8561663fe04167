#!/bin/sh
# Makes sure there is a Rust compiler new enough for this workspace.
set -eu
. dev/toolchain.env.sh
need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
newest() { printf '%s\n%s\n' "$1" "$2" | sort -V | tail -n 1; }
have=$(rustc --version 2>/dev/null | awk '{print $2}' || true)
if [ -n "$have" ] && [ "$(newest "$have" "$need")" = "$have" ]; then
    exit 0
fi
if ! command -v rustup >/dev/null 2>&1; then
    dev/install-packages.sh curl ca-certificates rustup || true
fi
if ! command -v rustup >/dev/null 2>&1; then
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal -c clippy -c rustfmt
else
    rustup toolchain install stable --profile minimal -c clippy -c rustfmt
fi
