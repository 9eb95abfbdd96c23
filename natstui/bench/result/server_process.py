"""The CPU use of a nats-server on this machine: of the process that listens on our
server's port.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LISTENING = "0A"
_LEAST_S = 0.2
"""Minimum time of a measurement: the system counts processor time in hundredths of a second."""


@dataclass(frozen=True, slots=True)
class ServerCpu:
    """The CPU use of a server."""

    ratio: float | None
    """Share of one core; above 1 it used several. None if unknown."""
    unknown: str | None = None
    """Why the ratio is unknown."""


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """The processor time of a server up to one moment."""

    pid: int | None
    cpu_s: float = 0.0
    at_s: float = 0.0
    unknown: str | None = None

    @classmethod
    def find(cls, url: str | None) -> Self:
        """Return the process of the server at a URL, if it runs on this machine.

        Else the result has the reason, and no CPU use.
        """
        address = urlsplit(url or "")
        if address.hostname not in _LOOPBACK:
            return cls(None, unknown="the server is on another machine")
        if not Path("/proc/net/tcp").exists():
            return cls(None, unknown="this system does not show its processes")
        pid = _listening_on(address.port or 4222)
        if pid is None:
            return cls(None, unknown="the server's process cannot be seen by this user")
        name = Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
        if name != "nats-server":
            return cls(None, unknown=f"the connection goes through another process, {name}")
        return cls(pid).from_now()

    def from_now(self) -> Self:
        """Return the same process with its processor time up to now."""
        if self.pid is None:
            return self
        return replace(self, cpu_s=_cpu_s(self.pid) or 0.0, at_s=time.monotonic())

    def cpu_since(self) -> ServerCpu:
        """Return the CPU use of the server since then; without a process, the reason."""
        if self.pid is None:
            return ServerCpu(None, self.unknown)
        cpu_s, elapsed_s = _cpu_s(self.pid), time.monotonic() - self.at_s
        if cpu_s is None:
            return ServerCpu(None, "the server's process ended during the run")
        if elapsed_s < _LEAST_S:
            return ServerCpu(None, "the run was too short")
        return ServerCpu((cpu_s - self.cpu_s) / elapsed_s)


def _cpu_s(pid: int) -> float | None:
    """Return the processor time of a process; None if it has ended."""
    try:
        stat_fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(stat_fields[11]) + int(stat_fields[12])) / os.sysconf("SC_CLK_TCK")


def _listening_on(port: int) -> int | None:
    """Return the process that listens on a port of this machine."""
    inodes = {
        columns[9]
        for file in ("/proc/net/tcp", "/proc/net/tcp6")
        if Path(file).exists()
        for line in Path(file).read_text("utf-8").splitlines()[1:]
        if (columns := line.split())[3] == _LISTENING and columns[1].endswith(f":{port:04X}")
    }
    socket_links = {f"socket:[{inode}]" for inode in inodes}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        if socket_links & _targets(folder):
            return int(folder.parent.name)
    return None


def _targets(folder: Path) -> set[str]:
    """Return the open files of a process; empty if not readable, or if it has ended."""
    targets = set()
    with contextlib.suppress(OSError):
        for entry in folder.iterdir():
            # Something may be closed while we look, the folder itself for one.
            with contextlib.suppress(FileNotFoundError):
                targets.add(os.readlink(entry))
    return targets
