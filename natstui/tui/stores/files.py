"""What is done to the files of an object store: put, get, link, seal; how far one is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.records.managing import Change
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command
from natstui.model.records.stores import (
    GetFile,
    LinkObject,
    LocalFile,
    LookAtFile,
    ObjectRow,
    PutFile,
    StopMoving,
)
from natstui.tui.frame.action_keys import LINK_OBJECT, PUT_OBJECT, SEAL_STORE
from natstui.tui.frame.allowed import allowed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Announced, Asked, answer_to, next_command_id
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.text import safe_copy
from natstui.units import bytes_text, local_text

_local = decoder_of(LocalFile)
_WRITES = {"put": PUT_OBJECT, "link": LINK_OBJECT, "seal": SEAL_STORE}


@dataclass(frozen=True, slots=True)
class Store:
    """The store of a screen, and what of it is known."""

    stream: str
    bucket: str
    under_cursor: Callable[[], ObjectRow | None]
    """Says itself that there is nothing."""
    named: Callable[[str], ObjectRow | None]
    changed: Callable[[], None]
    """Is called when something was done."""


class Files(ScreenPart):
    """Asks step by step; one file at a time is put or got from here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        PUT_OBJECT.binding("part('files', 'put')"),
        Binding("ctrl+s", "part('files', 'get')", "Save", id="object.get"),
        LINK_OBJECT.binding("part('files', 'link')"),
        SEAL_STORE.binding("part('files', 'seal')"),
        Binding("x", "part('files', 'stop')", "Stop", show=False, id="object.stop"),
    ]

    def __init__(self, screen: LiveScreen, store: Store) -> None:
        self._screen, self._store = screen, store
        self._looking: tuple[int, Callable[[LocalFile], None]] = (-1, lambda _: None)
        self._moving: tuple[int, str] = (-1, "")
        """What is put or got now, and its words."""
        self._sent_id = -1

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Grey what may not be done; in a recording there is nothing to ask."""
        if self._screen.state.replay is not None:
            return False
        spec = _WRITES.get(action)
        return None if spec and not allowed(self._screen.state, spec.name) else True

    @property
    def progress_text(self) -> str:
        """How far the file is; empty while there is none."""
        number, words = self._moving
        if number < 0:
            return ""
        moved = self._screen.state.moved
        if moved is None or moved.command_id != number:
            return f"{words} …"
        of = f"{bytes_text(moved.moved_bytes)} of {bytes_text(moved.whole_bytes)}"
        return f"{words}: {of}, {key_of(self._screen, 'object.stop')} stops it"

    def take_state(self) -> None:
        """Take answers when they come."""
        number, then = self._looking
        if (answer := answer_to(self._screen.state, number)) is not None:
            self._looking = (-1, lambda _: None)
            self._looked(answer, then)
        if answer_to(self._screen.state, self._moving[0]) is not None:
            self._moving = (-1, "")
            self._store.changed()
        if answer_to(self._screen.state, self._sent_id) is not None:
            self._sent_id = -1
            self._store.changed()

    def _looked(self, answer: Answered, then: Callable[[LocalFile], None]) -> None:
        if answer.body_json is None:
            self._say(answer.text)
        else:
            then(_local.decode(answer.body_json))

    def _say(self, text: str) -> None:
        self._screen.app.notify(safe_copy(text), severity="error")

    def _look(self, file: str, name: str, then: Callable[[LocalFile], None]) -> None:
        number = next_command_id()
        self._looking = (number, then)
        self._screen.app.post_message(Asked(LookAtFile(number, file, name)))

    def _type(self, question: str, text: str, then: Callable[[str], None]) -> None:
        def answered(typed: str | None) -> None:
            if typed and typed.strip():
                then(typed.strip())

        self._screen.app.push_screen(Prompt(question, text), answered)

    def _pick(self, question: str, does: str, then: Callable[[], None]) -> None:
        def answered(word: str | None) -> None:
            if word == "do it":
                then()

        words = (("do it", does), ("leave it", "nothing is changed"))
        self._screen.app.push_screen(Pick(clean_line(question), words), answered)

    def _confirmed(self, name: str, why: str, then: Callable[[str | None], None]) -> None:
        """Let the name be typed where something is lost, or in production; then go on."""
        started = self._screen.state.started
        if started is not None and started.production:
            why = f"{why}This is production. "
        if not why:
            then(None)
            return
        question = clean_line(f"{why}Type {name} to do it")
        self._screen.app.push_screen(
            Prompt(question, word=name), lambda text: then(text) if text is not None else None
        )

    def _is_busy(self) -> bool:
        if busy := self._moving[0] >= 0:
            self._screen.notify("one file at a time: this one is not done", severity="warning")
        return busy

    def _move(self, command: PutFile | GetFile, words: str) -> None:
        self._moving = (command.command_id, clean_line(words))
        self._screen.app.post_message(Announced(command, self._store.bucket))
        self._screen.refresh_state()

    def _send(self, number: int, command: Command) -> None:
        self._sent_id = number
        self._screen.app.post_message(Announced(command, self._store.bucket))

    def action_put(self) -> None:
        """Store a file."""
        if not self._is_busy():
            self._type("Which file shall be stored?", "", self._put_file)

    def _put_file(self, file: str) -> None:
        def looked(found: LocalFile) -> None:
            if not found.is_there:
                self._say(f"there is no file {found.path}")
                return
            own = found.path.rpartition("/")[2]
            size = bytes_text(found.size_bytes)
            question = clean_line(f"{found.path}, {size}: stored under which name?")
            self._type(question, own, lambda name: self._put_as(found, name))

        self._look(file, "", looked)

    def _put_as(self, found: LocalFile, name: str) -> None:
        there = self._store.named(name)
        why = f"{name}, {bytes_text(there.size_bytes)}, is overwritten for good. " if there else ""

        def put(confirmed: str | None) -> None:
            number = next_command_id()
            command = PutFile(number, self._store.bucket, name, found.path, confirmed)
            self._move(command, f"putting {name}")

        self._confirmed(name, why, put)

    def action_get(self) -> None:
        """Write the file under the cursor to the disk, its digest checked."""
        row = None if self._is_busy() else self._store.under_cursor()
        if row is not None:
            own = row.name.rpartition("/")[2]
            question = clean_line(
                f"Write {row.name}, {bytes_text(row.size_bytes)}, to which file?"
            )
            self._type(question, own, lambda file: self._get_into(row, file))

    def _get_into(self, row: ObjectRow, file: str) -> None:
        def looked(found: LocalFile) -> None:
            def get() -> None:
                number = next_command_id()
                command = GetFile(
                    number, self._store.bucket, row.name, found.path, overwrites=found.is_there
                )
                self._move(command, f"getting {row.name}")

            if found.is_there:
                size, when = (
                    bytes_text(found.size_bytes),
                    local_text(found.changed_at_us, "%Y-%m-%d %H:%M:%S"),
                )
                self._pick(f"Overwrite {found.path}?", f"{size} of {when} are lost", get)
            else:
                get()

        self._look(file, row.name, looked)

    def action_link(self) -> None:
        """Let another name, here or in another store, stand for the file under the cursor."""
        row = self._store.under_cursor()
        if row is None:
            return
        if row.link:
            self._say(f"{row.name} is a link itself: link to its file")
            return
        question = clean_line(f"Under which name shall {row.name} be found too?")
        self._type(question, "", lambda name: self._link(row, name))

    def _link(self, row: ObjectRow, name: str) -> None:
        if self._store.named(name) is not None:
            self._say(f"{name} is there already: another name, or delete it first")
            return

        def link(confirmed: str | None) -> None:
            number, bucket = next_command_id(), self._store.bucket
            self._send(number, LinkObject(number, bucket, name, bucket, row.name, confirmed))

        self._confirmed(name, "", link)

    def action_seal(self) -> None:
        """Let nothing be stored or removed any more."""
        stream = self._store.stream
        config = self._screen.state.stream_configurations.get(stream)
        if config is None or config.sealed:
            self._say(f"{stream} is sealed" if config else f"{stream} is not known yet")
            return
        body = json.dumps({**json.loads(config.config_json), "sealed": True})
        why = f"Nothing can be stored in {self._store.bucket} or removed any more, for ever. "

        def seal(confirmed: str | None) -> None:
            number = next_command_id()
            change = Change(
                number, "edit_stream", stream, None, body, config.config_json, confirmed,
                config.created_at_us,
            )  # fmt: skip
            self._send(number, change)

        self._confirmed(stream, why, seal)

    def action_stop(self) -> None:
        """Stop the file that is put or got."""
        if self._moving[0] >= 0:
            self._screen.app.post_message(Asked(StopMoving(next_command_id(), self._moving[0])))
        else:
            self._screen.notify("no file is put or got now", severity="warning", timeout=2)
