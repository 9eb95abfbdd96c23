"""The embedded nats-server of `natstui demo` and of tests: loopback, a free port, own store."""

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

from natstui.errors import BrokerFailed, MissingExtra

# Systems hand out ports above these (32768 on Linux, 49152 elsewhere) to whoever connects.
_PORTS = range(20_000, 32_000)
_TRIES_COUNT = 200


class HeldPorts:
    """Different loopback ports on which nobody listens, usable with `with`.

    On Linux they are kept until closed: only a server that sets SO_REUSEADDR, as nats-server and
    asyncio do, can listen there. Elsewhere somebody may take one meanwhile.
    """

    numbers: tuple[int, ...]

    def __init__(self, count: int) -> None:
        """Raises BrokerFailed when too few are found."""
        self._sockets: dict[int, socket.socket] = {}
        try:
            self._find(count)
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

    def _find(self, count: int) -> None:
        candidates = random.sample(_PORTS, _TRIES_COUNT)
        while len(self._sockets) < count:
            if not candidates:
                raise BrokerFailed(f"no free port was found between {_PORTS[0]} and {_PORTS[-1]}")
            port = candidates.pop()
            if port_socket := _bound(port):
                self._sockets[port] = port_socket
        if sys.platform != "linux":
            for port_socket in self._sockets.values():
                port_socket.close()


def _bound(port: int) -> socket.socket | None:
    """Return a socket that has the port exclusively; None when it is not free."""
    port_socket = socket.socket()
    try:
        port_socket.bind(("127.0.0.1", port))
        # Only now: before, the socket would have shared a port that somebody else holds.
        port_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError as error:
        port_socket.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise
    return port_socket


_START_S = 15.0
_STOP_S = 5.0
_FREEZE_S = 1.0
_LOOK_AGAIN_S = 0.005
_CHOICES_COUNT = 3
_TAKEN = "address already in use"
_PR_SET_PDEATHSIG = 1


def server_binary() -> str:
    """Return the path of nats-server: $NATS_SERVER, then PATH, then next to this Python.

    Raises MissingExtra when there is none.
    """
    path_variable = os.environ.get("NATS_SERVER")
    # The scripts folder is not on PATH when the virtual environment is not activated.
    path = path_variable or shutil.which("nats-server")
    path = path or shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    if path is None:
        raise MissingExtra("demo", "demo")
    return path


