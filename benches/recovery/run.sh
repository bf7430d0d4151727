#!/usr/bin/env bash
# Recovery and failover under an MPI program that reads its input and computes (experiments W06-W08 and W10-W12): added run
# time against file size, beside the time that the patch takes. Sources are shaped to 34.41 and 6.31 MB/s in a network
# namespace of the script's own. Prints tables in Markdown.
# usage: benches/recovery/run.sh path/to/entrepot        (root)
# ENTREPOT_BENCH_ROUNDS=3   ENTREPOT_BENCH_SIZES="64 128 256" in MB   ENTREPOT_BENCH_OWN="2:32 ..." as ranks:MiB each
# ENTREPOT_BENCH_ONLY="shared parts replica own": the tables wanted
set -euo pipefail

entrepot=$(readlink -f "${1:?path to entrepot}")
here=$(cd "$(dirname "$0")" && pwd)
rounds=${ENTREPOT_BENCH_ROUNDS:-3}
sizes=${ENTREPOT_BENCH_SIZES:-64 128 256}
only=" ${ENTREPOT_BENCH_ONLY:-shared parts replica own} "
own_cases=${ENTREPOT_BENCH_OWN:-4:64 2:32 4:32 8:32 16:32 4:16} # a file only shrinks
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace needs root" >&2; exit 0; }
for tool in mpicc.mpich mpiexec.mpich ip tc /usr/sbin/nginx; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is missing (scripts/setup.sh bench installs it)" >&2; exit 0; }
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/entrepot-recovery.XXXXXX")
mnt=$dir/mnt toml=$dir/scratch/volume.toml
ns=entrepot-$$ outer=ep$$a inner=ep$$b
net=10.$((RANDOM % 100 + 100)).$((RANDOM % 250))
nginx_pid=""
ep() { "$entrepot" --volume "$toml" "$@"; }

