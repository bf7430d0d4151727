"""Emulated devices, volumes over them and clients upon these, for run.py.

The devices have a service time of latency plus bytes over bandwidth, one request after the other, without credit for
idle time and without a page cache (`entrepot-lab emulate-disk --model plain`). Directories lie in memory.
"""

import contextlib
import json
import mmap
import os
import shutil
import subprocess
import tempfile
import threading
import time

UNIFIED = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
CPU = "/sys/fs/cgroup/cpu"
# Microseconds of a second that the rig may take of a processor ahead of all others. It needs about a fifth.
RUNTIME_US = 400000
# Percentage of the time for which its work may wait for a processor, as in ../machine.sh.
SHARE_MAX = 10.0


class Rig:
    """A directory in memory, and control groups that count this rig's own waits for a processor and keep them short."""

    def __init__(self, entrepot):
        self.entrepot, self.lab = entrepot, entrepot + "-lab"
        self.dir = tempfile.mkdtemp(prefix="entrepot-predicted.", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.mounts = []
        self.group = f"{UNIFIED}/entrepot-predicted-{os.getpid()}"
        self.groups = [(self.group, UNIFIED)]
        if os.path.exists(f"{CPU}/cpu.rt_runtime_us"):
            self.groups.append((f"{CPU}/entrepot-predicted-{os.getpid()}", CPU))
        for group, _ in self.groups:
            os.mkdir(group)
            join(group)
        if len(self.groups) > 1:
            put(f"{self.groups[1][0]}/cpu.rt_runtime_us", RUNTIME_US)
        # Ahead of other work on the machine, so that the devices alone decide.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))

    def waited(self):
        """Seconds so far in which a task of the rig was ready and waited for a processor, and stolen seconds."""
        with open(f"{self.group}/cpu.pressure") as pressure:
            some = next(line for line in pressure if line.startswith("some"))
        with open("/proc/stat") as stat:
            lines = stat.read().split("\n")
        stolen = int(lines[0].split()[8]) / os.sysconf("SC_CLK_TCK") / os.cpu_count()
        return int(some.split("total=")[1]) / 1e6 + stolen

    def run(self, *words):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr or done.stdout}")
        return done.stdout

    def sim(self, *words):
        return json.loads(self.run(self.lab, "sim", *words, "--output", "json"))

    def device(self, name, read, write, latency_ms=0.0, capacity="1GiB"):
        """Starts a device of so many MB/s; returns its directory for a target."""
        backing, at = f"{self.dir}/{name}.backing", f"{self.dir}/{name}"
        os.makedirs(backing), os.makedirs(at)
        self.mounts.append(at)
        limits = ["--read-bandwidth", f"{read * 1000:.0f}KB", "--write-bandwidth", f"{write * 1000:.0f}KB"]
        limits += ["--latency", f"{latency_ms * 1000:.0f}us"] if latency_ms else []
        # Small reservations: objects that stay open would else take the space of others.
        self.run(self.lab, "emulate-disk", "--model", "plain", "--scheduler", "noop", "--no-sync", "--extent", "64KiB",
                 "--capacity", capacity, *limits, backing, at, "--detach")
        os.mkdir(f"{at}/t")
        return f"{at}/t"

    @contextlib.contextmanager
    def watched(self):
        """Gives a function for the percentage of the time within, in which the rig's own work waited."""
        waited, began, ended = self.waited(), time.monotonic(), []
        yield lambda: (ended[0] - waited) / (ended[1] - began) * 100
        ended += [self.waited(), time.monotonic()]

    def toml(self, targets, sections, each="", at=None):
        """Writes a volume.toml over (name, directory, tier, lines of the tier) of targets; returns its path."""
        at = at or f"{self.dir}/simulated.toml"
        tiers = "".join(f"[tier.{tier}]\n{lines}\n" for tier, lines in {of[2]: of[3] for of in targets}.items())
        block = '[[target]]\nname = "{}"\npath = "{}"\ntier = "{}"\n'
        blocks = "".join(block.format(*of[:3]) + each for of in targets)
        with open(at, "w") as toml:
            toml.write('name = "predicted"\nnamespace = "namespace"\nstate = "state"\n' + tiers + blocks
                       + '[health]\ndeadline = "60s"\n' + sections)
        return at

    def volume(self, targets, sections, each=""):
        """A volume over such targets, mounted while the context lasts."""
        return Volume(self, targets, sections, each)

    def drop_devices(self):
        for at in self.mounts:
            subprocess.run(["fusermount3", "-uz", at], capture_output=True)
            shutil.rmtree(f"{at}.backing", ignore_errors=True)
            wait_until(lambda at=at: not os.path.ismount(at))
            os.rmdir(at)
        self.mounts = []
        shutil.rmtree(f"{self.dir}/volume", ignore_errors=True)

    def close(self):
        self.drop_devices()
        shutil.rmtree(self.dir, ignore_errors=True)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        for group, above in self.groups:
            join(above)
            wait_until(lambda group=group: removed(group))


