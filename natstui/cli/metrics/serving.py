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
from natstui.cli.own_host import is_own_host
from natstui.errors import UsageError
from natstui.model.live.state import State

_IDLE_TIMEOUT_S = 10.0
"""Time without a request after which a client is disconnected."""
_MAX_CLIENTS = 16
"""Limit of simultaneous clients; Prometheus needs one."""


class _MetricsServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], format_text: Callable[[], str]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _MetricsHandler)
        self.host = address[0]
        self.format_text = format_text
        self.client_slots = threading.BoundedSemaphore(_MAX_CLIENTS)
        self.format_lock = threading.Lock()

    def handle_error(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Ignore a disconnected client; print the traceback of a defect."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _MetricsHandler(BaseHTTPRequestHandler):
    timeout = _IDLE_TIMEOUT_S
    server: _MetricsServer
    server_version = "natstui"
    sys_version = ""

    def do_GET(self) -> None:
        """Send the metrics; refuse a request for another host or page, or too many at once."""
        host_headers = self.headers.get_all("Host") or []
        if len(host_headers) != 1 or not is_own_host(host_headers[0], self.server.host):
            text = "call natstui by its address, or by the host that it listens at\n"
            self._send_text(HTTPStatus.FORBIDDEN, "text/plain", text)
        elif self.path.partition("?")[0] not in ("/", "/metrics"):
            self._send_text(HTTPStatus.NOT_FOUND, "text/plain", "the metrics are at /metrics\n")
        elif not self.server.client_slots.acquire(blocking=False):
            text = f"more than {_MAX_CLIENTS} clients at once\n"
            self._send_text(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", text)
        else:
            try:
                with self.server.format_lock:
                    text = self.server.format_text()
                self._send_text(HTTPStatus.OK, CONTENT_TYPE, text)
            finally:
                self.server.client_slots.release()

    def _send_text(self, status: HTTPStatus, content_type: str, text: str) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log no request."""


def parse_address(text: str, flag: str = "--listen") -> tuple[str, int]:
    """Return host and port of `127.0.0.1:9777`, `[::1]:9777`, or `:9777` (loopback).

    Raises UsageError that names `flag` for an invalid address.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise UsageError(f"{flag} {text!r} is not an address: write it as 127.0.0.1:9777")
    return host.strip("[]") or "127.0.0.1", int(port)


@contextmanager
def serve_text(address: tuple[str, int], format_text: Callable[[], str]) -> Iterator[int]:
    """Serve the result of `format_text()` at /metrics over HTTP in a thread, until the block ends.

    `address` is host and port. Yields the port; for port 0, the port that the system chose. Raises
    UsageError if the address cannot be used.
    """
    try:
        server = _MetricsServer(address, format_text)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {_join_address(*address)}: {error.strerror or error}"
        ) from error
    server_thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    server_thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def serve_metrics(
    text: str | None, flag: str, get_state: Callable[[], State], *, as_json: bool = False
) -> Iterator[None]:
    """Serve the metrics of `get_state()` at an address until the block ends, and print its URL.

    `text` is `HOST:PORT`, the value of `flag`; None: serve nothing. The URL is printed to stderr;
    with `as_json` to stdout. Raises UsageError for an invalid or used address.
    """
    if text is None:
        yield
        return
    host, port = parse_address(text, flag)
    exposition = Exposition()
    with serve_text((host, port), lambda: exposition.text(get_state())) as port:
        url = f"http://{_join_address(host, port)}/metrics"
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


def _join_address(host: str, port: int) -> str:
    """Return host and port as text: `127.0.0.1:9777`, or `[::1]:9777` for IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
