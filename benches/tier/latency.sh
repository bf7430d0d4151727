#!/usr/bin/env bash
# How much moves between the tiers delay others, live: somebody reads evenly all over the file, 16 reads at a time with pauses of 0.5 s, in
# panes of some seconds by turns with moves held back (`entrepot tiering pause`) and allowed. Before each pair of panes others have made another
# tenth of the file hot, so that there is something to move; both panes of a pair ask for the same bytes. Three minutes.
# usage: benches/tier/latency.sh path/to/entrepot      (see rig.sh for what it needs)
set -euo pipefail

. "$(dirname "$0")/rig.sh"
pairs=${ENTREPOT_BENCH_PAIRS:-12}
pane=${ENTREPOT_BENCH_PANE_SECONDS:-3}
mkdir "$dir/panes"

# Bytes that moves and slow copies have copied, and how many of both there were.
work() {
    ep stats --count 1 --output json | python3 -c '
import re, sys
text = sys.stdin.read()
names = ("moved_bytes", "copied_bytes", "promoted", "demoted", "copied")
print(*(re.search(rf"tiering_{name}\W+(\d+)", text).group(1) for name in names))'
}

# One pane; $1 is `held` or `moving`, $2 the pair. Every read's latency goes to a file, what was moved meanwhile to another.
pane() {
    local before
    if [ "$1" = held ]; then ep tiering pause >/dev/null; else ep tiering resume >/dev/null; fi
    before=$(work)
    load "$1" --rw=randread --numjobs=1 --thinktime=500ms --thinktime_blocks=16 --time_based --runtime="$pane" --randseed="$2" \
        --write_lat_log="$dir/panes/$1.$2" --log_unix_epoch=0 >/dev/null
    echo "$before $(work)" >"$dir/panes/$1.$2.work"
}

volume tiered tuned 2
fill
limits on
sweep &
sweeper=$!
for pair in $(seq "$pairs"); do
    ep tiering pause >/dev/null
    # Where it is hot: another tenth of the file each time, five in turn.
    before=$((pair * 2 % 5 * 20 + 5))
    load turn --rw=randread --numjobs=$depth --random_distribution=zoned:4/$before:91/10:5/$((90 - before)) --randseed="$pair" \
        --number_ios=$((mib * 4)) >/dev/null
    sleep 0.5
    if [ $((pair % 2)) = 0 ]; then
        pane held "$pair"
        pane moving "$pair"
        quiet
    else
        pane moving "$pair"
        quiet
        pane held "$pair"
    fi
done
kill $sweeper
sweeper=""
ep tiering resume >/dev/null
ep status | grep -A2 '^tiering' || true
limits off
down
python3 "$(dirname "$0")/pairs.py" "$dir/panes"
