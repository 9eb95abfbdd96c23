"""What the ten findings must be, in plain Python over the rows of the other tables."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.analysis.oracle_advice import advice
from tests.analysis.oracle_asked import asked
from tests.analysis.oracle_recorded import joined, time_text, with_recorded

Row = dict[str, Any]
HARMS = ("lost", "stuck", "soon", "late", "wasteful", "blind", "none")
Gold = dict[str, list[Row]]
T_NEEDED = ((3, 63.7), (4, 9.92), (5, 5.84), (6, 4.60), (8, 4.03), (12, 3.50), (22, 3.17))
AVAILABILITY = {"leader_absent": 75, "unreachable": 70, "disconnected": 45, "unavailable": 38,
                "replica_away": 42, "replica_lag": 40,
                "gap": 35, "api_slow": 33, "leader_change": 28}  # fmt: skip


def verdict(gold: Gold) -> list[Row]:
    """Return the rows of all sessions."""
    found = [*_consumers(gold), *_periods(gold), *_messages(gold)]
    found += [*_server(gold), *_rest(gold)]
    found = _together(with_recorded(gold, [*found, *asked(gold, _told)]))
    # Whoever is stuck falls behind: it is told why, and not also that.
    still = {(row["session"], row["subject"]) for row in found if row["kind"] == "stuck"}
    found = [
        row
        for row in found
        if row["kind"] != "lag" or (row["session"], row["subject"]) not in still
    ]
    by_weight = sorted(
        _one_place(_at_once(found)),
        key=lambda f: (-f["weight"], f["subject"], f["cause"], f["start_at_us"] or -1),
    )
    seen: Counter[str] = Counter()
    for finding in by_weight:
        finding["weight"] *= 0.85 ** seen[finding["kind"]]
        seen[finding["kind"]] += 1
    by_weight.sort(key=lambda f: (-f["weight"], f["kind"], f["subject"], f["cause"]))
    sure = [finding for finding in by_weight if finding["kind"] == "recording"][:3]
    sure += [
        finding
        for finding in by_weight
        if advice(finding["kind"], finding["cause"]).harm == "soon"
    ][:2]
    others = [finding for finding in by_weight if finding not in sure][: 10 - len(sure)]
    top = [finding for finding in by_weight if finding in sure or finding in others]
    for finding in top:
        finding.update(advice(finding["kind"], finding["cause"])._asdict())
        finding["advice"] = _named(finding)
    top.sort(key=lambda finding: HARMS.index(finding["harm"]))
    return [
        {**{k: v for k, v in finding.items() if k != "cause"}, "rank": place}
        for place, finding in enumerate(top, 1)
    ]


def _together(found: list[Row]) -> list[Row]:
    """Tell those of one kind, subject and cause as one, the heaviest of them."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in found:
        groups.setdefault((row["kind"], row["subject"], row["cause"]), []).append(row)
    return [_heaviest(many) for many in groups.values()]


def _heaviest(many: list[Row]) -> Row:
    told = max(
        many,
        key=lambda r: (r["weight"], r["session"], r["start_at_us"] or -1, r["sentence"]),
    )
    sessions = len({row["session"] for row in many})
    sentence = told["sentence"]
    if len(many) > 1:
        sentence += f", and {len(many) - 1} more like this"
        sentence += f" in {sessions} sessions" if sessions > 1 else ""
    counts = {"times_count": len(many), "sessions_count": sessions}
    return {**told, "sentence": sentence, **counts}


def _told(row: Row, kind: str, subject: str, weight: float, *words: str) -> Row:
    start, end = row.get("start_at_us"), row.get("end_at_us")
    return {"session": row["session"], "kind": kind, "subject": subject, "sentence": words[0],
            "evidence": words[1], "start_at_us": start, "end_at_us": end,
            "cause": words[2] if len(words) > 2 else kind,
            "weight": float(weight)}  # fmt: skip


def _counted(count: int, noun: str, plural: str = "") -> str:
    return f"1 {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def _consumer(row: Row) -> str:
    return f"{row['stream']} > {row['consumer']}"


