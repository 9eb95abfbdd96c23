"""An HTTP server of one page: the metrics."""

from __future__ import annotations

import ipaddress
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import click

from natstui.cli.json_line import print_json
from natstui.cli.metrics.exposition import CONTENT_TYPE, Exposition
from natstui.errors import UsageError
from natstui.model.live.state import State

_SILENT_S = 10.0
"""A client that sends nothing for so long is left."""
_CLIENTS_COUNT = 16
"""More at once are sent away: a scraper needs one."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], text: Callable[[], str]) -> None:
        super().__init__(address, _Handler)
        self.text = text
        self.places = threading.BoundedSemaphore(_CLIENTS_COUNT)
        self.one_at_a_time = threading.Lock()

    def handle_error(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Ignore a client that hung up; print the traceback of a defect."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    timeout = _SILENT_S
    server: _Server
    server_version = "natstui"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a scrape."""
        if self.path.partition("?")[0] not in ("/", "/metrics"):
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "the metrics are at /metrics\n")
        elif not self.server.places.acquire(blocking=False):
            text = f"more than {_CLIENTS_COUNT} clients at once\n"
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", text)
        else:
            try:
                with self.server.one_at_a_time:
                    text = self.server.text()
                self._send(HTTPStatus.OK, CONTENT_TYPE, text)
            finally:
                self.server.places.release()

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing of each scrape."""


def parse_address(text: str, flag: str = "--listen") -> tuple[str, int]:
    """Return host and port of `127.0.0.1:9777`, `[::1]:9777` or `:9777`; raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise UsageError(f"{flag} {text!r} is not an address: write it as 127.0.0.1:9777")
    return host.strip("[]") or "127.0.0.1", int(port)


@contextmanager
def serving(address: tuple[str, int], text: Callable[[], str]) -> Iterator[int]:
    """Answer scrapes with `text()`, made in a thread, until the end of the block.

    Gives the port, which the system chose for port 0. Raises UsageError when it cannot listen.
    """
    try:
        server = _Server(address, text)
    except OSError as error:
        where = f"{address[0]}:{address[1]}"
        raise UsageError(f"cannot listen on {where}: {error.strerror or error}") from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def metrics_at(
    text: str | None, flag: str, state: Callable[[], State], *, as_json: bool = False
) -> Iterator[None]:
    """Answer scrapes at an address until the end of the block, and say where; None: do not.

    `state` returns what is known. Raises UsageError for what is no address, or a taken one.
    """
    if text is None:
        yield
        return
    host, port = parse_address(text, flag)
    exposition = Exposition()
    with serving((host, port), lambda: exposition.text(state())) as port:
        url = f"http://{host}:{port}/metrics"
        if as_json:
            print_json({"url": url})
        else:
            click.echo(f"metrics at {url}", err=True)
        if not _is_loopback(host):
            click.echo(
                "natstui: anyone who can reach this address can read the names of streams, "
                "consumers and servers: there is no password and no TLS",
                err=True,
            )
        yield


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
