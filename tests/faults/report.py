"""The table of a run of the lab: what natstui said live, afterwards, and of the recording."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, get_args

from tests.faults.judge import (
    Closing,
    Course,
    Judged,
    Seen,
    is_on,
    is_related,
    judge_findings,
    judge_live,
)
from tests.faults.lab import Run
from tests.faults.observers import System


class Row(NamedTuple):
    """One situation and what became of it."""

    course: Course
    live: Judged
    fresh: Judged
    recorded: Judged


def rows_of(runs: Iterable[Run], recorded: dict[str, tuple[Seen, ...]]) -> list[Row]:
    """Return a row for each situation; `recorded` has the findings of each system's recording."""
    rows = []
    for run in runs:
        for key, course in run.courses.items():
            system = run.stage.system_of(key)
            rows.append(
                Row(
                    course,
                    judge_live(course),
                    _judge_fresh(course, system),
                    _judge_recorded(course, recorded.get(system.name)),
                )
            )
    return rows


def _judge_fresh(course: Course, system: System) -> Judged:
    if course.failed or not system.fresh:
        return Judged("not made", "")
    judged = [judge_findings(course, seen) for seen in system.fresh.values()]
    # Whoever watches longer knows more; what is wrong after five seconds is wrong.
    of_all = next((each for each in judged if each.verdict == "wrong"), judged[-1])
    if not course.situation.fresh and of_all.verdict != "wrong":
        return Judged("cannot be known", of_all.said)
    return of_all


def _judge_recorded(course: Course, seen: tuple[Seen, ...] | None) -> Judged:
    if course.failed or seen is None:
        return Judged("not made", "")
    if not course.situation.cause:
        return Judged("right", "")
    right = any(judge_findings(course, [each]).verdict == "right" for each in seen)
    return Judged("right", "") if right else judge_findings(course, seen)


def counted(rows: Iterable[Row], of: str) -> str:
    """Return how many faults have each verdict, as 35 right, 24 partly."""
    verdicts = Counter(getattr(row, of).verdict for row in rows if row.course.situation.cause)
    order = ("right", "partly", "wrong", "silent", "cannot be known", "not made")
    return ", ".join(f"{verdicts[each]} {each}" for each in order if verdicts[each])


def table(rows: list[Row]) -> str:
    """Return the table as text."""
    lines = [
        f"{'situation':27} {'cause':34} {'live':8} {'opens':>5} {'in':>4} {'closes':>6} "
        f"{'hold':>4} {'chg':>3} {'fresh':15} {'recorded':8} said instead or beside"
    ]
    for row in rows:
        live, situation = row.live, row.course.situation
        said = live.said or row.fresh.said or row.recorded.said
        lines.append(
            f"{situation.key:27.27} {situation.cause or '(nothing is wrong)':34.34} "
            f"{live.verdict:8} {_seconds(live.opened_s):>5} {situation.within_s:4.0f} "
            f"{_seconds(live.closed_s):>6} {live.hold_s:4.0f} {live.changes_count:3} "
            f"{row.fresh.verdict:15} {row.recorded.verdict:8} {said[:150]}"
        )
    fine = [row for row in rows if not row.course.situation.cause]
    false = sum(1 for row in fine if row.live.verdict == "wrong")
    lines += [
        "",
        f"live:     {counted(rows, 'live')}",
        f"fresh:    {counted(rows, 'fresh')}",
        f"recorded: {counted(rows, 'recorded')}",
        f"fine:     {len(fine) - false} of {len(fine)} without a finding above info",
        f"opens:    {_opening(rows)}",
        f"changes:  {_changing(rows)}",
        f"closes:   {_closing(rows)}",
    ]
    return "\n".join(lines)


def _opening(rows: Iterable[Row]) -> str:
    """Return how many faults were named within three polls or their stated time."""
    named = [row for row in rows if row.live.opened_s is not None]
    late = [row.course.situation.key for row in named if row.live.said.startswith("late")]
    text = f"{len(named) - len(late)} of {len(named)} that were named, within 3 polls of the time"
    return f"{text}; late: {', '.join(late)}" if late else text


def _changing(rows: Iterable[Row]) -> str:
    named = [row for row in rows if row.live.opened_s is not None]
    often = [row.course.situation.key for row in named if row.live.changes_count > 2]
    text = f"{len(often)} of {len(named)} changed more than twice"
    return f"{text}: {', '.join(often)}" if often else text


