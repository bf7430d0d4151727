#!/usr/bin/env bash
# deb-test.sh [--fresh] DEB NEXT: an operator's way with the package, the ten lines of the guide, a mounted volume, an upgrade to NEXT and back.
# The root is this machine's own, or with --fresh a Debian that debootstrap fetches (SUITE, MIRROR), below an overlay that is gone
# afterwards, in mounts and processes of its own. Its last check is of all that the overlay has then. Ends with 77 where that can't be.
set -euo pipefail
here=$(realpath "$0")

skip() {
    echo "skipped: $*"
    exit 77
}

# Says what failed, and what was said before.
check() {
    "$@" && return
    echo "FAILED in line ${BASH_LINENO[0]}: $*" >&2
    exit 1
}
fails() { ! "$@"; }
# A process is up or down a moment after the command that does it.
soon() {
    for _ in $(seq 600); do
        ! "$@" || return 0
        sleep 0.1
    done
    return 1
}
mounted() { grep -q " $1 fuse.entrepot " /proc/self/mounts; }
# Numbers of the processes that run our programs; there are no others in sight.
running() {
    for process in /proc/[0-9]*; do
        case $(readlink "$process/exe" || true) in */entrepot | */entrepot\ *) echo "${process#/proc/}" ;; esac
    done
}
none_runs() { [ -z "$(running)" ]; }
apt() { apt-get -y -q --no-install-recommends -o Dpkg::Use-Pty=0 "$@" </dev/null; }

