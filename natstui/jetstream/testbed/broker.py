"""Runs a nats-server for `natstui demo` and tests: on loopback, on a free port, with its own
store.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from natstui.errors import EmbeddedServerError, MissingExtra

# Systems use ports above these (from 32768 on Linux, from 49152 elsewhere) for connections.
_CANDIDATE_PORTS = range(20_000, 32_000)
_MAX_TRIES_COUNT = 200


class ReservedPorts:
    """Different free loopback ports, reserved until `close`; usable with `with`.

    On Linux only a server that sets SO_REUSEADDR, as nats-server and asyncio do, can listen on a
    reserved port. On other systems the ports are free at first, but not reserved.
    """

    numbers: tuple[int, ...]

    def __init__(self, count: int) -> None:
        """Reserve `count` ports; raises EmbeddedServerError if too few are free."""
        self._sockets: dict[int, socket.socket] = {}
        try:
            self._reserve(count)
        except BaseException:
            self.close()
            raise
        self.numbers = tuple(self._sockets)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the ports."""
        while self._sockets:
            self._sockets.popitem()[1].close()

    def _reserve(self, count: int) -> None:
        candidates = random.sample(_CANDIDATE_PORTS, _MAX_TRIES_COUNT)
        while len(self._sockets) < count:
            if not candidates:
                raise EmbeddedServerError(
                    f"no free port was found between {_CANDIDATE_PORTS[0]} and "
                    f"{_CANDIDATE_PORTS[-1]}"
                )
            port = candidates.pop()
            if port_socket := _bind_port(port):
                self._sockets[port] = port_socket
        if sys.platform != "linux":
            for port_socket in self._sockets.values():
                port_socket.close()


def _bind_port(port: int) -> socket.socket | None:
    """Return a socket that has a port for itself; None if the port is not free."""
    port_socket = socket.socket()
    try:
        port_socket.bind(("127.0.0.1", port))
        # After `bind`: before it, the socket could share a port with another process.
        port_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError as error:
        port_socket.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise
    return port_socket


_START_TIMEOUT_S = 15.0
_STOP_TIMEOUT_S = 5.0
_FREEZE_TIMEOUT_S = 1.0
_CHECK_INTERVAL_S = 0.005
_MAX_PORT_CHOICES_COUNT = 3
_PORT_TAKEN_TEXT = "address already in use"
_PR_SET_PDEATHSIG = 1


def server_binary() -> str:
    """Return the path of nats-server: of $NATS_SERVER, else on PATH, else next to this Python.

    Raises MissingExtra if there is none.
    """
    configured_path = os.environ.get("NATS_SERVER")
    # The scripts folder is not on PATH when the virtual environment is not activated.
    path = configured_path or shutil.which("nats-server")
    path = path or shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    if path is None:
        raise MissingExtra("demo", "demo")
    return path


def _make_death_signal_setup() -> Callable[[], None] | None:
    """Return a function that makes Linux end the process that calls it when this process ends.

    The child process calls it before it starts the server. Returns None on other systems.
    """
    if sys.platform != "linux":
        return None
    prctl, parent_pid = ctypes.CDLL(None).prctl, os.getpid()

    def request_death_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent_pid:
            os._exit(1)

    return request_death_signal


def _have_all_threads_stopped(pid: int) -> bool:
    """Return whether all threads of a process are stopped by a signal; False if unknown."""
    threads_folder = Path(f"/proc/{pid}/task")
    if not threads_folder.is_dir():
        return False
    return all(_has_thread_stopped(thread_folder) for thread_folder in threads_folder.iterdir())


