#!/usr/bin/env python3
"""Rates that the simulator predicts and rates of the live system for the same load, mechanism by mechanism: one table.

usage: benches/predicted/run.py path/to/entrepot [ROW...]     (entrepot-lab beside it; root; twelve minutes)

Each row plays one seeded list of requests twice: in virtual time, and by clients of a mounted volume whose devices are
emulated without credit for idle time (rig.py). The exit status is 1 if a judged row is off by more than 10 %. If the
rig's own work waited for a processor for more than 10 % of the time, a row is not judged.
"""

import itertools
import json
import os
import random
import signal
import sys
import time

sys.dont_write_bytecode = True
from rig import SHARE_MAX, Rig, together, trace, wait_for

MIB = 1 << 20
SEED = int(os.environ.get("ENTREPOT_BENCH_SEED", "7"))
OFF_MAX = 0.1
STRIPES = '[stripes]\nmode = "model"\ntier = "slow"\nwindow = "4s"\ninterval = "500ms"\n'
PLAIN = "inline_max = 0\n[mount]\npassthrough = \"off\"\nio = \"direct\"\n"


def rounds(draw, places):
    """Yields the places in rounds, each in a new order: by chance none is read more often than another."""
    places = list(places)
    while True:
        draw.shuffle(places)
        yield from places


def arrivals(draw, rate, seconds):
    """Random times at this rate, within so many seconds."""
    dues = itertools.accumulate(draw.expovariate(rate) for _ in itertools.count())
    return itertools.takewhile(lambda due: due < seconds, dues)


def later(load, seconds):
    """The load so much later; the first request stays at 0, from which a trace counts its times."""
    return load[:1] + [(due + seconds, *rest) for due, *rest in load[1:]]


