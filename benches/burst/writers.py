#!/usr/bin/env python3
"""Checkpoint writers in the manner of fio: each application writes one version per period through the mount, in blocks of 1 MiB, with fsync.

usage: writers.py MOUNT APPS PERIOD_S CONGESTION BYTES PERIODS

The first period is not counted. Prints one JSON object: latencies in seconds from the arrival to the close, and what is late.
A version is removed when the second one after it was written, as applications do.
"""
import json
import os
import sys
import threading
import time

mount, apps, period_s, congestion, size, periods = (
    sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
BLOCK = 1 << 20
block = os.urandom(BLOCK)
began = time.monotonic() + 0.5
latencies, errors, lock = [], [], threading.Lock()


def write(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        left = size
        while left > 0:
            left -= os.write(fd, block[:min(left, BLOCK)])
        os.fsync(fd)
    finally:
        os.close(fd)


def application(n):
    for period in range(periods + 1):
        at = began + period * period_s + n * congestion * period_s / apps
        time.sleep(max(0.0, at - time.monotonic()))
        try:
            write(f"{mount}/ckpt/app{n:03}/{period:03}/state")
            took = time.monotonic() - at
            with lock:
                if period > 0:
                    latencies.append(took)
            if period > 1:
                os.remove(f"{mount}/ckpt/app{n:03}/{period - 2:03}/state")
        except OSError as error:
            with lock:
                errors.append(f"application {n}, period {period}: {error}")


threads = [threading.Thread(target=application, args=(n,)) for n in range(apps)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
latencies.sort()
mean = sum(latencies) / max(1, len(latencies))
print(json.dumps({"checkpoints": len(latencies), "latency_s": mean, "latency_max_s": latencies[-1] if latencies else 0.0,
                  "errors": errors}))
