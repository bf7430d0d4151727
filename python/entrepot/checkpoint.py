"""Checkpoints of a program on an Entrepot volume with a burst buffer.

    from entrepot.checkpoint import checkpoint, newest, advised_interval

    last = newest("wave")                      # None: begin from nothing
    if last:
        load(last.directory)
    with checkpoint("wave", "run7/step-12"):
        save("run7/step-12")

A version counts from the end of the `with` block on, not before; the version before it stays the newest till then.
When an exception leaves the block the version never counts, and the exception goes on. All files must be closed at the
end of the block.

A program of several processes (MPI) does this in one of them: rank 0 enters the block, all ranks wait at a barrier and
write, all wait at another barrier when their files are closed, and rank 0 leaves the block.

Whatever fails raises `Problem`; its `exit_code` is that of the command line. A call waits for the daemon for `timeout`
seconds at most.
"""

import os
import warnings
from typing import NamedTuple

from .control import BUSY, NOT_FOUND, Problem, find

__all__ = ["BUSY", "NOT_FOUND", "Problem", "Version", "abandon", "advised_interval", "checkpoint", "newest"]

# A leader of several nodes that is gone is replaced in less, and an answer from memory needs far less.
TIMEOUT_S = 60.0
# Until all bytes are durable. A guess: half of a large node's memory to a slow disk.
COMMIT_TIMEOUT_S = 3600.0


class Version(NamedTuple):
    """A complete version."""

    label: str
    directory: str
    bytes: int
    files: int


class checkpoint:
    """Begins a version of `app` whose files lie at or below `path`, and commits it at the end of the `with` block.

    `path` is made, as a directory, if it is not there. `version` names it (the time, if nothing is said), `size` is
    its bytes if they are known, `mtbf` how many seconds the program runs between failures, `nodes` on how many nodes
    it runs. A program that was killed within the block leaves its version begun; its next run calls `abandon` before
    it begins one.
    """

    def __init__(self, app, path, *, version="", size=0, mtbf=None, nodes=None, timeout=TIMEOUT_S,
                 commit_timeout=COMMIT_TIMEOUT_S):
        self.app = app
        self.path = os.fspath(path)
        self.label = version
        self._told = {"bytes": int(size), "mtbf_s": None if mtbf is None else max(1, int(mtbf)), "nodes": nodes}
        self._timeout = timeout
        self._commit_timeout = commit_timeout
        self._volume = None

    def __enter__(self):
        self._volume = find(self.path)
        below = self._volume.inside(self.path)
        if not os.path.exists(self.path):
            os.makedirs(self.path, exist_ok=True)
        args = {"app": self.app, "label": self.label, "paths": [below], **self._told}
        self.label = self._volume.ask("checkpoint.begin", args, self._timeout)["label"]
        return self

    def __exit__(self, kind, _exception, _traceback):
        if kind is None:
            _end(self._volume, self.app, False, self._commit_timeout)
            return False
        try:
            _end(self._volume, self.app, True, self._timeout)
        except Problem as problem:
            # What the program failed with says more, and the version does not count either way.
            warnings.warn(f"version {self.label} of {self.app} is begun still: {problem}")
        return False


def _end(volume, app, give_up, timeout):
    return volume.ask("checkpoint.commit", {"app": app, "abandon": give_up}, timeout)


def abandon(app, path=None, *, timeout=TIMEOUT_S):
    """Gives up the version that an earlier run began and did not commit. Whether there was one."""
    try:
        _end(find(path), app, True, timeout)
        return True
    except Problem as problem:
        if problem.exit_code == NOT_FOUND:
            return False
        raise


def newest(app, path=None, *, timeout=TIMEOUT_S):
    """The newest complete `Version` of `app`, or None. `path` is any path in the volume."""
    volume = find(path)
    try:
        found = volume.ask("checkpoint.restart", {"app": app}, timeout)
    except Problem as problem:
        if problem.exit_code == NOT_FOUND:
            return None
        raise
    return Version(found["label"], volume.outside(found["directory"]), found["bytes"], found["files"])


def advised_interval(app, path=None, *, timeout=TIMEOUT_S):
    """Seconds to compute between two checkpoints, after Daly, or None while it is not known. That is so before the
    first checkpoint, and as long as neither `mtbf` nor `nodes` was said and no restart was seen."""
    try:
        return find(path).ask("checkpoint.advise", {"app": app}, timeout)["advised_interval_s"]
    except Problem as problem:
        if problem.exit_code == NOT_FOUND:
            return None
        raise