def hot_reads(count, mib, size):
    """Reads of `size` bytes: 85 % of them in an eighth of the file."""
    draw, places = random.Random(SEED), mib * MIB // size
    hot = range(places * 3 // 8, places // 2)
    hot, cold = rounds(draw, hot), rounds(draw, sorted(set(range(places)) - set(hot)))
    return [(0.0, "data", next(hot if draw.random() < 0.85 else cold) * size, size, False) for _ in range(count)]


def tiers(rig, policy):
    """Skewed reads of six clients on two fast and two slow devices; the second half is counted."""
    fast, slow = (28, 14), (7, 5)
    mib, size, depth, count = 64, 256 << 10, 6, 1600 if policy == "off" else 5000
    requests, half = hot_reads(count, mib, size), count // 2
    # The simulator gets the same history: the file is written in order.
    history = [(0.0, "data", at, size, True) for at in range(0, mib * MIB, size)]
    percent = 100 / len(history + requests)
    words = ["--fast-size", f"{mib}MiB", "--schemes", "round-robin"]
    if policy != "off":
        words = ["--fast-size", "16MiB", "--share", 10, "--window", f"{count / 10 * percent:.4f}%",
                 "--busy-share", 20, "--schemes", policy]
    figures = rig.sim("tier", *trace(rig, history + requests), "--fast", 2, "--slow", 2,
                      "--fast-speed", "%d/%d" % fast, "--slow-speed", "%d/%d" % slow, "--depth", depth,
                      "--stripe", size, "--warm-up", f"{(len(history) + half) * percent:.4f}", *words)
    figures = figures["cases"][0]["figures"]
    targets = [(f"{tier}{n}", rig.device(f"{tier}{n}", *speed, capacity="80MiB"), tier, 'speed = "%d/%d"' % speed)
               for tier, speed in (("fast", fast), ("capacity", slow)) for n in (0, 1)]
    sections = f'[layout]\nsegment = "{"1MiB" if policy == "off" else "256KiB"}"\nstripe_size = "256KiB"\n' \
               f"stripe_count = {4 if policy == 'off' else 1}\nsingle_max = 0\n{PLAIN}"
    if policy != "off":
        sections += f'[tiering]\npolicy = "{policy}"\nwindow = {count // 10}\nidle = "0s"\ncopy_after = "0s"\n' \
                    f"busy_rate = {2 * slow[0] * 200000}\non_access = true\nshare_percent = 10\n"
    with rig.volume(targets, sections) as volume:
        volume.fill("data", mib * MIB)
        with rig.watched() as waited:
            times = volume.play(requests, depth)
    moved = (count - half) * size / 1e6
    live = moved / (max(end for _, end in times) - times[half][0])
    name = "tiers, round robin" if policy == "off" else f"tiers, `{policy}`, moving under load"
    devices = "2 of %d/%d, 2 of %d/%d" % (*fast, *slow)
    load = f"{depth} clients, {size >> 10} KiB, 85 % in an eighth of {mib} MiB; {devices}"
    yield name, load, moved / figures["span_s"], live, waited()


def burst(rig, scheme):
    """Checkpoints of several applications into an over-subscribed buffer."""
    write, demote, idle, buffer, size, period, congestion, dwpp = (20, 15), (10, 0.5), 12, 160, 16, 32, 0.4, 1.8
    apps = int(dwpp * buffer / size + 1e-9)
    figures = rig.sim("burst", "--dwpp", dwpp, "--congestion", congestion, "--schemes", scheme, "--periods", 1,
                      "--capacity", f"{buffer}MB", "--checkpoint", f"{size}MB", "--period", f"{period}s",
                      "--write", f"{write[0] / 1000}-{write[1] / 1000}", "--demote-idle", idle / 1000,
                      "--demote", f"{demote[0] / 1000}-{demote[1] / 1000}", "--step", "10ms")["cases"][0]["figures"]
    # The devices are faster than the policy's rates, so that the policy decides.
    targets = [("fast0", rig.device("fast0", 60, 40), "fast", ""),
               ("capacity0", rig.device("capacity0", 30, idle * 1.5), "capacity", "")]
    rates = dict(zip(("write_max", "write_min", "demote_max", "demote_min", "demote_idle"), (*write, *demote, idle)))
    order = "versions" if scheme == "bbos" else "fifo"
    sections = f'[layout]\n{PLAIN}[burst]\nfast = "fast"\ncapacity = "capacity"\nsize = {buffer * 10**6}\n' \
               f'checkpoints = ["ckpt/{{app}}/{{version}}/**"]\npolicy = "{scheme}"\norder = "{order}"\n' \
               f'period = "{period}s"\nperiod_bytes = {apps * size * 10**6}\nwait = "0s"\nlimits = "buckets"\n' \
               + "".join(f"{key} = {int(rate * 1e6)}\n" for key, rate in rates.items())
    writers = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "burst", "writers.py")
    with rig.volume(targets, sections) as volume, rig.watched() as waited:
        live = json.loads(rig.run(sys.executable, writers, volume.mnt, apps, period, congestion, size * 10**6, 1))
    if live["errors"]:
        raise RuntimeError(live["errors"])
    load = f"{apps} checkpoints of {size} MB in {congestion} of {period} s into {buffer} MB; " \
           f"writes {write[1]} to {write[0]}, demotes {demote[1]} to {idle}"
    yield f"burst buffer, `{scheme}`", load, size / figures["latency_s"], size / live["latency_s"], waited()


