#!/usr/bin/env bash
# Fetches a Debian kernel for the virtual machine, once, and prints the folder that holds it: `vmlinuz`, `initrd.gz`
# (busybox and the modules that reach the host's files), `release`, `modules` (loop and overlay, loaded by hand).
#
#   kernel.sh 6.1|6.12
#
# Needs no root: the package is unpacked, never installed. Exit status 3: there is no such package to be had here.
set -euo pipefail
series=$1
here=$(cd "$(dirname "$0")" && pwd)
cache=${TRANSECT_VM_CACHE:-$here/../../target/vm}/$series
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

unpack() {
    local package file scratch
    # The newest of the series, signed or not, of whatever suite the machine's package lists have.
    package=$(apt-cache pkgnames "linux-image-$series." | grep -E -- '-cloud-amd64(-unsigned)?$' |
        sed 's/-unsigned$//' | sort -Vu | tail -1)
    [ -n "$package" ] || return 3
    scratch=$(mktemp -d "$cache/unpack.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$scratch'" EXIT
    (cd "$scratch" && { apt-get -o APT::Sandbox::User=root download -qq "$package" || apt-get -o APT::Sandbox::User=root download -qq "$package-unsigned"; }) >&2 || return 3
    file=$(echo "$scratch"/*.deb)
    dpkg-deb --fsys-tarfile "$file" | tar -x -C "$scratch" --wildcards './boot/vmlinuz-*' './boot/config-*' \
        './lib/modules/*/kernel/*/virtio*' './lib/modules/*/kernel/*/fuse*' './lib/modules/*/kernel/*/virtiofs*' \
        './lib/modules/*/kernel/*/loop.ko*' './lib/modules/*/kernel/*/overlay.ko*' 2>/dev/null ||
        [ -n "$(echo "$scratch"/boot/vmlinuz-*)" ]
    grep -q '^CONFIG_DEBUG_INFO_BTF=y' "$scratch"/boot/config-* || { echo "$package has no BTF" >&2; return 3; }
    find "$scratch/lib" -name '*.ko.xz' -exec xz -d {} +
    find "$scratch/lib" -name '*.ko.zst' -exec zstd -dq --rm {} +
    mkdir -p "$cache/modules"
    find "$scratch/lib" -name '*.ko' -exec cp {} "$cache/modules/" \;
    cp "$scratch"/boot/config-* "$cache/config"
    for file in "$scratch"/boot/vmlinuz-*; do
        echo "${file##*/vmlinuz-}" >"$cache/release"
        cp "$file" "$cache/vmlinuz"
    done
}

# The initial file system: busybox, and in loading order the modules that are not built into this kernel.
init_image() {
    local root=$cache/initrd module
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,proc,sys,host,scratch,modules}
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$here/init" "$root/init"
    chmod 755 "$root/init"
    for module in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci fuse virtiofs; do
        if [ -f "$cache/modules/$module.ko" ]; then
            cp "$cache/modules/$module.ko" "$root/modules/"
            echo "$module" >>"$root/modules/order"
        fi
    done
    (cd "$root" && find . | cpio -o -H newc --quiet -R 0:0 | gzip -1) >"$cache/initrd.gz.new"
    mv "$cache/initrd.gz.new" "$cache/initrd.gz"
    rm -rf "$root"
}

exec 9>"$cache/lock"
flock 9
[ -s "$cache/vmlinuz" ] || unpack || { echo "no package of kernel $series for this machine's package lists" >&2; exit 3; }
[ "$cache/initrd.gz" -nt "$here/init" ] && [ "$cache/initrd.gz" -nt "$here/kernel.sh" ] || init_image
echo "$cache"
