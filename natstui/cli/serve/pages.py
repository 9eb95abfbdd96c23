"""An HTTP server of one page: a terminal with the viewer, protected by a token."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from string import Template

import click
import textual_serve
from aiohttp import WSMsgType, web
from aiohttp.http_exceptions import HttpProcessingError
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from natstui.children import kill
from natstui.clean import clean_line
from natstui.cli.own_host import is_own_host
from natstui.engine.stopping import make_stop_event
from natstui.errors import UsageError

RequestHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_HOST = "127.0.0.1"
_STATIC_FOLDER = Path(textual_serve.__file__).parent / "static"
_PAGE_FOLDER = Path(__file__).parent
_MIN_SIZE_CELLS, _MAX_SIZE_CELLS = 1, 1000
_MAX_MESSAGE_BYTES = 1 << 20
_HEARTBEAT_S = 15.0
_VIEWER_END_TIMEOUT_S = 10.0
"""Timeout for ending a viewer."""


class _ViewerProcess(AppService):
    """A viewer process and the browser that shows it; its end closes the page."""

    async def run(self) -> None:
        """Send the output of the viewer to the browser until it ends, then close the page."""
        await super().run()
        await self.remote_close()

    async def stop(self) -> None:
        """End the viewer and its pipes; kill it if it still runs after 10 s."""
        # The reader of the viewer swallows a cancellation, so a timeout around it has no effect.
        stop_process_task = asyncio.create_task(self._stop_process())
        finished_tasks, _ = await asyncio.wait([stop_process_task], timeout=_VIEWER_END_TIMEOUT_S)
        if not finished_tasks and self._process is not None:
            kill(self._process)
        with suppress(TimeoutError):
            async with asyncio.timeout(_VIEWER_END_TIMEOUT_S):
                await stop_process_task

    async def _stop_process(self) -> None:
        await super().stop()
        if self._process is not None:
            await self._process.communicate(b"")


class PageServer:
    """Serves the page and its files, and starts a viewer for each browser that opens the page."""

    def __init__(self, viewer_command: str, port: int) -> None:
        self._viewer_command = viewer_command
        self._port = port
        self._downloads = DownloadManager()
        self._websockets = set[web.WebSocketResponse]()
        self._viewer_tasks = set[asyncio.Task[None]]()
        self.token = secrets.token_urlsafe(32)
        """Part of every path: without this token nothing is served."""

    @property
    def address(self) -> str:
        """Return the URL to open in a browser; it contains the token."""
        return f"http://{_HOST}:{self._port}/{self.token}/"

    def create_app(self) -> web.Application:
        """Return the web application: every route checks host, origin and token."""
        app = web.Application(middlewares=[self._check_request])
        app.on_response_prepare.append(self._set_security_headers)
        app.on_shutdown.append(self._close_all_pages)
        app.on_cleanup.append(self._wait_for_viewers)
        app.add_routes(
            [
                web.get("/{token}/", self._serve_page),
                web.get("/{token}/{name:page[.](?:css|js)}", self._serve_own_file),
                web.get("/{token}/ws", self._serve_websocket),
                web.get("/{token}/static/{path:.+}", self._serve_static_file),
                # The script of the page opens this path. A key is as long as a token.
                web.get("/download/{key}", self._serve_download),
            ]
        )
        return app

    @web.middleware
    async def _check_request(
        self, request: web.Request, handler: RequestHandler
    ) -> web.StreamResponse:
        """Refuse a request for another host (DNS rebinding), from another origin, or with a wrong
        token.
        """
        origin = request.headers.get("Origin")
        has_own_host = is_own_host(request.headers.get("Host"), _HOST)
        if not has_own_host or origin not in (None, _own_page_origin(request)):
            raise web.HTTPForbidden(text="natstui serves its own page only")
        token = request.match_info.get("token")
        if token is not None and not secrets.compare_digest(token.encode(), self.token.encode()):
            raise web.HTTPForbidden(
                text="the address has no token: open the address that natstui serve printed"
            )
        return await handler(request)

    async def _set_security_headers(
        self, request: web.Request, response: web.StreamResponse
    ) -> None:
        """Set the headers of a response that forbid foreign resources, framing and caching."""
        response.headers["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
            f"font-src 'self'; img-src 'self' data:; connect-src ws://{request.host}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Cache-Control"] = "no-store"

    async def _serve_page(self, request: web.Request) -> web.Response:
        page = Template((_PAGE_FOLDER / "page.html").read_text(encoding="utf-8"))
        address = f"ws://{request.host}/{self.token}/ws"
        return web.Response(text=page.substitute(websocket=address), content_type="text/html")

    async def _serve_own_file(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(_PAGE_FOLDER / request.match_info["name"])

    async def _serve_static_file(self, request: web.Request) -> web.StreamResponse:
        path = (_STATIC_FOLDER / request.match_info["path"]).resolve()
        if not path.is_relative_to(_STATIC_FOLDER.resolve()) or not path.is_file():
            raise web.HTTPNotFound
        return web.FileResponse(path)

    async def _serve_download(self, request: web.Request) -> web.StreamResponse:
        """Send a file that the viewer wrote for the browser."""
        key = request.match_info["key"]
        try:
            file = await self._downloads.get_download_metadata(key)
        except KeyError:
            raise web.HTTPNotFound from None
        name = clean_line(file.file_name).replace('"', "'")
        response = web.StreamResponse()
        response.headers["Content-Type"] = "application/octet-stream"
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        await response.prepare(request)
        async for chunk in self._downloads.download(key):
            await response.write(chunk)
        await response.write_eof()
        return response

    async def _serve_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Start a viewer, and pass keys and sizes to it until it or the browser ends."""
        if request.headers.get("Origin") != _own_page_origin(request):
            raise web.HTTPForbidden(text="natstui serves its own page only")
        websocket = web.WebSocketResponse(heartbeat=_HEARTBEAT_S, max_msg_size=_MAX_MESSAGE_BYTES)
        await websocket.prepare(request)
        width, height = (_parse_cells(request.query.get(name)) for name in ("width", "height"))
        # aiohttp waits for no handler whose browser is gone: the viewer has a task of its own.
        viewer_task = asyncio.create_task(self._run_viewer(websocket, width or 80, height or 24))
        self._viewer_tasks.add(viewer_task)
        viewer_task.add_done_callback(self._viewer_tasks.discard)
        await asyncio.shield(viewer_task)
        return websocket

    async def _run_viewer(self, websocket: web.WebSocketResponse, width: int, height: int) -> None:
        self._websockets.add(websocket)
        viewer = _ViewerProcess(
            self._viewer_command,
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=lambda: _close_websocket(websocket),
            download_manager=self._downloads,
        )
        await viewer.start(width, height)
        try:
            async for message in websocket:
                if message.type == WSMsgType.TEXT:
                    await _handle_browser_message(message.data, viewer, websocket)
        finally:
            self._websockets.discard(websocket)
            await viewer.stop()

    async def _close_all_pages(self, _app: web.Application) -> None:
        """Close every page, which ends its viewer."""
        for websocket in list(self._websockets):
            await websocket.close()

    async def _wait_for_viewers(self, _app: web.Application) -> None:
        """Wait until the viewers have ended, so that the loop does not end before their
        processes.
        """
        if self._viewer_tasks:
            await asyncio.wait(self._viewer_tasks, timeout=2 * _VIEWER_END_TIMEOUT_S)


