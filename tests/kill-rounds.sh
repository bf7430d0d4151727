#!/usr/bin/env bash
# Kills the daemon under load, again and again: after each start no object may stay that no file names.
# usage: tests/kill-rounds.sh [ROUNDS] [BINARY]
set -euo pipefail
rounds=${1:-20}
entrepot=${2:-target/release/entrepot}
dir=$(mktemp -d /tmp/entrepot-kill-XXXXXX)
mount="$dir/mnt"
export ENTREPOT_VOLUME="$dir/vol/volume.toml"
load=
end() {
    [ -z "$load" ] || kill -9 "$load" 2>/dev/null || true
    "$entrepot" down --force >/dev/null 2>&1 || umount -l "$mount" 2>/dev/null || true
    rm -rf "$dir"
}
trap end EXIT

mkdir "$mount"
"$entrepot" init "$dir/vol" >/dev/null
head -c 900000 /dev/urandom >"$dir/bytes"

# Writes, replaces and removes files until its calls fail.
work() {
    local n=0
    while cp "$dir/bytes" "$mount/new" 2>/dev/null; do
        mv "$mount/new" "$mount/f$((n % 40))" 2>/dev/null || return 0
        if [ "$n" -gt 20 ]; then rm -f "$mount/f$(((n + 20) % 40))" 2>/dev/null || return 0; fi
        n=$((n + 1))
    done
}

for round in $(seq "$rounds"); do
    "$entrepot" up "$ENTREPOT_VOLUME" --at "$mount" --detach >/dev/null
    # The scan after the kill of the round before has ended once the status has no line of it that is due.
    until ! "$entrepot" status --output json | grep -q '"due"'; do sleep 1; done
    # The first round and a scan that removed something are both in order.
    "$entrepot" check --deep >"$dir/found" || { echo "round $round:"; cat "$dir/found"; exit 1; }
    work &
    load=$!
    sleep "1.$((RANDOM % 100))"
    pid=$("$entrepot" status --output json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -1)
    kill -9 "$pid"
    wait "$load" || true
    load=
    umount -l "$mount" 2>/dev/null || true
done
echo "$rounds rounds: no orphan"
