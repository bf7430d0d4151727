#!/usr/bin/env bash
# install.sh DESTDIR PREFIX: what `make install` does with what `make docs` made.
set -euo pipefail
cd "$(dirname "$0")/.."
to=$1 prefix=$2 built=${ENTREPOT_BUILT:-target/release}
install -D -m 755 "$built/entrepot" "$to$prefix/bin/entrepot"
[ ! -e "$built/entrepot-lab" ] || install -D -m 755 "$built/entrepot-lab" "$to$prefix/bin/entrepot-lab"
# mount(8) looks in /sbin alone, which is /usr/sbin on systems of today.
mkdir -p "$to/usr/sbin"
ln -sfn "$prefix/bin/entrepot" "$to/usr/sbin/mount.entrepot"
for of in system user; do
    from=packaging/$of
    [ "$of" = user ] || from=packaging
    mkdir -p "$to$prefix/lib/systemd/$of"
    sed "s|/usr/bin/entrepot|$prefix/bin/entrepot|" "$from/entrepot@.service" >"$to$prefix/lib/systemd/$of/entrepot@.service"
done
[ ! -d target/man ] || for page in target/man/*.1; do
    install -D -m 644 "$page" "$to$prefix/share/man/man1/$(basename "$page")"
done
