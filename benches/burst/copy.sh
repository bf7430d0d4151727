#!/usr/bin/env bash
# What copying a checkpoint to the other tier costs in processor time: two volumes that differ in `[mover] copy` alone take turns to give the
# same file a second copy and to take it away. User and system time of the daemon, per GB (10^9 bytes). Prints a table in Markdown.
# usage: benches/burst/copy.sh path/to/entrepot     (ENTREPOT_BENCH_DIR, ENTREPOT_BENCH_ROUNDS, ENTREPOT_BENCH_MIB)
set -euo pipefail
entrepot=$(readlink -f "${1:?path to entrepot}")
[ -e /dev/fuse ] || { echo "skipped: no /dev/fuse" >&2; exit 0; }
command -v python3 >/dev/null || { echo "skipped: python3 is missing (scripts/setup.sh bench installs it)" >&2; exit 0; }
rounds=${ENTREPOT_BENCH_ROUNDS:-7} mib=${ENTREPOT_BENCH_MIB:-256}
dir=$(mktemp -d "${ENTREPOT_BENCH_DIR:-${TMPDIR:-/tmp}}/entrepot-copy.XXXXXX")
clean() {
    for way in kernel process; do
        ENTREPOT_VOLUME=$dir/$way/volume.toml "$entrepot" down --force >/dev/null 2>&1 || true
        fusermount3 -uzq "$dir/mnt-$way" 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap clean EXIT
for way in kernel process; do
    mkdir "$dir/mnt-$way"
    "$entrepot" init "$dir/$way" >/dev/null
    sed -i "s/^\[mover\]\$/[mover]\ncopy = \"$way\"/" "$dir/$way/volume.toml"
    "$entrepot" up "$dir/$way/volume.toml" --at "$dir/mnt-$way" --detach >/dev/null
    head -c $((mib << 20)) /dev/urandom >"$dir/mnt-$way/file"
    sync -f "$dir/mnt-$way/file"
done
python3 - "$entrepot" "$dir" "$rounds" "$mib" <<'END'
import json, os, statistics, subprocess, sys
entrepot, dir, rounds, mib = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
tick = os.sysconf("SC_CLK_TCK")
ways = ("process", "kernel")


def ask(way, *words):
    environment = dict(os.environ, ENTREPOT_VOLUME=f"{dir}/{way}/volume.toml")
    done = subprocess.run([entrepot, *words], env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def daemon(way):
    status = json.loads(ask(way, "status", "--output", "json"))
    return status["pid"]


def spent(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return int(fields[11]) / tick, int(fields[12]) / tick


pids = {way: daemon(way) for way in ways}
costs = {way: [] for way in ways}
for n in range(rounds + 1):
    for way in ways:
        before = spent(pids[way])
        ask(way, "layout", "add-mirror", f"{dir}/mnt-{way}/file", "--tier", "capacity")
        after = spent(pids[way])
        ask(way, "layout", "drop-mirror", f"{dir}/mnt-{way}/file", "1")
        if n > 0:  # the first round warms up
            gb = mib * (1 << 20) / 1e9
            costs[way].append([(a - b) / gb for a, b in zip(after, before)])
print("| copy | user s/GB | system s/GB | both | of process |\n|---|---|---|---|---|")
whole = {way: statistics.median(sum(c) for c in costs[way]) for way in ways}
for way in ways:
    user, system = (statistics.median(c[i] for c in costs[way]) for i in (0, 1))
    print(f"| {way} | {user:.3f} | {system:.3f} | {whole[way]:.3f} | {whole[way] / whole['process']:.2f} |")
END
