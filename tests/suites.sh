#!/bin/sh
# The POSIX and file system suites on a mount: tests/suites.sh [DIRECTORY [SECONDS [ATTRIBUTE_TIMEOUT_S]]]
# Without a directory it mounts a volume of its own, by the program that ENTREPOT names or one that it builds. One line per suite: PASS, FAIL or SKIP; status 1 if one failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-}
seconds=${2:-5}
timeout_s=${3:-1}
log=$(mktemp)
own=
work=
connected=
failed=0

clean() {
    [ -z "$work" ] || rm -rf "$work"
    [ -z "$connected" ] || umount "$connected" 2>/dev/null || umount -l "$connected"
    if [ -n "$own" ]; then
        "$entrepot" --volume "$own/volume/volume.toml" down >/dev/null 2>&1 ||
            "$entrepot" --volume "$own/volume/volume.toml" down --force >/dev/null 2>&1
        rm -rf --one-file-system "$own"
    fi
    rm -f "$log"
}
trap clean EXIT
trap 'exit 1' INT TERM

if [ -z "$dir" ]; then
    if ! [ -r /dev/fuse ] || ! [ -w /dev/fuse ]; then
        echo "SKIP suites: /dev/fuse cannot be opened"
        exit 0
    fi
    entrepot=${ENTREPOT:-}
    if [ -z "$entrepot" ]; then
        (cd "$here/.." && cargo build --quiet --locked -p entrepot-cli) || exit 1
        entrepot=${CARGO_TARGET_DIR:-$here/../target}/debug/entrepot
    fi
    own=$(mktemp -d)
    chmod 755 "$own"
    mkdir "$own/mnt"
    "$entrepot" init "$own/volume" >/dev/null || exit 1
    # Short timeouts make for short naps between the steps of pjdfstest.
    sed -i -E 's/^#? *(entry|attr)_timeout = .*/\1_timeout = "100ms"/' "$own/volume/volume.toml"
    "$entrepot" up "$own/volume/volume.toml" --at "$own/mnt" --detach >"$log" 2>&1 || {
        cat "$log"
        echo "FAIL suites: no mount"
        exit 1
    }
    dir=$own/mnt
    timeout_s=0.1
fi
work=$(mktemp -d "$dir/suites.XXXXXX")

run() { # NAME COMMAND...
    name=$1
    shift
    if ! command -v "$1" >/dev/null; then
        echo "SKIP $name: $1 is not installed"
    elif "$@" >"$log" 2>&1; then
        echo "PASS $name"
    else
        tail -n 40 "$log"
        echo "FAIL $name"
        failed=1
    fi
}

"$here/posix.sh" "$dir" "$timeout_s" || failed=1

run dbench dbench -t "$seconds" -D "$work" 4
# The stressors of the class `filesystem` that exercise files, each of which verifies what it did.
for stressor in access chmod copy-file dentry dir fallocate filename flock fpunch getdent hdd link \
    lockf mmap open rename seek symlink touch utime xattr; do
    case $stressor in
    hdd) size="--hdd-bytes 16m" ;;
    fallocate) size="--fallocate-bytes 16m" ;;
    seek) size="--seek-size 16m" ;;
    mmap) size="--mmap-bytes 8m --mmap-file" ;;
    *) size= ;;
    esac
    # shellcheck disable=SC2086
    run "stress-ng $stressor" stress-ng --"$stressor" 2 $size --timeout 1 --verify --temp-path "$work"
done
for how in "psync 0" "psync 1" "libaio 1" "mmap 0"; do
    # shellcheck disable=SC2086
    set -- $how
    run "fio $1 direct=$2" fio --name=verify --verify_state_save=0 --directory="$work" --ioengine="$1" --direct="$2" --rw=randwrite \
        --bs=64k --size=32m --numjobs=2 --iodepth=8 --verify=crc32c --verify_fatal=1 --end_fsync=1
done

# The same suites on a plain directory over four connections.
if [ -n "$own" ] && [ "$(id -u)" = 0 ]; then
    mkdir "$own/plain" "$own/connected"
    chmod 755 "$own/plain"
    if "$entrepot" connect -n 4 -t bind --timeout 100ms --detach "$own/plain" "$own/connected" >"$log" 2>&1; then
        connected=$own/connected
        echo "over 4 connections:"
        "$here/posix.sh" "$connected" 0.1 || failed=1
    else
        cat "$log"
        echo "FAIL suites: no connections"
        failed=1
    fi
elif [ -n "$own" ]; then
    echo "SKIP suites over connections: needs root"
fi
exit $failed
