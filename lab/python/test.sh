#!/usr/bin/env bash
# The Python package as its users have it: the wheel in a fresh virtual environment, its tests, and the notebooks.
# usage: lab/python/test.sh   Without python3, pip or the network it prints why it was skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."

skip() { echo "skipped: $1" && exit 0; }

command -v python3 >/dev/null || skip "there is no python3"
venv=$PWD/target/python-test
rm -rf "$venv"
python3 -m venv "$venv" 2>/dev/null || skip "python3 has no venv with pip"
"$venv/bin/pip" download --quiet --no-deps --dest "$venv" 'maturin>=1.9,<2' 2>/dev/null || skip "pip cannot fetch packages"

make --no-print-directory wheel
cargo build --locked -p entrepot-lab
export ENTREPOT_LAB=${CARGO_TARGET_DIR:-$PWD/target}/debug/entrepot-lab
wheel=$(echo target/wheels/entrepot_lab-*.whl)
"$venv/bin/pip" install --quiet --no-index "$wheel"
# Alone first: the package needs no other.
"$venv/bin/python" -m unittest discover --start-directory lab/python/tests
"$venv/bin/pip" install --quiet "$wheel[pandas,notebooks]" pyarrow mypy
"$venv/bin/python" -m unittest discover --start-directory lab/python/tests
# Maturin's package holds the module under its own name again, which has no stub.
"$venv/bin/python" -m mypy.stubtest entrepot_lab --ignore-disjoint-bases --allowlist <(echo entrepot_lab.entrepot_lab)
"$venv/bin/jupyter" nbconvert --to notebook --execute --output-dir target/notebooks --log-level ERROR \
    lab/python/notebooks/*.ipynb
echo "lab/python: tests passed, notebooks executed into target/notebooks"
