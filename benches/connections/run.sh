#!/usr/bin/env bash
# Several connections to one GlusterFS server (figures 4.7 to 4.13 of paper 001): throughput with one plain mount, with files spread over n
# plain mounts by hand (the paper's Manual+), and over n connections behind one mount point. The server is in a network namespace of the
# script's own, its brick in memory; each connection is limited by traffic shaping, so that two cores can show it. Tables in Markdown.
# usage: benches/connections/run.sh path/to/entrepot [--small]
#   root. ENTREPOT_BENCH_RATE megabytes/s per connection (16), _CONNECTIONS, _THREADS, _POLICIES, _MODES (sync async), _SECONDS per cell (3), _PARTS (shaped one unshaped)
set -euo pipefail

entrepot=$(readlink -f "${1:?path to entrepot}")
here=$(cd "$(dirname "$0")" && pwd)
small=${2:-}
rate=${ENTREPOT_BENCH_RATE:-16}
if [ "$small" = --small ]; then
    connections=${ENTREPOT_BENCH_CONNECTIONS:-4} threads=${ENTREPOT_BENCH_THREADS:-1 16} policies=${ENTREPOT_BENCH_POLICIES:-multiple load}
    seconds=${ENTREPOT_BENCH_SECONDS:-2}
else
    connections=${ENTREPOT_BENCH_CONNECTIONS:-2 4 8} threads=${ENTREPOT_BENCH_THREADS:-1 2 4 16} policies=${ENTREPOT_BENCH_POLICIES:-single multiple automatic load}
    seconds=${ENTREPOT_BENCH_SECONDS:-3}
fi
modes=${ENTREPOT_BENCH_MODES:-sync async}
parts=${ENTREPOT_BENCH_PARTS:-shaped unshaped}
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace needs root" >&2; exit 0; }
for tool in glusterd gluster glusterfs fio ip tc ss; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is missing (scripts/setup.sh bench installs it)" >&2; exit 0; }
done
[ -w /dev/fuse ] || { echo "skipped: /dev/fuse cannot be opened" >&2; exit 0; }
# shellcheck source=benches/connections/server.sh
. "$here/server.sh"

dir=$(mktemp -d "${TMPDIR:-/tmp}/entrepot-connections.XXXXXX")
mkdir "$dir/ours" "$dir/gluster"
cleanup() {
    local status=$? n
    trap - EXIT
    disconnect
    for n in "$dir"/plain*; do ! mountpoint -q "$n" || umount -l "$n"; done
    server_down
    if [ $status = 0 ]; then rm -rf --one-file-system "$dir"; else echo "what it left is in $dir" >&2; fi
    exit $status
}
disconnect() {
    ! mountpoint -q "$dir/ours" || umount "$dir/ours" || umount -l "$dir/ours"
    # Its mounts go a moment later, and their connections with them.
    local tries=0
    while pgrep -f "entrepot connect .*$dir/ours" >/dev/null && [ $tries -lt 100 ]; do sleep 0.1 && tries=$((tries + 1)); done
}
trap cleanup EXIT
trap 'exit 130' INT TERM

server_up "$dir/gluster"
most=1
for n in $connections; do [ "$n" -le $most ] || most=$n; done
for n in $(seq 0 $((most - 1))); do
    mkdir "$dir/plain$n"
    mount -t glusterfs "$server:/$volume" "$dir/plain$n"
done
bytes=24m
for file in $(seq 0 15); do dd if=/dev/urandom of="$dir/gluster/seed" bs=24M count=1 status=none && cp "$dir/gluster/seed" "$dir/plain0/file$file"; done

