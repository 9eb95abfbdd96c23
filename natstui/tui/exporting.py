"""Exporting what is in view: how it shall be written, where to; and changes of recordings."""

from __future__ import annotations

import time
from typing import ClassVar, Literal

from textual import on
from textual.binding import Binding, BindingType

from natstui.model.recording import ExportSelection
from natstui.tui.asking import next_command_id
from natstui.tui.detail_screen import DetailScreen
from natstui.tui.following import Following
from natstui.tui.messages import Export, Tend
from natstui.tui.pick import Pick
from natstui.tui.prompt import Prompt
from natstui.tui.selection import SelectionScreen

_FORMATS = (
    ("csv", "comma-separated values, for spreadsheets and databases"),
    ("jsonl", "one JSON object per line, for jq and programs"),
)


NOT_HERE = (
    "streams and consumers are exported from their tables and details; events and benchmarks go "
    "with the whole recording: natstui export SESSION --to FOLDER"
)


class Exporting(Following):
    """Part of the app: asks for format and folder, then lets the engine write."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("E", "export", "Export", show=False, id="export"),
    ]

    def action_export(self) -> None:
        """Export what the screen in view shows, or say where else that can be done."""
        if isinstance(self.screen, SelectionScreen | DetailScreen):
            self.screen.action_export()
        else:
            self.notify(NOT_HERE, title="nothing to export here", severity="warning", timeout=8)

    @on(Export)
    def _ask_format(self, message: Export) -> None:
        count = len(message.consumers) or len(message.streams)
        noun = "consumer" if message.consumers else "stream"
        live = "as it is now" if count == 1 else "as they are now"
        span = "over the whole recording" if self.replaying else live
        what = f"{count:,} {noun}{'' if count == 1 else 's'} {span}"
        self.push_screen(
            Pick(f"Export {what}", _FORMATS), lambda kind: self._ask_folder(message, what, kind)
        )

    def _ask_folder(self, message: Export, what: str, kind: str | None) -> None:
        if kind is None:
            return
        question = f"Export {what} as {kind} into this new folder:"
        folder = f"~/natstui-export-{time.strftime('%Y%m%d-%H%M%S')}"
        self.push_screen(Prompt(question, folder), lambda to: self._export(message, kind, to))

    def _export(self, message: Export, kind: str, folder: str | None) -> None:
        if folder is None or not folder.strip():
            return
        written: Literal["csv", "jsonl"] = "csv" if kind == "csv" else "jsonl"
        command_id = next_command_id()
        self.told_titles[command_id] = "export"
        self.send(
            ExportSelection(
                command_id, folder.strip(), written, message.streams, message.consumers
            )
        )

    @on(Tend)
    def _tend(self, message: Tend) -> None:
        self.told_titles[message.command.command_id] = "recordings"
        self.send(message.command)
