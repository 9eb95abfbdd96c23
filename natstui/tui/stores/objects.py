"""The screen of an object store's objects: put, get, link, delete, seal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from msgspec import Struct
from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.assets.configuration import StreamConfiguration
from natstui.model.columns.buckets import bucket_of
from natstui.model.records.managing import Change
from natstui.model.records.messages import Answered
from natstui.model.records.stores import (
    ChangeKey,
    FileMoved,
    GetFile,
    InspectFile,
    LinkObject,
    LocalFile,
    ObjectRow,
    ObjectsPage,
    PutFile,
    ReadObjects,
    StopTransfer,
)
from natstui.tui.frame.action_keys import (
    DELETE_OBJECT,
    LINK_OBJECT,
    PUT_OBJECT,
    SEAL_STORE,
    Target,
    is_allowed,
)
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter
from natstui.tui.frame.confirmation import (
    needs_confirmation,
    prompt_confirmation,
    request_confirmed,
)
from natstui.tui.frame.live import NO_SERVER, LiveScreen, ScreenPart, poll_rows_first
from natstui.tui.frame.requests import PendingRequest, explain_change_reply, run_task, show_reply
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.pick import CANCEL_OPTION, PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.text import safe_copy
from natstui.tui.stores.cells import OBJECT_COLUMNS, ObjectView
from natstui.tui.stores.requests import RepeatedPage, start_change
from natstui.units import bytes_text, local_text
from natstui.values import replace

_decoder = decoder_of(ObjectsPage)
_MAX_DAMAGED_NAMES = 3
"""Maximum number of damaged objects whose names are shown."""
_REREAD_INTERVAL_S = 5.0
_UNFINISHED_SEARCH_INTERVAL_S = 60.0
"""Interval of searches for unfinished uploads, which need many requests."""
_local_file_decoder = decoder_of(LocalFile)
_SPEC_BY_ACTION = {"put": PUT_OBJECT, "link": LINK_OBJECT, "seal": SEAL_STORE}


class ScreenObjectStore(Struct, frozen=True):
    """The object store of a screen, with callbacks for its rows and changes."""

    stream: str
    bucket: str
    get_row_under_cursor: Callable[[], ObjectRow | None]
    """Returns the row under the cursor, or None."""
    find_object: Callable[[str], ObjectRow | None]
    on_change: Callable[[], None]
    """Called after a change."""


class FileTransfers(ScreenPart):
    """Puts and gets objects with prompts, one at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        PUT_OBJECT.binding("part('files', 'put')"),
        Binding("ctrl+s", "part('files', 'get')", "Save", id="object.get"),
        LINK_OBJECT.binding("part('files', 'link')"),
        SEAL_STORE.binding("part('files', 'seal')"),
        Binding("ctrl+x", "part('files', 'stop')", "Stop", show=False, id="object.stop"),
    ]

    def __init__(self, screen: LiveScreen, store: ScreenObjectStore) -> None:
        self._screen, self._store = screen, store
        self._transfer: PendingRequest | None = None
        """The request of the running put or get; None without one."""
        self.progress_text = ""
        """The progress of the running put or get; empty without one."""

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return True for an offered action, None without permission, False in a replay or if
        the action is not possible.
        """
        state, spec = self._screen.state, _SPEC_BY_ACTION.get(action)
        if state.replay is not None:
            return False
        if action == "stop":
            return self._transfer is not None
        if action in ("get", "link") and self._store.get_row_under_cursor() is None:
            return False
        if spec is None:
            return True
        config = state.stream_configurations.get(self._store.stream)
        if config is not None and config.sealed:
            return False
        return True if is_allowed(state, spec.name) else None

    def _show_error(self, text: str) -> None:
        self._screen.app.notify(safe_copy(text), severity="error")

    async def _prompt_text(self, title: str, text: str = "") -> str:
        """Prompt for a text; empty after a cancellation."""
        typed_text = await self._screen.app.push_screen_wait(Prompt(clean_line(title), text))
        return (typed_text or "").strip()

    async def _inspect_file(self, file: str, name: str = "") -> LocalFile | None:
        """Return the details of a file on the engine's disk; after an error show it and return
        None.
        """
        reply = await self._screen.engine.request(InspectFile(0, file, name))
        if reply.body_json is None:
            self._show_error(reply.text)
            return None
        return _local_file_decoder.decode(reply.body_json)

    def _is_busy(self) -> bool:
        if self._transfer is not None:
            self._screen.notify("another upload or download is still running", severity="warning")
        return self._transfer is not None

    def _start_transfer(self, command: PutFile | GetFile, text: str) -> None:
        """Start a put or get, unless one is running; its result is shown even if the screen is
        closed.
        """
        if not self._is_busy():
            self._transfer = request = self._screen.engine.request(command)
            run_task(self._screen.app, self._follow, command, request, text)

    async def _follow(
        self, command: PutFile | GetFile, request: PendingRequest, action_text: str
    ) -> None:
        text = clean_line(action_text)
        app, stop_key = self._screen.app, key_of(self._screen, "object.stop")
        self._show_progress(f"{text} …")
        async for record in request:
            if isinstance(record, FileMoved):
                size = f"{bytes_text(record.moved_bytes)} of {bytes_text(record.whole_bytes)}"
                self._show_progress(f"{text}: {size}, {stop_key} stops it")
            elif isinstance(record, Answered):
                self._transfer = None
                self._show_progress("")
                if isinstance(command, PutFile) and needs_confirmation(command, record):
                    if self._screen.is_open:
                        run_task(
                            self._screen,
                            self._put_after_confirmation,
                            command,
                            record,
                            action_text,
                        )
                        return
                    record = replace(record, text="the screen was closed: nothing was stored")
                reply = explain_change_reply(record)
                show_reply(app, reply, f"{request.system} {self._store.bucket}".strip())
                break
        if self._screen.is_open:
            self._store.on_change()

    async def _put_after_confirmation(self, command: PutFile, reply: Answered, text: str) -> None:
        confirmed_command = await prompt_confirmation(self._screen, command, reply)
        if isinstance(confirmed_command, PutFile):
            self._start_transfer(confirmed_command, text)

    def _show_progress(self, text: str) -> None:
        self.progress_text = text
        if self._screen.is_open:
            self._screen.refresh_state()

    async def _change(self, command: LinkObject | Change) -> None:
        reply = await request_confirmed(self._screen, command)
        if reply is not None:
            show_reply(self._screen.app, reply, self._store.bucket)
            self._store.on_change()

    def action_put(self) -> None:
        """Prompt for a file and a name, and put the file into the store."""
        if not self._is_busy():
            run_task(self._screen, self._prompt_and_put)

    async def _prompt_and_put(self) -> None:
        self._screen.engine.check_host_change()
        file = await self._prompt_text("Which file should be stored?")
        local_file = await self._inspect_file(file) if file else None
        if local_file is None:
            return
        if not local_file.is_there:
            self._show_error(f"there is no file {local_file.path}")
            return
        title = f"{local_file.path}, {bytes_text(local_file.size_bytes)}: stored under which name?"
        name = await self._prompt_text(title, local_file.path.rpartition("/")[2])
        if not name:
            return
        self._start_transfer(
            PutFile(0, self._store.bucket, name, local_file.path), f"putting {name}"
        )

    def action_get(self) -> None:
        """Prompt for a path, and write the object under the cursor there; check its digest."""
        row = None if self._is_busy() else self._store.get_row_under_cursor()
        if row is not None:
            run_task(self._screen, self._prompt_and_get, row)

    async def _prompt_and_get(self, row: ObjectRow) -> None:
        self._screen.engine.check_host_change()
        title = f"Write {row.name}, {bytes_text(row.size_bytes)}, to which file?"
        file = await self._prompt_text(title, row.name.rpartition("/")[2])
        local_file = await self._inspect_file(file, row.name) if file else None
        if local_file is None:
            return
        if local_file.is_there:
            time_text = local_text(local_file.changed_at_us, "%Y-%m-%d %H:%M:%S")
            loss_text = f"{bytes_text(local_file.size_bytes)} of {time_text} are lost"
            options = (CANCEL_OPTION, ("do it", loss_text))
            pick = PickDialog(clean_line(f"Overwrite {local_file.path}?"), options)
            if await self._screen.app.push_screen_wait(pick) != "do it":
                return
        command = GetFile(
            0, self._store.bucket, row.name, local_file.path, overwrites=local_file.is_there
        )
        self._start_transfer(command, f"getting {row.name}")

    def action_link(self) -> None:
        """Prompt for a name, and create a link to the object under the cursor in this store."""
        row = self._store.get_row_under_cursor()
        if row is not None and row.link:
            self._show_error(f"{row.name} is itself a link: link to its target file")
        elif row is not None:
            run_task(self._screen, self._prompt_and_link, row)

    async def _prompt_and_link(self, row: ObjectRow) -> None:
        name = await self._prompt_text(f"Name of the new link to {row.name}?")
        if not name:
            return
        if self._store.find_object(name) is not None:
            self._show_error(f"{name} exists already: use another name, or delete it first")
            return
        bucket = self._store.bucket
        await self._change(LinkObject(0, bucket, name, bucket, row.name))

    def action_seal(self) -> None:
        """Seal the store: then nothing can be put or deleted any more."""
        stream = self._store.stream
        config = self._screen.state.stream_configurations.get(stream)
        if config is None:
            self._show_error(f"{stream} is not known yet")
        else:
            run_task(self._screen, self._seal_store, config)

    async def _seal_store(self, config: StreamConfiguration) -> None:
        stream = self._store.stream
        body = json.dumps({**json.loads(config.config_json), "sealed": True})
        change = Change(
            0,
            "edit_stream",
            stream,
            None,
            body,
            config.config_json,
            created_at_us=config.created_at_us,
        )
        await self._change(change)

    def action_stop(self) -> None:
        """Stop the running put or get."""
        if self._transfer is not None:
            self._screen.engine.send(StopTransfer(0, self._transfer.command_id))


class ObjectsScreen(TableScreen):
    """The screen of an object store; while it is in view the store is read repeatedly."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *FileTransfers.BINDINGS,
        DELETE_OBJECT.binding("act('delete_object')"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = OBJECT_COLUMNS
    NOUN = "files"
    DEFAULT_ORDER = SortAndFilter("name")

    def __init__(self, stream: str) -> None:
        super().__init__()
        self.stream, self.bucket = stream, bucket_of(stream)
        self._page_request = RepeatedPage(
            self, self._next_command, _REREAD_INTERVAL_S, _decoder, self._store_unfinished_text
        )
        self._unfinished_searched_at_s: float | None = None
        """Time of the last search for unfinished uploads."""
        self._unfinished_uploads_text = ""
        store = ScreenObjectStore(
            stream,
            self.bucket,
            lambda: self.item_under_cursor(ObjectRow),
            self._find_object,
            self._page_request.send_now,
        )
        self.files = FileTransfers(self, store)
        self._is_sealed = False

    def _next_command(self) -> ReadObjects:
        now_s = time.monotonic()
        is_search_due = (
            self._unfinished_searched_at_s is None
            or now_s - self._unfinished_searched_at_s >= _UNFINISHED_SEARCH_INTERVAL_S
        )
        if is_search_due:
            self._unfinished_searched_at_s = now_s
        return ReadObjects(0, self.bucket, with_unfinished=is_search_due)

    def _store_unfinished_text(self, page: ObjectsPage) -> None:
        if page.unfinished_text is not None:
            self._unfinished_uploads_text = clean_line(page.unfinished_text)

    def asset(self) -> Target | None:
        """Return the store's stream."""
        return Target(self.stream)

    def on_mount(self) -> None:
        """Start to read the store repeatedly."""
        self._page_request.start()

    def on_screen_resume(self) -> None:
        """Request that the stream is polled first."""
        poll_rows_first(self, (self.stream,), ())

    def refresh_state(self) -> None:
        """Show the last page, and request it again if due."""
        self._page_request.send_if_due()
        config = self.state.stream_configurations.get(self.stream)
        was_sealed, self._is_sealed = self._is_sealed, config is not None and config.sealed
        if self._is_sealed is not was_sealed:
            self.refresh_bindings()
        super().refresh_state()

    def view(self) -> ObjectView:
        """Return a view of the objects of the last page; empty in a replay."""
        page = self._page_request.page if self.state.replay is None else None
        return ObjectView(page.rows if page is not None else ())

    def empty_text(self, total: int) -> str:
        """Return the text that explains an empty table."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return NO_SERVER
        if self._page_request.problem:
            return self._page_request.problem
        if self._page_request.page is None:
            return "reading …"
        key = key_of(self, PUT_OBJECT.id)
        return f"no files: {key} stores one" if key else "no files"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: store, counts, size, damaged objects, progress, and an error."""
        parts = [clean_line(self.bucket), super().caption_text(shown, total)]
        if self._page_request.page is not None:
            parts.append(bytes_text(sum(row.size_bytes for row in self._page_request.page.rows)))
            parts += [self._unfinished_uploads_text] if self._unfinished_uploads_text else []
            if damaged_names := self._page_request.page.damaged_names:
                names = ", ".join(map(clean_line, damaged_names[:_MAX_DAMAGED_NAMES]))
                more_text = ", …" if len(damaged_names) > _MAX_DAMAGED_NAMES else ""
                parts.append(f"{len(damaged_names)} damaged: {names}{more_text}")
        parts += ["sealed: nothing can be changed"] if self._is_sealed else []
        parts += [self.files.progress_text] if self.files.progress_text else []
        parts += ["paused (p)"] if self.paused else []
        return "  ·  ".join(
            [self._page_request.problem, *parts] if self._page_request.problem else parts
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled; None without permission, no deletion if sealed."""
        if action == "act":
            return not self._is_sealed and self.is_action_offered(str(parameters[0]))
        return super().check_action(action, parameters)

    def _find_object(self, name: str) -> ObjectRow | None:
        rows = self._page_request.page.rows if self._page_request.page is not None else ()
        return next((row for row in rows if row.name == name), None)

    def action_act(self, _action: str) -> None:
        """Delete the object under the cursor."""
        if (row := self.item_under_cursor(ObjectRow)) is not None:
            change = ChangeKey(0, "delete_object", self.bucket, row.name)
            start_change(self, change, "the file is removed for good", self._page_request.send_now)
