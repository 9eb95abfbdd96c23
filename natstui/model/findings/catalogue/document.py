"""The catalogue of findings as a Markdown document."""

from __future__ import annotations

from collections.abc import Iterator

from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.thresholds import THRESHOLDS

_INTRODUCTION = """\
# What natstui finds

Generated from the catalogue. A finding is reported when its condition has held for the time in the
column "after", and ends when the condition was absent for the time in the column "until". Findings
of severity info do not change a status. The column "like" names the corresponding check of another
tool.
"""


def catalogue_text() -> str:
    """Return the entire catalogue and its thresholds as Markdown."""
    return (
        "\n".join([_INTRODUCTION, *_format_kinds(), "\n## Thresholds\n", *_format_thresholds()])
        + "\n"
    )


def _format_kinds() -> Iterator[str]:
    column_titles = (
        "code", "severity", "about", "called", "meaning", "check", "do", "thresholds", "after",
        "until", "like",
    )  # fmt: skip
    yield f"| {' | '.join(column_titles)} |"
    yield "|" + "---|" * len(column_titles)
    for kind in KINDS.values():
        cells = (
            kind.code, kind.severity, kind.entity, kind.word, kind.sentence, kind.check, kind.act,
            ", ".join(kind.thresholds), f"{kind.enter_s:g} s", f"{kind.leave_s:g} s", kind.peer,
        )  # fmt: skip
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _format_thresholds() -> Iterator[str]:
    yield "| threshold | default | decides |"
    yield "|---|---|---|"
    for threshold in THRESHOLDS.values():
        yield f"| {threshold.name} | {threshold.text} | {threshold.meaning} |"
