#!/bin/sh
# Files change on three hosts while daemons freeze and die, targets are emptied and Redis comes and goes: tests/soak-cluster.sh [MINUTES [SEED]]
# Ends with status 1 when something acknowledged is lost. Needs what crates/cli/tests/cluster needs; without it a line says "skipped".
set -eu
cd "$(dirname "$0")/.."
ENTREPOT_MINUTES=${1:-60} ENTREPOT_SEED=${2:-$(date +%s)} \
    cargo test --locked -p entrepot-cli --test cluster -- --nocapture what_was_acknowledged_stays
