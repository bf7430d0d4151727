#!/usr/bin/env bash
# Takes the README's picture of the dashboard: a small volume with some files, a job and a target that drains.
# usage: scripts/screenshot.sh [PROGRAM [PICTURE]]   defaults: target/release/entrepot docs/pictures/dashboard.png
# Needs /dev/fuse, root or fusermount3, Chromium and Python 3.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(readlink -f "${1:-target/release/entrepot}")
picture=$(readlink -m "${2:-docs/pictures/dashboard.png}")

dir=$(mktemp -d /tmp/entrepot-XXX)
proxy=
finish() {
    [ -z "$proxy" ] || kill "$proxy" 2>/dev/null || true
    "$program" down "$dir/mnt" --force >/dev/null 2>&1 || true
    rm -rf "$dir"
}
trap finish EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
port=$(free_port)
shown=$(free_port)

cd "$dir"
"$program" init scratch --listen "127.0.0.1:$port" >/dev/null
# Four of the six targets, so that moves and jobs are in the picture too.
sed -i '/^\[\[target\]\]$/{N; /"\(fast2\|capacity2\)"/{N; N; d}}' scratch/volume.toml
mkdir mnt
"$program" up scratch/volume.toml --at mnt --detach
export ENTREPOT_VOLUME=$dir/mnt

mkdir mnt/climate mnt/genomes
for n in 1 2 3; do head -c "${n}0M" /dev/urandom >mnt/climate/year$n.nc; done
"$program" layout set mnt/genomes mirrors=2 >/dev/null
head -c 32M /dev/urandom >mnt/genomes/reads.fq
printf '#!/bin/bash\n#ENTREPOT -n 1 -t 00:10:00\nsleep 600\n' >wave.sh
printf '#!/bin/bash\n#ENTREPOT -n 1 -t 00:10:00\nexit 3\n' >post.sh
"$program" job submit wave.sh >/dev/null
"$program" job submit post.sh >/dev/null
"$program" target drain fast1 >/dev/null
sleep 8 # for the drain, and the job that fails

# The token is the browser's to send; a command line cannot type it.
python3 - "$port" "$shown" scratch/endpoint.token <<'END' &
import http.server, sys, urllib.error, urllib.request
port, shown, token = int(sys.argv[1]), int(sys.argv[2]), open(sys.argv[3]).read().strip()
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        headers = {"Authorization": "Bearer " + token}
        request = urllib.request.Request(f"http://127.0.0.1:{port}{self.path}", headers=headers)
        try: answer = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error: answer = error
        body = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", shown), Proxy).serve_forever()
END
proxy=$!
sleep 1
# The first request starts the scan of the space of each user.
python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$shown/api/space')"
sleep 2

mkdir -p "$(dirname "$picture")"
for browser in chromium chromium-browser google-chrome; do ! command -v $browser >/dev/null || break; done
timeout 60 $browser --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-proxy-server \
    --user-data-dir="$dir/profile" --window-size=1000,1252 --virtual-time-budget=6000 --screenshot="$picture" \
    "http://127.0.0.1:$shown/" >chromium.log 2>&1 || { cat chromium.log >&2; exit 1; }
"$program" job cancel 1 >/dev/null
echo "$picture: $(stat -c %s "$picture") bytes"