# What an operator does, inside the root; whether there is a network.
operate() {
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
    unset ENTREPOT_VOLUME
    echo "== the ten lines of the guide"
    cd /root/deb/first
    check [ "$(wc -l <lines.sh)" -le 10 ]
    # In a shell of its own, as an operator's: what they do not say is not there. A newer curl is not fetched.
    check bash -euc 'apt() { apt-get -y -q --no-upgrade --no-install-recommends -o Dpkg::Use-Pty=0 "$@" </dev/null; }; . ./lines.sh' >said
    cat said
    check mounted /mnt/scratch
    check grep -q '^ok' said
    check grep -q '^entrepot_target_state{.*state="ok".* 1$' said
    check grep -qi '<title>.*entrepot' said
    check [ "$(stat -c '%a %U' /srv/scratch/endpoint.token)" = "600 root" ]
    # Without the token there is nothing to see.
    check [ "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:9469/metrics)" = 401 ]
    entrepot down
    check soon none_runs
    rm -r /srv/scratch /mnt/scratch
    apt purge entrepot
    hash -r

    cd /root/deb
    echo "== install"
    apt install ./one.deb
    check none_runs
    check [ -z "$(find /etc -path '*systemd*' -name '*entrepot*')" ]
    check [ "$(readlink -f /sbin/mount.entrepot)" = /usr/bin/entrepot ]
    check bash -n /usr/share/bash-completion/completions/entrepot
    check [ -e /usr/share/zsh/vendor-completions/_entrepot -a -e /usr/share/fish/vendor_completions.d/entrepot.fish ]
    check eval 'zcat /usr/share/man/man1/entrepot-up.1.gz | grep -q detach'
    ! command -v systemd-analyze >/dev/null || check systemd-analyze verify --man=no entrepot@scratch.service
    # By the unit's own line, and codes: systemd doesn't try again with a file that is wrong or isn't there.
    unit=/usr/lib/systemd/system/entrepot@.service
    final=" $(sed -n 's/^RestartPreventExitStatus=//p' $unit) "
    mkdir -p /scratch/wrong
    for text in 'stripes = "many"' ''; do
        rm -f /etc/entrepot/wrong.toml
        [ -z "$text" ] || echo "$text" >/etc/entrepot/wrong.toml
        code=0
        $(sed -n 's/^ExecStart=//p' $unit | sed 's/%i/wrong/g') 2>/dev/null || code=$?
        check eval "[ $code != 0 ] && [[ '$final' == *' $code '* ]]"
    done
    rm -f /etc/entrepot/wrong.toml
    rmdir /scratch/wrong /scratch

    echo "== the scripts for Slurm"
    others=$(ls /etc/slurm 2>/dev/null || true)
    mkdir -p /etc/slurm
    echo '-- mine' >/etc/slurm/burst_buffer.lua
    ! apt install ./slurm.deb >said 2>&1 || check false
    check grep -q 'burst_buffer.lua is there already, so nothing is installed' said
    check [ "$(cat /etc/slurm/burst_buffer.lua)" = '-- mine' -a ! -e /etc/slurm/entrepot_submit.lua ]
    rm /etc/slurm/burst_buffer.lua
    apt install ./slurm.deb
    check [ "$(dpkg -L entrepot-slurm | grep -c '^/etc/slurm/.')" = 3 ]
    check [ "$(ls /etc/slurm)" = "$(printf '%s\n' $others burst_buffer.conf burst_buffer.lua entrepot_submit.lua | sort)" ]
    # They are what the program itself would write, and it says what slurm.conf needs.
    touch /etc/entrepot/slurm.toml
    entrepot --volume /etc/entrepot/slurm.toml slurm install --keep-job-submit --dry-run >said
    check [ "$(grep -c ': as it should be$' said)" = 3 ]
    check grep -q 'PartitionName=dataxfer .* MaxCPUsPerNode=' said
    # What the example for who has no job_submit.lua does is all that is needed.
    check grep -q 'job_submit.lua needs besides' said
    cp /usr/share/doc/entrepot-slurm/examples/job_submit.lua /etc/slurm/
    entrepot --volume /etc/entrepot/slurm.toml slurm install --keep-job-submit --dry-run >said
    check fails grep -q 'job_submit.lua needs besides' said
    rm /etc/slurm/job_submit.lua
    entrepot --volume /etc/entrepot/slurm.toml slurm install --conf-dir /usr/share/doc/entrepot-slurm/examples --dry-run >said
    sed -n 's/^    //p' said | grep -q '^function slurm_job_submit' || check false
    rm /etc/entrepot/slurm.toml
    apt purge entrepot-slurm
    check [ "$(ls /etc/slurm 2>/dev/null || true)" = "$others" ]

    echo "== three commands"
    entrepot init /srv/scratch
    mkdir -p /mnt/scratch
    entrepot up /srv/scratch/volume.toml --at /mnt/scratch --detach
    check mounted /mnt/scratch
    daemon=$(running)
    head -c 20000000 /dev/urandom >data
    cp data /mnt/scratch/data
    check cmp data /mnt/scratch/data

    echo "== the next version while it is mounted and a job runs"
    cat >job.sh <<END
#!/bin/sh
until [ -e /mnt/scratch/go ]; do sleep 0.1; done
cp /mnt/scratch/data /mnt/scratch/result
END
    entrepot job submit job.sh
    exec 3</mnt/scratch/data
    apt install ./two.deb
    check [ "$(dpkg-query -W -f '${Version}' entrepot)" = "$(dpkg-deb -f two.deb Version)" ]
    check mounted /mnt/scratch
    check [ -e "/proc/$daemon" ]
    check cmp data /dev/fd/3
    exec 3<&-
    entrepot status >/dev/null
    touch /mnt/scratch/go
    entrepot job wait 1
    check cmp data /mnt/scratch/result
    echo "#!/bin/sh
#STAGEIN entrepot stage in file://$PWD/data /mnt/scratch/staged" >staging.sh
    entrepot job submit --wait staging.sh
    check cmp data /mnt/scratch/staged

    echo "== and back"
    entrepot down
    check fails mounted /mnt/scratch
    check soon none_runs
    entrepot up /srv/scratch/volume.toml --at /mnt/scratch --detach
    check cmp data /mnt/scratch/data
    # What the unit does at the end leaves a mount that lives, and takes one away whose daemon was killed.
    end=$(sed -n 's/^ExecStopPost=-//p' $unit | sed 's|/scratch/%i|/mnt/scratch|g')
    eval "$end"
    check mounted /mnt/scratch
    kill -9 "$(running)"
    check soon none_runs
    eval "$end"
    check fails mounted /mnt/scratch
    entrepot up /srv/scratch/volume.toml --at /mnt/scratch --detach

    echo "== remove it while it is mounted"
    daemon=$(running)
    # As python3 does when root imports the module.
    mkdir /usr/share/entrepot/python/entrepot/__pycache__
    touch /usr/share/entrepot/python/entrepot/__pycache__/checkpoint.pyc
    apt remove entrepot
    hash -r
    check [ -z "$(command -v entrepot)" ]
    check [ -e "/proc/$daemon" ]
    check cmp data /mnt/scratch/data
    umount /mnt/scratch
    check soon none_runs
    check [ -e /srv/scratch/volume.toml ]
    check eval '! dpkg-query -W entrepot 2>/dev/null'

    echo "== the lines of the container"
    cp one.deb /tmp/entrepot_one.deb
    sed -n 's/^RUN //p' Containerfile >lines.sh
    check [ "$(wc -l <lines.sh)" = 3 ]
    # Without a network there are no lists and no newer packages to fetch.
    $1 || sed -i '/^apt-get update$/d; s/apt-get install/& --no-upgrade/' lines.sh
    check sh -eux ./lines.sh
    check [ -z "$(find /tmp/entrepot_* /var/lib/apt/lists -mindepth 0 ! -path /var/lib/apt/lists 2>/dev/null)" ]
    check grep -q '^Usage: entrepot' <("$(sed -n 's/^ENTRYPOINT \["\(.*\)"\]$/\1/p' Containerfile)" "$(sed -n 's/^CMD \["\(.*\)"\]$/\1/p' Containerfile)")
    apt purge entrepot
    # What the lines fetched is not ours.
    ! $1 || apt autoremove --purge ca-certificates curl fuse3
}

