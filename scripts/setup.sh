#!/usr/bin/env bash
# Installs what the build, the tests, the demo, the benchmarks or the package need, and only what is missing.
# usage: scripts/setup.sh build|test|demo|bench|deb|rpm ...
# Needs root or sudo only if something is missing. Without either it says what to ask the administrator for.
set -euo pipefail

declare -A packages=(
    [build]="binutils gcc libc6-dev make pkg-config ca-certificates fuse3"
    [test]="acl attr autofs libacl1-dev nginx-light openssh-server openssh-client vsftpd dbench stress-ng fio slurm-wlm munge glusterfs-server glusterfs-client libgfapi0 iproute2 sshfs redis-server e2fsprogs xfsprogs util-linux openmpi-bin libopenmpi-dev prometheus openssl curl chromium rpm python3 python3-h5py"
    [demo]="nginx-light"
    [deb]="binutils dpkg dpkg-dev"
    [rpm]="binutils rpm"
    [bench]="python3 mergerfs nginx-light iproute2 mpich libmpich-dev blkreplay-examples fio e2fsprogs glusterfs-server glusterfs-client libgfapi0 linux-perf"
)

# A package counts as present when dpkg says so; nginx comes in several flavours and any will do.
present() {
    case $1 in
    nginx-light) [ -x /usr/sbin/nginx ] || command -v nginx >/dev/null ;;
    *) dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed' ;;
    esac
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else
        echo "setup: missing packages, and neither root nor sudo here to install them." >&2
        echo "       Ask the administrator to run: apt-get install $*" >&2
        exit 1
    fi
}

install() {
    local missing=() p
    for p in "$@"; do present "$p" || missing+=("$p"); done
    [ ${#missing[@]} = 0 ] && return 0
    command -v apt-get >/dev/null || {
        echo "setup: this is no Debian; install the equivalent of: ${missing[*]}" >&2
        exit 1
    }
    echo "setup: installing ${missing[*]}"
    # The list may be older than the archive: refresh it once when the first try fails.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
        as_root apt-get update -q >/dev/null
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
    }
}

# The toolchain: whatever cargo is new enough; else the one Debian 12 keeps current for browsers.
toolchain() {
    local wanted have
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if command -v cargo >/dev/null; then
        have=$(cargo --version | awk '{print $2}')
        [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -1)" = "$wanted" ] && return 0
        echo "setup: cargo $have is older than $wanted"
    fi
    install rustc-web cargo-web
    command -v cargo >/dev/null || {
        echo "setup: no cargo >= $wanted to be had from Debian; install one with rustup and run again" >&2
        exit 1
    }
}

# Two test suites that are Rust packages; built once into target/tools.
suites() {
    local tool version
    for tool in fsx:0.3.2 pjdfstest:0.2.2; do
        version=${tool#*:} tool=${tool%:*}
        [ -x "target/tools/bin/$tool" ] && continue
        echo "setup: building $tool $version"
        cargo install --quiet --locked --root target/tools --version "$version" "$tool"
    done
}

cd "$(dirname "$0")/.."
for what in "$@"; do
    # shellcheck disable=SC2086
    install ${packages[$what]}
    [ "$what" != build ] || toolchain
    [ "$what" != test ] || suites
done