cleanup() {
    local status=$?
    trap - EXIT
    ep down >/dev/null 2>&1 || ep down --force >/dev/null 2>&1 || true
    [ -z "$nginx_pid" ] || { kill "$nginx_pid" 2>/dev/null && wait "$nginx_pid" 2>/dev/null; } || true
    ip netns del "$ns" 2>/dev/null || true
    ip link del "$outer" 2>/dev/null || true
    if [ $status = 0 ]; then rm -rf "$dir"; else echo "what it left is in $dir" >&2; fi
    exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# A source at the other end of a wire of its own.
ip netns add "$ns"
ip link add "$outer" type veth peer name "$inner" netns "$ns"
ip addr add "$net.2/24" dev "$outer"
ip link set "$outer" up
ip netns exec "$ns" ip addr add "$net.1/24" dev "$inner"
ip netns exec "$ns" ip link set "$inner" up
ip netns exec "$ns" ip link set lo up
mkdir -p "$dir/www" "$dir/nginx" "$mnt" "$dir/scratch/namespace" "$dir/scratch/state" "$dir/home"
chmod 755 "$dir"
cat >"$dir/nginx/nginx.conf" <<EOF
user root; daemon off; worker_processes 1; pid $dir/nginx/pid; error_log $dir/nginx/error.log;
events {}
http {
    access_log off; sendfile on; keepalive_requests 100000;
    client_body_temp_path $dir/nginx/b; proxy_temp_path $dir/nginx/p; fastcgi_temp_path $dir/nginx/f;
    uwsgi_temp_path $dir/nginx/u; scgi_temp_path $dir/nginx/s;
    server { listen $net.1:8080; root $dir/www; }
}
EOF
ip netns exec "$ns" /usr/sbin/nginx -c "$dir/nginx/nginx.conf" 2>/dev/null &
nginx_pid=$!

# Megabytes per second that the source gives, all connections together; 0 is all it can.
shape() {
    ip netns exec "$ns" tc qdisc del dev "$inner" root 2>/dev/null || true
    [ "$1" = 0 ] || ip netns exec "$ns" tc qdisc add dev "$inner" root tbf \
        rate "$(awk "BEGIN { printf \"%d\", $1 * 8000 }")kbit" burst 256kb latency 100ms
}

# Nine targets, files over four of them in stripes of 1 MiB; replicas of all that waiting jobs read.
{
    printf 'namespace = "namespace"\nstate = "state"\n'
    for k in $(seq 0 8); do
        mkdir -p "$dir/scratch/t$k"
        printf '[[target]]\nname = "t%d"\npath = "t%d"\n' "$k" "$k"
    done
    printf '[layout]\nstripe_size = "1MiB"\nstripe_count = 4\nsingle_max = 0\n'
    printf '[mount]\npassthrough = "off"\nio = "direct"\nthreads = 24\n'
    printf '[jobs]\ncores = 16\n[replication]\npolicy = "all"\nremove = "job-end"\npoll = "200ms"\n'
} >"$toml"
ep up "$toml" --at "$mnt" --detach >/dev/null
mpicc.mpich -O2 -o "$dir/reader" "$here/reader.c"

now() { date +%s.%N; }
since() { awk "BEGIN { printf \"%.2f\", $(now) - $1 }"; }
median() { tr ' ' '\n' | grep . | sort -g | awk '{ v[NR] = $1 } END { printf "%.2f", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
# The target of the second object of a file.
victim() { ep layout "$1" --output json | tr -d ' \n' | grep -o '"target":"t[0-9]*"' | sed -n '2s/.*"\(t[0-9]*\)"/\1/p'; }
# The value of a counter; its labels name the volume and the node.
metric() { ep stats --prometheus | awk -v m="entrepot_$1_total{" 'index($1, m) == 1 { print $NF; n++ } END { exit n != 1 }'; }
bring() { # NAME: staged in at full speed, with its source remembered
    shape 0
    rm -f "$mnt/$1"
    ep stage in "http://$net.1:8080/$1" "$mnt/$1" >/dev/null
}
heal() { ep target restore "$1" >/dev/null; }
quiet() { # until no recovery, move or rebuild runs
    for _ in $(seq 600); do
        ep status --output json | tr -d ' \n' | grep -q '"recoveries_running":0' && return
        sleep 0.1
    done
}

# Runs the reader; RESULT is "seconds longest-read-ms checksum". WHEN is never, start or mid; the victim fails then.
run() { # MODE PATH RANKS COMPUTE_MS WHEN VICTIM
    rm -f "$dir/mark"
    [ "$5" != start ] || ep target fail "$6" >/dev/null
    mpiexec.mpich -n "$3" "$dir/reader" "$1" "$2" 1048576 "$4" "$dir/mark" >"$dir/result" &
    local pid=$!
    if [ "$5" = mid ]; then
        until [ -e "$dir/mark" ]; do sleep 0.01; done
        ep target fail "$6" >/dev/null
    fi
    wait "$pid" || { echo "the reader failed" >&2; exit 1; }
    read -r seconds longest sum <"$dir/result"
}
right() { # the bytes of a run were those of the first
    local known="$dir/sum.$1"
    [ -e "$known" ] || echo "$sum" >"$known"
    [ "$(cat "$known")" = "$sum" ] || { echo "wrong bytes were read" >&2; exit 1; }
}

for mb in $sizes; do head -c "$((mb * 1000000 / 1048576 * 1048576))" /dev/urandom >"$dir/www/f$mb"; done
for r in $(seq 0 15); do head -c 67108864 /dev/urandom >"$dir/www/own.$r"; done
wanted() { [[ $only == *" $1 "* ]]; }

echo "rounds: $rounds, medians; 4 ranks, 1 MiB reads; shared: all ranks read the whole file and compute 50 ms after each;"
echo "parts: each reads its own quarter and computes 200 ms after each; seconds"
echo
echo "| read | file, MB | run | source, MB/s | added, failure at the start | added, half-way | longest read, ms | patch offline | added / patch |"
echo "|---|---|---|---|---|---|---|---|---|"
for how in shared parts; do
wanted $how || continue
for mb in $sizes; do
    compute=50; [ $how = shared ] || compute=200
    f=f$mb base=""
    for _ in $(seq "$rounds"); do
        bring "$f"; run $how "$mnt/$f" 4 $compute never ""; right "$f$how"
        base+="$seconds "
    done
    base=$(echo "$base" | median)
    for rate in 34.41 6.31; do
        start="" mid="" patch="" worst=0
        for _ in $(seq "$rounds"); do
            for when in start mid; do
                bring "$f"; shape "$rate"; v=$(victim "$mnt/$f")
                run $how "$mnt/$f" 4 $compute "$when" "$v"; right "$f$how"
                added=$(awk "BEGIN { print $seconds - $base }")
                if [ "$when" = start ]; then start+="$added "; else mid+="$added "; fi
                worst=$(awk "BEGIN { print ($longest > $worst ? $longest : $worst) }")
                quiet; heal "$v"
            done
            bring "$f"; shape "$rate"; v=$(victim "$mnt/$f"); ep target fail "$v" >/dev/null
            at=$(now); ep check --repair "$mnt/$f" >/dev/null; patch+="$(since "$at") "
            heal "$v"
        done
        start=$(echo "$start" | median) mid=$(echo "$mid" | median) patch=$(echo "$patch" | median)
        echo "| $how | $mb | $base | $rate | $start | $mid | $worst | $patch | $(awk "BEGIN { printf \"%.2f\", ($start > $mid ? $start : $mid) / $patch }") |"
    done
done
done

# The reader as a job whose input has a replica: a first job holds the cores until the copy is there.
job() { # FILE WHEN
    rm -f "$dir/go" "$dir/mark" "$dir/result" "$mnt/$1"
    shape 0
    printf '#!/bin/sh\n#ENTREPOT -n 16\nuntil [ -e %s ]; do sleep 0.05; done\n' "$dir/go" >"$dir/home/hold.sh"
    printf '#!/bin/sh\n#ENTREPOT -n 16\n#STAGEIN entrepot stage in %s %s\nmpiexec.mpich -n 4 %s shared %s 1048576 50 %s >%s\n' \
        "http://$net.1:8080/$1" "$mnt/$1" "$dir/reader" "$mnt/$1" "$dir/mark" "$dir/result" >"$dir/home/read.sh"
    hold=$(cd "$dir/home" && ep job submit hold.sh | grep -o '[0-9]*')
    id=$(cd "$dir/home" && ep job submit read.sh | grep -o '[0-9]*')
    until ep job show "$id" | grep -q 'second copy is complete'; do sleep 0.1; done
    v=$(victim "$mnt/$1")
    shape 0.1 # a source that is no help
    [ "$2" != start ] || ep target fail "$v" >/dev/null
    : >"$dir/go"
    if [ "$2" = mid ]; then
        until [ -e "$dir/mark" ]; do sleep 0.01; done
        ep target fail "$v" >/dev/null
    fi
    ep job wait "$id" >/dev/null; ep job wait "$hold" >/dev/null
    read -r seconds longest sum <"$dir/result"
    right "$1shared"
}
if wanted replica; then
echo
echo "| shared file with a replica, MB | run | added, failure at the start | added, half-way | longest read, ms | failover, ms | object anew | whole copy | recoveries from the source |"
echo "|---|---|---|---|---|---|---|---|---|"
for mb in $sizes; do
    f=f$mb base="" start="" mid="" anew="" whole="" worst=0
    swaps=$(metric failovers) ns0=$(metric failover_ns) fetched=$(metric recovery_stripes)
    for _ in $(seq "$rounds"); do
        job "$f" never; base+="$seconds "
        for when in start mid; do
            job "$f" "$when"
            if [ "$when" = start ]; then start+="$seconds "; else mid+="$seconds "; fi
            worst=$(awk "BEGIN { print ($longest > $worst ? $longest : $worst) }")
            heal "$v"
        done
        # What a new copy costs: of one object, and of the whole file.
        bring "$f"; at=$(now); ep layout add-mirror "$mnt/$f" >/dev/null; whole+="$(since "$at") "
        v=$(victim "$mnt/$f"); ep target fail "$v" >/dev/null
        at=$(now); ep check --repair "$mnt/$f" >/dev/null; anew+="$(since "$at") "
        heal "$v"
    done
    base=$(echo "$base" | median)
    start=$(awk "BEGIN { printf \"%.2f\", $(echo "$start" | median) - $base }")
    mid=$(awk "BEGIN { printf \"%.2f\", $(echo "$mid" | median) - $base }")
    each=$(awk "BEGIN { n = $(metric failovers) - $swaps; printf \"%.2f\", n ? ($(metric failover_ns) - $ns0) / n / 1e6 : -1 }")
    echo "| $mb | $base | $start | $mid | $worst | $each | $(echo "$anew" | median) | $(echo "$whole" | median) | $(($(metric recovery_stripes) - fetched)) |"
done
fi

wanted own || exit 0
echo
echo "| ranks, one file each | MiB each | run | files hit | added, 34.41 MB/s | added, 6.31 MB/s | patch of all at these rates |"
echo "|---|---|---|---|---|---|---|"
for case in $own_cases; do
    n=${case%:*} mib=${case#*:} base="" fast="" slow="" hit=""
    own() { for r in $(seq 0 $((n - 1))); do bring "own.$r"; done; }
    for r in $(seq 0 $((n - 1))); do truncate -s "$((mib * 1048576))" "$dir/www/own.$r"; done
    for _ in $(seq "$rounds"); do
        own; run own "$mnt/own" "$n" 200 never ""; right "own$case"; base+="$seconds "
        for rate in 34.41 6.31; do
            own; shape "$rate"; v=$(victim "$mnt/own.0")
            hit=0
            for r in $(seq 0 $((n - 1))); do ep layout "$mnt/own.$r" --output json | grep -q "\"$v\"" && hit=$((hit + 1)); done
            run own "$mnt/own" "$n" 200 start "$v"; right "own$case"
            if [ "$rate" = 34.41 ]; then fast+="$seconds "; else slow+="$seconds "; fi
            quiet; heal "$v"
        done
    done
    base=$(echo "$base" | median)
    awk -v n="$n" -v mib="$mib" -v base="$base" -v hit="$hit" -v fast="$(echo "$fast" | median)" -v slow="$(echo "$slow" | median)" \
        'BEGIN { lost = hit * mib / 4 * 1.048576
                 printf "| %d | %d | %.2f | %d | %.2f | %.2f | %.1f, %.1f |\n", n, mib, base, hit, fast - base, slow - base, lost / 34.41, lost / 6.31 }'
done
