"""All details of a finding: evidence, thresholds, checks and advice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.model.columns.findings import entity_text
from natstui.model.columns.view import View
from natstui.model.findings.finding import Finding
from natstui.tui.findings.cells import key_of
from natstui.tui.findings.keys import FindingKeys
from natstui.tui.findings.text import finding_sections
from natstui.tui.frame.live import LiveScreen
from natstui.tui.kit.keys import user_keys
from natstui.tui.kit.sections import SectionText
from natstui.tui.kit.text import safe


class FindingDetail(LiveScreen):
    """Shows all details of a finding, also after its end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter", "part('finding', 'go')", "Go there", key_display="enter", id="finding.go"
        ),
        *FindingKeys.BINDINGS,
    ]

    caption = getters.query_one("#caption", Static)
    text = getters.query_one(SectionText)

    def __init__(self, finding: Finding) -> None:
        super().__init__()
        self.current_finding = finding
        self.finding = FindingKeys(self, lambda: self.current_finding)

    def body(self) -> Iterable[Widget]:
        """Yield the caption and the details of the finding."""
        yield Static(id="caption", markup=False)
        yield VerticalScroll(SectionText())

    def refresh_state(self) -> None:
        """Show the newest state of the finding; a finding not listed any more stays unchanged."""
        had_ended = self.current_finding.until_us is not None
        self.current_finding = self._find_current_finding()
        if (self.current_finding.until_us is not None) is not had_ended:
            self.refresh_bindings()
        name = f"{entity_text(self.current_finding.entity)}  ›  {self.current_finding.kind.word}"
        self.caption.update(safe(name + ("  ·  over" if self.current_finding.until_us else "")))
        view = View(self.state, self.poll_age_us)
        self.text.show(finding_sections(view, self.current_finding, user_keys(self)))

    def _find_current_finding(self) -> Finding:
        findings, key = self.state.findings, key_of(self.current_finding)
        open_findings = findings.list_open_findings_of(self.current_finding.entity)
        matches = (
            finding
            for finding in (*open_findings, *reversed(findings.resolved))
            if key_of(finding) == key
        )
        return next(matches, self.current_finding)
