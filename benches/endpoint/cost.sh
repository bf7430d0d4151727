#!/usr/bin/env bash
# What being watched costs a daemon: its processor time while a volume of many targets is idle, and while its metrics are asked for once a
# second. Prints a row in Markdown; ends with status 1 above half a percent of a core.
# usage: benches/endpoint/cost.sh path/to/entrepot     (ENTREPOT_BENCH_DIR, ENTREPOT_BENCH_TARGETS, ENTREPOT_BENCH_SECONDS)
set -euo pipefail
entrepot=$(readlink -f "${1:?path to entrepot}")
targets=${ENTREPOT_BENCH_TARGETS:-512} seconds=${ENTREPOT_BENCH_SECONDS:-60}
[ -e /dev/fuse ] || { echo "skipped: no /dev/fuse" >&2; exit 0; }
command -v curl >/dev/null || { echo "skipped: curl is missing (scripts/setup.sh bench installs it)" >&2; exit 0; }
dir=$(mktemp -d "${ENTREPOT_BENCH_DIR:-${TMPDIR:-/tmp}}/entrepot-cost.XXXXXX")
clean() {
    ENTREPOT_VOLUME=$dir/volume.toml "$entrepot" down --force >/dev/null 2>&1 || true
    fusermount3 -uzq "$dir/mnt" 2>/dev/null || true
    rm -rf "$dir"
}
trap clean EXIT
port=${ENTREPOT_BENCH_PORT:-9479}
mkdir -p "$dir/mnt" "$dir/names" "$dir/state"
{
    printf 'name = "watched"\nnamespace = "%s/names"\nstate = "%s/state"\n' "$dir" "$dir"
    printf '[endpoint]\nlisten = "127.0.0.1:%s"\n[tier.disk]\nspeed = "200/100"\n' "$port"
    for n in $(seq "$targets"); do
        mkdir -p "$dir/targets/$n"
        printf '[[target]]\nname = "target%s"\npath = "%s/targets/%s"\n' "$n" "$dir" "$n"
    done
} >"$dir/volume.toml"
export ENTREPOT_VOLUME=$dir/volume.toml
"$entrepot" up "$dir/volume.toml" --at "$dir/mnt" --detach >/dev/null
pid=$("$entrepot" status --output json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -1)
# Some of what is counted is not 0.
dd if=/dev/zero of="$dir/mnt/file" bs=1M count=64 status=none

ticks() { awk '{ print $14 + $15 }' "/proc/$pid/stat"; }
idle() { sleep 1; }
asked() {
    curl -fsS -o "$dir/metrics" "http://127.0.0.1:$port/metrics"
    sleep 1
}
sleep 30 # what a start does is not counted
# In turn, ten seconds each: what else the machine does hits both.
declare -A spent=([idle]=0 [asked]=0)
for _ in $(seq $((seconds / 10))); do
    for way in idle asked; do
        before=$(ticks)
        for _ in $(seq 10); do $way; done
        spent[$way]=$((spent[$way] + $(ticks) - before))
    done
done
awk -v idle="${spent[idle]}" -v asked="${spent[asked]}" -v s="$((seconds / 10 * 10))" -v hz="$(getconf CLK_TCK)" -v targets="$targets" \
    -v bytes="$(stat -c %s "$dir/metrics")" -v lines="$(wc -l <"$dir/metrics")" 'BEGIN {
    cost = 100 * (asked - idle) / hz / s
    printf "| %d targets | %d lines, %.1f MB | idle %.2f %% of a core | asked once a second %.2f %% | the difference %.2f %% |\n",
        targets, lines, bytes / 1e6, 100 * idle / hz / s, 100 * asked / hz / s, cost
    exit cost > 0.5
}'
