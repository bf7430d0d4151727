#!/usr/bin/env bash
# Several connections to one GlusterFS server (figures 4.7 to 4.13 of paper 001): throughput with one plain mount, with files spread over n
# plain mounts by hand (the paper's Manual+), and over n connections behind one mount point. The server is in a network namespace of the
# script's own, its brick in memory; each connection is limited by traffic shaping, so that two cores can show it. Prints a line per cell on
# the standard error as it goes, and Markdown tables in the shape of the figures at the end; 1 if an aim was missed.
# usage: benches/connections/run.sh path/to/entrepot [--small]
#   root. ENTREPOT_BENCH_PARTS (shaped unshaped daemons lock), _RATE megabytes/s per connection (16), _CONNECTIONS, _THREADS, _POLICIES,
#   _MODES (sync async), _SECONDS per shaped cell (3); _ROUNDS, _UNSHAPED_THREADS and _UNSHAPED_SECONDS without shaping;
#   _CONGESTION, how TCP controls congestion (reno; system: as the machine has it)
set -euo pipefail

entrepot=$(readlink -f "${1:?path to entrepot}")
here=$(cd "$(dirname "$0")" && pwd)
small=${2:-}
rate=${ENTREPOT_BENCH_RATE:-16}
if [ "$small" = --small ]; then
    connections=${ENTREPOT_BENCH_CONNECTIONS:-4} threads=${ENTREPOT_BENCH_THREADS:-1 16} policies=${ENTREPOT_BENCH_POLICIES:-multiple load}
    seconds=${ENTREPOT_BENCH_SECONDS:-2} rounds=${ENTREPOT_BENCH_ROUNDS:-1} parts=${ENTREPOT_BENCH_PARTS:-shaped unshaped}
    unshaped_threads=${ENTREPOT_BENCH_UNSHAPED_THREADS:-1}
else
    connections=${ENTREPOT_BENCH_CONNECTIONS:-2 4 8} threads=${ENTREPOT_BENCH_THREADS:-1 2 4 16} policies=${ENTREPOT_BENCH_POLICIES:-single multiple automatic load}
    seconds=${ENTREPOT_BENCH_SECONDS:-3} rounds=${ENTREPOT_BENCH_ROUNDS:-3} parts=${ENTREPOT_BENCH_PARTS:-shaped unshaped daemons lock}
    unshaped_threads=${ENTREPOT_BENCH_UNSHAPED_THREADS:-1 4 16}
fi
modes=${ENTREPOT_BENCH_MODES:-sync async}
for part in $parts; do
    case $part in shaped | unshaped | daemons | lock) ;; *) echo "no part $part: shaped, unshaped, daemons, lock; nothing was measured" >&2; exit 2 ;; esac
done
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace needs root" >&2; exit 0; }
for tool in glusterd gluster glusterfs fio ip tc ss; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is missing (scripts/setup.sh bench installs it)" >&2; exit 0; }
done
[ -w /dev/fuse ] || { echo "skipped: /dev/fuse cannot be opened" >&2; exit 0; }
# shellcheck source=benches/connections/server.sh
. "$here/server.sh"
# shellcheck source=benches/connections/cells.sh
. "$here/cells.sh"

dir=$(mktemp -d "${TMPDIR:-/tmp}/entrepot-connections.XXXXXX")
mkdir "$dir/gluster"
cleanup() {
    local status=$? n
    trap - EXIT
    for n in "$dir"/ours*; do ! mountpoint -q "$n" || disconnect "$n"; done
    for n in "$dir"/plain*; do ! mountpoint -q "$n" || umount -l "$n"; done
    server_down
    if [ $status -le 1 ]; then rm -rf --one-file-system "$dir"; else echo "what it left is in $dir" >&2; fi
    exit $status
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
for file in $(seq 0 15); do dd if=/dev/urandom of="$dir/gluster/seed" bs=24M count=1 status=none && cp "$dir/gluster/seed" "$dir/plain0/file$file"; done

heading="GlusterFS $(glusterfs --version | awk 'NR == 1 { print $2 }'), $(nproc) cores, $(date -u +%F), O_DIRECT"
for part in $parts; do
    case $part in
    shaped) shaped_part ;;
    unshaped) unshaped_part ;;
    daemons) daemons_part ;;
    lock) lock_part ;;
    esac
done
echo "$heading; $rate MB/s per connection where it is limited; sync: 1 MiB requests, async: 256 KiB, 32 under way; $seconds s per cell."
[ ! -s "$dir/ways" ] || sed 's/^/Without a limit: /; s/$/./' "$dir/ways"
awk -f "$here/figures.awk" "$dir/cells"
