"""An HTTP server of one page: a terminal with the viewer, for whoever knows the token."""

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
from natstui.engine.stopping import stopped_by_signal
from natstui.errors import UsageError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_HOST = "127.0.0.1"
_STATIC = Path(textual_serve.__file__).parent / "static"
_HERE = Path(__file__).parent
_SMALLEST_CELLS, _LARGEST_CELLS = 1, 1000
_LONGEST_MESSAGE_BYTES = 1 << 20
_HEARTBEAT_S = 15.0
_ENDING_S = 10.0
"""How long a viewer may take to end."""


class _Viewer(AppService):
    """A viewer process and the browser that shows it; its end closes the page."""

    async def run(self) -> None:
        """Pass on what the viewer draws until it ends."""
        await super().run()
        await self.remote_close()

    async def stop(self) -> None:
        """End the viewer and its pipes; one that does not end by itself is killed."""
        # What reads the viewer swallows a cancellation: a timeout around it would never be told.
        ending = asyncio.create_task(self._end())
        done, _ = await asyncio.wait([ending], timeout=_ENDING_S)
        if not done and self._process is not None:
            kill(self._process)
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDING_S):
                await ending

    async def _end(self) -> None:
        await super().stop()
        if self._process is not None:
            await self._process.communicate(b"")


class Pages:
    """The page, what it loads, and a viewer for each browser that opens it."""

    def __init__(self, viewer: str, port: int) -> None:
        self._viewer = viewer
        self._origin = f"http://{_HOST}:{port}"
        self._host = f"{_HOST}:{port}"
        self._downloads = DownloadManager()
        self._open = set[web.WebSocketResponse]()
        self._shown = set[asyncio.Task[None]]()
        self.token = secrets.token_urlsafe(32)
        """Part of every path: without this token nothing is served."""

    @property
    def address(self) -> str:
        """Return what a browser opens."""
        return f"{self._origin}/{self.token}/"

    def app(self) -> web.Application:
        """Return the routes, each guarded."""
        app = web.Application(middlewares=[self._guard])
        app.on_response_prepare.append(self._restrict)
        app.on_shutdown.append(self._close_all)
        app.on_cleanup.append(self._all_ended)
        app.add_routes(
            [
                web.get("/{token}/", self._page),
                web.get("/{token}/{name:page[.](?:css|js)}", self._own),
                web.get("/{token}/ws", self._websocket),
                web.get("/{token}/static/{path:.+}", self._static),
                # The script of the page opens this path. A key is as long as a token.
                web.get("/download/{key}", self._download),
            ]
        )
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse other hosts (a name that leads here), pages of other origins, a wrong token."""
        origin = request.headers.get("Origin")
        if request.headers.get("Host") != self._host or origin not in (None, self._origin):
            raise web.HTTPForbidden(text="natstui serves its own page only")
        token = request.match_info.get("token")
        if token is not None and not secrets.compare_digest(token.encode(), self.token.encode()):
            raise web.HTTPForbidden(
                text="the address has no token: open the address that natstui serve printed"
            )
        return await handler(request)

    async def _restrict(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Let the page load nothing from elsewhere, and nobody frame or keep it."""
        response.headers["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
            f"font-src 'self'; img-src 'self' data:; connect-src ws://{self._host}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Cache-Control"] = "no-store"

    async def _page(self, _request: web.Request) -> web.Response:
        page = Template((_HERE / "page.html").read_text(encoding="utf-8"))
        address = f"ws://{self._host}/{self.token}/ws"
        return web.Response(text=page.substitute(websocket=address), content_type="text/html")

    async def _own(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(_HERE / request.match_info["name"])

    async def _static(self, request: web.Request) -> web.StreamResponse:
        path = (_STATIC / request.match_info["path"]).resolve()
        if not path.is_relative_to(_STATIC.resolve()) or not path.is_file():
            raise web.HTTPNotFound
        return web.FileResponse(path)

    async def _download(self, request: web.Request) -> web.StreamResponse:
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

    async def _websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Start a viewer, and pass on keys and sizes until it or the browser ends."""
        if request.headers.get("Origin") != self._origin:
            raise web.HTTPForbidden(text="natstui serves its own page only")
        websocket = web.WebSocketResponse(
            heartbeat=_HEARTBEAT_S, max_msg_size=_LONGEST_MESSAGE_BYTES
        )
        await websocket.prepare(request)
        width, height = (_cells(request.query.get(side)) for side in ("width", "height"))
        # aiohttp waits for no handler whose browser is gone: the viewer has a task of its own.
        shown = asyncio.create_task(self._show(websocket, width or 80, height or 24))
        self._shown.add(shown)
        shown.add_done_callback(self._shown.discard)
        await asyncio.shield(shown)
        return websocket

    async def _show(self, websocket: web.WebSocketResponse, width: int, height: int) -> None:
        self._open.add(websocket)
        viewer = _Viewer(
            self._viewer,
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=lambda: _close(websocket),
            download_manager=self._downloads,
        )
        await viewer.start(width, height)
        try:
            async for message in websocket:
                if message.type == WSMsgType.TEXT:
                    await _pass_on(message.data, viewer, websocket)
        finally:
            self._open.discard(websocket)
            await viewer.stop()

    async def _close_all(self, _app: web.Application) -> None:
        """Close every page, which ends its viewer."""
        for websocket in list(self._open):
            await websocket.close()

    async def _all_ended(self, _app: web.Application) -> None:
        """Wait for the viewers: the loop must not end before their processes."""
        if self._shown:
            await asyncio.wait(self._shown, timeout=2 * _ENDING_S)


async def _close(websocket: web.WebSocketResponse) -> None:
    await websocket.close()


def _cells(given: object) -> int | None:
    """Return a width or height; None for what is none."""
    text = str(given)
    if text.isascii() and text.isdigit() and len(text) <= 4:
        return min(max(int(text), _SMALLEST_CELLS), _LARGEST_CELLS)
    return None


async def _pass_on(text: str, viewer: AppService, websocket: web.WebSocketResponse) -> None:
    """Do what the script of the page asks for; anything else is left out."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return
    match message:
        case ["stdin", str(keys)]:
            await viewer.send_bytes(keys.encode(errors="replace"))
        case ["resize", {"width": given_width, "height": given_height}]:
            width, height = _cells(given_width), _cells(given_height)
            if width is not None and height is not None:
                await viewer.set_terminal_size(width, height)
        case ["ping", data]:
            await websocket.send_json(["pong", data])
        case ["blur", *_]:
            await viewer.blur()
        case ["focus", *_]:
            await viewer.focus()


def _is_defect(record: logging.LogRecord) -> bool:
    """Tell whether aiohttp complains of us, and not of a client that does not speak HTTP."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


async def serve_pages(viewer: str, port: int, *, read_only: bool) -> None:
    """Serve the page until Ctrl-C or SIGTERM; raises UsageError for a port that is taken."""
    try:
        listening = socket.create_server((_HOST, port))
    except OSError as error:
        raise UsageError(f"--port {port}: {(error.strerror or '').lower()}") from error
    stop, pages = stopped_by_signal(), Pages(viewer, listening.getsockname()[1])
    log = logging.getLogger(__name__)
    log.addFilter(_is_defect)
    runner = web.AppRunner(pages.app(), access_log=None, logger=log)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        changes = "changes are refused" if read_only else "changes are allowed"
        click.echo(pages.address)
        click.echo(f"natstui: open this address; {changes}; Ctrl-C stops", err=True)
        await stop.wait()
    finally:
        await runner.cleanup()
