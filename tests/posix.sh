#!/bin/sh
# Runs pjdfstest and fsx in a directory, usually of a mount: tests/posix.sh DIRECTORY [attribute timeout in seconds]
# Both come from `cargo install pjdfstest fsx`. As an ordinary user pjdfstest leaves out what needs others.
# One line per run: PASS, FAIL or SKIP; status 1 if one failed.
set -eu
dir=${1:?usage: tests/posix.sh DIRECTORY [ATTRIBUTE_TIMEOUT_S]}
timeout_s=${2:-1}
PATH=$(cd "$(dirname "$0")/.." && pwd)/target/tools/bin:$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
for tool in pjdfstest fsx; do
    command -v "$tool" >/dev/null || { echo "SKIP pjdfstest and fsx: $tool is not installed (cargo install $tool)"; exit 0; }
done
work=$(mktemp -d "$dir/posix.XXXXXX")
config=$(mktemp -d)
trap 'rm -rf "$work" "$config"' EXIT INT TERM

# The kernel may believe attributes for that long, so times are compared after longer naps.
cat >"$config/pjdfstest.toml" <<TOML
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = $(awk "BEGIN { print $timeout_s + 0.1 }")
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"], ["bin", "bin"]]
TOML
chmod 777 "$work"
# [S-001]
(cd "$config" && pjdfstest -c "$config/pjdfstest.toml" -p "$work") >"$config/pjdfstest.log" 2>&1 || {
    grep -A1 FAILED "$config/pjdfstest.log" || cat "$config/pjdfstest.log"
    echo "FAIL pjdfstest"
    exit 1
}
echo "PASS pjdfstest: $(tail -n 1 "$config/pjdfstest.log")"

# [S-010] One run that stays small, two that cross every change of a file's shape.
for run in "262144 4096 11" "1000000 262144 12" "8000000 1000000 13"; do
    set -- $run
    cat >"$config/fsx.toml" <<TOML
flen = $1
[opsize]
max = $2
min = 1
[weights]
close_open = 1
truncate = 1
fsync = 1
fdatasync = 1
punch_hole = 1
posix_fallocate = 1
copy_file_range = 1
invalidate = 1
TOML
    (cd "$config" && fsx -f "$config/fsx.toml" -N 3000 -S "$3" -P "$config" "$work/fsx$3") >"$config/fsx.log" 2>&1 || {
        tail -n 40 "$config/fsx.log"
        echo "FAIL fsx: seed $3, at most $1 bytes"
        exit 1
    }
    echo "PASS fsx: seed $3, at most $1 bytes"
done
