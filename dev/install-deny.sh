#!/bin/sh
# Makes sure there is a cargo-deny, which holds licences and sources of dependencies against deny.toml.
set -eu
version=0.20.2
! command -v cargo-deny >/dev/null || exit 0
echo "installing cargo-deny $version"
cargo install cargo-deny --locked --quiet --version "$version"
