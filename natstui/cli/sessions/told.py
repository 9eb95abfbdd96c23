"""A session as JSON: what `sessions ls --json` says of it, the same in every command."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from natstui.cli.json_line import print_json


def print_session(folder: Path) -> None:
    """Print the summary of a session as one JSON line."""
    print_json(session_object(folder))


def session_object(folder: Path) -> dict[str, object]:
    """Return the summary of a session; one that cannot be read says why in `problem`."""
    from natstui.session.library import summary_of

    return asdict(summary_of(folder))


def print_recorded(folder: Path, **first: str) -> None:
    """Print what there is of a recording that just ended, as one JSON line, `first` before it.

    `span_s` is from the first record to the last, as in `sessions ls`. `whole`: something was
    polled, it was closed, and nothing was given up or deleted. That every record can be read again
    is what `sessions verify` tells.
    """
    from natstui.session.library import records_count, summary_of
    from natstui.session.read.recording import Recording

    told = summary_of(folder)
    known = told.problem is None
    closed = told.status == "complete" and told.gaps_count == 0
    print_json({
        **first,
        **asdict(told),
        "span_s": (told.ended_at_us - told.started_at_us) / 1e6 if known else None,
        "records_count": records_count(Recording(folder)) if known else None,
        "whole": known and closed and told.polls_count > 0,
    })  # fmt: skip
