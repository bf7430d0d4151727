#!/usr/bin/env bash
# Hot data on the fast devices, live (experiments T01 and T04): the same skewed reads through the mount against the plain hybrid and with
# tiering, and what `entrepot-lab sim tier` says of the same requests on the same devices. A minute and a half; QUICK=1: one. What moves cost
# others is measured by latency.sh beside it.
# usage: benches/tier/run.sh path/to/entrepot (entrepot-lab beside it)        (see rig.sh for what it needs)
set -euo pipefail

. "$(dirname "$0")/rig.sh"
seconds=${ENTREPOT_BENCH_SECONDS:-10}
[ -z "${QUICK:-}" ] || seconds=5

# The plain hybrid: 64 KiB stripes over all devices in turn.
volume plain off 4
fill
limits on
sweep &
sweeper=$!
before_mb=$(device_mb)
machine_begin
read -r plain_mbs plain_ms <<<"$(load plain "${hot[@]}" --time_based --runtime="$seconds")"
plain_share=$(machine_share)
plain_device=$(awk -v a="$before_mb" -v b="$(device_mb)" -v s="$seconds" 'BEGIN { print (b - a) / s }')
limits off
down

# Tiering: what is hot moves up while nobody reads, then the same again.
volume tiered tuned 2
fill
limits on
moved_from=$(date +%s%N)
for round in 1 2 3 4; do
    load train$round "${hot[@]}" --randseed=$round --number_ios=$((mib * 2)) >/dev/null
    quiet
done
moved_s=$(awk -v ns=$(($(date +%s%N) - moved_from)) 'BEGIN { printf "%.1f", ns / 1e9 }')
promoted=$(status promoted)
before_mb=$(device_mb)
machine_begin
read -r tiered_mbs tiered_ms <<<"$(load tiered "${hot[@]}" --time_based --runtime="$seconds")"
tiered_share=$(machine_share)
tiered_device=$(awk -v a="$before_mb" -v b="$(device_mb)" -v s="$seconds" 'BEGIN { print (b - a) / s }')
quiet

kill $sweeper
sweeper=""
ep status | grep -A2 '^tiering' || true
limits off
down

# The same devices and accesses in the simulator, which has no page cache here: what it would hold between two sweeps is not known well enough.
# What the first half of the requests takes is not counted: data move then.
simulated() { # MB/s under a scheme, with so much room on the fast tier
    "$entrepot-lab" sim tier --generate "hotspot:spot=0.1,scatter=0,shift=1000000000,footprint=$mib,requests=$((mib * 16 * 40))" --fast 2 --slow 2 \
        --fast-speed 200/40 --slow-speed 20/10 --depth $depth --stripe 64KiB --schemes "$1" --window 5% --fast-size "$2MiB" \
        --busy-share 20 --warm-up 50 --output csv 2>/dev/null | awk -F, -v scheme="$1" '$2 == scheme { print $3 * 65536 / 1e6 / $4 }'
}
sim_plain=$(simulated round-robin "$mib")
sim_tiered=$(simulated tuned $((mib / 4)))

echo "machine's share: plain hybrid $plain_share %, tiered $tiered_share %"
machine_allows "plain hybrid" "$plain_share" || exit 0
machine_allows tiered "$tiered_share" || exit 0
awk -v pm="$plain_mbs" -v pl="$plain_ms" -v tm="$tiered_mbs" -v tl="$tiered_ms" -v sp="$sim_plain" -v st="$sim_tiered" \
    -v pd="$plain_device" -v td="$tiered_device" -v promoted="$promoted" -v ms="$moved_s" -v mib="$mib" '
function off(ratio) { return ratio < 0.9 || ratio > 1.1 }
BEGIN {
    printf "| %d MiB, a tenth of it hot, 90 %% of the reads there | live MB/s | mean ms | simulator MB/s | live/simulator |\n|---|---|---|---|---|\n", mib
    printf "| plain hybrid, round robin | %.1f | %.2f | %.1f | %.2f |\n", pm, pl, sp, pm / sp
    printf "| tiering | %.1f | %.2f | %.1f | %.2f |\n", tm, tl, st, tm / st
    printf "| speed-up | %.2f | | %.2f | %.2f |\n", tm / pm, st / sp, (tm / pm) / (st / sp)
    printf "\ntiering: tuned, once moved (%d segments in %s s)\n", promoted, ms
    printf "read from the devices: %.1f MB/s of the plain hybrid (%.0f %% of what was read), %.1f MB/s tiered (%.0f %%)\n", pd, pd / pm * 100, td, td / tm * 100
    bad = 0
    if (tm / pm < 3) { print "aim missed: the speed-up is below 3"; bad = 1 }
    if (off(pm / sp) || off(tm / st)) { print "aim missed: a rate is off by more than 10 %"; bad = 1 }
    exit bad
}'
