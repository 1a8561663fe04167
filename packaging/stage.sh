#!/bin/sh
# Lays out what all packages hold, below STAGE/usr: stage.sh STAGE. Debug symbols go to STAGE-debug, by build id.
#
# The commands are linked without shared libraries, so that they run on any distribution; what is loaded into programs and
# compilers is not. The same commit gives the same bytes: times are those of SOURCE_DATE_EPOCH, owners are root.
set -eu
stage=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
static=target/x86_64-unknown-linux-gnu/release
. "$here/release.sh"

rm -rf "$stage" "$stage-debug"
make -s -C "$root" install DESTDIR="$stage" PREFIX=/usr BIN="$static/transect" COMPILER="$static/transect-cc"
# Wherever the archive is unpacked.
sed -i 's,^prefix=.*,prefix=${pcfiledir}/../..,' "$stage/usr/lib/pkgconfig/transect.pc"
doc=$stage/usr/share/doc/transect
mkdir -p "$doc"
cp "$root/README.md" "$root/CHANGELOG.md" "$root/FILE_FORMAT.md" "$root/LICENSE-MIT" "$root/LICENSE-APACHE" "$doc"
python3 "$here/sbom.py" "$root" >"$doc/sbom.cdx.json"

find "$stage" -type f \( -path '*/bin/*' -o -name '*.so' -o -name '*.so.*' \) | while read -r file; do
    id=$(readelf -n "$file" | sed -n 's/.*Build ID: //p')
    if [ -n "$id" ]; then
        debug=$stage-debug/usr/lib/debug/.build-id/$(echo "$id" | cut -c1-2)/$(echo "$id" | cut -c3-).debug
        mkdir -p "$(dirname "$debug")"
        objcopy --only-keep-debug --compress-debug-sections=zlib "$file" "$debug"
    fi
    # Those of libraries are for whoever profiles a program with them.
    case $file in
    */bin/*) strip --strip-all "$file" ;;
    *) strip --strip-debug "$file" ;;
    esac
done

for tree in "$stage" "$stage-debug"; do
    find "$tree" -type d -exec chmod 755 {} +
    find "$tree" -type f -path '*/share/*' -exec chmod 644 {} +
    find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
done
