#!/usr/bin/env bash
# What writing a checkpoint through the mount costs over writing to the fast tier's directory itself: the same bytes, in blocks of
# 1 MiB, with fsync and close, in turn, on the same file system. Prints a row in Markdown.
# usage: benches/burst/cost.sh path/to/entrepot     (ENTREPOT_BENCH_DIR, ENTREPOT_BENCH_ROUNDS, ENTREPOT_BENCH_MIB)
set -euo pipefail
entrepot=$(readlink -f "${1:?path to entrepot}")
[ -e /dev/fuse ] || { echo "skipped: no /dev/fuse" >&2; exit 0; }
command -v python3 >/dev/null || { echo "skipped: python3 is missing (scripts/setup.sh bench installs it)" >&2; exit 0; }
dir=$(mktemp -d "${ENTREPOT_BENCH_DIR:-${TMPDIR:-/tmp}}/entrepot-cost.XXXXXX")
clean() {
    ENTREPOT_VOLUME=$dir/vol/volume.toml "$entrepot" down --force >/dev/null 2>&1 || true
    fusermount3 -uzq "$dir/mnt" 2>/dev/null || true
    rm -rf "$dir"
}
trap clean EXIT
mkdir "$dir/mnt" "$dir/raw"
"$entrepot" init "$dir/vol" >/dev/null
cat >>"$dir/vol/volume.toml" <<END
fast = "fast"
checkpoints = ["ckpt/{app}/{version}"]
full = "enospc"
END
sed -i 's/^\[mover\]$/[mover]\nrate = "64KiB"/' "$dir/vol/volume.toml" # nothing is demoted meanwhile
"$entrepot" up "$dir/vol/volume.toml" --at "$dir/mnt" --detach >/dev/null
mkdir -p "$dir/mnt/ckpt/wave"
python3 - "$dir" "${ENTREPOT_BENCH_ROUNDS:-7}" "${ENTREPOT_BENCH_MIB:-256}" <<'END'
import os, sys, time, statistics
dir, rounds, mib = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
block = os.urandom(1 << 20)


def write(path):
    began = time.monotonic()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for _ in range(mib):
        os.write(fd, block)
    os.fsync(fd)
    os.close(fd)
    took = time.monotonic() - began
    return took


times = {"raw": [], "mount": []}
for n in range(rounds + 1):
    for name, path in (("raw", f"{dir}/raw/{n}"), ("mount", f"{dir}/mnt/ckpt/wave/{n:03}")):
        took = write(path)
        if n > 0:  # the first round warms up
            times[name].append(took)
        os.remove(path)
        os.sync()
raw, mount = statistics.median(times["raw"]), statistics.median(times["mount"])
pairs = sorted(m / r for m, r in zip(times["mount"], times["raw"]))
print(f"| checkpoint of {mib} MiB with fsync | raw {raw:.3f} s | mount {mount:.3f} s | mount / raw {statistics.median(pairs):.2f} ({pairs[0]:.2f} to {pairs[-1]:.2f}, {rounds} pairs) |")
END
