"""The volume's control socket: found in the kernel's table of mounts by a path, asked in lines of JSON.

The kernel tells the daemon who asks (the credentials of the socket's peer), so there is nothing to log in with.
"""

import json
import os
import re
import socket
import struct
import time

ENVIRONMENT = "ENTREPOT_VOLUME"
LINE_BYTES_MAX = 16 << 20
FAILED, WRONG_INPUT, NO_DAEMON, DENIED, NOT_FOUND, BUSY = 1, 2, 3, 4, 5, 6


class Problem(Exception):
    """What went wrong: `cause`, `consequence`, `next_step`, and `exit_code` as the command line has it."""

    def __init__(self, exit_code, cause, consequence="nothing was changed", next_step="look at `entrepot status`"):
        super().__init__(f"{cause}; {consequence}. {next_step}")
        self.exit_code = exit_code
        self.cause = cause
        self.consequence = consequence
        self.next_step = next_step


class Volume:
    """A mounted volume: `at` is its mount point, `socket` the path of its control socket."""

    def __init__(self, at, state):
        self.at = at
        self.socket = os.path.join(state, "control.sock")

    def inside(self, path):
        """A path as the volume names it: relative to the mount point, symbolic links followed."""
        real = os.path.realpath(path)
        if real != self.at and not real.startswith(self.at.rstrip("/") + "/"):
            raise Problem(WRONG_INPUT, f"{path} is not in the volume mounted at {self.at}",
                          next_step="name a path below the mount point")
        below = os.path.relpath(real, self.at)
        try:
            below.encode()
        except UnicodeEncodeError:
            raise Problem(WRONG_INPUT, f"{path!a} is not UTF-8, and the control socket accepts UTF-8 only",
                          next_step="rename it") from None
        return "" if below == "." else below

    def outside(self, below):
        """A path of the volume as this machine names it."""
        return os.path.join(self.at, below) if below else self.at

    def ask(self, command, args, timeout):
        """The answer to one request, within `timeout` seconds."""
        ends = time.monotonic() + timeout
        request = json.dumps({"id": 1, "command": command, "args": args}).encode() + b"\n"
        asked = False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
                stream.settimeout(_left(ends))
                stream.connect(self.socket)
                _check_listener(stream, self.socket)
                asked = True
                stream.sendall(request)
                for line in _lines(stream, ends):
                    answer = json.loads(line)
                    if "error" in answer:
                        raise _problem(answer["error"])
                    if "result" in answer:
                        return answer["result"]
        except socket.timeout:
            cause = f"the daemon of {self.at} did not answer within {timeout:g} s"
        except PermissionError as error:
            raise Problem(DENIED, f"the control socket {self.socket} is closed to you: {error}",
                          next_step="ask the operator of the volume") from error
        except OSError as error:
            cause = f"no daemon answers on {self.socket}: {error}"
        except ValueError as error:
            cause = f"the daemon's answer is not valid: {error}"
        else:
            cause = f"the daemon of {self.at} hung up"
        consequence = "the request may have been carried out" if asked else "nothing was changed"
        raise Problem(NO_DAEMON, cause, consequence, "look at `entrepot status` and at the daemon's log")


def find(path=None):
    """The volume that `path` lies in. Without one: that of ENTREPOT_VOLUME if it names a mount point, that of the
    working directory, or the only one mounted."""
    mounts = _mounts()
    if path is not None:
        # By names first: a mount that hangs is not looked into.
        found = _above(os.path.abspath(path), mounts) or _above(os.path.realpath(path), mounts)
        if found:
            return found
        code = WRONG_INPUT if mounts else NO_DAEMON
        raise Problem(code, f"{path} lies in no volume that is mounted here{_list(mounts)}",
                      next_step="name a path below a mount point, or start the volume with `entrepot up`")
    named = os.path.abspath(os.environ.get(ENVIRONMENT) or "/")
    try:
        here = os.getcwd()
    except FileNotFoundError:
        here = "/"
    found = next((mount for mount in mounts if mount.at == named), None) or _above(here, mounts)
    if found:
        return found
    if len(mounts) == 1:
        return mounts[0]
    if not mounts:
        raise Problem(NO_DAEMON, "no Entrepot volume is mounted on this machine",
                      next_step="start one with `entrepot up VOLUME.TOML --at MOUNTPOINT`")
    raise Problem(WRONG_INPUT, f"several volumes are mounted{_list(mounts)}", next_step="give a path in one of them")


def _list(mounts):
    return f" ({', '.join(mount.at for mount in mounts)})" if mounts else ""


def _above(place, mounts):
    """The innermost mount that a place lies in."""
    inside = [mount for mount in mounts if place == mount.at or place.startswith(mount.at.rstrip("/") + "/")]
    return max(inside, key=lambda mount: len(mount.at), default=None)


def _mounts():
    """The Entrepot mounts of this machine. Each has its state directory in the place of the device, as NAME#STATE."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        return parse(table.read(), os.geteuid())


def parse(mountinfo, own=0):
    """Mounts of root and of the user `own`. Every user can mount something that names itself a volume."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        before, after = before.split(" "), after.split(" ")
        if len(before) < 5 or len(after) < 3 or after[0] != "fuse.entrepot":
            continue
        if not {"user_id=0", f"user_id={own}"} & set(after[2].split(",")):
            continue
        _, _, state = _unescape(after[1]).partition("#")
        if state.startswith("/"):
            found.append(Volume(_unescape(before[4]), state))
    return found


def _check_listener(stream, path):
    """Refuses a daemon of a user other than root and this one, before the first byte is sent."""
    _, user, _ = struct.unpack("=iII", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user not in (0, os.geteuid(), _outside()):
        raise Problem(DENIED, f"user {user} listens on {path}, neither root nor you", "nothing was sent there",
                      "name another volume")


def _outside():
    """The number of root outside of a container whose user namespace does not have it; none outside of containers."""
    try:
        with open("/proc/self/uid_map") as table:
            if table.read().split() in ([], ["0", "0", "4294967295"]):
                return None
        with open("/proc/sys/kernel/overflowuid") as number:
            return int(number.read())
    except OSError:
        return None


def _unescape(field):
    """The kernel writes blanks, tabs, line ends and backslashes as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)


def _left(ends):
    left = ends - time.monotonic()
    if left <= 0:
        raise socket.timeout
    return left


def _lines(stream, ends):
    """Lines until the other end hangs up."""
    rest = b""
    while True:
        stream.settimeout(_left(ends))
        more = stream.recv(1 << 16)
        if not more:
            return
        *lines, rest = (rest + more).split(b"\n")
        yield from lines
        if len(rest) > LINE_BYTES_MAX:
            raise ValueError(f"a line is longer than {LINE_BYTES_MAX} bytes")


def _problem(error):
    return Problem(error.get("exit_code", FAILED), error.get("cause", "the daemon refused the request"),
                   error.get("consequence", "nothing was changed"), error.get("next_step", "look at `entrepot status`"))
