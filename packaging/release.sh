# To be sourced: which release this is. `root` is the source tree.
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
# The commit's time; of an unpacked source tree that of the changelog.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/CHANGELOG.md")}
export SOURCE_DATE_EPOCH
# The newest glibc that a shared object of the stage asks for.
glibc() {
    find "$1" -name '*.so*' -type f -exec objdump -T {} + 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sed s/GLIBC_// | sort -V | tail -n 1
}
