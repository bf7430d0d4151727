#!/usr/bin/env bash
# make.sh ENTREPOT NAME: a small volume as this program writes it, as NAME.tar.xz here; crates/cli/tests/end_to_end/formats.rs opens it with the
# program of today. Each release adds one. A file called F of N bytes has "F" and a line feed again and again.
set -euo pipefail
entrepot=$(realpath "$1") name=$2 here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
end() {
    "$entrepot" down "$dir/mnt" 2>/dev/null || true
    rm -rf --one-file-system "$dir"
}
trap end EXIT
mkdir "$dir/mnt"
"$entrepot" init "$dir/v"
# The keys that are set, without the rest of the comments.
grep -vE '^ *#|^$' "$dir/v/volume.toml" >"$dir/short" && mv "$dir/short" "$dir/v/volume.toml"
export ENTREPOT_VOLUME=$dir/v/volume.toml
"$entrepot" up "$ENTREPOT_VOLUME" --at "$dir/mnt" --detach
cd "$dir/mnt"
put() { (yes "$(basename "$1")" || true) | head -c "$2" >"$1"; }
mkdir -p d/e mirrored narrow
put small 1000
put d/whole 300000
put d/e/striped 9000000
ln small d/hard
ln -s ../small d/soft
chmod 640 d/whole
setfattr -n user.mine -v kept d/whole
"$entrepot" layout set mirrored mirrors=2 stripe_size=64K single_max=64K
put mirrored/twice 400000
"$entrepot" layout set narrow stripe_count=1
put narrow/merged1 500000
put narrow/merged2 500000
"$entrepot" layout merge narrow/merged1 narrow/merged2
put "$dir/staged" 200000
"$entrepot" stage in "file://$dir/staged" "$dir/mnt/staged"
truncate -s 5000000 hole
printf end | dd of=hole bs=1 seek=2500000 conv=notrunc status=none
cd /
"$entrepot" down "$dir/mnt"
# What is made anew at a start, or says something of this machine, is left out.
tar -C "$dir" --xattrs --sparse --owner=0 --group=0 --numeric-owner --sort=name --exclude='files.db*' --exclude='*.log*' --exclude=lock \
    --exclude=socket -cf - v | xz -9e >"$here/$name.tar.xz"
