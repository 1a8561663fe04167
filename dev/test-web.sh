#!/usr/bin/env bash
# The committed page bundle is the one its sources make.
set -euo pipefail
cd "$(dirname "$0")/../crates/report/web"
if ! command -v npm >/dev/null; then
    echo "NOT RUN: freshness of the page bundle: npm is not installed"
    exit 0
fi
[ -d node_modules ] || npm ci --no-audit --no-fund --silent
npm run --silent check
