# A GlusterFS server of one's own in a network namespace; to be sourced. Needs root, glusterd, ip, tc, ss.
# server_up DIR; then $server:/$volume can be mounted. shape RATE limits each connection that is there; unshape. server_down.
# second_server_up: another daemon that exports the same directory, as $second:/$volume; second_server_down.
# shellcheck shell=bash

volume=data
server_up() {
    gdir=$1
    ns=entrepot-c$$ outer=ec$$a inner=ec$$b
    local net=10.$((RANDOM % 100 + 100)).$((RANDOM % 250))
    server=$net.1 client=$net.2
    mkdir -p "$gdir/work" "$gdir/run" "$gdir/log" "$gdir/disk"
    mount -t tmpfs -o size=4g tmpfs "$gdir/disk"
    mkdir "$gdir/disk/brick"
    ip netns add "$ns"
    ip link add "$outer" type veth peer name "$inner" netns "$ns"
    ip addr add "$client/24" dev "$outer"
    ip link set "$outer" up
    ip netns exec "$ns" ip addr add "$server/24" dev "$inner"
    ip netns exec "$ns" ip link set "$inner" up
    ip netns exec "$ns" ip link set lo up
    congestion "${ENTREPOT_BENCH_CONGESTION:-reno}"
    daemon "$server" work run
    gl volume create "$volume" transport tcp "$server:$gdir/disk/brick" force >/dev/null
    gl volume start "$volume" >/dev/null
}

# congestion NAME: how TCP controls congestion between the two ends; `system` leaves what the machine has. With BBR the speed of a connection
# is a matter of luck here: once it believes to know the rate of the wire, it waits for a timer in the middle of an answer, which in a virtual
# machine takes longer than the answer, and whether it comes to that depends on what went over the connection before. Reno has no timer.
congestion() {
    local name=$1 net=${server%.*}.0/24
    [ "$name" != system ] || return 0
    { ip route replace "$net" dev "$outer" proto kernel scope link src "$client" congctl "$name" &&
        ip netns exec "$ns" ip route replace "$net" dev "$inner" proto kernel scope link src "$server" congctl "$name"; } ||
        echo "TCP controls congestion as the machine has it, not with $name" >&2
}

# daemon ADDRESS WORK RUN: a management daemon with those directories below $gdir, answering.
daemon() {
    local address=$1 work=$gdir/$2 run=$gdir/$3 tries=0
    cat >"$run/glusterd.vol" <<VOL
volume management
    type mgmt/glusterd
    option working-directory $work
    option run-directory $run
    option glusterd-sockfile $run/glusterd.socket
    option transport-type socket
    option transport.socket.keepalive-time 10
    option transport.socket.listen-port 24007
    option transport.socket.bind-address $address
end-volume
VOL
    ip netns exec "$ns" glusterd -f "$run/glusterd.vol" -p "$run/glusterd.pid" -l "$gdir/log/glusterd.$3.log"
    until ip netns exec "$ns" gluster --mode=script --glusterd-sock="$run/glusterd.socket" --log-file="$gdir/log/cli.log" volume list >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { echo "glusterd does not answer; its log is in $gdir/log" >&2; return 1; }
        sleep 0.1
    done
}

