# Two fast and two slow loop devices in memory, held to 200/40 and 20/10 MB/s reading/writing, volumes over them and fio upon these.
# To be sourced, with the path to entrepot as first argument; needs root, cgroup v1 with blkio and memory, fio, 2.5 GB of /dev/shm.
entrepot=$(readlink -f "${1:?path to entrepot}")
mib=${ENTREPOT_BENCH_MIB:-256}              # the file; a tenth of it is hot
[ -z "${QUICK:-}" ] || mib=128
depth=8
# The fast tier may hold a quarter of the file: room for what is hot, not for all.
share=$((mib * 25 / (2 * (mib + 128))))
. "$(dirname "${BASH_SOURCE[0]}")/../machine.sh"
skip() { echo "skipped: $*" >&2; exit 0; }
[ "$(id -u)" = 0 ] || skip "loop devices and blkio limits need root"
for tool in fio python3 losetup mkfs.ext4 fusermount3; do
    command -v "$tool" >/dev/null || skip "$tool is missing (scripts/setup.sh bench installs it)"
done
blkio=/sys/fs/cgroup/blkio memory=/sys/fs/cgroup/memory
[ -e $blkio/blkio.throttle.read_bps_device ] || skip "no blkio controller of cgroup v1 at $blkio"
[ -e $memory/memory.limit_in_bytes ] || skip "no memory controller of cgroup v1 at $memory"
free_kb=$(df --output=avail /dev/shm | tail -1)
[ "$free_kb" -gt 2500000 ] || skip "/dev/shm has less than 2.5 GB"

dir=$(mktemp -d "${TMPDIR:-/tmp}/entrepot-tier.XXXXXX")
disks=$(mktemp -d /dev/shm/entrepot-tier.XXXXXX)
group=entrepot-tier-$$ mnt=$dir/mnt loops=() sweeper=""
mkdir -p "$mnt" $blkio/$group $memory/$group
ep() { "$entrepot" --volume "$toml" "$@"; }
down() { ep down >/dev/null 2>&1 || ep down --force >/dev/null 2>&1 || true; }
toml=$dir/none
cleanup() {
    local status=$?
    trap - EXIT
    [ -z "$sweeper" ] || kill "$sweeper" 2>/dev/null || true
    down
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        rmdir $blkio/$group $memory/$group 2>/dev/null && break
        sleep 0.2
    done
    for target in fast0 fast1 slow0 slow1; do umount "$dir/$target" 2>/dev/null || true; done
    for loop in "${loops[@]}"; do losetup -d "$loop" 2>/dev/null || true; done
    rm -rf "$disks"
    if [ $status = 0 ]; then rm -rf "$dir"; else echo "what it left is in $dir" >&2; fi
    exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Devices in memory, held to their speed for the daemon's group.
limits() { # on | off
    local n=0 name read write
    for name in fast0 fast1 slow0 slow1; do
        case $name in fast*) read=200000000 write=40000000 ;; *) read=20000000 write=10000000 ;; esac
        [ "$1" = on ] || read=0 write=0
        echo "$(cat "/sys/block/$(basename "${loops[$n]}")/dev") $read" >$blkio/$group/blkio.throttle.read_bps_device
        echo "$(cat "/sys/block/$(basename "${loops[$n]}")/dev") $write" >$blkio/$group/blkio.throttle.write_bps_device
        n=$((n + 1))
    done
}
for target in fast0 fast1 slow0 slow1; do
    truncate -s $((mib + 128))M "$disks/$target"
    loop=$(losetup --find --show --direct-io=on "$disks/$target")
    loops+=("$loop")
    mkfs.ext4 -q -m 0 -O ^has_journal "$loop"
    mkdir "$dir/$target"
    mount -o noatime "$loop" "$dir/$target"
    # What is read ahead of a request would be read for nothing.
    echo 64 >"/sys/block/$(basename "$loop")/queue/read_ahead_kb"
done

# A volume over them; $1 is its name, $2 the tiering policy, $3 how wide a segment is striped.
volume() {
    toml=$dir/$1/volume.toml
    mkdir -p "$dir/$1/namespace" "$dir/$1/state"
    for target in fast0 fast1 slow0 slow1; do mkdir -p "$dir/$target/$1"; done
    cat >"$toml" <<TOML
name = "$1"
namespace = "namespace"
state = "state"
[tier.fast]
speed = "200/40"
[tier.capacity]
speed = "20/10"
[layout]
stripe_size = "64KiB"
stripe_count = $3
single_max = 0
inline_max = 0
segment = "1MiB"
[tiering]
policy = "$2"
window = $((mib * 32))
idle = "200ms"
copy_after = "100ms"
share_percent = $share
$(for target in fast0 fast1; do printf '[[target]]\nname = "%s"\npath = "%s"\ntier = "fast"\n' $target "$dir/$target/$1"; done)
$(for target in slow0 slow1; do printf '[[target]]\nname = "%s"\npath = "%s"\ntier = "capacity"\n' $target "$dir/$target/$1"; done)
TOML
    ep up "$toml" --at "$mnt" --detach >/dev/null
    pid=$(ep status --output json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -1)
    echo "$pid" >$blkio/$group/cgroup.procs
    echo "$pid" >$memory/$group/cgroup.procs
}
# The kernel's cache below the targets would hide the devices: whatever of it is the daemon's goes, a hundred times a second: more often it would take pages from readers who wait for them.
sweep() {
    exec python3 -c '
import os, sys, time
group = os.open(sys.argv[1], os.O_WRONLY)
while True:
    try:
        os.write(group, b"1")
    except OSError:
        pass
    time.sleep(0.01)' $memory/$group/memory.force_empty
}

# fio on the file; $1 is a name, the rest options. Prints MB/s and mean latency in ms.
load() {
    local name=$1
    shift
    fio --name="$name" --filename="$mnt/data" --ioengine=psync --thread --direct=1 --bs=64k --size="${mib}M" --randrepeat=1 \
        --norandommap --random_generator=tausworthe64 --group_reporting --output-format=terse --terse-version=3 "$@" |
        awk -F';' '$1 == 3 { printf "%.2f %.3f\n", $7 * 1024 / 1e6, $40 / 1000 }'
}
hot=(--rw=randread --numjobs=$depth --random_distribution=zoned:4/45:91/10:5/45)
# Megabytes (10^6) that the devices have read so far: what the kernel's cache answered in spite of the sweeper is not among them.
device_mb() {
    local loop sectors=0
    for loop in "${loops[@]}"; do sectors=$((sectors + $(awk '{ print $3 }' "/sys/block/$(basename "$loop")/stat"))); done
    awk -v n=$sectors 'BEGIN { printf "%.1f", n * 512 / 1e6 }'
}
status() { ep status --output json | tr -d ' ",' | sed -n "s/^$1:\([0-9.]*\)$/\1/p" | head -1; }
quiet() { # until nothing waits, moves or is copied, three looks long
    local still=0 _
    for _ in $(seq 120); do
        if [ "$(status waiting)" = 0 ] && [ "$(status moving)" = 0 ] && [ "$(status copying)" = 0 ]; then still=$((still + 1)); else still=0; fi
        [ $still -lt 3 ] || return 0
        sleep 0.25
    done
    echo "moves did not end in 30 s; going on" >&2
}
fill() { dd if=/dev/urandom of="$mnt/data" bs=1M count="$mib" status=none conv=fsync; }

