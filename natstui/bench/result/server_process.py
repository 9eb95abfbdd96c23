"""Measures the CPU use of a nats-server on this machine: the process that listens on its port."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from msgspec import Struct

from natstui.values import replace

_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
_TCP_LISTEN_STATE = "0A"
_MIN_MEASURED_S = 0.2
"""Minimum time of a measurement: the system counts CPU time in hundredths of a second."""


class ServerCpu(Struct, frozen=True):
    """The CPU use of a server during a run."""

    ratio: float | None
    """CPU use as a share of one core, above 1 for several cores; None if unknown."""
    unknown_reason: str | None = None
    """Reason why the ratio is unknown."""


class ServerProcess(Struct, frozen=True):
    """The process of a server, and its CPU time at the start of a measurement."""

    pid: int | None
    cpu_s: float = 0.0
    started_s: float = 0.0
    """Start of the measurement (monotonic)."""
    unknown_reason: str | None = None

    @classmethod
    def find(cls, url: str | None) -> Self:
        """Return the process of the server at a URL, and start a measurement.

        If it is not found on this machine, the result has no pid but `unknown_reason`.
        """
        address = urlsplit(url or "")
        if address.hostname not in _LOOPBACK_HOSTS:
            return cls(None, unknown_reason="the server is on another machine")
        if not Path("/proc/net/tcp").exists():
            return cls(None, unknown_reason="this system does not show its processes")
        pid = _find_listener(address.port or 4222)
        if pid is None:
            return cls(None, unknown_reason="the server's process cannot be seen by this user")
        name = Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
        if name != "nats-server":
            return cls(None, unknown_reason=f"the connection goes through another process, {name}")
        return cls(pid).start_measurement()

    def start_measurement(self) -> Self:
        """Return the same process with a measurement that starts now."""
        if self.pid is None:
            return self
        return replace(self, cpu_s=_cpu_s(self.pid) or 0.0, started_s=time.monotonic())

    def cpu_since(self) -> ServerCpu:
        """Return the CPU use of the server since the start, or the reason why it is unknown."""
        if self.pid is None:
            return ServerCpu(None, self.unknown_reason)
        cpu_s, elapsed_s = _cpu_s(self.pid), time.monotonic() - self.started_s
        if cpu_s is None:
            return ServerCpu(None, "the server's process ended during the run")
        if elapsed_s < _MIN_MEASURED_S:
            return ServerCpu(None, "the run was too short")
        return ServerCpu((cpu_s - self.cpu_s) / elapsed_s)


def _cpu_s(pid: int) -> float | None:
    """Return the CPU time of a process in s; None if it has ended."""
    try:
        stat_fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(stat_fields[11]) + int(stat_fields[12])) / os.sysconf("SC_CLK_TCK")


def _find_listener(port: int) -> int | None:
    """Return the id of the process that listens on a port of this machine; None without one."""
    inodes = {
        columns[9]
        for file in ("/proc/net/tcp", "/proc/net/tcp6")
        if Path(file).exists()
        for line in Path(file).read_text("utf-8").splitlines()[1:]
        if (columns := line.split())[3] == _TCP_LISTEN_STATE
        and columns[1].endswith(f":{port:04X}")
    }
    socket_links = {f"socket:[{inode}]" for inode in inodes}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        if socket_links & _read_open_files(folder):
            return int(folder.parent.name)
    return None


def _read_open_files(folder: Path) -> set[str]:
    """Return the open files of a process; empty if not readable, or if it has ended."""
    open_files = set()
    with contextlib.suppress(OSError):
        for entry in folder.iterdir():
            # A file may be closed meanwhile, such as the folder itself.
            with contextlib.suppress(FileNotFoundError):
                open_files.add(os.readlink(entry))
    return open_files