# The second one is a copy of the first: the same volume, whose brick is the same directory by another path.
second_server_up() {
    local file tries=0
    second=${server%.1}.3
    ip netns exec "$ns" ip addr add "$second/24" dev "$inner"
    mkdir "$gdir/second" "$gdir/run2"
    mount --bind "$gdir/disk" "$gdir/second"
    cp -r "$gdir/work" "$gdir/work2"
    find "$gdir/work2" -name '*.pid' -delete
    find "$gdir/work2" -depth -name "*$server*" | while read -r file; do
        local renamed=${file##*/}
        renamed=${renamed//$server/$second}
        mv "$file" "${file%/*}/${renamed//-disk-/-second-}"
    done
    find "$gdir/work2" -type f -exec sed -i "s#$server#$second#g; s#$gdir/disk#$gdir/second#g; s#-disk-brick#-second-brick#g" {} +
    daemon "$second" work2 run2
    # A line of the bricks' table: its ports, whether it is online, its process.
    until ip netns exec "$ns" gluster --mode=script --glusterd-sock="$gdir/run2/glusterd.socket" --log-file="$gdir/log/cli.log" volume status "$volume" 2>/dev/null |
        grep -Eq ' Y +[0-9]+'; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { echo "the second server's brick does not start; the logs are in $gdir/log" >&2; return 1; }
        sleep 0.1
    done
}
second_server_down() {
    local pid
    [ -d "$gdir/run2" ] || return 0
    for pid in $(cat "$gdir"/run2/*/*/*.pid "$gdir"/run2/*.pid 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
    umount "$gdir/second" 2>/dev/null || umount -l "$gdir/second" 2>/dev/null || true
    rm -rf "$gdir/run2" "$gdir/work2"
    rmdir "$gdir/second" 2>/dev/null || true
}

gl() { ip netns exec "$ns" gluster --mode=script --glusterd-sock="$gdir/run/glusterd.socket" --log-file="$gdir/log/cli.log" "$@"; }

# The clients' ports of all connections to bricks (glusterd itself listens on 24007).
ports() { ip netns exec "$ns" ss -Htn state established | awk -v c="$client:" 'index($4, c) == 1 && $3 !~ /:24007$/ { sub(/.*:/, "", $4); print $4 }' | sort -u; }

# Each connection there is gets so many megabytes per second in each direction, and no other traffic is touched.
shape() {
    local rate=$1 port number=16
    unshape
    for end in out in; do link "$end" tc qdisc add dev "$(device $end)" root handle 1: htb; done
    for port in $(ports); do
        number=$((number + 1))
        for end in out in; do
            local key=sport
            [ $end = out ] || key=dport
            link $end tc class add dev "$(device $end)" parent 1: classid 1:$number htb rate "$((rate * 8))mbit" burst 256k cburst 256k quantum 60000
            link $end tc filter add dev "$(device $end)" parent 1: protocol ip u32 match ip $key "$port" 0xffff flowid 1:$number
        done
    done
}
# Holds back what goes over one connection, so far that it hangs; over one of a process's, if one is given.
choke() {
    local port
    port=$(if [ -n "${1:-}" ]; then ports_of "$1"; else ports; fi | head -1)
    unshape
    for end in out in; do
        local key=sport
        [ $end = out ] || key=dport
        link $end tc qdisc add dev "$(device $end)" root handle 1: htb
        link $end tc class add dev "$(device $end)" parent 1: classid 1:17 htb rate 1kbit ceil 1kbit burst 1 cburst 1
        link $end tc filter add dev "$(device $end)" parent 1: protocol ip u32 match ip $key "$port" 0xffff flowid 1:17
    done
}
# The ports of a process's connections to the brick.
ports_of() { ss -Htnp state established | awk -v s="$server:" -v p="pid=$1," 'index($4, s) == 1 && $4 !~ /:24007$/ && index($0, p) { sub(/.*:/, "", $3); print $3 }' | sort -u; }
unshape() { for end in out in; do link $end tc qdisc del dev "$(device $end)" root 2>/dev/null || true; done; }
device() { if [ "$1" = out ]; then echo "$outer"; else echo "$inner"; fi; }
link() {
    local end=$1
    shift
    if [ "$end" = out ]; then "$@"; else ip netns exec "$ns" "$@"; fi
}

server_down() {
    local pid
    [ -n "${gdir:-}" ] || return 0
    second_server_down
    gl volume stop "$volume" force >/dev/null 2>&1 || true
    for pid in $(cat "$gdir"/run/*.pid "$gdir"/run/*/*/*.pid 2>/dev/null) $(cat "$gdir"/run/*/*.pid 2>/dev/null); do
        kill "$pid" 2>/dev/null || true
    done
    ip netns del "$ns" 2>/dev/null || true
    ip link del "$outer" 2>/dev/null || true
    umount "$gdir/disk" 2>/dev/null || umount -l "$gdir/disk" 2>/dev/null || true
}
