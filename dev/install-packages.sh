#!/bin/sh
# Installs the named Debian packages that are missing. Needs root (or sudo) only if one is.
set -eu
missing=
for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
# Not asked for again where the lists are of today and have none of them.
if [ -n "$(find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -mtime -1 2>/dev/null | head -n 1)" ]; then
    wanted=$missing missing=
    for package in $wanted; do
        if apt-cache show "$package" >/dev/null 2>&1; then missing="$missing $package"; else echo "not available: $package"; fi
    done
    [ -n "$missing" ] || exit 0
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq || true
# One by one where the batch fails: a package this release doesn't have must not keep the others away.
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 && exit 0
for package in $missing; do
    $sudo apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 || echo "not available: $package"
done
