#!/bin/sh
# usage: tests/soak-cluster.sh [MINUTES [SEED]]
# An ordinary user changes files on three hosts while daemons freeze and die, hosts are cut off, bricks are killed, targets
# are drained and Redis stops. Status 1: something acknowledged was lost. Without what crates/cli/tests/cluster needs, a line
# says "skipped".
set -eu
cd "$(dirname "$0")/.."
ENTREPOT_MINUTES=${1:-60} ENTREPOT_SEED=${2:-$(date +%s)} \
    cargo test --workspace --locked --test cluster -- --nocapture what_was_acknowledged_stays