def _die_with_parent() -> Callable[[], None] | None:
    """Return the function that the child runs before it becomes the server; None outside Linux."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def arm() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return arm


def _all_stopped(pid: int) -> bool:
    """Return whether every thread of a process has stopped; False if unknown."""
    threads = Path(f"/proc/{pid}/task")
    if not threads.is_dir():
        return False
    return all(_has_stopped(thread) for thread in threads.iterdir())


def _has_stopped(thread: Path) -> bool:
    """Return whether a thread has stopped or ended."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Broker:
    """One nats-server process, usable with `with` and with `async with`.

    Start it from the main thread: Linux ends it when the thread that started it ends.
    """

    url: str
    """Where clients connect; stays the same over restarts."""
    ports: tuple[int, int]
    """Ports for clients and for HTTP; chosen again if one is taken before the first start."""
    monitoring_url: str
    """Where the server answers HTTP (`/healthz`, `/jsz`)."""
    binary: str
    """Path of nats-server; may be set to another version while it does not run."""

    def __init__(
        self,
        *,
        store: Path | None = None,
        config_text: str = "",
        name: str = "natstui",
        jetstream: bool = True,
        port: int | None = None,
    ) -> None:
        """Prepare a server; flags override `config_text`, its configuration file.

        Without a `port` it uses a free one.
        """
        self.binary = server_binary()
        self._jetstream = jetstream
        self._own = Path(tempfile.mkdtemp(prefix="natstui-broker-"))
        self.name = name
        self.store = store or self._own / "store"
        self.log = self._own / "server.log"
        self._config = self._own / "server.conf"
        self._config.write_text(config_text, encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self._given_port = port
        self._choose_ports()
        self._choices_left = _CHOICES_COUNT

    def __enter__(self) -> Self:
        with self._closed_on_failure():
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        with self._closed_on_failure():
            self.spawn()
            await self.until_ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The server's process id; raises BrokerFailed while it does not run."""
        if self._process is None:
            raise BrokerFailed(f"nats-server {self.name} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Return whether its process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait until JetStream replies; raises BrokerFailed with its last log line."""
        self.spawn()
        while not self._is_ready():
            time.sleep(_LOOK_AGAIN_S)

    def spawn(self) -> None:
        """Start its process, and return before it listens."""
        client_port, http_port = self.ports
        arguments = [self.binary, "-c", str(self._config), "-n", self.name, "-a", "127.0.0.1"]
        arguments += [
            "-p",
            str(client_port),
            "-m",
            str(http_port),
            "--ports_file_dir",
            str(self._own),
        ]
        arguments += ["-js", "-sd", str(self.store)] if self._jetstream else []
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent(),
            )
        self._give_up_at = time.monotonic() + _START_S

    async def until_ready(self) -> None:
        """Wait after `spawn` until JetStream replies; raises BrokerFailed as `start` does."""
        # Another process cannot set our events: looking again is the only way.
        while not self._is_ready():  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_AGAIN_S)

    def stop(self, within_s: float = _STOP_S) -> None:
        """Stop regularly, as an operator would; kill what has not ended by then."""
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
        """Request its end; `stop` waits for it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def restart(self) -> None:
        """Stop if it runs, and start again on the same ports and store."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Freeze the process: connections stay open and nobody replies."""
        os.kill(self.pid, signal.SIGSTOP)
        # Its threads stop one after the other, and until then may still answer.
        give_up_at = time.monotonic() + _FREEZE_S
        while not _all_stopped(self.pid) and time.monotonic() < give_up_at:
            time.sleep(_LOOK_AGAIN_S)

    def thaw(self) -> None:
        """Resume a frozen server."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Stop, and delete temporary files."""
        self.stop()
        self._held_ports.close()
        shutil.rmtree(self._own, ignore_errors=True)

    def _is_ready(self) -> bool:
        """Return whether it listens and JetStream is up; store its addresses."""
        if self._process is None or self._process.poll() is not None:
            self._process = None
            if self._may_choose_again():
                self.spawn()
                return False
            log_lines = self._last_words()
            raise BrokerFailed(f"nats-server {self.name} stopped during startup: {log_lines}")
        if time.monotonic() > self._give_up_at:
            self.kill()
            raise BrokerFailed(f"nats-server {self.name} was not ready after {_START_S:g} s")
        ports = self._own / f"{Path(self.binary).name}_{self._process.pid}.ports"
        try:
            listens = json.loads(ports.read_bytes())
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        # Clients know its address from now on.
        self._choices_left = 0
        self.url, self.monitoring_url = listens["nats"][0], listens["monitoring"][0]
        return self.is_healthy("?js-enabled-only=true" if self._jetstream else "?js-server-only=1")

    def _may_choose_again(self) -> bool:
        """Return whether another process took a chosen port before the server."""
        if self._given_port or self._choices_left == 0 or _TAKEN not in self._last_words():
            return False
        self._choices_left -= 1
        self._held_ports.close()
        self._choose_ports()
        return True

    def _choose_ports(self) -> None:
        self._held_ports = HeldPorts(2)
        client_port, http_port = self._held_ports.numbers
        self.ports = self._given_port or client_port, http_port

    def is_healthy(self, query: str = "") -> bool:
        """Return the result of `/healthz`; without a query that includes the meta leader of a
        cluster.
        """
        try:
            status, _ = self._get("/healthz" + query)
        except (OSError, http.client.HTTPException):
            return False
        return status == 200

    def meta_group(self) -> dict[str, Any]:
        """Return this node's report of the meta group, empty without a reply."""
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

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"
