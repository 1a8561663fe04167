#!/bin/sh
# Lays libtransect out as it is installed: stage.sh BUILT-DIR STAGE-DIR [PREFIX]
#
#   STAGE/include/transect.h
#   STAGE/lib/libtransect.so -> libtransect.so.1 -> libtransect.so.VERSION
#   STAGE/lib/libtransect.a
#   STAGE/lib/pkgconfig/transect.pc     (its prefix is PREFIX, by default the folder that it stands in)
#
# The archive that cargo makes holds a whole Rust runtime with its symbols. Linked to one object it becomes a good
# neighbour: only transect_* and __cyg_profile_* stay global, so a program may hold other Rust libraries too, and all
# code stands in one section, `transect_text`, by whose bounds the library knows (and never probes) itself.
set -eu
built=$1 stage=$2 prefix=${3:-'${pcfiledir}/../..'}
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)
major=$(sed -n 's/^#define TRANSECT_ABI_VERSION \([0-9]*\)u.*/\1/p' "$here/include/transect.h")
mkdir -p "$stage/include" "$stage/lib/pkgconfig"
install -m 644 "$here/include/transect.h" "$stage/include/transect.h"
install -m 755 "$built/libtransect.so" "$stage/lib/libtransect.so.$version"
ln -sf "libtransect.so.$version" "$stage/lib/libtransect.so.$major"
ln -sf "libtransect.so.$major" "$stage/lib/libtransect.so"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm -D --defined-only "$built/libtransect.so" | awk '{ print $3 }' | sort -u >"$work/exports"
ld -r -o "$work/whole.o" $(sed 's/^/-u /' "$work/exports") \
    -T "$here/one-text-section.ld" "$built/libtransect.a"
objcopy --strip-debug --keep-global-symbols="$work/exports" "$work/whole.o" "$work/transect.o"
rm -f "$stage/lib/libtransect.a"
ar rcs "$stage/lib/libtransect.a" "$work/transect.o"

cat >"$stage/lib/pkgconfig/transect.pc" <<EOF
prefix=$prefix
includedir=\${prefix}/include
libdir=\${prefix}/lib

Name: transect
Description: Probes that any thread can toggle while others run through them
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -ltransect
Libs.private: -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
EOF
