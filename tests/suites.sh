#!/bin/sh
# Short runs of dbench, stress-ng and fio --verify (Debian packages) in a directory, usually of a mount: tests/suites.sh DIRECTORY [SECONDS]
set -eu
dir=${1:?usage: tests/suites.sh DIRECTORY [SECONDS]}
seconds=${2:-10}
work=$(mktemp -d "$dir/suites.XXXXXX")
log=$(mktemp)
trap 'rm -rf "$work" "$log"' EXIT INT TERM

run() { # NAME COMMAND...: quiet when good
    name=$1
    shift
    command -v "$1" >/dev/null || { echo "$name: skipped, $1 is not installed"; return 0; }
    if "$@" >"$log" 2>&1; then echo "$name: good"; else
        status=$?
        tail -n 40 "$log"
        echo "$name failed with status $status" >&2
        exit 1
    fi
}

run dbench dbench -t "$seconds" -D "$work" 4
# These exercise files through the calls that POSIX and Linux have for them; each verifies what it did.
for stressor in access chmod copy-file dentry dir fallocate filename flock fpunch getdent hdd link \
    lockf mmap open rename seek symlink touch unlink utime xattr; do
    run "stress-ng $stressor" stress-ng --"$stressor" 2 --timeout "$((seconds / 5 + 1))" --verify --temp-path "$work" \
        --hdd-bytes 16m --copy-file-bytes 8m --fallocate-bytes 16m --seek-bytes 16m
done
for engine in psync libaio mmap; do
    for direct in 0 1; do
        if [ "$engine" = mmap ] && [ "$direct" = 1 ]; then continue; fi
        run "fio $engine direct=$direct" fio --name=verify --directory="$work" --ioengine="$engine" --direct="$direct" \
            --rw=randwrite --bs=4k-256k --bs_unaligned=0 --blockalign=4k --size=32m --numjobs=2 --iodepth=8 --verify=crc32c --verify_fatal=1 \
            --end_fsync=1 --group_reporting
    done
done
