"""Every answer, in the order of the report. A new answer is one file, and its name here."""

from __future__ import annotations

from natstui.analysis.gold import (
    ack_time,
    availability,
    bench,
    capacity,
    compare,
    findings,
    lag,
    rates,
    redelivery,
    session,
    stuck,
    verdict,
)
from natstui.analysis.gold.answer import Answer
from natstui.analysis.gold.questions import (
    account_full,
    changes,
    delays,
    hours,
    idle,
    redelivery_cost,
)
from natstui.analysis.gold.telling import picture

_FILES = (
    session, rates, hours, compare, changes, stuck, lag, delays, redelivery, redelivery_cost,
    ack_time, availability, capacity, account_full, idle, bench, picture,
)  # fmt: skip
_OTHERS: tuple[Answer, ...] = tuple(answer for file in _FILES for answer in file.ANSWERS)

ANSWERS: tuple[Answer, ...] = (verdict.answer(_OTHERS), *findings.ANSWERS, *_OTHERS)
TABLES = tuple(answer.table for answer in ANSWERS)