def stripes(rig, mode):
    """Reads at random times on eight slow devices, striped over one, over four, or as the model decides."""
    latency, speed, size, rate, seconds, mib, devices = 9, 9, 448 << 10, 34, 45, 56, 8
    draw = random.Random(SEED)
    gaps = itertools.accumulate(draw.expovariate(rate) for _ in range(rate * seconds))
    places = rounds(draw, range(mib * MIB // size))
    requests = [(due, "data", next(places) * size, size, False) for due in gaps]
    unit = 1 << 20 if mode == "model" else size // int(mode)
    line = f'speed = "{speed}/{speed}"\nlatency = "{latency}ms"'
    measured = f'device = "flash:latency={latency}ms,channels=1,read={speed}MB/s,write={speed}MB/s"\n'
    names = [f"slow{n}" for n in range(devices)]
    adapts = STRIPES if mode == "model" else ""
    sections = f"[layout]\nstripe_count = {devices}\nstripe_size = {unit}\nsingle_max = 0\n{PLAIN}{adapts}"
    rows = [("fast0", "/nowhere", "fast", line)] + [(name, f"/nowhere/{name}", "slow", line) for name in names]
    toml = rig.toml(rows, sections, measured)
    figures = rig.sim("volume", toml, *trace(rig, requests), "--jobs", 0, "--slow-size", "1GB")["figures"]
    targets = [(name, rig.device(name, speed, speed, latency), "slow", line) for name in names]
    with rig.volume(targets, sections, measured) as volume:
        volume.fill("data", mib * MIB)
        with rig.watched() as waited:
            times = volume.play(requests)
    live_ms = sum(end - start for start, end in times) / len(times) * 1e3
    name = "stripes, `model`" if mode == "model" else f"stripes, {mode} wide"
    load = f"{rate}/s of {size >> 10} KiB; {devices} of {speed} after {latency} ms"
    yield name, load, size / 1e3 / figures["request_ms"], size / 1e3 / live_ms, waited()


def prefetch(rig, trigger):
    """Streams that each read at their own rate, together more than the device serves; what they get in 20 s."""
    latency, speed, size, seconds = 5, 13, 64 << 10, 20
    rates = [1.1, 1.7, 2.3, 3.1, 4.3]
    counts = [int(seconds * rate * 1e6 / size) for rate in rates]
    streams = [[(n * size / 1e6 / rate, f"f{at}", n * size, size, False) for n in range(count)]
               for at, (rate, count) in enumerate(zip(rates, counts))]
    requests = sorted(itertools.chain.from_iterable(streams))
    blocks, words = 96 * len(rates), "stream:degree_max=40"
    disk = f"plain:read={speed}MB,write={speed}MB,latency={latency}ms"
    report = rig.sim("cache", *trace(rig, requests, clients=True), "--disk", disk, "--scheduler", "noop",
                     "--l1", "none", "--l1-size", 32, "--l2", words, "--l2-size", blocks, "--l2-trigger", trigger,
                     "--alpha", 0, "--beta", 0, "--paced", "--client-each", "--until", f"{seconds}s")["report"]
    targets = [("disk0", rig.device("disk0", speed, speed, latency), "disk", "")]
    sections = f'[layout]\nsingle_max = "1TiB"\ninline_max = 0\n' \
               f'[cache]\nsize = {blocks * 4096}\nprefetch = "{words}"\ntrigger = "{trigger}"\n'
    with rig.volume(targets, sections) as volume:
        for at, stream in enumerate(streams):
            volume.fill(f"f{at}", -(-len(stream) * size // MIB) * MIB)
        with rig.watched() as waited:
            read = volume.play_paced(streams, seconds)
    load = f"streams at {', '.join(map(str, rates))}; one of {speed} after {latency} ms"
    yield (f"prefetching, `{trigger}`", load, report["read_blocks"] * 4096 / 1e6 / seconds,
           read / 1e6 / seconds, waited())


def source(rig, row):
    """A file staged in from a slow source, then read while a target is lost: the rest comes from the source."""
    speed, mib, stripe, count, pace = 6, 48, 1, 4, 19
    figures = rig.sim("recovery", "--size", f"{mib}MiB", "--stripe", f"{stripe}MiB", "--count", count, "--rate", speed,
                      "--seek", "0ms", "--at-once", 1, "--reader", pace, "--metadata", "1ms", "--seed", SEED)
    site = rig.device("site", speed, 1000)
    with open(f"{site}/data", "wb") as data:
        data.write(os.urandom(mib * MIB))
    targets = [(f"t{n}", rig.device(f"t{n}", 40, 40), "disk", "") for n in range(count + 2)]
    sections = f'[layout]\nstripe_size = "{stripe}MiB"\nstripe_count = {count}\nsingle_max = 0\n{PLAIN}' \
               "[recovery]\nconcurrent = 1\n"
    with rig.volume(targets, sections) as volume:
        with rig.watched() as waited:
            began = time.monotonic()
            volume.tell("stage", "in", f"file://{site}/data", f"{volume.mnt}/data")
            took = time.monotonic() - began
        size = mib * MIB / 1e6
        yield ("staging in", f"{mib} MiB; a source of {speed}", size / figures["stage_s"], size / took, waited())
        layout = json.loads(rig.run(rig.entrepot, "layout", f"{volume.mnt}/data", "--output", "json"))
        volume.tell("target", "fail", layout["mirrors"][0]["segments"][0]["objects"][count // 2]["target"])
        with rig.watched() as waited:
            # The simulated reader's pace includes the time of a read that finds its bytes.
            took = volume.read_paced("data", mib * MIB, stripe * MIB, stripe * MIB / 1e6 * (1 / pace - 1 / 40))
    alone = size / pace
    load = f"the same, one object of {count} lost; a reader of {pace}"
    yield "reading while healing", load, size / (alone + figures["overhead_s"]), size / took, waited()


def two_files(rates, sizes, seconds, mib):
    """Reads at random times of a file of segments, 85 % of them in an eighth of it, and of a file in one segment."""
    draw, load = random.Random(SEED), []
    for name, rate, size in zip(("segments", "whole"), rates, sizes):
        places = mib * MIB // size
        hot = rounds(draw, range(places // 2, places * 5 // 8))
        every = rounds(draw, range(places))
        for due in arrivals(draw, rate, seconds):
            place = next(hot if name == "segments" and draw.random() < 0.85 else every)
            load.append((due, name, place * size, size, False))
    # The first file of a trace is the one of segments.
    return [(0.0, "segments", 0, sizes[0], False)] + sorted(load)


class TwoTiers:
    """Fast and four slow devices of (reading, writing, latency in ms), and a volume.toml over them."""

    def __init__(self, count, fast, slow, window, more=""):
        adapts = '[tiering]\npolicy = "tuned"\nfast = "fast"\nslow = "slow"\n' \
                 f'window = {window}\nidle = "0s"\nbusy_rate = 4000000\nshare_percent = 10\n{STRIPES}{more}'
        lines = {tier: f'speed = "{read}/{write}"\nlatency = "{ms}ms"'
                 for tier, (read, write, ms) in (("fast", fast), ("slow", slow))}
        devices = [(f"slow{n}", *slow, "slow") for n in range(4)] + [(f"fast{n}", *fast, "fast") for n in range(count)]
        self.devices = [(*of, lines[of[-1]]) for of in devices]
        self.each = f'device = "flash:latency={slow[2]}ms,channels=1,read={slow[0]}MB/s,write={slow[1]}MB/s"\n'
        self.layout = '[layout]\nstripe_count = 4\nstripe_size = "1MiB"\nsingle_max = 0\n'
        self.segments = 'segment = "1MiB"\n'
        self.adapts = self.layout + self.segments + PLAIN + adapts
        self.told = "%d of %d/%d after %d ms, 4 of %d/%d after %d ms" % (count, *fast, *slow)

    def sim(self, rig, load, *words):
        rows = [(name, f"/nowhere/{name}", *of[3:]) for name, *of in self.devices]
        room = ["--fast-size", "80MiB", "--slow-size", "1GiB"]
        return rig.sim("volume", rig.toml(rows, self.adapts, self.each), *trace(rig, load), *room, *words)["figures"]

    def volume(self, rig, files):
        """The live volume; files (name, MiB, whether in segments) are written before it has fast devices."""
        targets = [(name, rig.device(name, read, write, ms, "80MiB" if tier == "fast" else "1GiB"), tier, line)
                   for name, read, write, ms, tier, line in self.devices]
        for name, mib, cut in files:
            with rig.volume(targets[:4], self.layout + (self.segments if cut else "") + PLAIN, self.each) as live:
                live.fill(name, mib * MIB)
        return rig.volume(targets, self.adapts, self.each)


def response_ms(times):
    return sum(end - start for start, end in times) / len(times) * 1e3


def volume(rig, _):
    """A volume with tiers and adaptive stripes: a file of segments and one of stripes, on slow devices first."""
    load = two_files((26, 14), (256 << 10, 448 << 10), 40, 40)
    tiers = TwoTiers(2, (31, 17, 2), (8, 6, 7), 400)
    figures = tiers.sim(rig, load, "--jobs", 0)
    with tiers.volume(rig, [("whole", 40, False), ("segments", 40, True)]) as live:
        with rig.watched() as waited:
            times = live.play(load)
    size = sum(of[3] for of in load) / len(load)
    told = f"26/s of 256 KiB, 14/s of 448 KiB; {tiers.told}"
    yield ("a volume with tiers and stripes", told, size / 1e3 / figures["request_ms"],
           size / 1e3 / response_ms(times), waited())


def with_jobs(rig, kib):
    """The same with a burst buffer: jobs, which start 2 to 4 s apart, read an input and write checkpoints beside."""
    jobs, checkpoints, mib, interval, lead = 3, 5, 10, 7.5, 3
    count, fast, reads = {"512": (4, (14, 3, 1), (12, 6)), "1024": (2, (24, 6, 1), (6, 4))}[kib]
    size = int(kib) << 10
    tiers = TwoTiers(count, fast, (9, 7, 6), 180,
                     '[burst]\nfast = "fast"\ncapacity = "slow"\nsize = "90MB"\nperiod = "7s"\n'
                     'checkpoints = ["ckpt/{app}/{version}/**"]\nlimits = "buckets"\nwrite_max = "200MB"\n'
                     'write_min = "190MB"\ndemote_max = "4MB"\ndemote_min = "500KB"\ndemote_idle = "8MB"\n')
    words = ["--jobs", jobs, "--span", "1ns", "--queued", "8s", "--input", 600000, "--checkpoint", mib * MIB,
             "--checkpoints", checkpoints, "--interval", f"{interval}s"]
    for seed in itertools.count(SEED * 1000):
        found = tiers.sim(rig, [(0.0, "segments", 0, size, False)], "--seed", seed, *words)["job_times"]
        starts = sorted(of["started_s"] for of in found)
        if all(2 <= after - before <= 4 for before, after in itertools.pairwise(starts)):
            break
    seconds = starts[-1] - starts[0] + lead + checkpoints * (interval + 1)
    load = two_files(reads, (size, size), seconds, 40)
    shift = starts[0] - lead
    figures = tiers.sim(rig, later(load, shift), "--seed", seed, *words)
    files = [("whole", 40, False), ("segments", 40, True)] + [(f"input{n}", 1, False) for n in range(jobs)]
    times, took = [], []
    with tiers.volume(rig, files) as live:
        with rig.watched() as waited:
            works = [lambda n=n, of=of: live.job(n, of["started_s"] - shift, of["input_bytes"], checkpoints, mib,
                                                 interval, took)
                     for n, of in enumerate(found)]
            together([lambda: times.extend(live.play(load))] + works)
    told = f"{sum(reads)}/s of {kib} KiB, {jobs * checkpoints} checkpoints of {mib} MiB; {tiers.told}"
    yield ("a volume with jobs: reads", told, size / 1e3 / figures["request_ms"], size / 1e3 / response_ms(times),
           waited())
    yield ("a volume with jobs: checkpoints", "the same", mib * MIB / 1e6 / figures["checkpoint_s"],
           mib * MIB / 1e6 / (sum(took) / len(took)), waited())


def protected(rig, _):
    """A volume in which the input of a waiting job gets a second copy, which takes over when a target fails."""
    seconds, rate, size, mib, room = 40, 36, 192 << 10, 112, "224MiB"
    read, write, latency, delay = 12, 10, 4, 2
    draw, places = random.Random(SEED), mib * MIB // size
    files = {name: rounds(draw, range(places)) for name in ("data0", "data1")}
    load = [(0.0, "data0", 0, size, False)]
    load += [(due, name, next(files[name]) * size, size, False)
             for due, name in zip(arrivals(draw, rate, seconds), itertools.cycle(files))]
    rows = [(f"t{n}", f"/nowhere/t{n}", "disk", "") for n in range(5)]
    each = f'device = "flash:latency={latency}ms,channels=1,read={read}MB/s,write={write}MB/s"\n'
    sections = f'[layout]\nstripe_count = 2\nstripe_size = "512KiB"\nsingle_max = 0\n{PLAIN}' \
               f'[replication]\npolicy = "all"\ndelay = "{delay}s"\npoll = "100ms"\n[jobs]\ncores = 1\n'
    words = ["--slow-size", room, "--jobs", 1, "--span", f"{seconds}s", "--input", 90 * MIB, "--checkpoints", 0,
             "--faults", 1]
    # The target that fails has an input's object and no other, after the second copy is complete.
    simulated = ["volume", rig.toml(rows, sections, each), *trace(rig, load), *words]
    for seed in itertools.count(SEED * 1000):
        figures = rig.sim(*simulated, "--seed", seed)["figures"]
        start, fault = figures["job_times"][0], figures["faults"][0]["at_s"]
        copied = start["submitted_s"] + figures["copy_s"].get("replicas", 0)
        if not figures["requests_failed"] and figures["copied_bytes"].get("repair") and copied + 2 < fault \
                and fault + delay + figures["copy_s"]["repair"] < start["submitted_s"] + seconds:
            break
    at = start["submitted_s"]
    trace(rig, later(load, at))
    figures = rig.sim(*simulated, "--seed", seed)["figures"]
    targets = [(name, rig.device(name, read, write, latency, room), tier, line) for name, _, tier, line in rows]
    with rig.volume(targets, sections, each) as live:
        live.fill("data0", mib * MIB), live.fill("data1", mib * MIB)
        live.submit("sleep 600")
        with open(f"{rig.dir}/input", "wb") as source:
            source.write(os.urandom(start["input_bytes"]))
        live.submit("sleep 600", f"file://{rig.dir}/input", "input")
        live.waits_for("replicas_begun")
        took = {}
        with rig.watched() as waited:
            began = time.monotonic()

            def fails():
                live.waits_for("replicas_completed")
                took["replicas"] = time.monotonic() - began
                time.sleep(max(0.0, began + fault - at - time.monotonic()))
                lost = live.lies_on("input").difference(live.lies_on("data0"), live.lies_on("data1")).pop()
                failed = time.monotonic()
                live.tell("target", "fail", lost)
                wait_for(lambda: lost not in live.lies_on("input"), "the end of the rebuild")
                took["repair"] = time.monotonic() - failed - delay
            times = []
            together([lambda: times.extend(live.play(load)), fails])
        live.tell("job", "cancel", "1"), live.tell("job", "cancel", "2")
    told = f"{rate}/s of {size >> 10} KiB; 5 of {read}/{write} after {latency} ms"
    yield ("a volume with second copies: reads", told, size / 1e3 / figures["request_ms"],
           size / 1e3 / response_ms(times), waited())
    for title, what in ("making the copy", "replicas"), ("rebuilding it", "repair"):
        copied = figures["copied_bytes"][what] / 1e6
        yield (f"a volume with second copies: {title}", "the same", copied / figures["copy_s"][what],
               copied / took[what], waited())


ROWS = {"tiers": ["off", "tuned"], "burst": ["maxbw", "bbos"], "stripes": ["1", "4", "model"],
        "prefetch": ["fixed:16", "ets"], "source": [""], "volume": [""], "protected": [""],
        "with_jobs": ["512", "1024"]}


def main():
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: control groups need root, devices need /dev/fuse", file=sys.stderr)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rig = Rig(os.path.abspath(sys.argv[1]))
    wanted = [word.partition("=")[::2] for word in sys.argv[2:]] or [(name, "") for name in ROWS]
    off = 0
    print(f"{time.strftime('%Y-%m-%d')}, seed {SEED}; rates in MB/s\n\n| mechanism | load; devices | simulator | live "
          "| live / simulator | waited | judged |\n|---|---|---|---|---|---|---|", flush=True)
    try:
        for name, one in wanted:
            for variant in [one] if one else ROWS[name]:
                for title, load, sim, live, share in globals()[name](rig, variant):
                    judged = share <= SHARE_MAX
                    bad = abs(live / sim - 1) > OFF_MAX
                    off += judged and bad
                    verdict = ("off" if bad else "within 10 %") if judged else "no"
                    row = [title, load, f"{sim:.2f}", f"{live:.2f}", f"{live / sim:.3f}", f"{share:.1f} %", verdict]
                    print(f"| {' | '.join(row)} |", flush=True)
                rig.drop_devices()
    finally:
        rig.close()
    sys.exit(1 if off else 0)


if __name__ == "__main__":
    main()
