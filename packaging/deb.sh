#!/usr/bin/env bash
# deb.sh [DIR]: the Debian packages of what is built, as DIR/entrepot_VERSION_ARCH.deb (target/deb), and beside it that of
# the scripts for Slurm, entrepot-slurm_VERSION_all.deb. Needs no root.
#   ENTREPOT_BUILT            where the programs are: target/release
#   ENTREPOT_DEB_VERSION      its version: that of Cargo.toml, and which commit it is where that has no tag
#   ENTREPOT_DEB_COMPRESSION  xz, zstd, gzip, none
#   DEBFULLNAME, DEBEMAIL     who made it
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-target/deb}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
to=$work/root doc=$work/root/usr/share/doc/entrepot

version() {
    local cargo
    cargo=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
    if ! git rev-parse -q --verify HEAD >/dev/null 2>&1 || git describe --exact-match --match "v$cargo" >/dev/null 2>&1; then
        echo "$cargo-1"
    else
        # Before the release that it will be, and after all commits before it.
        TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format="$cargo~git%cd.%h-1"
    fi
}

# The libraries that the programs are linked with, as packages. Those opened at run time (libgfapi) are suggested.
libraries() {
    if command -v dpkg-shlibdeps >/dev/null; then
        mkdir -p "$work/debian"
        printf 'Source: entrepot\n\nPackage: entrepot\nArchitecture: any\n' >"$work/debian/control"
        (cd "$work" && dpkg-shlibdeps -O "$to"/usr/bin/*) | sed -n 's/^shlibs:Depends=//p'
    else
        # No older than what is here: which version has all that they use is not known.
        ldd "$to"/usr/bin/* | awk '$2 == "=>" {print $3}' | sort -u | while read -r library; do
            package=$(dpkg -S "$library" 2>/dev/null || dpkg -S "$(realpath "$library")")
            dpkg-query -W -f '${binary:Package} (>= ${source:Upstream-Version})\n' "${package%%: *}"
        done | sed 's/:[a-z0-9]*//' | sort -u | paste -sd, | sed 's/,/, /g'
    fi
}

packaging/install.sh "$to" /usr
for program in "$to"/usr/bin/*; do
    ! objdump -h "$program" | grep -q '\.debug_info' || strip "$program"
done
ln -sfn ../bin/entrepot "$to/usr/sbin/mount.entrepot"
# Where Debian's zsh looks.
mv "$to/usr/share/zsh/site-functions" "$to/usr/share/zsh/vendor-completions"
find "$to/usr/share/man" -type f -exec gzip -9n {} +
# For the files of volumes that everybody uses.
mkdir -p "$to/etc/entrepot"

version=${ENTREPOT_DEB_VERSION:-$(version)}
arch=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-Entrepot maintainers} <${DEBEMAIL:-entrepot@localhost}>"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
mkdir -p "$doc"
install -m 644 packaging/deb/copyright "$doc/copyright"
cp -r --no-preserve=mode README.md docs/guide docs/reference "$doc/"
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
changelog() {
    gzip -9nc <<END
$1 ($version) unstable; urgency=medium

  * What changed for users is in changelog.gz$2.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
}
changelog entrepot '' >"$doc/changelog.Debian.gz"

control=$to/DEBIAN
mkdir -p "$control"
cat >"$control/control" <<END
Package: entrepot
Version: $version
Architecture: $arch
Maintainer: $maintainer
Section: admin
Priority: optional
Installed-Size: $(du -ks --apparent-size --exclude=DEBIAN "$to" | cut -f1)
Depends: $(libraries)
Recommends: fuse3, mount, ca-certificates
Suggests: glusterfs-client, libgfapi0, nfs-common, openssh-client, prometheus, redis-server, slurm-client
Description: coordinated scratch file system of storage that is already there
 Entrepot makes one scratch file system of local disks, NVMe, GlusterFS, Lustre
 or NFS mounts: large files are striped over all of it, staged data is healed
 from where it came from, and jobs have their data brought and taken home.
 .
 Installing it mounts and starts nothing: see set-up.md in
 /usr/share/doc/entrepot/guide/operate.
END
sums() { (cd "$1" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$1/DEBIAN/md5sums"; }
sums "$to"
install -m 755 packaging/deb/postinst packaging/deb/prerm "$control/"

# The scripts for Slurm, of which slurm.conf need not know.
slurm=$work/slurm slurm_doc=$work/slurm/usr/share/doc/entrepot-slurm
packaging/slurm.sh "$slurm"
mkdir -p "$slurm/DEBIAN"
install -m 644 packaging/deb/copyright "$slurm_doc/copyright"
install -m 644 docs/guide/operate/slurm.md "$slurm_doc/slurm.md"
changelog entrepot-slurm ' of entrepot' >"$slurm_doc/changelog.Debian.gz"
cat >"$slurm/DEBIAN/control" <<END
Package: entrepot-slurm
Source: entrepot
Version: $version
Architecture: all
Maintainer: $maintainer
Section: admin
Priority: optional
Installed-Size: $(du -ks --apparent-size --exclude=DEBIAN "$slurm" | cut -f1)
Depends: entrepot (>= $version)
Enhances: slurmctld
Description: scripts by which Slurm has the data of its jobs brought and taken home
 For the machine of slurmctld, whose plug-ins burst_buffer/lua and
 job_submit/lua read them in /etc/slurm.
 .
 Installing it switches nothing on: slurm.conf is the administrator's, and
 slurm.md in /usr/share/doc/entrepot-slurm has the lines that it needs.
END
(cd "$slurm" && find etc -type f -printf '/%p\n' | sort) >"$slurm/DEBIAN/conffiles"
sums "$slurm"
install -m 755 packaging/deb/slurm-preinst "$slurm/DEBIAN/preinst"

mkdir -p "$out"
for built in "$to:entrepot_${version}_$arch" "$slurm:entrepot-slurm_${version}_all"; do
    dpkg-deb --root-owner-group -Z"${ENTREPOT_DEB_COMPRESSION:-xz}" --build "${built%%:*}" "$out/${built#*:}.deb"
done
