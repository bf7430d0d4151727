#!/usr/bin/env bash
# The whole suite: the workspace's tests, then the POSIX suites on a real mount. Ends with the count of tests.
# Tests that need what is not here (root, /dev/fuse, a package) say "skipped: ..." and count as passed by the runner.
# All that the tests said is in target/test.log; here is what failed of it (scripts/told.awk).
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/target/tools/bin:$PATH
mkdir -p target
log=target/test.log

cargo test --workspace --locked --no-fail-fast -- --show-output 2>&1 | tee "$log" | awk -f scripts/told.awk
status=${PIPESTATUS[0]}

sum() { grep -E '^test result:' "$log" | sed -E "s/.* ([0-9]+) $1.*/\1/" | awk '{s += $1} END {print s + 0}'; }
skipped=$(grep -cE '^skipped: ' "$log")
passed=$(($(sum passed) - skipped))
failed=$(sum failed)
[ "$status" = 0 ] || [ "$failed" -gt 0 ] || failed=1 # it did not build, or a test binary died

if [ "$status" = 0 ]; then
    while IFS= read -r line; do
        echo "$line"
        case $line in
        "PASS "*) passed=$((passed + 1)) ;;
        "FAIL "*) failed=$((failed + 1)) ;;
        "SKIP "*) skipped=$((skipped + 1)) ;;
        esac
    done < <(tests/suites.sh 2>&1)
fi

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
