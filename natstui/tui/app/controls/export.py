"""Export of the rows in view: prompts for format and folder, then the command."""

from __future__ import annotations

import time
from typing import ClassVar, Literal

from textual.app import App
from textual.binding import Binding, BindingType

from natstui.model.records.recording import ExportSelection
from natstui.tui.app.controls.part import AppPart
from natstui.tui.app.engines import Engines
from natstui.tui.frame.detail.screen import DetailScreen
from natstui.tui.frame.live import CommandPrompt, LiveScreen, prompt_command
from natstui.tui.frame.messages import Export
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.selection import SelectionScreen
from natstui.tui.kit.pick import PickDialog
from natstui.units import counted

_FILE_FORMATS = (
    ("csv", "comma-separated values, for spreadsheets and databases"),
    ("jsonl", "one JSON object per line, for jq and programs"),
)

NO_EXPORT_TEXT = (
    "only streams and consumers can be exported here; for events and benchmarks export a "
    "recording: natstui export SESSION --to FOLDER"
)


class Exporter(AppPart):
    """Prompts for format and folder, then requests the export from the engine."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("E", "part('exporter', 'export')", "Export", show=False, id="export"),
    ]

    def __init__(self, app: App[int], engines: Engines) -> None:
        self._app = app
        self._engines = engines

    def action_export(self) -> None:
        """Export the rows of the screen in view, or show on which screens export is possible."""
        screen = self._app.screen
        if isinstance(screen, SelectionScreen | DetailScreen):
            screen.action_export()
        else:
            title = "nothing to export here"
            self._app.notify(NO_EXPORT_TEXT, title=title, severity="warning", timeout=8)

    def prompt_format(self, message: Export) -> None:
        """Prompt for the format and the folder of a screen's export, then request it.

        Raises ActionRefusal if screens may write no files.
        """
        self._engines.check_host_change()
        rows_count = len(message.consumers) or len(message.streams)
        noun = "consumer" if message.consumers else "stream"
        live_text = "as it is now" if rows_count == 1 else "as they are now"
        span_text = "over the complete recording" if self._engines.is_replaying else live_text
        rows_text = f"{counted(f'{rows_count:,}', noun)} {span_text}"
        run_task(self._app, self._prompt_and_export, message, rows_text)

    async def _prompt_and_export(self, message: Export, rows_text: str) -> None:
        format_label = await self._app.push_screen_wait(
            PickDialog(f"Export {rows_text}", _FILE_FORMATS)
        )
        if format_label is None:
            return
        prompt = f"Export {rows_text} as {format_label} into this new folder:"
        folder = f"~/natstui-export-{time.strftime('%Y%m%d-%H%M%S')}"
        file_format: Literal["csv", "jsonl"] = "csv" if format_label == "csv" else "jsonl"

        def create_selection(folder_text: str) -> ExportSelection | None:
            streams, consumers = message.streams, message.consumers
            selection = ExportSelection(0, folder_text.strip(), file_format, streams, consumers)
            return selection if selection.folder else None

        screen = self._app.screen
        assert isinstance(screen, LiveScreen)
        system = message.system
        prompt_command(
            screen,
            CommandPrompt(prompt, create_selection, title="export", text=folder, system=system),
        )
