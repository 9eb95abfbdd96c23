"""How a benchmark goes, on stderr: one line that is rewritten on a terminal, else the log."""

from __future__ import annotations

import sys

import click

from natstui.clean import clean_line
from natstui.model.benchmark import (
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkPlanned,
    BenchmarkProgress,
)
from natstui.model.record import LinkChanged, Record
from natstui.units import count_text, duration_text


class ProgressLine:
    """A sink that tells a person how far it is."""

    def __init__(self) -> None:
        self.link: LinkChanged | None = None
        """The server it ran against."""
        self._rewrites = sys.stderr.isatty()
        self._open = False

    def add(self, record: Record) -> None:
        """Take one record."""
        match record:
            case BenchmarkPlanned():
                self._say(record.plan.title)
            case BenchmarkLog():
                who = f"{record.worker}: " if record.worker else ""
                self._say(clean_line(f"{who}{record.text}"))
            case BenchmarkPhase() if record.phase in ("warmup", "steady", "drain"):
                self._say(f"phase {record.phase}")
            case BenchmarkProgress() if self._rewrites:
                self._rewrite(_progress_text(record))
            case _:
                pass

    def end(self) -> None:
        """Leave the line, so that what follows begins on its own."""
        if self._open:
            click.echo("", err=True)
            self._open = False

    def _say(self, text: str) -> None:
        self.end()
        click.echo(text, err=True)

    def _rewrite(self, text: str) -> None:
        click.echo(f"\r\x1b[2K{text}", nl=False, err=True)
        self._open = True


def _progress_text(progress: BenchmarkProgress) -> str:
    done = "" if progress.done_ratio is None else f"{progress.done_ratio:4.0%}  "
    left = "" if progress.left_s is None else f"  {duration_text(progress.left_s)} left"
    counts = progress.counts
    return (
        f"{done}{progress.phase}  sent {count_text(counts.sent_msgs)}"
        f"  acked {count_text(counts.acked_msgs)}"
        f"  received {count_text(counts.received_msgs)}{left}"
    )
