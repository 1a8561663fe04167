#!/bin/sh
# STAGE as an archive that is unpacked anywhere, and its debug symbols: tarball.sh STAGE FOLDER
set -eu
stage=$1 out=$2
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/packaging/release.sh"
name=transect-$VERSION-x86_64-linux
pack() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --transform "s,^\./usr,$name,;s,^\.,$name," -C "$1" -cf - ./usr | gzip -n -9 >"$2"
    echo "$2"
}
mkdir -p "$out"
pack "$stage" "$out/$name.tar.gz"
pack "$stage-debug" "$out/$name-debug.tar.gz"
