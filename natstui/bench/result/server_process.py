"""How busy a nats-server on this machine is: the process that listens where we are connected."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LISTENING = "0A"
_LEAST_S = 0.2
"""The system counts processor time in hundredths of a second."""


@dataclass(frozen=True, slots=True)
class ServerCpu:
    """What a server used."""

    ratio: float | None
    """Of one core; above 1 it used several. None when nobody can know."""
    unknown: str | None = None
    """Why it is None."""


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """The processor time of a server up to one moment."""

    pid: int | None
    cpu_s: float = 0.0
    at_s: float = 0.0
    unknown: str | None = None

    @classmethod
    def find(cls, url: str | None) -> Self:
        """Return the server's process, or why there is none to be seen."""
        where = urlsplit(url or "")
        if where.hostname not in _LOOPBACK:
            return cls(None, unknown="the server is on another machine")
        if not Path("/proc/net/tcp").exists():
            return cls(None, unknown="this system does not show its processes")
        pid = _listening_on(where.port or 4222)
        if pid is None:
            return cls(None, unknown="the server's process cannot be seen by this user")
        name = Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
        if name != "nats-server":
            return cls(None, unknown=f"the connection goes through another process, {name}")
        return cls(pid, _cpu_s(pid) or 0.0, time.monotonic())

    def until_now(self) -> ServerCpu:
        """Return what it used since it was found."""
        if self.pid is None:
            return ServerCpu(None, self.unknown)
        cpu_s, elapsed_s = _cpu_s(self.pid), time.monotonic() - self.at_s
        if cpu_s is None:
            return ServerCpu(None, "the server's process ended during the run")
        if elapsed_s < _LEAST_S:
            return ServerCpu(None, "the run was too short")
        return ServerCpu((cpu_s - self.cpu_s) / elapsed_s)


def _cpu_s(pid: int) -> float | None:
    """Return the processor time a process has used; None when it is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _listening_on(port: int) -> int | None:
    """Return the process that listens on a port of this machine."""
    inodes = {
        words[9]
        for file in ("/proc/net/tcp", "/proc/net/tcp6")
        if Path(file).exists()
        for line in Path(file).read_text("utf-8").splitlines()[1:]
        if (words := line.split())[3] == _LISTENING and words[1].endswith(f":{port:04X}")
    }
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        if wanted & _targets(folder):
            return int(folder.parent.name)
    return None


def _targets(folder: Path) -> set[str]:
    """Return what a process has open; nothing where it may not be seen, or has just ended."""
    found = set()
    with contextlib.suppress(OSError):
        for one in folder.iterdir():
            # Something may be closed while we look, the folder itself for one.
            with contextlib.suppress(FileNotFoundError):
                found.add(os.readlink(one))
    return found
