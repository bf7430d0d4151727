#!/usr/bin/env bash
# The burst buffer on a scaled live rig (reference 8.5: sizes / 1000, time / 20, so bandwidth / 50): two loop devices with limits of
# the control group blkio, writers through the mount, BBOS against MaxEff and MaxBW and our prediction; beside it what `entrepot-lab sim burst` says
# with the same parameters. Prints a table in Markdown, and fails if a latency is off by more than 10 %. Without a verdict on a busy machine.
# usage: benches/burst/run.sh path/to/entrepot (entrepot-lab beside it) [--full]     (root; some 4 minutes, half an hour with --full)
#   ENTREPOT_BENCH_SCHEMES="maxeff maxbw bbos predicted"  ENTREPOT_BENCH_DWPP=1.9  ENTREPOT_BENCH_CONGESTION=0.5
#   ENTREPOT_BENCH_SHRINK: buffer, period and number of checkpoints divided by this (5; 1 with --full)
set -euo pipefail

entrepot=$(readlink -f "${1:?path to entrepot}")
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../machine.sh"
shrink=${ENTREPOT_BENCH_SHRINK:-5}
[ "${2:-}" = --full ] && shrink=1
schemes=${ENTREPOT_BENCH_SCHEMES:-maxeff maxbw bbos}
dwpp=${ENTREPOT_BENCH_DWPP:-1.9}
congestion=${ENTREPOT_BENCH_CONGESTION:-0.5}
blkio=/sys/fs/cgroup/blkio
[ "$(id -u)" = 0 ] || { echo "skipped: loop devices and control groups need root" >&2; exit 0; }
for tool in losetup mkfs.ext4 python3; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is missing (scripts/setup.sh bench installs it)" >&2; exit 0; }
done
[ -e /dev/fuse ] || { echo "skipped: no /dev/fuse" >&2; exit 0; }
[ -e /dev/loop-control ] || { echo "skipped: no loop devices" >&2; exit 0; }
[ -d $blkio ] || echo "without blkio (control groups v1): the speeds are those of token buckets alone" >&2

mb=1000000
checkpoint=$((80 * mb))
buffer=$((3200 * mb / shrink))
period=$(awk "BEGIN { print 190 / $shrink }")
apps=$(awk "BEGIN { print int($dwpp * $buffer / $checkpoint + 1e-9) }")
periods=1
# MB/s: writing at most and least, demotion at most and least, demotion in pauses.
write_max=71.2 write_min=60 demote_max=32 demote_min=1.6 demote_idle=42.3

dir=$(mktemp -d "${TMPDIR:-/tmp}/entrepot-burst.XXXXXX")
mnt=$dir/mnt group=$blkio/entrepot-burst-$$
loops=()
clean() {
    "$entrepot" down --force >/dev/null 2>&1 || true
    fusermount3 -uzq "$mnt" 2>/dev/null || true
    for tier in fast capacity; do umount -l "$dir/$tier" 2>/dev/null || true; done
    for loop in "${loops[@]}"; do losetup -d "$loop" || true; done
    if [ -d "$group" ]; then
        for pid in $(cat "$group/cgroup.procs"); do echo "$pid" >$blkio/cgroup.procs 2>/dev/null || true; done
        rmdir "$group" || true
    fi
    rm -rf "$dir"
}
trap clean EXIT
mkdir -p "$mnt"
bytes() { awk "BEGIN { printf \"%d\", $1 * 1000000 }"; }

# The devices: the buffer with some room for the file system, the capacity tier for three periods.
device() { # name, bytes
    truncate -s "$2" "$dir/$1.img"
    local loop
    loop=$(losetup --find --show --direct-io=on "$dir/$1.img" 2>/dev/null || losetup --find --show "$dir/$1.img")
    loops+=("$loop")
    mkfs.ext4 -q -m 0 -O ^has_journal -E lazy_itable_init=0 "$loop"
    mkdir "$dir/$1"
    mount "$loop" "$dir/$1"
    lsblk -no MAJ:MIN "$loop" | tr -d ' ' >"$dir/$1.device"
}
device fast $((buffer + buffer / 4 + 200 * mb))
device capacity $((apps * checkpoint * 3 + 500 * mb))