def wait_for(happened, what):
    if not wait_until(happened):
        raise RuntimeError(f"{what} did not come")


def put(path, value):
    with open(path, "w") as file:
        file.write(str(value))


def join(group):
    put(f"{group}/cgroup.procs", os.getpid())


def removed(group):
    try:
        os.rmdir(group)
    except OSError:
        return False
    return True


def wait_until(happened, seconds=30.0):
    until = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


class Volume:
    """A volume of the live system, mounted while the context lasts."""

    def __init__(self, rig, targets, sections, each):
        self.rig, self.at = rig, f"{rig.dir}/volume"
        self.mnt = f"{self.at}/mnt"
        for part in ("namespace", "state", "mnt"):
            os.makedirs(f"{self.at}/{part}", exist_ok=True)
        self.toml = rig.toml(targets, sections, each, f"{self.at}/volume.toml")

    def __enter__(self):
        self.rig.run(self.rig.entrepot, "up", self.toml, "--at", self.mnt, "--detach")
        return self

    def __exit__(self, *_):
        try:
            self.tell("down")
        except RuntimeError:
            self.tell("down", "--force")

    def tell(self, *words):
        return self.rig.run(self.rig.entrepot, "--volume", self.toml, *words)

    def fill(self, name, size):
        block = random_block()
        with open(f"{self.mnt}/{name}", "wb", buffering=0) as file:
            for _ in range(size >> 20):
                file.write(block)
            os.fsync(file.fileno())

    def play(self, requests, depth=0):
        """Plays (due in s, name, offset, bytes, write), each client after its last answer; depth 0: when due.

        Returns start and end of each request, in seconds.
        """
        files = {name: os.open(f"{self.mnt}/{name}", os.O_RDWR | os.O_DIRECT) for name in {of[1] for of in requests}}
        times, lock, following = [None] * len(requests), threading.Lock(), iter(range(len(requests)))
        began = time.monotonic() + 0.2

        def client():
            longest = max(of[3] for of in requests)
            memory = memoryview(mmap.mmap(-1, longest))
            while True:
                with lock:
                    at = next(following, None)
                if at is None:
                    return
                due, name, offset, size, write = requests[at]
                if not depth:
                    time.sleep(max(0.0, began + due - time.monotonic()))
                start = began + due if not depth else time.monotonic()
                one = (os.pwritev if write else os.preadv)(files[name], [memory[:size]], offset)
                if one != size:
                    raise RuntimeError(f"{one} bytes of {size} at {offset} of {name}")
                times[at] = (start - began, time.monotonic() - began)

        # In an open loop more clients than ever wait at once.
        together([client] * (depth or 64))
        for file in files.values():
            os.close(file)
        return times

    def play_paced(self, streams, seconds):
        """Each stream reads at its own pace, but never before its last answer; returns the bytes read in that time."""
        began = time.monotonic() + 0.2
        read = [0] * len(streams)

        def stream(at):
            due, before = began, 0.0
            with open(f"{self.mnt}/{streams[at][0][1]}", "rb", buffering=0) as file:
                for time_s, _, offset, size, _ in streams[at]:
                    due = max(due + time_s - before, time.monotonic())
                    time.sleep(max(0.0, due - time.monotonic()))
                    if due >= began + seconds:
                        return
                    read[at] += len(os.pread(file.fileno(), size, offset))
                    before = time_s
        together([lambda at=at: stream(at) for at in range(len(streams))])
        return sum(read)

    def read_paced(self, name, size, step, compute_s):
        """Reads a file step by step and computes after each; returns the time."""
        began = time.monotonic()
        with open(f"{self.mnt}/{name}", "rb", buffering=0) as file:
            for at in range(0, size, step):
                if len(os.pread(file.fileno(), step, at)) != step:
                    raise RuntimeError(f"too few bytes at {at}")
                time.sleep(compute_s)
        return time.monotonic() - began

    def submit(self, command, source=None, name=None):
        """Submits a job with one core, whose input comes from a source."""
        script = f"{self.at}/job.sh"
        with open(script, "w") as text:
            text.write("#!/bin/sh\n" + (f"#STAGEIN entrepot stage in {source} {self.mnt}/{name}\n" if source else ""))
            text.write(command + "\n")
        os.chmod(script, 0o755)
        self.tell("job", "submit", script)

    def waits_for(self, counter):
        """Waits until a counter of the statistics is above 0."""
        def counted():
            lines = self.tell("stats", "--prometheus").split("\n")
            return any(line.startswith(f"entrepot_{counter}_total{{") and not line.endswith(" 0") for line in lines)
        wait_for(counted, counter)

    def lies_on(self, name):
        """Names of the targets of a file."""
        layout = json.loads(self.rig.run(self.rig.entrepot, "layout", f"{self.mnt}/{name}", "--output", "json"))
        segments = [segment for mirror in layout["mirrors"] for segment in mirror["segments"]]
        return {of["target"] for segment in segments for of in segment["objects"]}

    def job(self, number, starts, size, checkpoints, mib, interval, took):
        """Reads an input, then writes checkpoints and keeps the newest two; adds the latency of each to `took`."""
        time.sleep(starts + 0.2)
        with open(f"{self.mnt}/input{number}", "rb", buffering=0) as file:
            file.read(size)
        block, kept = random_block(), []
        for version in range(checkpoints):
            path = f"{self.mnt}/ckpt/job{number}/{version}/state"
            began = time.monotonic()
            os.makedirs(os.path.dirname(path))
            with open(path, "wb", buffering=0) as file:
                for _ in range(mib):
                    file.write(block)
            took.append(time.monotonic() - began)
            kept.append(path)
            if len(kept) > 2:
                os.remove(kept.pop(0))
            time.sleep(interval)


def random_block():
    """1 MiB in whole pages of memory: from others the kernel makes two requests of a direct write."""
    block = mmap.mmap(-1, 1 << 20)
    block.write(os.urandom(1 << 20))
    return memoryview(block)


def together(works):
    """Runs functions in a thread each; an error of any is raised here."""
    errors = []

    def guarded(work):
        try:
            work()
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if errors:
        raise errors[0]


def trace(rig, requests, clients=False):
    """Writes the requests as a trace, each file with a client of its own if asked; returns options of the simulator."""
    numbers = {}
    with open(f"{rig.dir}/load.csv", "w") as out:
        for due, file, offset, size, write in requests:
            at = numbers.setdefault(file, len(numbers))
            out.write(f"{due * 1e6:.0f},{offset},{size},{'w' if write else 'r'},{at},{at if clients else 0}\n")
    return ["--trace", f"{rig.dir}/load.csv", "--columns", "time:us,offset:bytes,length:bytes,op,file,client"]