def _closing(rows: Iterable[Row]) -> str:
    """Return how many closed within three polls of the fix, or after the hold of their fact."""
    named = [row for row in rows if row.live.opened_s is not None]
    counts = Counter(row.live.closing for row in named)
    late = [row.course.situation.key for row in named if row.live.closing == "late"]
    text = ", ".join(f"{counts[each]} {each}" for each in get_args(Closing) if counts[each])
    return f"{text}: {', '.join(late)}" if late else text


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def details(rows: Iterable[Row], runs: Iterable[Run]) -> str:
    """Return the facts of what was not right, for who changes a rule."""
    system_of = {key: run.stage.system_of(key) for run in runs for key in run.courses}
    texts = []
    for row in rows:
        verdicts = (row.live.verdict, row.fresh.verdict, row.recorded.verdict)
        if all(each in ("right", "cannot be known", "not made") for each in verdicts):
            continue
        situation, course = row.course.situation, row.course
        expected = " / ".join((situation.cause or "nothing above info", *situation.also))
        texts.append(
            f"### {situation.key}: live {row.live.verdict}, fresh {row.fresh.verdict}, "
            f"recorded {row.recorded.verdict}\n{situation.name}.\n"
            f"expected on the {situation.entity} within {situation.within_s:g} s: {expected}\n"
            f"evidence: {', '.join(situation.evidence)}\n"
            + _timeline(course)
            + _fresh(course, system_of[situation.key])
        )
    return "\n".join(texts)


def _timeline(course: Course) -> str:
    """Return which findings were open on the entity, from when to when after the break."""
    if course.broken_s is None:
        return ""
    spans: dict[Seen, list[tuple[float, float]]] = {}
    before_s = None
    for poll in course.polls:
        at_s = poll.at_s - course.broken_s
        for each in poll.seen:
            if each.severity == "info" or not _concerns(course, each):
                continue
            of = spans.setdefault(each, [])
            if of and before_s is not None and of[-1][1] >= before_s:
                of[-1] = (of[-1][0], at_s)
            else:
                of.append((at_s, at_s))
        before_s = at_s
    fixed = (
        "" if course.fixed_s is None else f"; fixed at {course.fixed_s - course.broken_s:.0f} s"
    )
    lines = [f"live, seconds after the break{fixed}:"]
    for each, of in spans.items():
        shown = ", ".join(f"{a:.0f}…{b:.0f}" for a, b in of[:8])
        more = f" and {len(of) - 8} more" if len(of) > 8 else ""
        lines.append(
            f"- {each.code} {each.severity} {each.stream} {each.consumer} {each.part} "
            f"{each.text}: {shown}{more}"
        )
    return "\n".join(lines) + ("\n" if spans else "\n- nothing\n")


def _concerns(course: Course, seen: Seen) -> bool:
    return is_on(course.situation, seen) or is_related(course.situation, seen)


def _fresh(course: Course, system: System) -> str:
    lines = []
    for for_s, seen in system.fresh.items():
        here = [f"{each.code} {each.severity} {each.text}" for each in seen
                if _concerns(course, each)]  # fmt: skip
        lines.append(f"fresh ({for_s}): {'; '.join(here) or 'nothing'}")
    return "\n".join(lines) + "\n"


def write_results(folder: Path, rows: list[Row], runs: list[Run]) -> Path:
    """Write the table, the facts of what is not right, and JSON; return the table's path."""
    path = folder / "table.txt"
    path.write_text(table(rows) + "\n", encoding="utf-8")
    (folder / "details.md").write_text(details(rows, runs), encoding="utf-8")
    as_json: list[dict[str, Any]] = [
        {
            "key": row.course.situation.key,
            "live": row.live._asdict(),
            "fresh": row.fresh._asdict(),
            "recorded": row.recorded._asdict(),
        }
        for row in rows
    ]
    (folder / "results.json").write_text(json.dumps(as_json, indent=1), encoding="utf-8")
    for run in runs:
        for system in run.stage.systems:
            for for_s, output in system.fresh_output.items():
                (folder / f"fresh-{system.name}-{for_s}.txt").write_text(output, encoding="utf-8")
    return path