limits() { # of the rig's devices: a tenth above what the policy asks for, so that the policy decides
    [ -d $blkio ] || return 0
    mkdir -p "$group"
    local fast capacity slack=1.1
    fast=$(cat "$dir/fast.device") capacity=$(cat "$dir/capacity.device")
    echo "$fast $(awk "BEGIN { printf \"%d\", $write_max * $slack * 1e6 }")" >"$group/blkio.throttle.write_bps_device"
    echo "$capacity $(awk "BEGIN { printf \"%d\", $demote_idle * $slack * 1e6 }")" >"$group/blkio.throttle.write_bps_device"
    echo "$fast $(awk "BEGIN { printf \"%d\", $demote_idle * $slack * 1e6 }")" >"$group/blkio.throttle.read_bps_device"
}

live() { # scheme
    local vol=$dir/$1
    rm -rf "$dir"/fast/* "$dir"/capacity/*
    mkdir -p "$vol" "$dir/fast/t" "$dir/capacity/t"
    cat >"$vol/volume.toml" <<END
name = "burst"
namespace = "$vol/namespace"
state = "$vol/state"
[tier.fast]
[tier.capacity]
[[target]]
name = "fast0"
path = "$dir/fast/t"
tier = "fast"
[[target]]
name = "capacity0"
path = "$dir/capacity/t"
tier = "capacity"
[burst]
fast = "fast"
capacity = "capacity"
size = $buffer
checkpoints = ["ckpt/{app}/{version}/**"]
policy = "$1"
order = "$([ "$1" = predicted ] && echo throughout || { [ "$1" = bbos ] && echo versions || echo fifo; })"
period = "$(awk "BEGIN { printf \"%d\", $period * 1000 }")ms"
period_bytes = $((apps * checkpoint))
write_max = $(bytes $write_max)
write_min = $(bytes $write_min)
demote_max = $(bytes $demote_max)
demote_min = $(bytes $demote_min)
demote_idle = $(bytes $demote_idle)
wait = "0s"
limits = "buckets"
END
    mkdir -p "$vol/namespace" "$vol/state"
    export ENTREPOT_VOLUME=$vol/volume.toml
    "$entrepot" up "$vol/volume.toml" --at "$mnt" --detach >/dev/null
    if [ -d "$group" ]; then
        local pid
        pid=$("$entrepot" status --output json | python3 -c 'import json,sys; print(json.load(sys.stdin)["pid"])')
        echo "$pid" >"$group/cgroup.procs"
    fi
    machine_begin
    python3 "$here/writers.py" "$mnt" "$apps" "$period" "$congestion" "$checkpoint" $periods
    machine_share >"$dir/share"
    "$entrepot" checkpoint status >&2
    "$entrepot" down --force >/dev/null
}

gb() { awk "BEGIN { print $1 / 1000 }"; }
limits
"$entrepot-lab" sim burst --dwpp "$dwpp" --congestion "$congestion" --schemes "${schemes// /,}" --capacity "${buffer}B" --period "${period}s" \
    --checkpoint "${checkpoint}B" --write "$(gb $write_max)-$(gb $write_min)" --demote "$(gb $demote_max)-$(gb $demote_min)" \
    --demote-idle "$(gb $demote_idle)" --step 10ms --periods $periods --output json >"$dir/sim.json"
echo "$apps applications write $((checkpoint / mb)) MB each within $congestion of a period of $period s; buffer $((buffer / mb)) MB; seed 1"
echo
echo "| scheme | live: mean, longest (s) | simulator: mean, longest (s) | difference of the means | machine's share |"
echo "|---|---|---|---|---|"
: >"$dir/worst"
for scheme in $schemes; do
    live "$scheme" >"$dir/live.json"
    share=$(cat "$dir/share")
    machine_allows "$scheme" "$share" || { echo "| $scheme | | | | $share % |" && continue; }
    python3 - "$scheme" "$dir/live.json" "$dir/sim.json" "$dir/worst" "$share" <<'END'
import json, sys
scheme, live, sim, worst, share = sys.argv[1:]
live = json.load(open(live))
sim = next(c for c in json.load(open(sim))["cases"] if c["scheme"] == scheme)["figures"]
off = live["latency_s"] / sim["latency_s"] - 1
print(f"| {scheme} | {live['latency_s']:.2f}, {live['latency_max_s']:.2f} | {sim['latency_s']:.2f}, {sim['latency_max_s']:.2f} | {off * 100:+.1f} % | {share} % |", flush=True)
for error in live["errors"]:
    print(error, file=sys.stderr)
open(worst, "a").write(f"{abs(off) if not live['errors'] else 9}\n")
END
done
worst=$(sort -g "$dir/worst" | tail -1)
awk "BEGIN { exit !(${worst:-0} <= 0.1) }" || { echo "off by more than 10 %, or a write failed" >&2; exit 1; }