def _has_thread_stopped(thread_folder: Path) -> bool:
    """Return whether a thread is stopped by a signal, or has ended."""
    try:
        return (thread_folder / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Broker:
    """A nats-server process; use it with `with` or `async with`.

    It must be started by the main thread: Linux ends it when the thread that started it ends.
    """

    url: str
    """Address for clients; it stays the same after a restart."""
    ports: tuple[int, int]
    """Ports for clients and for HTTP; others are chosen if one is in use at the first start."""
    monitoring_url: str
    """Address of the server's HTTP port, with `/healthz` and `/jsz`."""
    binary: str
    """Path of nats-server; it may be set to another version while the process does not run."""

    def __init__(
        self,
        *,
        store: Path | None = None,
        config_text: str = "",
        name: str = "natstui",
        jetstream: bool = True,
        port: int | None = None,
    ) -> None:
        """Prepare a server, without starting it.

        `config_text` is the content of its configuration file, which the other parameters
        override. Without a `port`, it uses a free one.
        """
        self.binary = server_binary()
        self._has_jetstream = jetstream
        self._temporary_folder = Path(tempfile.mkdtemp(prefix="natstui-broker-"))
        self.name = name
        self.store = store or self._temporary_folder / "store"
        self.log = self._temporary_folder / "server.log"
        self._config_file = self._temporary_folder / "server.conf"
        self._config_file.write_text(config_text, encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self._fixed_port = port
        self._choose_ports()
        self._port_choices_left = _MAX_PORT_CHOICES_COUNT

    def __enter__(self) -> Self:
        with self._close_on_failure():
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        with self._close_on_failure():
            self.spawn()
            await self.wait_until_ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _close_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The server's process id; raises EmbeddedServerError if it is not running."""
        if self._process is None:
            raise EmbeddedServerError(f"nats-server {self.name} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Return whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and wait until JetStream replies.

        Raises EmbeddedServerError, with the last line of the log, if the server does not start.
        """
        self.spawn()
        while not self._is_ready():
            time.sleep(_CHECK_INTERVAL_S)

    def spawn(self) -> None:
        """Start the process, and return before it accepts connections."""
        client_port, http_port = self.ports
        arguments = [self.binary, "-c", str(self._config_file), "-n", self.name, "-a", "127.0.0.1"]
        arguments += [
            "-p",
            str(client_port),
            "-m",
            str(http_port),
            "--ports_file_dir",
            str(self._temporary_folder),
        ]
        arguments += ["-js", "-sd", str(self.store)] if self._has_jetstream else []
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_make_death_signal_setup(),
            )
        self._ready_deadline_s = time.monotonic() + _START_TIMEOUT_S

    async def wait_until_ready(self) -> None:
        """Wait after `spawn` until JetStream replies; raises what `start` raises."""
        # Another process cannot set an event of this one: only repeated checks are possible.
        while not self._is_ready():  # noqa: ASYNC110
            await asyncio.sleep(_CHECK_INTERVAL_S)

    def stop(self, within_s: float = _STOP_TIMEOUT_S) -> None:
        """Terminate the process and wait for its end; kill it after `within_s`."""
        self.terminate()
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def terminate(self) -> None:
        """Send the process the signal to end, without waiting for its end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()

    def kill(self) -> None:
        """End the process at once, like a crash."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def restart(self) -> None:
        """Stop the server if it runs, and start it on the same ports and store."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Freeze the process: its connections stay open, but it does not reply."""
        os.kill(self.pid, signal.SIGSTOP)
        # The threads stop one after the other, and may still reply until then.
        deadline_s = time.monotonic() + _FREEZE_TIMEOUT_S
        while not _have_all_threads_stopped(self.pid) and time.monotonic() < deadline_s:
            time.sleep(_CHECK_INTERVAL_S)

    def thaw(self) -> None:
        """Resume a frozen server."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Stop the server, and delete its temporary files."""
        self.stop()
        self._reserved_ports.close()
        shutil.rmtree(self._temporary_folder, ignore_errors=True)

    def _is_ready(self) -> bool:
        """Return whether the server accepts connections and JetStream replies; set its addresses.

        A server that ended because a port was in use is started again with other ports.
        """
        if self._process is None or self._process.poll() is not None:
            self._process = None
            if self._choose_ports_again():
                self.spawn()
                return False
            log_line = self._last_log_line()
            raise EmbeddedServerError(
                f"nats-server {self.name} stopped during startup: {log_line}"
            )
        if time.monotonic() > self._ready_deadline_s:
            self.kill()
            raise EmbeddedServerError(
                f"nats-server {self.name} was not ready after {_START_TIMEOUT_S:g} s"
            )
        ports_file = self._temporary_folder / f"{Path(self.binary).name}_{self._process.pid}.ports"
        try:
            addresses = json.loads(ports_file.read_bytes())
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        # From now on, clients may know the address.
        self._port_choices_left = 0
        self.url, self.monitoring_url = addresses["nats"][0], addresses["monitoring"][0]
        return self.is_healthy(
            "?js-enabled-only=true" if self._has_jetstream else "?js-server-only=1"
        )

    def _choose_ports_again(self) -> bool:
        """Choose other ports if one was in use when the server started; return whether one was."""
        if (
            self._fixed_port
            or self._port_choices_left == 0
            or _PORT_TAKEN_TEXT not in self._last_log_line()
        ):
            return False
        self._port_choices_left -= 1
        self._reserved_ports.close()
        self._choose_ports()
        return True

    def _choose_ports(self) -> None:
        self._reserved_ports = ReservedPorts(2)
        client_port, http_port = self._reserved_ports.numbers
        self.ports = self._fixed_port or client_port, http_port

    def is_healthy(self, query: str = "") -> bool:
        """Return whether `/healthz` says that the server is healthy.

        Without a query, this includes that it knows the meta leader of its cluster.
        """
        try:
            status, _ = self._get("/healthz" + query)
        except (OSError, http.client.HTTPException):
            return False
        return status == 200

    def meta_group(self) -> dict[str, Any]:
        """Return what the server reports about the meta group; an empty dict without a reply."""
        try:
            _, body = self._get("/jsz")
        except (OSError, http.client.HTTPException):
            return {}
        return dict(json.loads(body).get("meta_cluster") or {})

    def _get(self, path: str) -> tuple[int, bytes]:
        address = urlsplit(self.monitoring_url).netloc
        connection = http.client.HTTPConnection(address, timeout=1)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _last_log_line(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"