# What is in the overlay that was not in the root below it, but for what dpkg and apt note, and what the operator made.
left() {
    (cd "$1" && find . -mindepth 1) | while IFS= read -r path; do
        case $path in
        ./var/lib/dpkg* | ./var/lib/apt* | ./var/cache/* | ./var/log* | ./var/lib/man-db/auto-update) continue ;;
        ./root/deb* | ./srv/scratch* | ./mnt/scratch | ./etc/dpkg/dpkg.cfg.d/fast) continue ;;
        ./tmp | ./etc/ld.so.cache) continue ;;
        esac
        # A directory that something was in for a while is there again as it was.
        if [ -d "$1/$path" ] && [ -d "$2/$path" ]; then continue; fi
        echo "left: $path"
    done
}

# In mounts and processes of its own: LOWER below an overlay in DIR.
inside() {
    lower=$1 dir=$2
    over() { mkdir -p "$dir"/{upper,work,root} && mount -t overlay overlay -o "lowerdir=$lower,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"; }
    # Where the temporary directory is an overlay itself there is memory.
    over 2>/dev/null || { mount -t tmpfs tmpfs "$dir" && over; } || skip "no overlay can be mounted here"
    root=$dir/root
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/run"
    mkdir -p "$root/root/deb"
    mkdir "$root/root/deb/first"
    cp "$3" "$root/root/deb/first/entrepot_one.deb"
    # The block after that heading, as it is printed.
    sed -n '/^## From nothing to a dashboard/,/^## Install/{/^```sh/,/^```$/{/^```/!p}}' "$(dirname "$here")/../docs/guide/operate/set-up.md" >"$root/root/deb/first/lines.sh"
    cp "$3" "$root/root/deb/one.deb"
    cp "$4" "$root/root/deb/two.deb"
    # The scripts for Slurm are built with the first.
    version=$(dpkg-deb -f "$3" Version)
    cp "$(dirname "$3")/entrepot-slurm_${version}_all.deb" "$root/root/deb/slurm.deb"
    cp "$(dirname "$here")/Containerfile" "$root/root/deb/"
    cp "$here" "$root/root/deb/deb-test.sh"
    # Ports of its own, where nothing must be fetched.
    "$5" || ip link set lo up || skip "no network of its own can be had here"
    # What costs time and has nothing to do with us: an index of manual pages, waiting for the disk.
    rm -f "$root/var/lib/man-db/auto-update"
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/fast"
    chroot "$root" /bin/bash /root/deb/deb-test.sh --operate "$5"
    echo "== what is left"
    found=$(left "$dir/upper" "$lower")
    check [ -z "$found" ]
    echo "nothing but what the operator made"
}

case ${1-} in
--operate)
    operate "$2"
    exit
    ;;
--inside)
    shift
    inside "$@"
    exit
    ;;
esac
fresh=false
[ "${1-}" != --fresh ] || { fresh=true && shift; }
[ $# = 2 ] || { sed -n '2,4s/^# //p' "$0" && exit 2; }
[ "$(id -u)" = 0 ] || skip "needs root, for an overlay and a chroot"
[ -c /dev/fuse ] || skip "/dev/fuse is not here"
command -v apt-get >/dev/null || skip "apt-get is not here"
unshare --mount --pid --fork true 2>/dev/null || skip "no mounts and processes of its own can be had here"
one=$(realpath "$1") two=$(realpath "$2") dir=$(mktemp -d) lower=/
trap 'rm -rf --one-file-system "$dir"' EXIT
if $fresh; then
    command -v debootstrap >/dev/null || skip "debootstrap is not here"
    debootstrap --variant=minbase "${SUITE:-bookworm}" "$dir/debian" ${MIRROR:+"$MIRROR"} >"$dir/debootstrap.log" || { tail "$dir/debootstrap.log" && exit 1; }
    echo "== a fresh $(cat "$dir/debian/etc/debian_version"), $(chroot "$dir/debian" dpkg-query -W | wc -l) packages"
    lower=$dir/debian
elif dpkg-query -W entrepot >/dev/null 2>&1; then
    skip "the package is installed here"
fi
mkdir "$dir/over"
network=--net
! $fresh || network=
unshare --mount ${network:+"$network"} --propagation private --pid --fork --kill-child "$here" --inside "$lower" "$dir/over" "$one" "$two" $fresh
