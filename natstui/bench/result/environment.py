"""Reads the environment of a run: versions, machine, server; without names of users or hosts."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct

from natstui import __version__
from natstui.model.records.link import LinkChanged


class Environment(Struct, frozen=True):
    """The versions, the machine and the server of a benchmark."""

    natstui_version: str
    python_version: str
    nats_py_version: str
    numpy_version: str
    server_version: str | None
    server_tls: bool
    system: str
    machine: str
    processor: str
    cores_count: int
    memory_bytes: int | None


def read_environment(link: LinkChanged | None) -> Environment:
    """Return the environment of this process, with the server of `link`, if any."""
    return Environment(
        natstui_version=__version__,
        python_version=platform.python_version(),
        nats_py_version=version("nats-py"),
        numpy_version=version("numpy"),
        server_version=None if link is None else link.server_version,
        server_tls=False if link is None else link.tls,
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        processor=_read_processor_name(),
        cores_count=os.cpu_count() or 1,
        memory_bytes=_read_memory_bytes(),
    )


def _read_processor_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return platform.processor()
    return platform.processor()


def _read_memory_bytes() -> int | None:
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