# cell WHAT MODE THREADS DIRECTORY...: megabytes per second of all threads together; thread k works in directory k modulo their number.
cell() {
    local what=$1 mode=$2 count=$3 k job=$dir/job.fio
    shift 3
    local dirs=("$@")
    {
        echo "[global]"
        echo "rw=$what"
        echo "size=$bytes"
        echo "direct=1"
        echo "thread=1"
        echo "time_based=1"
        echo "runtime=$seconds"
        echo "ramp_time=1"
        echo "group_reporting=1"
        echo "overwrite=1"
        echo "fallocate=none"
        # Asynchronous requests are smaller, so that what is under way at the end of a cell is little of what it moved.
        if [ "$mode" = sync ]; then printf 'bs=1m\nioengine=psync\n'; else printf 'bs=256k\nioengine=libaio\niodepth=%d\n' $((count < 16 ? 32 / count : 2)); fi
        for k in $(seq 0 $((count - 1))); do
            echo "[t$k]"
            echo "filename=${dirs[$((k % ${#dirs[@]}))]}/file$k"
        done
    } >"$job"
    fio --output-format=json "$job" 2>"$dir/fio.err" | awk '/"bw_bytes"/ { gsub(/[^0-9]/, "", $3); if ($3 + 0 > best) best = $3 + 0 } END { printf "%.1f", best / 1e6 }'
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else printf "-" }'; }
connect() { "$entrepot" connect -n "$1" -t glusterfs --policy "$2" "${@:3}" --detach "$server:/$volume" "$dir/ours" >/dev/null; }

if [[ " $parts " == *" shaped "* ]]; then
    echo "GlusterFS $(glusterfs --version | awk 'NR == 1 { print $2 }'), $rate MB/s per connection; sync: 1 MiB requests, async: 256 KiB, 32 under way; O_DIRECT, $seconds s per cell, $(nproc) cores, $(date -u +%F)"
    echo
    echo "| | threads | connections | policy | MB/s | to one mount | to Manual+ |"
    echo "|---|---|---|---|---|---|---|"
    declare -A one manual
    shape "$rate"
    for mode in $modes; do for what in write read; do for t in $threads; do
        one[$mode$what$t]=$(cell $what "$mode" "$t" "$dir/plain0")
        echo "| $mode $what | $t | 1 | one plain mount | ${one[$mode$what$t]} | 1.00 | |"
        for n in $connections; do
            mapfile -t dirs < <(seq -f "$dir/plain%g" 0 $((n - 1)))
            manual[$mode$what$t.$n]=$(cell $what "$mode" "$t" "${dirs[@]}")
            echo "| $mode $what | $t | $n | Manual+ | ${manual[$mode$what$t.$n]} | $(ratio "${manual[$mode$what$t.$n]}" "${one[$mode$what$t]}") | 1.00 |"
        done
    done; done; done
    for n in $connections; do for policy in $policies; do
        connect "$n" "$policy"
        shape "$rate"
        for mode in $modes; do for what in write read; do for t in $threads; do
            ours=$(cell $what "$mode" "$t" "$dir/ours")
            echo "| $mode $what | $t | $n | $policy | $ours | $(ratio "$ours" "${one[$mode$what$t]}") | $(ratio "$ours" "${manual[$mode$what$t.$n]}") |"
        done; done; done
        disconnect
    done; done
    unshape
    echo
fi

if [[ " $parts " == *" unshaped "* ]]; then
    rounds=${ENTREPOT_BENCH_ROUNDS:-3}
    echo "Without shaping, interleaved, median of $rounds: what the layer itself costs, and what it gains where the network is no limit"
    echo
    ways=("1 single" "1 load --bytes-over mount" "4 load --bytes-over mount" "1 load --bytes-over library" "4 load --bytes-over library" "4 load")
    echo "| | threads | one plain mount, MB/s | 1 connection, single (passed through) | 1, load, mounts | 4, load, mounts | 1, load, libgfapi | 4, load, libgfapi | 4, load, what the start measured to be faster |"
    echo "|---|---|---|---|---|---|---|---|---|"
    declare -A got
    for round in $(seq "$rounds"); do for how in plain "${ways[@]}"; do
        at=$dir/ours
        # shellcheck disable=SC2086
        if [ "$how" = plain ]; then at=$dir/plain0; else connect $how; fi
        for mode in $modes; do for what in write read; do for t in ${ENTREPOT_BENCH_UNSHAPED_THREADS:-1 16}; do
            got[$mode$what$t$how]+="$(cell $what "$mode" "$t" "$at") "
        done; done; done
        [ "$how" = plain ] || disconnect
    done; done
    median() { echo "$1" | tr ' ' '\n' | grep . | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
    for mode in $modes; do for what in write read; do for t in ${ENTREPOT_BENCH_UNSHAPED_THREADS:-1 16}; do
        plain=$(median "${got[$mode$what${t}plain]}")
        row="| $mode $what | $t | $plain |"
        for how in "${ways[@]}"; do row+=" $(ratio "$(median "${got[$mode$what$t$how]}")" "$plain") |"; done
        echo "$row"
    done; done; done
fi
