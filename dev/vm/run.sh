#!/usr/bin/env bash
# Runs a program under another kernel: boots it in QEMU with this machine's files, read-only, and passes on the
# program's output and exit status.
#
#   run.sh [options] 6.1|6.12 PROGRAM [argument...]
#
#   --cpus N        CPUs of the virtual machine (1)
#   --memory MIB    its memory (1024)
#   --timeout S     ends it after so many seconds, exit status 124 (120)
#   --icount        one instruction takes one nanosecond of the machine's time: costs are counted, not measured
#   --append TEXT   more parameters of the kernel
#   --env NAME=V    a variable of the program's environment
#   --keep PATH     a file or folder below /tmp that the program needs (the repository and CARGO_TARGET_DIR are kept anyway)
#   --console FILE  where the kernel's messages go (by default they are shown only if the machine dies)
#
# Inside: /tmp, /run, /var/tmp, /mnt and /dev/shm are memory; all else is the host's and can't be written; the program
# starts as root in the current folder; $TRANSECT_VM_MODULES is the folder of modules that it may load (loop, overlay).
# Exit status 125: the machine did not start or died. 3: no such kernel, or no virtual machine for this user, here.
#
# Instructions are interpreted (TCG), one thread for all CPUs: no access to /dev/kvm is needed, and kernels with
# probes have paniced under threaded TCG. As a normal user the file server runs in a user namespace: files of other
# users then belong to `nobody` inside, and what only root may read can't be read.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
cpus=1 memory=1024 limit=120 append= console= icount=()
environment=() keep=("$repository")
while [ $# -gt 0 ]; do
    case $1 in
    --cpus) cpus=$2; shift 2 ;;
    --memory) memory=$2; shift 2 ;;
    --timeout) limit=$2; shift 2 ;;
    --icount) icount=(-icount "shift=0,sleep=off,align=off"); shift ;;
    --append) append=$2; shift 2 ;;
    --env) environment+=("$2"); shift 2 ;;
    --keep) keep+=("$(readlink -f "$2")"); shift 2 ;;
    --console) console=$2; shift 2 ;;
    -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    *) break ;;
    esac
done
[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
series=$1
shift
[ -z "${CARGO_TARGET_DIR-}" ] || [ ! -d "$CARGO_TARGET_DIR" ] || keep+=("$(readlink -f "$CARGO_TARGET_DIR")")
for tool in qemu-system-x86_64 busybox cpio; do
    command -v "$tool" >/dev/null || { echo "run.sh: $tool is not installed (make vm-packages)" >&2; exit 3; }
done
# QEMU's own file server up to 7.2, a package of its own after that.
server=
for candidate in /usr/libexec/virtiofsd /usr/lib/qemu/virtiofsd /usr/lib/virtiofsd "$(command -v virtiofsd || true)"; do
    [ -x "$candidate" ] && { server=$candidate; break; }
done
[ -n "$server" ] || { echo "run.sh: virtiofsd is not installed (make vm-packages)" >&2; exit 3; }
kernel=$("$here/kernel.sh" "$series") || exit $?
keep+=("$kernel/modules")

room=$(mktemp -d)
server_pid= machine_pid= tail_pid=
finish() {
    local pid
    for pid in $machine_pid $server_pid $tail_pid; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$room"
}
trap finish EXIT
trap 'exit 130' INT TERM

# The job is a second archive behind the first: the kernel unpacks both.
mkdir "$room/job"
printf 'VM_KEEP=%q\n' "${keep[*]}" | sed "s/\\\\ / /g; s/^VM_KEEP=\(.*\)$/VM_KEEP='\1'/" >"$room/job/job.env"
{
    echo "export PATH=$(printf %q "$PATH") HOME=/tmp TMPDIR=/tmp LC_ALL=C.UTF-8 TRANSECT_VM=$series TRANSECT_VM_MODULES=$(printf %q "$kernel/modules")"
    for variable in "${environment[@]}"; do printf 'export %q\n' "$variable"; done
    printf 'cd %q || exit 126\n' "$PWD"
    # Serial lines turn \n into \r\n unless told not to.
    echo 'stty -onlcr </dev/ttyS1 2>/dev/null'
    printf '%q ' "$@"
    echo
} >"$room/job/job"
(cd "$room/job" && printf 'job\njob.env\n' | cpio -o -H newc --quiet -R 0:0 | gzip -1) | cat "$kernel/initrd.gz" - >"$room/initrd.gz"

socket=$room/files
case $("$server" --help 2>&1) in
*--shared-dir*) serve=("$server" --socket-path="$socket" --shared-dir=/ --sandbox=chroot --cache=always) ;;
*) serve=("$server" -f --socket-path="$socket" -o source=/ -o sandbox=chroot -o cache=always -o log_level=err) ;;
esac
# Root in a namespace of its own may change its root; a normal user has no other way to. The old server also wants
# to write below /run.
[ "$(id -u)" = 0 ] || serve=(unshare --user --map-root-user --mount -- sh -c 'mount -t tmpfs run /run && exec "$@"' sh "${serve[@]}")
"${serve[@]}" >"$room/server.log" 2>&1 &
server_pid=$!
for _ in $(seq 200); do
    [ -S "$socket" ] && break
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.02
done
if [ ! -S "$socket" ]; then
    echo "run.sh: the file server did not start:" >&2
    cat "$room/server.log" >&2
    # A normal user may not be allowed a user namespace here: then there is no virtual machine to be had.
    [ "$(id -u)" = 0 ] && exit 125
    exit 3
fi

console=${console:-$room/console}
: >"$room/output" >"$room/status"
timeout --foreground -k 5 "$limit" qemu-system-x86_64 \
    -accel tcg,thread=single "${icount[@]}" -cpu max -smp "$cpus" -m "$memory" \
    -nodefaults -display none -no-reboot -no-user-config \
    -object "memory-backend-memfd,id=memory,size=${memory}M,share=on" -numa node,memdev=memory \
    -chardev "socket,id=files,path=$socket" -device vhost-user-fs-pci,chardev=files,tag=hostroot \
    -serial "file:$console" -serial "file:$room/output" -serial "file:$room/status" \
    -kernel "$kernel/vmlinuz" -initrd "$room/initrd.gz" \
    -append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check $append" \
    >"$room/qemu.log" 2>&1 </dev/null &
machine_pid=$!
tail -q -c +1 -f --pid="$machine_pid" -s 0.2 "$room/output" &
tail_pid=$!
ended=0
wait "$machine_pid" || ended=$?
machine_pid=
# It prints the rest, then sees that the machine is gone.
wait "$tail_pid" || true
tail_pid=
status=$(tr -d '\r\n' <"$room/status")
case $status in
'')
    [ "$ended" = 124 ] || [ "$ended" = 137 ] && { echo "run.sh: ended after $limit s" >&2; exit 124; }
    echo "run.sh: the machine died (QEMU's status $ended); its last words:" >&2
    tail -n 40 -q "$console" "$room/qemu.log" "$room/server.log" >&2
    exit 125
    ;;
*[!0-9]*)
    echo "run.sh: the machine could not mount the host's files" >&2
    tail -n 20 -q "$console" "$room/server.log" >&2
    exit 125
    ;;
*) exit "$status" ;;
esac
