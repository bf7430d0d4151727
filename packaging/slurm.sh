#!/usr/bin/env bash
# slurm.sh DESTDIR: what the packages entrepot-slurm have: the scripts where Slurm looks for them, for the volume that
# /etc/entrepot/slurm.toml is. They do nothing until slurm.conf names their plug-ins.
set -euo pipefail
umask 022
cd "$(dirname "$0")/../crates/jobs/src/slurm"
to=$1 conf=$1/etc/slurm examples=$1/usr/share/doc/entrepot-slurm/examples
mkdir -p "$conf" "$examples"
# As `entrepot slurm install --keep-job-submit` writes them.
filled() { sed "s|@ENTREPOT@|/usr/bin/entrepot|; s|@VOLUME@|/etc/entrepot/slurm.toml|; s|@FILE@|/etc/slurm/$1|" "${@:2}"; }
filled '' burst_buffer.lua >"$conf/burst_buffer.lua"
cp --no-preserve=mode burst_buffer.conf "$conf/"
filled entrepot_submit.lua job_submit.lua >"$conf/entrepot_submit.lua"
# For who has no job_submit.lua yet. It calls what the package has, so an upgrade reaches it.
{
    echo "-- For who has no other job_submit.lua: Slurm asks entrepot-slurm about submissions."
    echo 'dofile("/etc/slurm/entrepot_submit.lua")'
    cat job_submit_own.lua
} >"$examples/job_submit.lua"
