#!/bin/sh
# STAGE as Debian packages, the second with the debug symbols: deb.sh STAGE FOLDER
set -eu
stage=$1 out=$2
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/packaging/release.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# package TREE NAME: the control fields come from standard input.
package() {
    cp -a "$1" "$work/$2"
    mkdir -m 755 "$work/$2/DEBIAN"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: amd64\n' "$2" "$VERSION"
        printf 'Maintainer: The Transect authors <transect@localhost>\nInstalled-Size: %s\n' "$(du -sk --apparent-size "$1" | cut -f1)"
        cat
    } >"$work/$2/DEBIAN/control"
    (cd "$work/$2" && find usr -type f | LC_ALL=C sort | xargs md5sum) >"$work/$2/DEBIAN/md5sums"
    find "$work/$2" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$work/$2" "$out/$2_${VERSION}_amd64.deb" >/dev/null
    echo "$out/$2_${VERSION}_amd64.deb"
}

package "$stage" transect <<CONTROL
Section: devel
Priority: optional
Depends: libc6 (>= $(glibc "$stage")), libgcc-s1
Suggests: clang-19, lld-19
Description: profiler across libraries, threads, features and the kernel
 transect run -- ./app reports where the time of a native program goes: the
 function and line, the library call or the lock, whether it computes or waits,
 and for which thread it waits. It needs no root and no rebuilt program.
CONTROL
package "$stage-debug" transect-dbgsym <<CONTROL
Section: debug
Priority: optional
Depends: transect (= $VERSION)
Description: debug symbols of transect
CONTROL