def _consumers(gold: Gold) -> Iterator[Row]:
    for row in gold["stuck"]:
        long = min(row["duration_s"] / 3600, 1.0) * 30
        weight = 30 + long / 2 if row["cause"] == "paused" else 60 + long
        limit = row["max_ack_pending_msgs"]
        yield _told(
            row, "stuck", _consumer(row), weight,
            f"stuck for {time_text(row['duration_s'])}",
            f"ack floor {row['ack_floor_stream_seq']}, {row['pending_max_msgs']} pending, "
            f"{row['ack_pending_max_msgs']} of {'unlimited' if limit is None else limit} "
            f"unacknowledged, {_counted(row['delivered_msgs'], 'delivery', 'deliveries')} "
            "meanwhile",
            row["cause"],
        )  # fmt: skip
    for row in gold["lag"]:
        left, never, growth = (
            row["pending_last_msgs"],
            row["never_caught_up"],
            row["growth_per_min"],
        )
        error, count = row["growth_error_per_min"], row["buckets_count"]
        sure = next((t for most, t in T_NEEDED if count <= most), 2.85)
        grows = growth is not None and error is not None and growth > max(0.0, sure * error)
        behind_s = row["behind_last_s"]
        matters = left > 0 and (behind_s is None or behind_s >= 10)
        falls = grows and row["drain_s"] is None
        if matters and (never or falls) and row["watched_s"] >= 15:
            yield _told(
                row, "lag", _consumer(row),
                (50 if never else 40) + min(math.log10(left + 1) * 4, 25),
                f"{'never caught up' if never else 'falls behind'}, "
                f"{_counted(left, 'message')} pending "
                + ("at the end" if row["unseen_s"] < 30 else
                   f"when it was last seen, {time_text(row['unseen_s'])} before the end"),
                f"{row['pending_first_msgs']} pending at the start, "
                + ("the recording is too short to know its growth" if growth is None
                   else f"{abs(growth):.1f} {'fewer' if growth < 0 else 'more'} per minute"),
            )  # fmt: skip
        if row["made_again"]:
            yield _told(
                row, "identity", _consumer(row), 47, "deleted and recreated",
                "its creation time changed during the recording, that of its stream did not",
                "recreated",
            )  # fmt: skip


def _periods(gold: Gold) -> Iterator[Row]:
    for row in gold["lag_period"]:
        if not row["open"] and (row["behind_max_s"] or 0) >= 10:
            most = row["pending_max_msgs"]
            yield _told(
                row, "lag", _consumer(row), 38 + min(math.log10(most + 1) * 3, 15),
                f"was behind for {time_text(row['duration_s'])}, by up to "
                f"{_counted(most, 'message')}",
                f"the next one waited for up to {time_text(row['behind_max_s'])}",
            )  # fmt: skip


def _at_once(found: list[Row]) -> list[Row]:
    """Tell once, of the worst, what began at the same time for several."""
    kept: list[Row] = []
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in found:
        row["others_count"] = 0
        if row["kind"] in ("stuck", "lag", "poison", "availability", "finding"):
            groups.setdefault((row["session"], row["kind"], row["cause"]), []).append(row)
        else:
            kept.append(row)
    for rows in groups.values():
        kept += [row for row in rows if row["start_at_us"] is None]
        begun = [row for row in rows if row["start_at_us"] is not None]
        times: list[list[Row]] = []
        for row in sorted(begun, key=lambda r: r["start_at_us"]):
            if times and row["start_at_us"] - times[-1][-1]["start_at_us"] <= 30_000_000:
                times[-1].append(row)
            else:
                times.append([row])
        for many in times:
            kept += [_worst_of(many)] if len(many) >= 3 else many
    return kept


SUBJECTS = {"stuck", "lag", "redelivery", "poison", "delay", "capacity", "identity", "change",
            "availability", "finding"}  # fmt: skip


def _one_place(found: list[Row]) -> list[Row]:
    """Tell what was found of one stream or consumer once."""
    kept, groups = [], dict[tuple[str, str], list[Row]]()
    for row in found:
        if row["kind"] in SUBJECTS and row["subject"] not in ("account", "monitoring"):
            groups.setdefault((row["session"], row["subject"]), []).append(row)
        else:
            kept.append(row)
    for many in groups.values():
        many.sort(
            key=lambda r: (
                advice(r["kind"], r["cause"]).harm != "lost",
                -r["weight"],
                r["kind"],
                r["cause"],
                -1 if r["start_at_us"] is None else r["start_at_us"],
            )
        )
        first, *others = many
        also = "; ".join(row["sentence"] for row in others[:6])
        evidence = [first["evidence"], f"also: {also}" if others else ""]
        weight = max(row["weight"] for row in many)
        kept.append({**first, "evidence": joined(*evidence), "weight": weight})
    return kept


