#!/usr/bin/env bash
# Cancels, requeues, times out and downs the nodes of forty jobs of a real Slurm, in each phase of a job.
#
# No partial result may go home, and every job must come to its end. The suite runs one round of the same; this runs
# ROUNDS of eight jobs each (5). Needs root, Slurm and munge, as `crates/cli/tests/slurm` does.
set -euo pipefail
cd "$(dirname "$0")/.."
ENTREPOT_SLURM_ROUNDS="${ROUNDS:-5}" cargo test --workspace --locked --test slurm -- --nocapture
