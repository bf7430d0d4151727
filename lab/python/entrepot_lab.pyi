"""Traces, replacement policies and simulated worlds of Entrepot's laboratory."""

from os import PathLike
from typing import Any, Callable, Iterable, Literal, Protocol, Sequence, Union, final, overload

__all__ = [
    "POLICIES", "Table", "Trace", "__version__", "compare", "curve", "generate", "read_trace", "replay", "sim",
]
__version__: str
POLICIES: list[str]
"""Names of the built-in policies."""

class _Cache(Protocol):
    """A cache with a policy written in Python. The module has no such class: any class with this method will do."""

    def access(self, block: int, next: int | None) -> bool:
        """Accesses a block, numbered from 0; returns whether it was cached. `next` is the position of the next access
        to it, None if there is none; only offline policies read it."""

_Policy = Union[str, Callable[[int], _Cache]]
"""A name out of POLICIES, or a class or function that takes a capacity in blocks and returns an empty cache."""
_Size = Union[str, int]
"""`"5%"` of the footprint, `"64MiB"`, or a number of blocks."""

class Table:
    """Columns with names. It has the Arrow PyCapsule interface: `pyarrow.table(t)`, `polars.DataFrame(t)`."""

    @property
    def columns(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> memoryview | list[str]:
        """A column: numbers as a memoryview, which numpy takes without a copy; words as a list."""
    def to_dict(self) -> dict[str, list[Any]]: ...
    def to_pandas(self) -> Any:
        """A pandas.DataFrame, if pandas is installed."""
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class Trace(Table):
    """A trace: time_ns, offset, length, op, client, file, device, flags; one request a row."""

    @property
    def skipped(self) -> int:
        """Malformed lines that were skipped; only with `lenient=True`."""

def read_trace(
    path: str | PathLike[str],
    format: str | None = None,
    columns: str | None = None,
    *,
    time_unit: str | None = None,
    block: _Size = "4KiB",
    lenient: bool = False,
) -> Trace:
    """Reads a trace. Its content decides about the format; `columns` names those of a text, like
    `"time:ms,offset:sectors,length,op"`. `block` applies to formats that count in blocks."""

def generate(workload: str, seed: int = 1) -> Trace:
    """Generates a workload, in the words of `entrepot-lab sim --generate`: `"zipf:theta=1.0,requests=5000"`."""

def replay(
    trace: Trace | Sequence[Trace],
    policy: _Policy = "lru",
    size: _Size = "5%",
    *,
    block: _Size = "4KiB",
    reads_only: bool = False,
) -> dict[str, Any]:
    """Replays a trace through one cache: policy, blocks, requests, accesses, footprint_blocks, hits, misses,
    miss_ratio."""

def compare(
    trace: Trace | Sequence[Trace],
    policies: _Policy | Iterable[_Policy],
    sizes: _Size | Iterable[_Size] | None = ("1%", "5%", "10%", "20%"),
    *,
    block: _Size = "4KiB",
    reads_only: bool = False,
    sample: float | None = None,
    samples: int = 5,
) -> Table:
    """Compares policies over sizes: policy, blocks, miss_ratio, error. With `sample` it
    estimates from this share of the blocks, and `error` is two standard errors."""

def curve(
    trace: Trace | Sequence[Trace],
    policy: _Policy = "lru",
    sizes: _Size | Iterable[_Size] | None = None,
    *,
    block: _Size = "4KiB",
    reads_only: bool = False,
    sample: float | None = None,
    samples: int = 5,
) -> Table:
    """A miss-ratio curve, by default over twenty sizes from 0.1 % to all of the footprint."""

@overload
def sim(world: str, *arguments: object, output: Literal["csv"], **options: Any) -> Table: ...
@overload
def sim(world: str, *arguments: object, output: Literal["text"], **options: Any) -> str: ...
@overload
def sim(world: str, *arguments: object, output: Literal["json"] = "json", **options: Any) -> Any:
    """Runs a world of `entrepot-lab sim` with the words of the command line, and returns what it prints: `--output
    json` as Python's values, `csv` as a table. The worlds are burst, cache, center, cluster, connections, recovery,
    replacement, stripe (`"stripe run"`), tier and volume; `sim("tier", help=True, output="text")` has the options.

    `l1_size="5%"` is `--l1-size 5%`, `open=True` is `--open`, a list gives an option several times, and
    `sweep={"hot": [1, 3]}` is `--sweep hot=1,3`. `trace=` takes traces in memory as well as files; other arguments are
    files without a name: `sim("volume", "volume.toml")`."""
