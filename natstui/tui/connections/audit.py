"""The API audit: which client requests what of the JetStream API, read for a few seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.clients.api_audit import (
    API_AUDIT_S,
    ApiAudit,
    AuditedRequests,
    audit_cost_text,
    audit_counts_text,
    error_text,
)
from natstui.model.records.record import ReadApiAudit
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.sections import Line, Section, SectionText, line
from natstui.tui.kit.text import safe
from natstui.units import counted, duration_text

_decoder = decoder_of(ApiAudit)


class AuditScreen(LiveScreen):
    """Reads when it is opened, for a stated time."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("A", "again", "Again", id="audit.again")]

    caption = getters.query_one("#caption", Static)
    text = getters.query_one(SectionText)

    def body(self) -> Iterable[Widget]:
        """A caption line and the text."""
        yield Static(id="caption", markup=False)
        yield VerticalScroll(SectionText())

    def on_mount(self) -> None:
        """Begin to read."""
        self.action_again()

    def action_again(self) -> None:
        """Begin anew."""
        for_text = duration_text(API_AUDIT_S)
        self._say(f"reading every request for {for_text}; polling is paused meanwhile", "")
        run_task(self, self._read, replaces="read")

    async def _read(self) -> None:
        """Show what was read, or why nothing can be."""
        reply = await self.engine.request(ReadApiAudit(0))
        if reply.body_json is None:
            self._say(reply.text, "error")
            return
        audit = _decoder.decode(reply.body_json)
        self._say(audit_counts_text(audit), "")
        self.text.show(audit_sections(audit))

    def _say(self, text: str, look: str) -> None:
        self.caption.update(safe(f"API audit  ·  {text}", look))


def audit_sections(audit: ApiAudit) -> list[Section]:
    """Return what an audit has read, as sections: what failed first."""
    failed = tuple(_line(each) for each in audit.requests if each.err_code is not None)
    answered = tuple(_line(each) for each in audit.requests if each.err_code is None)
    sections = [
        Section("REQUESTS WITH AN ERROR", failed or (line("", "no request had an error"),)),
        Section("OTHER REQUESTS", answered or (line("", "no other requests"),)),
    ]
    ending = [line("", audit_cost_text(audit))]
    if audit.left_out_count:
        left = f"and {counted(f'{audit.left_out_count:,}', 'request')} that natstui does not list"
        ending.insert(0, line("", left))
    return [*sections, Section("", tuple(ending))]


def _line(requests: AuditedRequests) -> Line:
    who = requests.client if requests.user is None else f"{requests.client} ({requests.user})"
    error = error_text(requests)
    parts = [requests.request, who, *([error] if error else [])]
    text = "  ·  ".join(map(clean_line, parts))
    return line(f"{requests.times_count:,}", text, "bad" if error else "")
