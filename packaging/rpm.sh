#!/bin/sh
# STAGE as an RPM: rpm.sh STAGE FOLDER
set -eu
stage=$(realpath "$1") out=$2
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/packaging/release.sh"
command -v rpmbuild >/dev/null || { echo "rpmbuild is missing: install the package rpm or rpm-build" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
{
    cat <<SPEC
Name: transect
Version: $VERSION
Release: 1
Summary: Profiler across libraries, threads, features and the kernel
License: MIT OR Apache-2.0
AutoReq: no
Requires: glibc >= $(glibc "$stage"), libgcc
%description
transect run -- ./app reports where the time of a native program goes: the function and line, the library call or the
lock, whether it computes or waits, and for which thread it waits. It needs no root and no rebuilt program.
%install
cp -a $stage/. %{buildroot}
%files
%defattr(-, root, root)
SPEC
    (cd "$stage" && find usr -path usr/lib/transect -prune -print -o \( -type f -o -type l \) -print | LC_ALL=C sort | sed 's,^,/,')
} >"$work/transect.spec"
rpmbuild -bb --quiet --define "_topdir $work/top" --define "_rpmdir $work" --define "_buildhost localhost" \
    --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
    --define "__os_install_post %{nil}" --define "debug_package %{nil}" --define "_build_id_links none" \
    --target x86_64-linux "$work/transect.spec" >/dev/null
mv "$work"/x86_64/*.rpm "$out"
ls "$out"/transect-"$VERSION"-1.x86_64.rpm
