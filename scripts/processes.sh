#!/usr/bin/env bash
# The long form of the random process test: scripts/processes.sh [OPERATIONS [SEED]]. So many operations (10^6) in each `io` mode
# and before a block cache, a third of them on striped, single and mirrored files each, with moves going on; then on the
# plain file system of TMPDIR.
set -euo pipefail
cd "$(dirname "$0")/.."
operations=${1:-1000000}
export ENTREPOT_SEED=${2:-1}
test() {
    ENTREPOT_STEPS=$1 cargo test --release --locked -p entrepot-node --test mount_processes -- --exact --nocapture "${@:2}"
}
test $(((operations + 2) / 3)) processes_agree_on_{striped_files,files_of_one_object,mirrored_files}
test "$operations" processes_agree_before_a_block_cache processes_agree_on_the_file_system_underneath
