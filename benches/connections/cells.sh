# What benches/connections/run.sh measures; to be sourced by it. A cell is one run of fio; its result is a line in $dir/cells:
# PART MODE WHAT REQUEST THREADS CONNECTIONS WAY MEGABYTES_PER_SECOND. Ways are plain (one plain mount), manual (over n plain mounts by hand) and policies.
# shellcheck shell=bash disable=SC2154

# cell PART MODE WHAT REQUEST THREADS CONNECTIONS WAY DIRECTORY...: thread k works in directory k modulo their number.
cell() {
    local part=$1 mode=$2 what=$3 request=$4 count=$5 n=$6 way=$7 k job=$dir/job.fio speed long=$seconds
    shift 7
    local dirs=("$@")
    [ "$part" != unshaped ] || long=${ENTREPOT_BENCH_UNSHAPED_SECONDS:-1}
    {
        printf '[global]\nrw=%s\nsize=24m\nbs=%s\ndirect=1\nthread=1\ntime_based=1\nruntime=%s\nramp_time=1\n' "$what" "$request" "$long"
        printf 'group_reporting=1\noverwrite=1\nfallocate=none\n'
        if [ "$mode" = sync ]; then echo ioengine=psync; else printf 'ioengine=libaio\niodepth=%d\n' $((count < 16 ? 32 / count : 2)); fi
        for k in $(seq 0 $((count - 1))); do printf '[t%d]\nfilename=%s/file%d\n' "$k" "${dirs[$((k % ${#dirs[@]}))]}" "$k"; done
    } >"$job"
    speed=$(fio --output-format=json "$job" 2>"$dir/fio.err" | awk '/"bw_bytes"/ { gsub(/[^0-9]/, "", $3); if ($3 + 0 > best) best = $3 + 0 } END { printf "%.1f", best / 1e6 }')
    echo "$part $mode $what $request $count $n $way $speed" | tee -a "$dir/cells" >&2
}
# Asynchronous requests are smaller, so that what is under way at the end of a cell is little of what it moved.
request_of() { if [ "$1" = sync ]; then echo 1m; else echo 256k; fi; }

# connect MOUNTPOINT SERVERS CONNECTIONS POLICY
connect() { mkdir -p "$1" && "$entrepot" connect -n "$3" -t glusterfs --policy "$4" --detach "$2" "$1" >/dev/null; }
disconnect() {
    umount "$1" || umount -l "$1"
    # Its mounts go a moment later, and their connections with them.
    local tries=0
    while pgrep -f "entrepot connect .*$1" >/dev/null && [ $tries -lt 100 ]; do sleep 0.1 && tries=$((tries + 1)); done
}

# Figures 4.7, 4.8, 4.10, 4.11, 4.13: each connection limited.
shaped_part() {
    local mode what t n policy dirs
    shape "$rate"
    for mode in $modes; do for what in write read; do for t in $threads; do
        cell shaped "$mode" $what "$(request_of "$mode")" "$t" 1 plain "$dir/plain0"
        for n in $connections; do
            mapfile -t dirs < <(seq -f "$dir/plain%g" 0 $((n - 1)))
            cell shaped "$mode" $what "$(request_of "$mode")" "$t" "$n" manual "${dirs[@]}"
        done
    done; done; done
    for n in $connections; do for policy in $policies; do
        connect "$dir/ours" "$server:/$volume" "$n" "$policy"
        shape "$rate"
        for mode in $modes; do for what in write read; do for t in $threads; do
            cell shaped "$mode" $what "$(request_of "$mode")" "$t" "$n" "$policy" "$dir/ours"
        done; done; done
        disconnect "$dir/ours"
    done; done
    unshape
}

# Where the processors are the limit: all ways are mounted at once, and take turns in each cell.
unshaped_part() {
    local mode what t n round request requests order
    for n in 1 $connections; do
        connect "$dir/ours$n" "$server:/$volume" "$n" load
        "$entrepot" connect --status "$dir/ours$n" | head -1 | tee -a "$dir/ways" >&2
    done
    for round in $(seq "$rounds"); do
        order="plain 1 $connections"
        [ $((round % 2)) = 1 ] || order=$(echo "$order" | tr ' ' '\n' | tac | tr '\n' ' ')
        for mode in $modes; do
            requests=256k
            [ "$mode" != sync ] || requests="4k 128k 1m"
            for request in $requests; do for what in write read; do for t in $unshaped_threads; do for n in $order; do
                if [ "$n" = plain ]; then
                    cell unshaped "$mode" $what "$request" "$t" 1 plain "$dir/plain0"
                else
                    cell unshaped "$mode" $what "$request" "$t" "$n" load "$dir/ours$n"
                fi
            done; done; done; done
        done
    done
    for n in 1 $connections; do disconnect "$dir/ours$n"; done
}

# Figure 4.12: the most connections, to one server daemon and to two that export the same directory, with the limit and without.
daemons_part() {
    local mode what policy servers way limit
    second_server_up
    for policy in $policies; do for servers in "$server:/$volume" "$server:/$volume,$second:/$volume"; do
        way=$policy
        [ "$servers" = "$server:/$volume" ] || way=$policy+
        connect "$dir/ours" "$servers" "$most" "$policy"
        for limit in daemons daemons-unshaped; do
            if [ $limit = daemons ]; then shape "$rate"; else unshape; fi
            for mode in $modes; do for what in write read; do
                cell $limit "$mode" $what "$(request_of "$mode")" 16 "$most" "$way" "$dir/ours"
            done; done
        done
        disconnect "$dir/ours"
    done; done
    second_server_down
}

# Figure 4.9: how long the server's threads wait for the inode's lock in their writes, as a share of the time of these. The kernel's
# tracepoint tells of those that sleep for it; one that spins for it for a moment counts as writing.
lock_part() {
    local policy n brick perf
    command -v perf >/dev/null || { echo "figure 4.9 is left out: perf is missing" >&2; return 0; }
    brick=$(cat "$gdir"/run/vols/"$volume"/*.pid | head -1)
    for n in $connections; do for policy in $policies; do
        connect "$dir/ours" "$server:/$volume" "$n" "$policy"
        perf record -q -o "$dir/perf.data" -p "$brick" -e lock:contention_begin,lock:contention_end,syscalls:sys_enter_pwrite64,syscalls:sys_exit_pwrite64 \
            2>"$dir/perf.err" & perf=$!
        cell lock async write 256k 16 "$n" "$policy" "$dir/ours"
        kill -INT $perf && wait $perf || true
        perf script -i "$dir/perf.data" -F tid,time,event,trace 2>/dev/null | awk -v n="$n" -v way="$policy" -f "$here/lock.awk" | tee -a "$dir/cells" >&2
        disconnect "$dir/ours"
    done; done
}
