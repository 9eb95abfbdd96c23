"""The findings table: open findings, and recently ended ones below."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from natstui.clean import clean_line
from natstui.model.columns.view import View
from natstui.model.findings.catalogue.account import A_UNLIMITED
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.settings import SETTING_KINDS
from natstui.model.findings.finding import Entity, Finding, folded, worst_first
from natstui.model.live.state import State
from natstui.model.live.table import Key
from natstui.model.records.silences import Silence
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.frame.view import TREND_WIDTH, minute, severity_cell
from natstui.tui.kit.sparkline import sparkline
from natstui.tui.kit.table.rows import Cell
from natstui.units import duration_text

OVER_SHOWN = 50
"""Limit of ended findings in the table, newest first."""


class Found:
    """The sorted findings of a state; created again only when they change."""

    def __init__(
        self,
        state: State,
        hints: Sequence[Finding] = (),
        *,
        with_hints: bool = False,
        with_ended: bool = True,
        folds: bool = False,
    ) -> None:
        """Sort the findings of a state; `hints` are those about settings, which may be left out.

        So may ended ones. With `folds`, many open findings of a kind are one row, and so are
        repeated ones.
        """
        findings = state.findings
        visible = [
            *findings.open(),
            *(hint for hint in hints if findings.silence_of(hint) is None),
        ]
        told = [finding for finding in visible if with_hints or not is_hint(finding)]
        self.left_out_count = len(visible) - len(told)
        self.open = sorted(told, key=worst_first)
        hidden = [
            *findings.silenced(),
            *(hint for hint in hints if findings.silence_of(hint) is not None),
        ]
        self.silenced = sorted(hidden, key=worst_first)
        """Open as well, but nobody wants to hear of them now."""
        self.over = list(reversed(state.findings.resolved[-OVER_SHOWN:]))
        self.all: list[Finding] = [*self.open, *self.silenced, *(self.over if with_ended else ())]
        lines = folded(self.open) if folds else []
        row_by_id = {id(finding): row for row, finding in enumerate(self.open)}
        self.others_text = {row_by_id[id(line.first)]: line.others_text for line in lines}
        """Row → how many others of its kind it has with it, or how often it is over; without any
        where none is folded."""
        self.rows: Sequence[int] = range(len(self.all))
        if folds:
            over_from = len(self.open) + len(self.silenced)
            ended_by_key: dict[tuple[Kind, str], list[int]] = {}
            for row, finding in enumerate(self.all[over_from:], over_from):
                ended_by_key.setdefault((finding.kind, finding.entity.text), []).append(row)
            newest = [rows[0] for rows in ended_by_key.values()]
            self.rows = [*self.others_text, *range(len(self.open), over_from), *newest]
            self.others_text |= {
                rows[0]: f"({len(rows)} times)" for rows in ended_by_key.values() if len(rows) > 1
            }

    @property
    def is_folded(self) -> bool:
        """Return whether a row represents other findings of its kind too."""
        return any(self.others_text.values())


def is_hint(finding: Finding) -> bool:
    """Return whether a finding is only informational, and about settings."""
    kind = finding.kind
    return kind.severity == "info" and (kind in SETTING_KINDS or kind is A_UNLIMITED)


class FindingView(View):
    """Findings at one moment, by row: open ones come first."""

    def __init__(self, state: State, late_us: int, found_rows: Found) -> None:
        super().__init__(state, late_us)
        self.found = found_rows
        self.roster = found_rows
        """Another one when there are other findings."""

    def __len__(self) -> int:
        return len(self.found.all)

    def rows(self) -> Sequence[int]:
        """Return the rows to show: all, or one per fold."""
        return self.found.rows

    def at(self, row: int) -> Finding:
        """Return the finding of a row."""
        return self.found.all[row]

    def key(self, row: int) -> Hashable:
        """Return the identity of a finding, which stays after its end."""
        return key_of(self.at(row))

    def stale_s(self, row: int) -> float | None:
        """Return None: a finding stays until it has ended."""
        return None

    def has_problem(self, row: int) -> bool:
        """Return whether it is open, not silenced, and more than informational."""
        finding = self.at(row)
        return self.told(row) and finding.kind.severity != "info"

    def told(self, row: int) -> bool:
        """Return whether it is open and not silenced."""
        return row < len(self.found.open)

    def silence(self, row: int) -> Silence | None:
        """Return its silence; None if it is not silenced, or has ended."""
        finding = self.at(row)
        return self.state.findings.silence_of(finding) if finding.until_us is None else None

    def search_text(self, row: int) -> str:
        """Return all its texts, which a filter searches."""
        finding = self.at(row)
        return " ".join(
            (
                finding.kind.severity,
                finding.kind.code,
                entity_text(finding.entity),
                what_text(finding),
            )
        )


def key_of(finding: Finding) -> tuple[str, str, int, int]:
    """Return the identity of a finding, with the name of its entity first."""
    entity = finding.entity
    return entity.text, finding.kind.code, entity.created_at_us, finding.since_us


def entity_text(entity: Entity) -> str:
    """Return the entity of a finding, on one harmless line."""
    if not entity.consumer:
        return clean_line(entity.text)
    return clean_line(
        " ".join(filter(None, (f"{entity.stream} › {entity.consumer}", entity.part)))
    )


def what_text(finding: Finding) -> str:
    """Return the label and evidence of a finding."""
    return clean_line(f"{finding.kind.word}: {finding.text}")


def _severity(view: FindingView, row: int) -> Cell:
    """Critical, warning or info; silenced with `z`; over: it ended a moment ago."""
    finding = view.at(row)
    if view.told(row):
        return severity_cell(finding.kind)
    return Cell("· over" if finding.until_us is not None else "z silenced", "dim")


def _code(view: FindingView, row: int) -> Cell:
    """Code of the finding: `natstui health --list` prints all of them."""
    return Cell(view.at(row).kind.code, "dim")


def _entity(view: FindingView, row: int) -> Cell:
    """Stream, consumer, server or account concerned, or the data that cannot be read."""
    others = view.found.others_text.get(row)
    text = " ".join(filter(None, (entity_text(view.at(row).entity), others)))
    return Cell(text, "strong" if view.told(row) else "dim")


def _what(view: FindingView, row: int) -> Cell:
    """What is wrong in a word or two, and the numbers that show it."""
    finding, silence = view.at(row), view.silence(row)
    if silence is not None:
        return Cell(f"{clean_line(silence.reason)}  ·  {what_text(finding)}", "dim")
    return Cell(what_text(finding), "" if view.told(row) else "dim")


def _since(view: FindingView, row: int) -> Cell:
    """How long it has lasted; how long ago it ended; how long it is still silenced."""
    finding, silence = view.at(row), view.silence(row)
    if finding.until_us is not None:
        return Cell(f"{view.age_text(finding.until_us)} ago", "dim")
    if silence is not None:
        return Cell(duration_text((silence.until_us - view.now_at_us) / 1e6), "dim")
    return Cell(view.age_text(finding.since_us))


def _trend(view: FindingView, row: int) -> Cell:
    """Pending messages of a consumer, stored messages of a stream, over the last minute."""
    finding = view.at(row)
    entity = finding.entity
    if not view.told(row) or not entity.created_at_us:
        return Cell("")
    state, name = view.state, "pending_msgs" if entity.consumer else "stored_msgs"
    history = state.consumer_history if entity.consumer else state.stream_history
    names = (entity.stream, entity.consumer) if entity.consumer else (entity.stream,)
    key: Key = (*names, entity.created_at_us)
    values = minute(view, history.series(key, name, 60))
    return Cell(sparkline(values, TREND_WIDTH), "accent")


Sort = Callable[[FindingView], Sequence[object]]


def _by_severity(view: FindingView) -> Sequence[object]:
    findings = view.found
    # The worst and the oldest have the highest, as on the other screens; then silenced ones, and
    # at the end those that are over, the newest first.
    open_ones = [(2, finding.severity_level, -finding.since_us) for finding in findings.open]
    hidden = [(1, finding.severity_level, -finding.since_us) for finding in findings.silenced]
    return [*open_ones, *hidden, *((0, 0, finding.until_us or 0) for finding in findings.over)]


def _by(get: Callable[[Finding], object]) -> Sort:
    """Sort open findings by a value; silenced and ended ones come last in both directions."""
    return lambda view: [
        get(finding) if view.told(row) else None for row, finding in enumerate(view.found.all)
    ]


_words: Callable[..., ColumnSpec[FindingView]] = partial(ColumnSpec, align="left", descends=False)

FINDING_COLUMNS: tuple[ColumnSpec[FindingView], ...] = (
    _words("severity", "SEVERITY", 10, 0, _severity, _by_severity, descends=True),
    _words("code", "CODE", 6, 4, _code, _by(lambda finding: finding.kind.code), from_width=100),
    _words("entity", "WHERE", 26, 1, _entity, _by(lambda finding: finding.entity.text), flex=1),
    _words(
        "what", "WHAT", 28, 2, _what, _by(lambda finding: finding.kind.word), flex=6, max_width=160
    ),
    ColumnSpec("since", "FOR", 9, 3, _since, _by(lambda finding: -finding.since_us)),
    _words(
        "trend",
        "TREND 1m",
        TREND_WIDTH,
        5,
        _trend,
        _by(lambda finding: finding.since_us),
        from_width=150,
    ),
)
