#!/usr/bin/env bash
# The whole suite: the workspace's tests, then the POSIX suites on a real mount. Ends with the count of tests.
# Tests that need what is not here (root, /dev/fuse, a package) say "skipped: ..." and count as passed by the runner.
# All that the tests said is in target/test.log; here is what failed of it (scripts/told.awk).
#
# The tests on several hosts wait far more than they compute (leases, deadlines), so they run beside all others.
set -uo pipefail
shopt -s nullglob
cd "$(dirname "$0")/.."
export PATH=$PWD/target/tools/bin:$PATH
mkdir -p target
log=target/test.log
beside=target/test-cluster.log

# Always the whole workspace: with one package alone cargo would build the dependencies again, with other features.
run() { cargo test --workspace --locked --no-fail-fast "$@"; }
told() { awk -f scripts/told.awk; }

# Every test program but the one that runs beside.
others=(--lib --bins --examples)
for program in {crates,lab}/*/tests/*.rs {crates,lab}/*/tests/*/main.rs; do
    name=${program#*/*/tests/} && name=${name%.rs} && name=${name%/main}
    [ "$name" = cluster ] || others+=(--test "$name")
done

SECONDS=0
status=0
if ! run --no-run >"$log" 2>&1; then
    cat "$log"
    status=1
else
    echo "built in $SECONDS s"
    set -m # a process group of its own, so that an interrupted run ends it too
    run --test cluster -- --show-output >"$beside" 2>&1 &
    cluster=$!
    set +m
    trap 'kill -- -$cluster 2>/dev/null; exit 130' INT TERM
    run "${others[@]}" -- --show-output 2>&1 | tee -a "$log" | told
    status=${PIPESTATUS[0]}
    run --doc -- --show-output 2>&1 | tee -a "$log" | told
    status=$((status | PIPESTATUS[0]))
    wait $cluster || status=1
    told <"$beside"
    cat "$beside" >>"$log"
    rm "$beside"
fi

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
    done < <(ENTREPOT=${CARGO_TARGET_DIR:-$PWD/target}/debug/entrepot tests/suites.sh 2>&1)
fi

echo "in $SECONDS s"
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