def _named(row: Row) -> str | None:
    """Return the advice with the names in its commands."""
    stream, _, consumer = row["subject"].partition(" > ")
    if not consumer and not (row["code"] or "").startswith("NT-S"):
        return str(row["advice"]) or None
    sequence = re.search(r"\bmessage (\d+) ", f"{row['sentence']}; {row['evidence']}")
    names = {"STREAM": stream, "CONSUMER": consumer, "SEQ": sequence[1] if sequence else ""}
    words = re.split(r"\b(STREAM|CONSUMER|SEQ)\b", row["advice"])
    return "".join(shlex.quote(names[w]) if names.get(w) else w for w in words) or None


def _worst_of(many: list[Row]) -> Row:
    worst, *others = sorted(many, key=lambda r: (-r["weight"], r["subject"]))
    named = ", ".join(row["subject"] for row in others[:6])
    more = f" and {len(others) - 6} more" if len(others) > 6 else ""
    return worst | {
        "sentence": f"{worst['sentence']} (and {len(others)} others at that time)",
        "evidence": joined(worst["evidence"], f"also {named}{more}"),
        "times_count": sum(row["times_count"] for row in many),
        "others_count": len(others),
    }


def _messages(gold: Gold) -> Iterator[Row]:
    for row in gold["poison"]:
        acked = not row["given_up"] if row["acked"] is None else row["acked"]
        if not acked and not row["terminated"]:
            moments = {"start_at_us": row["first_at_us"], "end_at_us": row["last_at_us"]}
            fate = (
                "was dropped after max deliver"
                if row["given_up"]
                else "is redelivered again and again"
            )
            # The most delivered one is the example of them all.
            often = min(math.log10((row["deliveries_count"] or 0) + 1), 9) / 10
            yield _told(
                row | moments, "poison", _consumer(row),
                (62 if row["given_up"] else 45) + often,
                f"message {row['stream_seq']} {fate}",
                f"{_counted(row['deliveries_count'] or 0, 'delivery', 'deliveries')}, "
                f"{_counted(row['naks_count'], 'nak')}",
                fate,
            )  # fmt: skip
    for row in gold["redelivery"]:
        share = row["repeated_share"]
        if share is not None and share > 0.05:
            yield _told(
                row, "redelivery", _consumer(row), 35 + share * 30,
                f"{share * 100:.1f} % of deliveries were repeats",
                f"{row['repeated_msgs']} of {row['delivered_msgs']} deliveries",
            )  # fmt: skip
        if count := row["given_up_count"]:
            first = max(row["delivered_msgs"] - row["repeated_msgs"], 0)
            share = f" ({count / first * 100:.1f} %)" if first >= count else ""
            yield _told(
                row, "redelivery", _consumer(row), 63 + min(math.log10(count), 9) / 10,
                f"{_counted(count, 'message')} dropped after max deliver",
                f"of {_counted(first, 'message')} delivered{share}" if first
                else "none was delivered for the first time",
                "dropped",
            )  # fmt: skip
        if row["terminated_count"]:
            yield _told(
                row, "redelivery", _consumer(row), 32,
                f"{_counted(row['terminated_count'], 'message')} terminated by the client",
                "the client requested not to redeliver them", "terminated",
            )  # fmt: skip