def _own_page_origin(request: web.Request) -> str:
    """Return the origin of natstui's own page: scheme, and host and port of the Host header."""
    return f"http://{request.host}"


async def _close_websocket(websocket: web.WebSocketResponse) -> None:
    await websocket.close()


def _parse_cells(value: object) -> int | None:
    """Return a width or height in cells, limited to 1 … 1000; None if it is invalid."""
    text = str(value)
    if text.isascii() and text.isdigit() and len(text) <= 4:
        return min(max(int(text), _MIN_SIZE_CELLS), _MAX_SIZE_CELLS)
    return None


async def _handle_browser_message(
    text: str, viewer: AppService, websocket: web.WebSocketResponse
) -> None:
    """Execute a message of the page's script; ignore an unknown message."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return
    match message:
        case ["stdin", str(keys)]:
            await viewer.send_bytes(keys.encode(errors="replace"))
        case ["resize", {"width": width_value, "height": height_value}]:
            width, height = _parse_cells(width_value), _parse_cells(height_value)
            if width is not None and height is not None:
                await viewer.set_terminal_size(width, height)
        case ["ping", data]:
            await websocket.send_json(["pong", data])
        case ["blur", *_]:
            await viewer.blur()
        case ["focus", *_]:
            await viewer.focus()


def _is_defect(record: logging.LogRecord) -> bool:
    """Return whether a log record is about a defect of natstui, not about a client without
    HTTP.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


async def serve_pages(viewer_command: str, port: int, *, read_only: bool) -> None:
    """Serve the page at 127.0.0.1 until Ctrl-C or SIGTERM, and print its URL.

    `viewer_command` is the command line of the viewer for each browser; port 0 is a free port.
    `read_only` only changes the printed sentence. Raises UsageError if the port is in use.
    """
    try:
        listening_socket = socket.create_server((_HOST, port))
    except OSError as error:
        raise UsageError(f"--port {port}: {(error.strerror or '').lower()}") from error
    stop_event, pages = (
        make_stop_event(),
        PageServer(viewer_command, listening_socket.getsockname()[1]),
    )
    log = logging.getLogger(__name__)
    log.addFilter(_is_defect)
    app_runner = web.AppRunner(pages.create_app(), access_log=None, logger=log)
    await app_runner.setup()
    try:
        await web.SockSite(app_runner, listening_socket).start()
        changes_text = "changes are refused" if read_only else "changes are allowed"
        click.echo(pages.address)
        click.echo(f"natstui: open this address; {changes_text}; Ctrl-C stops", err=True)
        await stop_event.wait()
    finally:
        await app_runner.cleanup()
