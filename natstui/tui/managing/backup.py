"""The backup and restore screens: folder, progress and result of a transfer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.records.messages import Answered
from natstui.model.records.stores import (
    BackUp,
    BackupContent,
    FileMoved,
    InspectBackup,
    RestoreBackup,
    StopTransfer,
)
from natstui.tui.frame.confirmation import confirmation_prompt
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import PendingRequest, explain_change_reply, run_task, show_reply
from natstui.tui.kit.pick import CANCEL_OPTION, PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.sections import Section, SectionText, line
from natstui.tui.kit.text import safe
from natstui.units import bytes_text, counted
from natstui.values import replace

_decoder = decoder_of(BackupContent)
_RUNNING_TRANSFER_OPTIONS = (
    ("stay", "watch it"),
    ("leave", "leave; it continues, and a message reports the result"),
    ("stop", "end it; nothing is kept"),
)


class _TransferScreen(LiveScreen):
    """A screen that runs a backup or restore, and can stop it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+x", "stop", "Stop", id="backup.stop"),
        Binding("f", "folder", "Folder", id="backup.folder"),
    ]
    VERB: ClassVar[str] = ""

    caption = getters.query_one("#caption", Static)
    text = getters.query_one(SectionText)

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder
        self.request: PendingRequest | None = None
        """The request of the running transfer, or of the last one."""
        self._progress: FileMoved | None = None
        self.ended: Answered | None = None
        self.content_sections: Sequence[Section] = ()
        self.is_preparing = False
        """Whether a restore reads its folder or prompts; no other folder is accepted then."""

    @property
    def is_transferring(self) -> bool:
        """Return whether the transfer is still running."""
        return self.request is not None and self.ended is None

    def start(self, command: BackUp | RestoreBackup, title: str) -> None:
        """Start a transfer; its result is shown as a toast, also after this screen was closed."""
        self._progress = self.ended = None
        self.request = self.engine.request(command)
        run_task(self.app, self._follow_transfer, self.request, title)
        self.refresh_bindings()
        self.refresh_state()

    async def _follow_transfer(self, request: PendingRequest, title: str) -> None:
        app = self.app
        async for record in request:
            if isinstance(record, FileMoved):
                self._progress = record
            elif isinstance(record, Answered):
                self.ended = explain_change_reply(record)
                show_reply(app, self.ended, f"{request.system} {title}".strip())
            if self.is_open:
                self.refresh_bindings()
                self.refresh_state()
            if self.ended is not None:
                return

    def body(self) -> Iterable[Widget]:
        """Yield the caption and the progress text."""
        yield Static(id="caption", markup=False)
        yield VerticalScroll(SectionText())

    def on_mount(self) -> None:
        """Start with the known folder, or prompt for one."""
        if self.folder:
            self.start_with_folder()
        else:
            # A prompt on a screen that is not drawn yet would get no keys.
            self.call_after_refresh(self.action_folder)

    def start_with_folder(self) -> None:
        """Start the backup into, or the restore from, `self.folder`."""

    def folder_prompt(self) -> tuple[str, str]:
        """Return the title of the folder prompt, and its start text."""
        return "", ""

    def refresh_state(self) -> None:
        """Show the progress of the transfer, or its result."""
        if self.request is None:
            return
        lines = [line("folder", self.folder)]
        if self.ended is None:
            lines.append(line("so far", _progress_text(self.VERB, self._progress), "accent"))
        else:
            style_name = "ok" if self.ended.status == "done" else "bad"
            lines.append(line("ended", self.ended.text, style_name))
        self.text.show([Section(self.VERB.upper(), tuple(lines)), *self.content_sections])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: stop during a transfer, a new folder otherwise."""
        if action == "folder" and self.is_preparing:
            return None
        if action in ("stop", "folder"):
            return True if self.is_transferring is (action == "stop") else None
        return super().check_action(action, parameters)

    def action_stop(self) -> None:
        """Stop the transfer and discard its result."""
        if self.request is not None and self.is_transferring:
            self.engine.send(StopTransfer(0, self.request.command_id))

    def action_folder(self) -> None:
        """Prompt for the folder, and start with it."""
        run_task(self, self._prompt_folder, replaces="folder")

    async def _prompt_folder(self) -> None:
        title, start_text = self.folder_prompt()
        prompt = Prompt(clean_line(title), self.folder or start_text)
        text = await self.app.push_screen_wait(prompt)
        if text and text.strip():
            self.folder, self.ended, self.request = text.strip(), None, None
            self.start_with_folder()
        elif self.request is None and not self.content_sections:
            self.leave()

    def action_back(self) -> None:
        """Leave the screen; during a transfer, prompt whether to stop it."""
        if self.is_transferring:
            run_task(self, self._prompt_and_leave)
        else:
            super().action_back()

    async def _prompt_and_leave(self) -> None:
        pick = PickDialog(f"The {self.VERB} goes on", _RUNNING_TRANSFER_OPTIONS)
        choice = await self.app.push_screen_wait(pick)
        if choice == "stop":
            self.action_stop()
        elif choice == "leave":
            self.leave()


def _progress_text(verb: str, progress: FileMoved | None) -> str:
    if progress is None:
        return "beginning …"
    object_text = f"{progress.what}: " if progress.what else ""
    moved_size_text = bytes_text(progress.moved_bytes)
    if verb == "restore":
        return f"{object_text}{moved_size_text} of {bytes_text(progress.whole_bytes)} sent"
    # Written bytes are compressed: the size on the server is not their final number.
    stream_size_text = bytes_text(progress.whole_bytes)
    return (
        f"{object_text}{moved_size_text} written; on the server the stream uses {stream_size_text}"
    )


class BackupScreen(_TransferScreen):
    """Backs up a stream, or every stream, into a new folder."""

    VERB = "backup"

    def __init__(self, stream: str, folder: str) -> None:
        """Create the screen for a stream; an empty name means every stream."""
        super().__init__(folder)
        self.stream = stream

    def folder_prompt(self) -> tuple[str, str]:
        """Return the title of the folder prompt, and its start text."""
        start_text = f"{self.stream}-backup" if self.stream else "account-backup"
        return (
            f"Back up {self._source_text()} into which new folder (on the engine's machine)?",
            start_text,
        )

    def _source_text(self) -> str:
        streams = self.state.streams
        if not self.stream:
            return f"every stream ({len(streams)})"
        rows = streams.roster.rows_of_stream.get(self.stream)
        if not rows:
            return self.stream
        columns, row = streams.columns, rows[-1]
        size = bytes_text(columns.stored_bytes[row])
        messages_text = counted(f"{columns.stored_msgs[row]:,}", "message")
        return f"{self.stream} ({messages_text}, {size})"

    def start_with_folder(self) -> None:
        """Start the backup into `self.folder`."""
        self.caption.update(safe(f"backup of {self._source_text()} with its consumers"))
        command = BackUp(0, self.stream, self.folder)
        self.start(command, f"backup of {self.stream or 'every stream'}")


class RestoreScreen(_TransferScreen):
    """Shows the content of a backup, and restores its streams after a prompt.

    Existing streams are never overwritten.
    """

    VERB = "restore"

    def folder_prompt(self) -> tuple[str, str]:
        """Return the title of the folder prompt, and its start text."""
        return "Folder to restore, on the machine of natstui's engine", ""

    def start_with_folder(self) -> None:
        """Read the backup in `self.folder`, and prompt before its restore starts."""
        self.is_preparing = True
        self.refresh_bindings()
        run_task(self, self._prepare_restore, replaces="restore")

    async def _prepare_restore(self) -> None:
        try:
            await self._prompt_and_restore()
        finally:
            self.is_preparing = False
            self.refresh_bindings()

    async def _prompt_and_restore(self) -> None:
        self.caption.update(safe(f"restore of {self.folder}  ·  reading the backup …"))
        self.content_sections = ()
        self.text.show([])
        reply = await self.engine.request(InspectBackup(0, self.folder))
        if reply.body_json is None:
            self._show_refusal(reply.text)
            return
        backup = _decoder.decode(reply.body_json)
        rows = tuple(line(row.stream, row.text) for row in backup.rows)
        rows += tuple(line("not in it", reason, "bad") for reason in backup.left_out)
        self.folder, self.content_sections = backup.path, [Section("IN THE BACKUP", rows)]
        self.caption.update(safe(f"restore of {counted(len(backup.rows), 'stream')}"))
        self.text.show(self.content_sections)
        new_stream_name: str | None = ""
        if backup.present and len(backup.rows) > 1:
            existing_names = ", ".join(backup.present)
            self._show_refusal(
                f"already on the server: {existing_names}; an existing stream is never replaced"
            )
            return
        if backup.present:
            new_stream_name = await self._prompt_name(backup)
        if (
            new_stream_name is None
            or (typed_name := await self._confirm(backup, new_stream_name)) is None
        ):
            return
        command = RestoreBackup(0, self.folder, new_stream_name, typed_name or None)
        self.start(command, f"restore of {clean_line(self.folder)}")

    def _show_refusal(self, reason: str) -> None:
        lines = (line("folder", self.folder), line("refused", reason, "bad"))
        self.caption.update(safe("nothing is restored"))
        self.text.show([Section(self.VERB.upper(), lines), *self.content_sections])

    async def _prompt_name(self, backup: BackupContent) -> str | None:
        """Prompt for another name of an existing stream; return None after a cancellation."""
        stream = backup.rows[0].stream

        def refusal(text: str) -> str:
            return f"{text.strip()} exists already" if text.strip() in ("", stream) else ""

        title = f"{stream} exists and is never replaced. Restore under which other name?"
        prompt = Prompt(clean_line(title), f"{stream}-restored", refusal=refusal)
        text = await self.app.push_screen_wait(prompt)
        return None if text is None else text.strip()

    async def _confirm(self, backup: BackupContent, new_stream_name: str) -> str | None:
        """Prompt for the confirmation; return the typed name, None after a cancellation.

        The name is empty if none must be typed.
        """
        confirmation = backup.confirmation
        if confirmation.needed:
            named = replace(confirmation, name=new_stream_name or confirmation.name)
            return await self.app.push_screen_wait(confirmation_prompt(named))
        title = f"Create {counted(len(backup.rows), 'stream')} from this backup?"
        effects_text = "; ".join(
            f"{new_stream_name or row.stream}: {row.text}" for row in backup.rows[:3]
        )
        options = (CANCEL_OPTION, ("restore", clean_line(effects_text)))
        choice = await self.app.push_screen_wait(PickDialog(title, options))
        return "" if choice == "restore" else None
