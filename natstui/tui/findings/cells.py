"""The findings table: open findings, and recently ended ones below."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from natstui.model.columns.findings import FINDING_COLUMNS as TABLE_COLUMNS
from natstui.model.columns.findings import FindingRow, entity_text, evidence_text
from natstui.model.columns.view import View
from natstui.model.findings.catalogue.account import ACCOUNT_UNLIMITED
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.risky_settings import SETTING_KINDS
from natstui.model.findings.finding import Finding, group_findings, severity_sort_key
from natstui.model.live.known_rows import RowKey
from natstui.model.live.state import State
from natstui.model.records.silences import Silence
from natstui.tui.frame.columns import ColumnSpec, column_spec
from natstui.tui.frame.shared_cells import TREND_WIDTH, minute_means, severity_cell
from natstui.tui.kit.sparkline import sparkline
from natstui.tui.kit.table.rows import Cell

MAX_ENDED_FINDINGS = 50
"""Maximum number of ended findings in the table; the newest are kept."""


class SortedFindings:
    """The findings of a state, sorted for the table."""

    def __init__(
        self,
        state: State,
        hints: Sequence[Finding] = (),
        *,
        with_hints: bool = False,
        with_ended: bool = True,
        is_folding: bool = False,
    ) -> None:
        """Sort the findings of a state and `hints`, the findings about settings.

        Informational findings about settings are left out unless `with_hints`, ended findings
        unless `with_ended`. With `is_folding`, many open findings of a kind are one row, and so
        are the ended findings of a kind and entity.
        """
        findings = state.findings
        unsilenced_findings = [
            *findings.list_open_findings(),
            *(hint for hint in hints if findings.find_silence(hint) is None),
        ]
        visible_findings = [
            finding for finding in unsilenced_findings if with_hints or not is_hint(finding)
        ]
        self.hidden_hints_count = len(unsilenced_findings) - len(visible_findings)
        self.open = sorted(visible_findings, key=severity_sort_key)
        silenced_findings = [
            *findings.list_silenced_findings(),
            *(hint for hint in hints if findings.find_silence(hint) is not None),
        ]
        self.silenced = sorted(silenced_findings, key=severity_sort_key)
        """Open findings that the user has silenced for a time."""
        self.ended = list(reversed(state.findings.resolved[-MAX_ENDED_FINDINGS:]))
        self.all: list[Finding] = [
            *self.open,
            *self.silenced,
            *(self.ended if with_ended else ()),
        ]
        lines = group_findings(self.open) if is_folding else []
        row_by_finding_id = {id(finding): row for row, finding in enumerate(self.open)}
        self.others_text = {row_by_finding_id[id(line.worst)]: line.others_text for line in lines}
        """Row → text with the number of findings folded into it, such as `(3 times)`; empty
        without folding."""
        self.rows: Sequence[int] = range(len(self.all))
        if is_folding:
            first_ended_row = len(self.open) + len(self.silenced)
            ended_rows_by_kind_and_entity: dict[tuple[Kind, str], list[int]] = {}
            for row, finding in enumerate(self.all[first_ended_row:], first_ended_row):
                ended_rows_by_kind_and_entity.setdefault(
                    (finding.kind, finding.entity.text), []
                ).append(row)
            newest_ended_rows = [rows[0] for rows in ended_rows_by_kind_and_entity.values()]
            self.rows = [
                *self.others_text,
                *range(len(self.open), first_ended_row),
                *newest_ended_rows,
            ]
            self.others_text |= {
                rows[0]: f"({len(rows)} times)"
                for rows in ended_rows_by_kind_and_entity.values()
                if len(rows) > 1
            }

    @property
    def is_folded(self) -> bool:
        """Return whether any row stands for several findings."""
        return any(self.others_text.values())


def is_hint(finding: Finding) -> bool:
    """Return whether a finding is an informational one about settings."""
    kind = finding.kind
    return kind.severity == "info" and (kind in SETTING_KINDS or kind is ACCOUNT_UNLIMITED)


class FindingView(View):
    """The findings at one moment, by row: open, silenced, then ended findings."""

    def __init__(self, state: State, poll_age_us: int, sorted_findings: SortedFindings) -> None:
        super().__init__(state, poll_age_us)
        self.sorted_findings = sorted_findings
        self.roster = sorted_findings
        """Identity of the set of rows: another object after any finding changed."""

    def __len__(self) -> int:
        return len(self.sorted_findings.all)

    def rows(self) -> Sequence[int]:
        """Return the rows to show: of folded findings only the first."""
        return self.sorted_findings.rows

    def at(self, row: int) -> Finding:
        """Return the finding in a row."""
        return self.sorted_findings.all[row]

    def row_at(self, row: int) -> FindingRow:
        """Return a row of the column table."""
        others_text = self.sorted_findings.others_text.get(row, "")
        return FindingRow(self.at(row), self.now_at_us, self.silence(row), others_text)

    def key(self, row: int) -> Hashable:
        """Return the identity of the finding in a row, the same after its end."""
        return key_of(self.at(row))

    def stale_s(self, row: int) -> float | None:
        """Return None: findings never become stale."""
        return None

    def has_problem(self, row: int) -> bool:
        """Return whether the finding in a row is open, not silenced, and more than
        informational.
        """
        finding = self.at(row)
        return self.is_open(row) and finding.kind.severity != "info"

    def is_open(self, row: int) -> bool:
        """Return whether the finding in a row is open and not silenced."""
        return row < len(self.sorted_findings.open)

    def silence(self, row: int) -> Silence | None:
        """Return the silence of the finding in a row; None if it is not silenced, or has ended."""
        finding = self.at(row)
        return self.state.findings.find_silence(finding) if finding.until_us is None else None

    def search_text(self, row: int) -> str:
        """Return the texts of the finding in which a filter searches."""
        finding = self.at(row)
        return " ".join(
            (
                finding.kind.severity,
                finding.kind.code,
                entity_text(finding.entity),
                evidence_text(finding),
            )
        )


def key_of(finding: Finding) -> tuple[str, str, int, int]:
    """Return the identity of a finding: entity, code, and times of creation and start."""
    entity = finding.entity
    return entity.text, finding.kind.code, entity.created_at_us, finding.since_us


def _severity(view: FindingView, row: int) -> Cell:
    finding_row = view.row_at(row)
    if finding_row.is_open:
        return severity_cell(finding_row.finding.kind)
    mark = "·" if finding_row.finding.until_us is not None else "z"
    return Cell(f"{mark} {finding_row.severity_text}", "dim")


def _trend(view: FindingView, row: int) -> Cell:
    """Pending messages of a consumer, stored messages of a stream, over the last minute."""
    finding = view.at(row)
    entity = finding.entity
    if not view.is_open(row) or not entity.created_at_us:
        return Cell("")
    state, name = view.state, "pending_msgs" if entity.consumer else "stored_msgs"
    history = state.consumer_history if entity.consumer else state.stream_history
    names = (entity.stream, entity.consumer) if entity.consumer else (entity.stream,)
    key: RowKey = (*names, entity.created_at_us)
    values = minute_means(view, history.series(key, name, 60))
    return Cell(sparkline(values, TREND_WIDTH), "accent")


def _severity_sort_values(view: FindingView) -> Sequence[object]:
    findings = view.sorted_findings
    # The worst and the oldest have the highest, as on the other screens; then silenced ones, and
    # at the end those that are over, the newest first.
    open_sort_values = [
        (2, finding.severity_level, -finding.since_us) for finding in findings.open
    ]
    silenced_sort_values = [
        (1, finding.severity_level, -finding.since_us) for finding in findings.silenced
    ]
    return [
        *open_sort_values,
        *silenced_sort_values,
        *((0, 0, finding.until_us or 0) for finding in findings.ended),
    ]


_COLUMN_BY_KEY = {column.key: column for column in TABLE_COLUMNS if column.key}


def _spec(key: str, width: int, **layout: Any) -> ColumnSpec[FindingView]:
    """Return a table column that sorts open findings by its value.

    Silenced and ended findings have no sort value, and come last in both directions.
    """
    column = _COLUMN_BY_KEY[key]
    options = {"sort": partial(_open_values, column.value)} | layout
    return column_spec(column, FindingView.row_at, width, **options)


def _open_values(value: Callable[[FindingRow], object], view: FindingView) -> list[object]:
    """Return the value of each open finding, and None for silenced and ended ones."""
    return [value(view.row_at(row)) if view.is_open(row) else None for row in range(len(view))]


FINDING_COLUMNS: tuple[ColumnSpec[FindingView], ...] = (
    _spec("severity", 10, draw=_severity, sort=_severity_sort_values, descends=True),
    _spec("code", 6, min_table_width=100),
    _spec("entity", 26, flex=1),
    _spec("what", 28, flex=6, max_width=160),
    _spec("since", 9),
    ColumnSpec(
        "trend",
        "TREND 1m",
        TREND_WIDTH,
        5,
        _trend,
        partial(_open_values, lambda row: row.finding.since_us),
        min_table_width=150,
        align="left",
        descends=False,
    ),
)
