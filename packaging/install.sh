#!/usr/bin/env bash
# install.sh DESTDIR PREFIX: what `make install` does with what `make build lab` made. The programs write their manual pages and completions.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
to=$1 prefix=$2 built=${ENTREPOT_BUILT:-target/release}
for program in entrepot entrepot-lab; do
    [ "$program" = entrepot ] || [ -e "$built/$program" ] || continue
    install -D -m 755 "$built/$program" "$to$prefix/bin/$program"
    "$built/$program" man "$to$prefix/share/man/man1"
    while read -r shell file; do
        mkdir -p "$(dirname "$to$prefix/share/$file")"
        "$built/$program" completions "$shell" >"$to$prefix/share/$file"
    done <<END
bash bash-completion/completions/$program
zsh zsh/site-functions/_$program
fish fish/vendor_completions.d/$program.fish
END
done
# mount(8) looks in /sbin alone, which is /usr/sbin on systems of today.
mkdir -p "$to/usr/sbin"
ln -sfn "$prefix/bin/entrepot" "$to/usr/sbin/mount.entrepot"
install -D -m 644 packaging/mount.entrepot.8 "$to$prefix/share/man/man8/mount.entrepot.8"
for of in system user; do
    from=packaging/$of
    [ "$of" = user ] || from=packaging
    mkdir -p "$to$prefix/lib/systemd/$of"
    sed "s|/usr/bin/entrepot|$prefix/bin/entrepot|" "$from/entrepot@.service" >"$to$prefix/lib/systemd/$of/entrepot@.service"
done
for file in packaging/monitoring/alerts.yml packaging/monitoring/boards/*.json; do
    install -D -m 644 "$file" "$to$prefix/share/entrepot/${file#packaging/}"
done
# For programs that write checkpoints: a module of Python, and two files of C to compile along.
for file in python/entrepot/*.py c/entrepot_checkpoint.[ch]; do
    install -D -m 644 "$file" "$to$prefix/share/entrepot/$file"
done
