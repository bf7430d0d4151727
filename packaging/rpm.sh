#!/usr/bin/env bash
# rpm.sh [DIR]: the rpms of what is built, as DIR/entrepot-VERSION.ARCH.rpm (target/rpm), and beside it that of the
# scripts for Slurm, entrepot-slurm-VERSION.noarch.rpm. Needs no root.
#   ENTREPOT_BUILT            where the programs are: target/release
#   ENTREPOT_RPM_VERSION      its version and release: those of Cargo.toml, and which commit it is where that has no tag
#   ENTREPOT_RPM_COMPRESSION  as rpm names it: w19.zstdio, w6.gzdio, w0.gzdio
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-target/rpm}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
to=$work/tree doc=$work/tree/usr/share/doc/entrepot

packaging/install.sh "$to" /usr
for program in "$to"/usr/bin/*; do
    ! objdump -h "$program" | grep -q '\.debug_info' || strip "$program"
done
ln -sfn ../bin/entrepot "$to/usr/sbin/mount.entrepot"
find "$to/usr/share/man" -type f -exec gzip -9n {} +
mkdir -p "$doc" "$to/etc/entrepot"
cp -r --no-preserve=mode README.md LICENSE CHANGELOG.md docs/guide docs/reference "$doc/"

packaging/slurm.sh "$to"
install -m 644 docs/guide/operate/slurm.md "$to/usr/share/doc/entrepot-slurm/slurm.md"

# The commit is told as in the Debian package, and sorts before the release that it will be.
version=${ENTREPOT_RPM_VERSION:-}
if [ -z "$version" ]; then
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
    if git rev-parse -q --verify HEAD >/dev/null 2>&1 && ! git describe --exact-match --match "v$version" >/dev/null 2>&1; then
        version=$(TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format="$version~git%cd.%h")
    fi
    version+=-1
fi
# Directories that only this package has are its own; all others belong to the system.
own() { (cd "$to" && find etc/entrepot usr/share/entrepot usr/share/doc/entrepot -type d -printf '%%dir "/%p"\n') }
files() { (cd "$to" && find usr -path usr/share/doc/entrepot-slurm -prune -o ! -type d -printf '"/%p"\n'); }
cat >"$work/entrepot.spec" <<END
Name: entrepot
Version: ${version%-*}
Release: ${version##*-}
Summary: Coordinated scratch file system of storage that is already there
License: $(sed -n 's/^license = "\(.*\)"/\1/p' Cargo.toml)
Recommends: fuse3, ca-certificates

%description
Entrepot makes one scratch file system of local disks, NVMe, GlusterFS, Lustre
or NFS mounts: large files are striped over all of it, staged data is healed
from where it came from, and jobs have their data brought and taken home.

Installing it mounts and starts nothing: see set-up.md in
/usr/share/doc/entrepot/guide/operate.

%package slurm
Summary: Scripts by which Slurm has the data of its jobs brought and taken home
BuildArch: noarch
Requires: entrepot >= ${version%-*}

%description slurm
For the machine of slurmctld, whose plug-ins burst_buffer/lua and
job_submit/lua read them in /etc/slurm. Installing it switches nothing on: see
slurm.md in /usr/share/doc/entrepot-slurm. What is in /etc/slurm stays as it is.

%install
cp -a "$to/." "%{buildroot}/"

# Changes nothing unasked: no unit is enabled, started or ended, and no volume is touched.
%post
[ ! -d /run/systemd/system ] || systemctl daemon-reload || :
[ "\$1" != 1 ] || exit 0
while read -r _ at type _; do
    case \$type in fuse.entrepot*)
        echo "entrepot: \$at stays mounted, served by the version before until it is started again"
    esac
done </proc/self/mounts

# Ends no daemon: what is mounted stays mounted, and whoever removes the package hears of it.
%preun
[ "\$1" = 0 ] || exit 0
rm -rf /usr/share/entrepot/python/entrepot/__pycache__
while read -r _ at type _; do
    case \$type in fuse.entrepot*)
        echo "entrepot: \$at stays mounted, without programs to start its jobs; umount \$at ends its daemon"
    esac
done </proc/self/mounts

%files
$(own)
$(files)

%files slurm
%config(noreplace) "/etc/slurm/burst_buffer.lua"
%config(noreplace) "/etc/slurm/burst_buffer.conf"
%config(noreplace) "/etc/slurm/entrepot_submit.lua"
"/usr/share/doc/entrepot-slurm"
END
rpmbuild --quiet -bb "$work/entrepot.spec" --define "_topdir $work/rpm" --define "_rpmdir $work/made" --define 'debug_package %{nil}' \
    --define '_build_id_links none' --define '__os_install_post %{nil}' --define "_binary_payload ${ENTREPOT_RPM_COMPRESSION:-w19.zstdio}"
mkdir -p "$out"
mv "$work"/made/*/*.rpm "$out/"
ls "$out"/entrepot-"$version".*.rpm
