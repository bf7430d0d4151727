"""Figures of the package equal those of entrepot-lab (its path is in ENTREPOT_LAB), and Python policies built-in ones."""

import collections
import csv
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import entrepot_lab as lab

WORKLOAD = "zipf:footprint=16,requests=3000,theta=0.9,writes=0.2"


def command(*words):
    done = subprocess.run([os.environ["ENTREPOT_LAB"], *words], check=True, capture_output=True, text=True)
    return done.stdout


def installed(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"not installed: {missing}")


class Lru:
    def __init__(self, capacity):
        self.capacity, self.blocks = capacity, collections.OrderedDict()

    def access(self, block, next):
        hit = block in self.blocks
        self.blocks[block] = None
        self.blocks.move_to_end(block)
        if len(self.blocks) > self.capacity:
            self.blocks.popitem(last=False)
        return hit


class Belady:
    def __init__(self, capacity):
        self.capacity, self.next = capacity, {}

    def access(self, block, next):
        hit = block in self.next
        if not hit and len(self.next) == self.capacity:
            del self.next[max(self.next, key=self.next.get)]
        self.next[block] = float("inf") if next is None else next
        return hit


class Traces(unittest.TestCase):
    def test_a_file_has_the_requests_of_its_generator(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "zipf.trace")
            command("trace", "generate", WORKLOAD, path, "--seed", "3")
            trace = lab.read_trace(path)
        self.assertEqual(trace.to_dict(), lab.generate(WORKLOAD, seed=3).to_dict())
        self.assertNotEqual(trace.to_dict(), lab.generate(WORKLOAD, seed=4).to_dict())
        self.assertEqual(len(trace), 3000)
        self.assertEqual(trace["offset"].itemsize, 8)
        self.assertEqual(set(trace["op"]), {"read", "write"})

    def test_columns_and_malformed_lines(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("1,8,R\nbroken\n2,16,W\n")
            file.flush()
            read = {"columns": "time:ms,offset:sectors,op"}
            trace = lab.read_trace(file.name, lenient=True, **read)
            self.assertEqual((trace["offset"].tolist(), trace["op"]), ([4096, 8192], ["read", "write"]))
            self.assertEqual(trace.skipped, 1)
            with self.assertRaisesRegex(ValueError, r"line 2.*nothing after it is read.*`lenient=True`"):
                lab.read_trace(file.name, **read)

    @installed("pandas", "pyarrow")
    def test_arrow_and_pandas_have_the_same_values(self):
        import pyarrow

        for table in (lab.generate(WORKLOAD), lab.compare(lab.generate(WORKLOAD), ["lru", "arc"])):
            arrow = pyarrow.table(table)
            self.assertEqual(arrow.to_pydict(), table.to_dict())
            frame = table.to_pandas()
            self.assertEqual(frame.to_dict("list"), table.to_dict())
            self.assertEqual([str(kind) for kind in frame.dtypes], [str(kind) for kind in arrow.to_pandas().dtypes])


class Replacement(unittest.TestCase):
    def rows(self, *words):
        words = ["sim", "replacement", "--generate", WORKLOAD, "--seed", "3", "--output", "json", *words]
        points = json.loads(command(*words))["points"]
        return [(p["policy"], p["blocks"], p["miss_ratio"], p["error"] or 0.0) for p in points]

    def check(self, table, *words):
        self.assertEqual(list(zip(*table.to_dict().values())), self.rows(*words))

    def test_figures_equal_the_command_s(self):
        trace = lab.generate(WORKLOAD, seed=3)
        self.check(lab.compare(trace, lab.POLICIES), "--policy", ",".join(lab.POLICIES))
        self.check(lab.compare(trace, "2q", "3%"), "--policy", "2q", "--size", "3%")
        sizes = ("--policy", "arc,lru", "--size", "64KiB,100,7%", "--block", "8KiB", "--reads-only")
        self.check(lab.compare(trace, ["arc", "lru"], ["64KiB", 100, "7%"], block=8192, reads_only=True), *sizes)
        self.check(lab.curve(trace, "sieve", sample=0.5), "--policy", "sieve", "--curve", "--sample", "0.5")
        curve = lab.curve(trace)
        self.check(curve, "--policy", "lru", "--curve")
        one = lab.replay(trace, size=curve["blocks"][9])
        self.assertEqual(one["misses"] + one["hits"], one["accesses"])
        self.assertAlmostEqual(one["miss_ratio"], curve["miss_ratio"][9], 12)

    def test_policies_in_python_equal_the_built_in_ones(self):
        trace = lab.generate(WORKLOAD)
        table = lab.compare(trace, ["lru", Lru, "belady", Belady], ["2%", "30%"])
        misses = table["miss_ratio"].tolist()
        self.assertEqual(table["policy"][2:8:4], ["Lru", "Belady"])
        for at in (0, 1, 4, 5):
            self.assertAlmostEqual(misses[at], misses[at + 2], 12)
        own, built_in = lab.replay(trace, Lru), lab.replay(trace, "lru")
        self.assertEqual({**own, "policy": "lru"}, built_in)

    def test_wrong_input_is_an_exception_with_cause_and_next_step(self):
        trace, forgets = lab.generate(WORKLOAD), type("Forgets", (Lru,), {"access": lambda *_: None})
        for error, message, call in [
            (ValueError, "no replacement policy `mru`; nothing was.*choose", lambda: lab.replay(trace, "mru")),
            (ValueError, "size `5 apples`: a size is.*nothing was", lambda: lab.replay(trace, size="5 apples")),
            (ValueError, "no multiple of 512", lambda: lab.replay(trace, block=1000)),
            (TypeError, "5 is no policy.*give a name", lambda: lab.replay(trace, 5)),
            (ValueError, "at least one of each", lambda: lab.compare(trace, [])),
            (ValueError, "sample", lambda: lab.curve(trace, Lru, sample=0.1)),
            (TypeError, "returned None.*return True for a hit", lambda: lab.replay(trace, forgets)),
            (TypeError, "is no trace.*read_trace", lambda: lab.replay("oltp.trace")),
            (KeyError, "no column `time`.*choose one of time_ns", lambda: trace["time"]),
            (ValueError, "workload `tpcc`: choose oltp", lambda: lab.generate("tpcc")),
            (ValueError, "no format `xls`.*choose", lambda: lab.read_trace("a", "xls")),
            (FileNotFoundError, "/no/file.*check", lambda: lab.read_trace("/no/file")),
            (ValueError, "unexpected argument '--dsk'.*--disk.*nothing was", lambda: lab.sim("cache", dsk="none")),
            (ValueError, "unrecognized subcommand 'tears'.*'tier'", lambda: lab.sim("tears")),
            (ValueError, "prefetch", lambda: lab.sim("cache", trace=trace, l1="lnux")),
            (FileNotFoundError, "/no/file.*check the path", lambda: lab.sim("cache", trace="/no/file")),
        ]:
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()


VOLUME = """
namespace = "n"
state = "s"
[tier.fast]
[tier.slow]
[[target]]
name = "f"
path = "f"
tier = "fast"
[[target]]
name = "s"
path = "s"
tier = "slow"
[layout]
segment = "8MiB"
[tiering]
policy = "tuned"
"""


def without_version(answer):
    """The version contains the hash of the program or module."""
    is_object = isinstance(answer, dict)
    return {name: value for name, value in answer.items() if name != "version"} if is_object else answer


class Worlds(unittest.TestCase):
    def check(self, line, world, *arguments, **options):
        with self.subTest(line):
            words = ["sim", *line.split()]
            ours, theirs = lab.sim(world, *arguments, **options), json.loads(command(*words, "--output", "json"))
            self.assertEqual(without_version(ours), without_version(theirs))
            table = lab.sim(world, *arguments, output="csv", **options)
            rows = list(csv.reader(io.StringIO(command(*words, "--output", "csv"))))
            self.assertEqual((table.columns, len(table)), (rows[0], len(rows) - 1))
            for name, *cells in zip(*rows):
                column = table[name]
                kind = str if isinstance(column, list) else lambda cell: float("nan" if cell == "" else cell)
                self.assertEqual(str(list(map(kind, column))), str(list(map(kind, cells))), name)
            text = lab.sim(world, *arguments, output="text", **options)
            self.assertTrue(command(*words).endswith(text), "without remarks about the trace")

    def test_each_equals_its_command(self):
        few = dict(step="2s", periods=1, schemes=["bbos", "predicted"])
        self.check("burst --dwpp 1.6 --congestion low --step 2s --periods 1 --schemes bbos,predicted",
                   "burst", dwpp=1.6, congestion="low", **few)
        self.check("cluster --nodes 3 --span 2s --targets 100", "cluster", nodes=[3], span="2s", targets=100)
        self.check("connections --read --depth 4 --requests 200 --connections 1,4",
                   "connections", read=True, depth=4, requests=200, connections=(1, 4))
        self.check("recovery --size 16MiB --count 4", "recovery", size="16MiB", count=4, mid_way=False, seed=None)
        self.check(f"replacement --generate {WORKLOAD} --policy arc,lru --seed 3",
                   "replacement", generate=WORKLOAD, policy="arc,lru", seed=3)
        self.check("stripe model", "stripe model")
        self.check("stripe run --devices 4 --phases 2x1MiB@9s,9x16KiB@9s --warm-up 1s",
                   "stripe run", devices=4, phases="2x1MiB@9s,9x16KiB@9s", warm_up="1s")
        self.check(f"tier --generate {WORKLOAD} --fast-size 20% --schemes ws-ros,tuned --sweep hot=1,3",
                   "tier", generate=WORKLOAD, fast_size="20%", schemes=["ws-ros", "tuned"], sweep={"hot": [1, 3]})

    def test_files_are_arguments(self):
        with tempfile.TemporaryDirectory() as directory:
            volume, jobs = (pathlib.Path(directory, name) for name in ("volume.toml", "log.swf"))
            volume.write_text(VOLUME)
            self.check(f"volume {volume} --jobs 1 --requests 50 --files 2 --file-size 64MiB --span 1h",
                       "volume", volume, jobs=1, requests=50, files=2, file_size="64MiB", span="1h")
            job = "{} {} 0 {} {} -1 -1 -1 9000 -1 1\n"
            lines = [job.format(n, n * 500, 600 + n * 7919 % 7000, 1 + n % 16) for n in range(99)]
            jobs.write_text("; MaxProcs: 40\n" + "".join(lines))
            self.check(f"center --jobs {jobs} --sweep load=1,2", "center", jobs=jobs, sweep={"load": [1, 2]})

    def test_traces_in_memory_are_those_of_the_command(self):
        workloads = ["multi:scale=0.002", WORKLOAD]
        line = "cache --closed --l1 ra --l1-size 10% --l2 sarc --l2-size 200% --coordinator pfc"
        options = dict(closed=True, l1="ra", l1_size="10%", l2="sarc", l2_size="200%", coordinator="pfc")
        with tempfile.TemporaryDirectory() as directory:
            for n, words in enumerate(workloads):
                path = os.path.join(directory, str(n))
                command("trace", "generate", words, path)
                line += f" --trace {path}"
            self.check(line, "cache", trace=[lab.generate(words) for words in workloads], **options)

    def test_help_is_that_of_the_command(self):
        self.assertEqual(lab.sim("tier", help=True, output="text"), command("sim", "tier", "--help"))


class Guide(unittest.TestCase):
    @installed("pandas")
    def test_the_example_runs_as_printed(self):
        with open(os.path.join(os.path.dirname(__file__), "../../../docs/guide/simulator.md")) as page:
            example = next(block for block in page.read().split("```text\n") if block.startswith("import entrepot_lab"))
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "oltp.trace")
            command("trace", "generate", "oltp:scale=0.002", path)
            exec(example.split("```")[0].replace("oltp.trace", path))
