#!/usr/bin/env python3
"""usage: tests/lanes.py [MINUTES [SEED [BINARY]]]

Random lanes on a default volume: processes read, write, map, append, truncate, replace and remove the same files while
targets drain and files grow, move and change their mirrors. A lane takes a minute; it ends with a comparison of all
files, a restart, the same comparison, and `check --deep`. Status 1: the first difference, with its seed.
"""
import fcntl
import json
import mmap
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

NAMES, SLOTS, SLOT, PROCESSES = 24, 400, 2888, 4
PAGE = mmap.PAGESIZE
LANE_SECONDS = 60
INCOMPLETE = 7


def content(name, slot, version):
    """Bytes of a slot; multiples of 16 are zeros, as in a hole."""
    if version % 16 == 0:
        return bytes(SLOT)
    return (b"%08d %06d %012d." % (name, slot, version) * (SLOT // 28 + 1))[:SLOT]


class Model:
    """What was acknowledged, in memory that the processes share, with locks in a file beside it."""

    def __init__(self, aside):
        self.aside = aside
        cells = NAMES * (2 * SLOTS + 2)
        self.cells = memoryview(mmap.mmap(-1, cells * 8)).cast("Q")

    def start(self):
        self.locks = os.open(self.aside, os.O_RDWR | os.O_CREAT, 0o600)

    def cell(self, name, at):
        return name * (2 * SLOTS + 2) + at

    def lock(self, how, name, at):
        try:
            fcntl.lockf(self.locks, how, 1, self.cell(name, at))
            return True
        except BlockingIOError:
            return False

    def unlock(self, name, at):
        fcntl.lockf(self.locks, fcntl.LOCK_UN, 1, self.cell(name, at))

    # Slots: the last version that a call began and the last one that it acknowledged.
    def begun(self, name, slot):
        return self.cells[self.cell(name, 2 + 2 * slot)]

    def acknowledged(self, name, slot):
        return self.cells[self.cell(name, 3 + 2 * slot)]

    def begin(self, name, slot, version):
        self.cells[self.cell(name, 2 + 2 * slot)] = version

    def acknowledge(self, name, slot):
        self.cells[self.cell(name, 3 + 2 * slot)] = self.begun(name, slot)

    def zeros(self, name, slot):
        self.begin(name, slot, (self.begun(name, slot) // 16 + 1) * 16)
        self.acknowledge(name, slot)

    # A file: its number of slots, and a number that each new file of the name increases.
    def slots(self, name):
        return self.cells[self.cell(name, 0)]

    def set_slots(self, name, slots):
        self.cells[self.cell(name, 0)] = slots

    def generation(self, name):
        return self.cells[self.cell(name, 1)]

    def next_generation(self, name):
        self.cells[self.cell(name, 1)] += 1


def wrong(model, name, slot, start, end, got):
    """A message if the bytes of a slot are of none of the versions from `start` to `end`."""
    if len(got) != SLOT:
        return f"{len(got)} bytes"
    if start == end:
        wanted = content(name, slot, start)
        if got == wanted:
            return None
        at = next(i for i in range(SLOT) if got[i] != wanted[i])
        return f"byte {at} is not of version {start}: {got[at:at + 28]!r}"
    some = [content(name, slot, version) for version in range(start, end + 1)]
    at = next((i for i in range(SLOT) if all(got[i] != wanted[i] for wanted in some)), None)
    return None if at is None else f"byte {at} is of none of the versions {start} to {end}: {got[at:at + 28]!r}"


class Open:
    def __init__(self, path, flags, generation):
        self.fd, self.flags, self.generation, self.map = os.open(path, flags | os.O_CLOEXEC), flags, generation, None

    def reads(self):
        return self.flags & os.O_ACCMODE != os.O_WRONLY

    def writes(self):
        return self.flags & os.O_ACCMODE != os.O_RDONLY

    def mapped(self, bytes_needed):
        """A mapping of at least so many bytes. (`fstat` may show an unacknowledged extension and then the old size.)"""
        if self.map is None or len(self.map) < bytes_needed:
            access = mmap.PROT_READ | (mmap.PROT_WRITE if self.writes() else 0)
            self.map = mmap.mmap(self.fd, bytes_needed, mmap.MAP_SHARED, access)
        return self.map

    def close(self):
        if self.map is not None:
            self.map.close()
        os.close(self.fd)


class Process:
    def __init__(self, model, mount, seed):
        self.model, self.mount, self.random, self.opens = model, mount, random.Random(seed), {}
        self.done = 0

    def run(self, until):
        self.model.start()
        while time.monotonic() < until:
            name = self.random.randrange(NAMES) if self.random.random() < 0.3 else self.random.randrange(4)
            how = fcntl.LOCK_EX if self.random.random() < 0.04 else fcntl.LOCK_SH
            self.model.lock(how, name, 0)
            if how == fcntl.LOCK_EX:
                self.change(name)
            elif self.model.slots(name):
                for _ in range(self.random.randrange(1, 8)):
                    self.use(name)
            self.model.unlock(name, 0)
            self.done += 1

    def path(self, name):
        return f"{self.mount}/f{name}"

    def open(self, name, flags):
        """A kept open of the present file that has the access, or a new one."""
        kept = self.opens.setdefault(name, [])
        generation = self.model.generation(name)
        for old in [one for one in kept if one.generation != generation]:
            old.close()
            kept.remove(old)
        access = flags & os.O_ACCMODE
        fits = [one for one in kept if one.flags & os.O_ACCMODE in (access, os.O_RDWR)
                and one.flags & os.O_APPEND == flags & os.O_APPEND]
        if fits and self.random.random() < 0.85:
            return self.random.choice(fits)
        more = self.random.choice([0, 0, 0, os.O_SYNC, os.O_DSYNC])
        new = Open(self.path(name), (os.O_RDWR if self.random.random() < 0.4 else flags & os.O_ACCMODE)
                   | flags & os.O_APPEND | more, generation)
        kept.append(new)
        if len(kept) > 3:
            kept.pop(0).close()
        return new

    def use(self, name):
        step = self.random.random()
        slot = self.random.randrange(self.model.slots(name))
        if self.random.random() < 0.5:
            slot = max(0, self.model.slots(name) - 1 - self.random.randrange(4))
        if step < 0.45:
            self.read(name, slot)
        elif step < 0.75:
            self.write(name, slot)
        elif step < 0.9:
            self.extend(name)
        elif step < 0.95:
            one = self.open(name, os.O_RDWR)
            os.fsync(one.fd) if one.map is None or self.random.random() < 0.5 else one.map.flush()
        else:
            kept = self.opens.get(name, [])
            if kept:
                kept.pop(self.random.randrange(len(kept))).close()

    def read(self, name, slot):
        one, at = self.open(name, os.O_RDONLY), slot * SLOT
        how = self.random.random()
        start = self.model.acknowledged(name, slot)
        if how < 0.35:
            by, got = "map", one.mapped(at + SLOT)[at:at + SLOT]
        elif how < 0.5:
            by, got = "sendfile", self.sent(one.fd, at)
        else:
            by, got = "pread", os.pread(one.fd, SLOT, at)
        difference = wrong(self.model, name, slot, start, self.model.begun(name, slot), got)
        if difference:
            raise SystemExit(f"f{name}, slot {slot} at {at}, by {by}, flags {one.flags:#o}: {difference}")

    def sent(self, fd, at):
        out = os.memfd_create("sent")
        try:
            sent = 0
            while sent < SLOT:
                n = os.sendfile(out, fd, at + sent, SLOT - sent)
                if n == 0:
                    break
                sent += n
            return os.pread(out, SLOT, 0)
        finally:
            os.close(out)

    def write(self, name, slot):
        if not self.model.lock(fcntl.LOCK_EX | fcntl.LOCK_NB, name, 2 + 2 * slot):
            return
        one, at = self.open(name, os.O_WRONLY), slot * SLOT
        version = self.model.begun(name, slot) + 1
        bytes_ = content(name, slot, version)
        mapped = None
        # A mapped store into the last page is not promised beside a write that extends the file from there (S-140).
        if one.reads() and at + SLOT + 2 * PAGE < self.model.slots(name) * SLOT and self.random.random() < 0.4:
            mapped = one.mapped(at + SLOT)
        self.model.begin(name, slot, version)
        if mapped is not None:
            mapped[at:at + SLOT] = bytes_
        else:
            assert os.pwrite(one.fd, bytes_, at) == SLOT
        self.model.acknowledge(name, slot)
        self.model.unlock(name, 2 + 2 * slot)

    def extend(self, name):
        if not self.model.lock(fcntl.LOCK_EX | fcntl.LOCK_NB, name, 1):
            return
        slot = self.model.slots(name)
        if slot < SLOTS:
            append = self.random.random() < 0.5
            one = self.open(name, os.O_WRONLY | (os.O_APPEND if append else 0))
            version = self.model.begun(name, slot) + 1
            self.model.begin(name, slot, version)
            bytes_ = content(name, slot, version)
            n = os.write(one.fd, bytes_) if append else os.pwrite(one.fd, bytes_, slot * SLOT)
            assert n == SLOT
            self.model.acknowledge(name, slot)
            self.model.set_slots(name, slot + 1)
        self.model.unlock(name, 1)

    def fill(self, fd, name, slots):
        for slot in range(slots):
            self.model.begin(name, slot, self.model.begun(name, slot) + 1)
            self.model.acknowledge(name, slot)
        whole = b"".join(content(name, slot, self.model.acknowledged(name, slot)) for slot in range(slots))
        assert os.write(fd, whole) == len(whole)

    def change(self, name):
        model, path, step = self.model, self.path(name), self.random.random()
        slots = model.slots(name)
        there = model.generation(name) % 2 == 1
        if not there or step < 0.35:
            new = f"{self.mount}/new{name}" if there else path
            fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            slots = self.random.choice([1, 2, self.random.randrange(1, 40), self.random.randrange(1, SLOTS)])
            self.fill(fd, name, slots)
            os.close(fd)
            if there:
                os.rename(new, path)
                model.next_generation(name)
            model.next_generation(name)
            model.set_slots(name, slots)
        elif step < 0.5:
            os.unlink(path)
            model.next_generation(name)
            model.set_slots(name, 0)
        elif step < 0.6:
            os.close(os.open(path, os.O_RDWR | os.O_TRUNC))
            model.set_slots(name, 0)
            fd = os.open(path, os.O_RDWR)
            self.fill(fd, name, 1)
            os.close(fd)
            model.set_slots(name, 1)
        else:
            new = self.random.randrange(1, SLOTS) if step < 0.7 else max(1, slots - self.random.randrange(20))
            if self.random.random() < 0.5:
                os.truncate(path, new * SLOT)
            else:
                os.ftruncate(self.open(name, os.O_WRONLY).fd, new * SLOT)
            if new < slots:
                os.fsync(self.open(name, os.O_WRONLY).fd)  # no mapped store waits in what is the last page now
            for slot in range(slots, new):
                model.zeros(name, slot)
            model.set_slots(name, new)


def compare_all(model, mount, when):
    """Every name by read and by mapping."""
    for name in range(NAMES):
        path = f"{mount}/f{name}"
        if model.generation(name) % 2 == 0:
            assert not os.path.exists(path), f"{when}: {path} is there"
            continue
        size = model.slots(name) * SLOT
        assert os.stat(path).st_size == size, f"{when}: {path} has {os.stat(path).st_size} bytes, not {size}"
        with open(path, "rb") as file:
            read = file.read()
            mapped = mmap.mmap(file.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ)[:] if size else b""
        for by, got in (("read", read), ("map", mapped)):
            for slot in range(model.slots(name)):
                version = model.acknowledged(name, slot)
                difference = wrong(model, name, slot, version, version, got[slot * SLOT:][:SLOT])
                assert not difference, f"{when}: f{name}, slot {slot}, by {by}: {difference}"


class Volume:
    def __init__(self, binary, directory):
        self.binary, self.mount = os.path.abspath(binary), f"{directory}/mnt"
        self.environment = {**os.environ, "ENTREPOT_VOLUME": f"{directory}/vol/volume.toml"}
        os.mkdir(self.mount)
        self.command("init", f"{directory}/vol")

    def command(self, *words, may_fail=False, incomplete=False):
        ended = subprocess.run([self.binary, *words], env=self.environment, capture_output=True, text=True, timeout=300)
        if ended.returncode and not may_fail and not (incomplete and ended.returncode == INCOMPLETE):
            raise SystemExit(f"entrepot {' '.join(words)}: {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return ended

    def up(self):
        self.command("up", self.environment["ENTREPOT_VOLUME"], "--at", self.mount, "--detach")

    def targets(self):
        return [one["name"] for one in json.loads(self.command("target", "list", "--output", "json").stdout)["targets"]]

    def disturb(self, chance, targets, until, processes):
        """Drains, mirrors, widths and balance, until a process ends or the time is over."""
        done, drained = 0, None
        while time.monotonic() < until and all(process.exitcode is None for process in processes):
            name, step = f"{self.mount}/f{chance.randrange(4)}", chance.randrange(7)
            if drained is not None and step < 3:
                self.command("target", "restore", drained)
                drained = None
            elif drained is None and step < 2:
                drained = chance.choice(targets)
                self.command("target", "drain", drained, incomplete=True)  # files in use stay
            elif step < 4:
                self.command("layout", "add-mirror", name, "--stripe-count", str(chance.randrange(1, 3)), may_fail=True)
            elif step < 5:
                self.command("layout", "drop-mirror", name, "1", may_fail=True)
            elif step < 6:
                self.command("layout", "replace", name, "--from", chance.choice(targets), may_fail=True)
            else:
                self.command("balance", "start", may_fail=True)
            done += 1
            time.sleep(chance.random() * 0.3)
        if drained is not None:
            self.command("target", "restore", drained)
        return done


def child(model, mount, seed, until, steps):
    process = Process(model, mount, seed)
    process.run(until)
    steps.put(process.done)


def lane(volume, aside, seed, seconds):
    model = Model(aside)
    volume.up()
    until = time.monotonic() + seconds
    steps = multiprocessing.SimpleQueue()
    processes = [multiprocessing.Process(target=child, args=(model, volume.mount, seed * 100 + n, until, steps))
                 for n in range(PROCESSES)]
    for process in processes:
        process.start()
    try:
        orders = volume.disturb(random.Random(seed), volume.targets(), until, processes)
    finally:
        for process in processes:
            process.join(60)
    for process in processes:
        assert process.exitcode == 0, f"a process ended with {process.exitcode}"
    compare_all(model, volume.mount, "at the end")
    volume.command("down")
    volume.up()
    compare_all(model, volume.mount, "after a restart")
    # Nothing is damaged and no object is without a file.
    volume.command("check", "--deep")
    for name in range(NAMES):
        if model.generation(name) % 2:
            os.unlink(f"{volume.mount}/f{name}")
    volume.command("down")
    return sum(steps.get() for _ in processes), orders


def main():
    minutes, seed, binary = (sys.argv[1:] + ["2", "1", "target/release/entrepot"][len(sys.argv) - 1:])[:3]
    minutes, seed = float(minutes), int(seed)
    end, steps, orders, lanes = time.monotonic() + 60 * minutes, 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="entrepot-lanes-", ignore_cleanup_errors=True) as directory:
        volume = Volume(binary, directory)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            while time.monotonic() < end:
                did = lane(volume, f"{directory}/locks{lanes}", seed, min(LANE_SECONDS, 60 * minutes))
                steps, orders, lanes, seed = steps + did[0], orders + did[1], lanes + 1, seed + 1
        except (AssertionError, SystemExit) as difference:
            print(f"seed {seed}: {difference}", file=sys.stderr)
            return 1
        finally:
            volume.command("down", "--force", may_fail=True)
    print(f"{lanes} lanes, {steps} steps, {orders} orders: no difference, nothing left over")
    return 0


if __name__ == "__main__":
    sys.exit(main())
