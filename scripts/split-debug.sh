#!/usr/bin/env bash
# Moves a program's debug information into PROGRAM.debug beside it, where debuggers and backtraces look for it.
# usage: scripts/split-debug.sh PROGRAM
set -euo pipefail

program=$(readlink -f "$1")
name=$(basename "$program")
# Split before, and not built since.
objdump -h "$program" | grep -q '\.debug_info' || exit 0
cd "$(dirname "$program")"
trap 'rm -f "$name.stripped"' EXIT
objcopy --only-keep-debug "$name" "$name.debug"
chmod -x "$name.debug"
objcopy --strip-all --add-gnu-debuglink="$name.debug" "$name" "$name.stripped"
# A new file in its place: cargo keeps the whole one under another name, and puts it here again when it is built.
mv "$name.stripped" "$name"
