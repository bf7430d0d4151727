#!/usr/bin/env bash
# The main job, end to end, on this machine: a volume of six targets, a job whose input comes over http, four readers,
# a target that fails while they read, a result that is taken home. Everything lives in one temporary directory, of which
# the job's script and its result stay.
# usage: demo/run.sh path/to/entrepot
set -euo pipefail

entrepot=$(readlink -f "$1")
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/entrepot-demo.XXXXXX")
mnt=$dir/mnt
toml=$dir/scratch/volume.toml
nginx_pid=""

say() { if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }
ep() { "$entrepot" --volume "$toml" "$@"; }

cleanup() {
    local status=$?
    trap - EXIT
    ep down >/dev/null 2>&1 || ep down --force >/dev/null 2>&1 || true
    [ -z "$nginx_pid" ] || { kill "$nginx_pid" 2>/dev/null && wait "$nginx_pid" 2>/dev/null; } || true
    if [ $status = 0 ]; then rm -rf "$dir"/{scratch,mnt,www,nginx,status.json}; else echo "demo: failed; what it left is in $dir" >&2; fi
    exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# A real file of at least 100 MB: a library of the toolchain if there is one, else the largest files of /usr/lib.
real_file() {
    local sysroot found
    sysroot=$(rustc --print sysroot 2>/dev/null || echo /usr/lib)
    found=$(find "$sysroot/lib" /usr/lib -xdev -type f -size +100M -readable 2>/dev/null | head -1)
    if [ -n "$found" ]; then cp "$found" "$1"; echo "$found"; return; fi
    tar -C / -cf - usr/lib 2>/dev/null | head -c 160M >"$1" || true
    echo "an archive of /usr/lib"
}

mkdir -p "$mnt" "$dir/www" "$dir/home" "$dir/nginx"
chmod 755 "$dir"
echo "The demo takes about 10 seconds. Everything is in $dir."
say "1. A source: nginx on loopback, serving a real file with range support"
origin=$(real_file "$dir/www/input.bin")
bytes=$(stat -c %s "$dir/www/input.bin")
echo "   $origin, $((bytes / 1000000)) MB"
# The port is one that nobody has: nginx ends by itself when it cannot have it, and another one is tried.
serve() {
    local port
    for _ in 1 2 3 4 5; do
        port=$(("$(od -An -N2 -tu2 /dev/urandom)" % 20000 + 10000))
        cat >"$dir/nginx/nginx.conf" <<EOF
$([ "$(id -u)" != 0 ] || echo "user root;")
daemon off; worker_processes 1; pid $dir/nginx/pid; error_log $dir/nginx/error.log;
events {}
http {
    access_log off; sendfile on;
    client_body_temp_path $dir/nginx/b; proxy_temp_path $dir/nginx/p; fastcgi_temp_path $dir/nginx/f;
    uwsgi_temp_path $dir/nginx/u; scgi_temp_path $dir/nginx/s;
    server { listen 127.0.0.1:$port; root $dir/www; }
}
EOF
        /usr/sbin/nginx -c "$dir/nginx/nginx.conf" 2>/dev/null &
        nginx_pid=$!
        for _ in $(seq 100); do
            kill -0 "$nginx_pid" 2>/dev/null || continue 2
            # It writes its number once it listens.
            [ ! -s "$dir/nginx/pid" ] || { source=127.0.0.1:$port; return; }
            sleep 0.1
        done
        break
    done
    tail -n 3 "$dir/nginx/error.log" >&2
    echo "demo: nginx does not start on loopback" >&2
    exit 1
}
serve

say "2. A volume of six targets, mounted"
ep init "$dir/scratch" | sed 's/^/   /'
ep up "$toml" --at "$mnt" --detach | sed 's/^/   /'
ep target list | sed 's/^/   /'
# What the job writes has no source, so it gets two copies.
mkdir "$mnt/parts"
ep layout set "$mnt/parts" mirrors=2

say "3. A job: stage in, four readers, stage out"
sed -e "s|@URI@|http://$source/input.bin|; s|@MNT@|$mnt|g; s|@HOME@|$dir/home|g" "$here/job.sh.in" >"$dir/job.sh"
sed -n '2,8p' "$dir/job.sh" | sed 's/^/   | /'
id=$(cd "$dir/home" && ep job submit "$dir/job.sh" | sed -n 's/^job \([0-9]*\).*/\1/p')
echo "   submitted as job $id"

state() { ep job show "$id" --output json | sed -n 's/.*"state": *"\([a-z-]*\)".*/\1/p' | head -1; }

say "4. While it reads, a target fails"
for _ in $(seq 600); do
    [ ! -e "$mnt/reading" ] || break
    case $(state) in failed | cancelled) ep job show "$id"; ep job log "$id"; exit 1 ;; esac
    sleep 0.1
done
victim=$(ep layout "$mnt/input.bin" --output json | tr -d ' \n' | sed -n 's/.*"target":"\([^"]*\)".*/\1/p')
sleep 0.5
echo "   entrepot target fail $victim"
ep target fail "$victim" | sed 's/^/   /'
ep job wait "$id" >/dev/null || true

say "5. What happened"
ep job show "$id" | sed 's/^/   /'
ep status | sed 's/^/   /'
expected=$(cd "$dir/www" && sha256sum input.bin | cut -d' ' -f1)
got=$(cut -d' ' -f1 "$dir/home/result.txt" 2>/dev/null || echo none)
say "6. Summary"
ep status --output json >"$dir/status.json"
number() { tr -d ' \n' <"$dir/status.json" | sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" | head -1; }
echo "   stripes lost with $victim and recovered  $(number stripes_recovered)"
echo "   bytes fetched from the source     $(number bytes_fetched) of $bytes"
echo "   longest wait of a reader          $(number reader_delay_max_ms) ms"
echo "   checksum of the source            $expected"
echo "   checksum that the job computed    $got"
if [ "$expected" != "$got" ]; then
    echo "   WRONG: they differ"
    exit 1
fi
cat <<EOF

Shown: a job's input was fetched over http and striped over several targets; while four processes read it, one target
failed; the lost stripes, and nothing else, were fetched again from the source, nobody got an error, and the result
went home. The volume is gone now. These stay (rm -r $dir):
   $dir/job.sh
   $dir/home/result.txt
Next: \`make build\`, put target/release/entrepot where your PATH looks, and go on with "Ten lines" in README.md; then
docs/guide/operate/set-up.md for a volume on your own devices, docs/guide/jobs.md for jobs.
EOF