def _server(gold: Gold) -> Iterator[Row]:
    for row in gold["availability"]:
        length, names = row["duration_s"], (row["stream"], row["consumer"])
        sentence = row["kind"].replace("_", " ")
        yield _told(
            row, "availability", " > ".join(filter(None, names)) or "monitoring",
            AVAILABILITY[row["kind"]] + min((length or 0.0) / 60, 10),
            sentence if length is None else f"{sentence} for {time_text(length)}",
            row["detail"] or "", row["kind"],
        )  # fmt: skip
    for row in gold["capacity"]:
        times = [row[n] for n in ("msgs_full_in_s", "bytes_full_in_s") if row[n] is not None]
        if not times or row["discard"] != "new" or row["unseen_s"] >= 30:
            continue
        shares = [
            row[f"stored_{what}"] / row[f"max_{what}"]
            for what in ("msgs", "bytes")
            if row[f"max_{what}"]
        ]
        if (soon := min(times)) == 0:
            yield _told(
                row, "capacity", row["stream"], 76, "full: it rejects publishes",
                f"keeps {_counted(row['stored_msgs'], 'message')} and {row['stored_bytes']} "
                "bytes",
                "full",
            )  # fmt: skip
        elif soon < 604_800 and row["latest_s"] is not None:
            yield _told(
                row, "capacity", row["stream"],
                72 if soon < 3600 else 55 if soon < 86_400 else 36,
                f"at this growth full in {time_text(soon)}: it then rejects publishes",
                f"grows by {row['growth_msgs_per_s']:.1f} messages and "
                f"{row['growth_bytes_per_s']:.0f} bytes a second, between "
                f"{time_text(row['earliest_s'])} and {time_text(row['latest_s'])} (95 % sure)",
                "near" if max(shares) >= 0.8 else "full soon",
            )  # fmt: skip
    for row in gold["capacity"]:
        if row["resets_count"]:
            yield _told(
                row, "identity", row["stream"], 78,
                f"restarted its sequence {_counted(row['resets_count'], 'time')}: the messages it "
                "had stored are lost",
                "its last sequence decreased, although its creation time is the same",
                "sequence restarted",
            )  # fmt: skip
    made = Counter((row["session"], row["stream"]) for row in gold["capacity"])
    for (session, stream), count in made.items():
        if count > 1:
            yield _told(
                {"session": session}, "identity", stream, 48,
                f"deleted and recreated {_counted(count - 1, 'time')}",
                "its creation time changed during the recording",
            )  # fmt: skip


def _rest(gold: Gold) -> Iterator[Row]:
    for row in gold["bench_account"]:
        lost, left = row["lost_msgs"] or 0, row["unaccounted_msgs"] or 0
        if lost > 0 or left or row["closes"] is False:
            words = [f"{_counted(lost, 'message')} lost"] * (lost > 0)
            words += [f"{_counted(left, 'message')} not accounted for"] * (left > 0)
            words += [f"{_counted(-left, 'message')} acknowledged, but never sent"] * (left < 0)
            words += ["its workers' reports do not add up to its result"] * (
                row["closes"] is False
            )
            yield _told(
                row, "benchmark", row["title"] or row["run_id"], 74 if lost > 0 else 58,
                ", ".join(words),
                f"{row['sent_msgs']} sent, {row['acked_msgs']} acknowledged, "
                f"{row['received_msgs']} received",
                "benchmark" if lost > 0 or left > 0 else "does not add up",
            )  # fmt: skip
    yield from _compared(gold["comparison"])
    for row in gold["session"]:
        segments = row["corrupt_segments_count"]
        lines = row["torn_lines_count"] - row["unfinished_lines_count"]
        lines += row["unknown_lines_count"]
        words = [f"{segments} segment{' is' if segments == 1 else 's are'} damaged"] * (
            segments > 0
        )
        if lines:
            are = " could not be read and is" if lines == 1 else "s could not be read and are"
            words.append(f"{lines} line{are} left out")
        if words:
            yield _told(row, "recording", row["session"], 50, ", ".join(words), row["damage"])


def _compared(rows: list[Row]) -> Iterator[Row]:
    grouped: dict[tuple[str, str, str, str], list[tuple[float, Row]]] = {}
    for row in rows:
        if row["verdict"] in ("slower", "faster"):
            names = [name for name in (row["stream"], row["consumer"]) if name]
            subject = " > ".join(names) or row["metric"]
            change = row["mean_change"]
            size = 25.0 if change is None else min(abs(change) * 50, 25.0)
            key = (row["compared"], row["baseline"], row["verdict"], subject)
            grouped.setdefault(key, []).append((size, row))
    for (session, baseline, word, subject), many in grouped.items():
        many.sort(key=lambda pair: (-pair[0], pair[1]["metric"]))
        yield _told(
            {"session": session}, "comparison", subject,
            (65 if word == "slower" else 30) + many[0][0],
            f"{word} than {baseline}: " + "; ".join(row["words"] for _, row in many),
            "; ".join(row["interval"] for _, row in many), word,
        )  # fmt: skip
