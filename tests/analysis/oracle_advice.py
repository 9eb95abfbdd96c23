"""What harm each finding does, its code, and what to do: by the page of documentation."""

from __future__ import annotations

from typing import NamedTuple

from tests.analysis.by_format import REPOSITORY

_PAGE = (REPOSITORY / "docs/findings.md").read_text(encoding="utf-8").splitlines()


class Kind(NamedTuple):
    """A kind of finding in the catalogue."""

    severity: str
    entity: str
    word: str
    advice: str


class Advice(NamedTuple):
    """What harm a finding does, its code in the catalogue if it has one, and what to do."""

    harm: str
    code: str | None
    advice: str


def _kind(cells: list[str]) -> Kind:
    check, act = cells[5], cells[6]
    dot = "" if check.endswith("?") else "."
    return Kind(cells[1], cells[2], cells[3], f"Check {check}{dot} {act[0].upper()}{act[1:]}.")


CATALOGUE = {line[2:8]: _kind(line.split(" | ")) for line in _PAGE if line.startswith("| NT-")}
"""By code."""
_CODES = {kind.word: code for code, kind in reversed(CATALOGUE.items()) if code[3] == "C"}
"""By label, of consumers; of several the first. A recorded reason has its code instead."""
_HARMS = {
    "stuck": "C01 C02 C03 C06 C07 C08 C16 C17 C09 C39 C11 C15 C25 C27 C32 C33 C40 C41 C43 C44 C45 "
    "C47 S01 S02 S03 S06 S07 S21 S11 S12 S34 S35",
    "wasteful": "C04 C05 C22 C26 C29 C42 C46 S27 S33 S28 S36 A25",
    "lost": "C12 C21 C48 S04 S05 S22 S30 S31 S39 S13 S38 A01 A02",
    "soon": "C35 S26 S42 S14 S41 S37 A21 A22 A23 A24",
    "blind": "M01 M21 M22 M23 M24 M25",
}
_HARM_BY_CODE = {f"NT-{code}": harm for harm, codes in _HARMS.items() for code in codes.split()}
_RECORDED = {
    ("identity", "sequence restarted"): "S30",
    ("lag", "lag"): "C23",
    ("redelivery", "redelivery"): "C26",
    ("redelivery", "terminated"): "C22",
    ("redelivery", "dropped"): "C21",
    ("poison", "was dropped after max deliver"): "C21",
    ("poison", "is redelivered again and again"): "C05",
    ("availability", "leader_absent"): "S02",
    ("availability", "unreachable"): "S01",
    ("availability", "leader_change"): "S29",
    ("availability", "replica_away"): "S23",
    ("availability", "replica_lag"): "S24",
    ("availability", "api_slow"): "A26",
    ("availability", "disconnected"): "M01",
    ("availability", "unavailable"): "M22",
    ("capacity", "full"): "S05",
    ("capacity", "near"): "S26",
    ("capacity", "full soon"): "S42",
    ("capacity", "storage full"): "A01",
    ("capacity", "memory full"): "A02",
    ("capacity", "storage near"): "A21",
    ("capacity", "memory near"): "A22",
}
"""By kind and cause: the code of the finding that the screen shows of the same."""
_LIMIT = ("Check which streams grow, and whether that continues. Lower the limits of streams, or "
          "raise the limit of the account.")  # fmt: skip
_CHANGE = ("Check whether the change was intended: `natstui` shows the current configuration, and "
           "can undo its own changes.")  # fmt: skip
_OTHERS = {
    ("stuck", "unknown"): Advice(
        "stuck", None, "Check the log of its client and of the server at that time."
    ),
    ("identity", "identity"): Advice(
        "lost", "NT-S31", "Check who deletes it: its messages are lost. To remove only the "
        "messages, purge the stream instead.",
    ),
    ("identity", "recreated"): Advice(
        "wasteful", "NT-C38", "Check who deletes it: the new consumer starts again, and repeats "
        "or skips messages. Use a durable consumer with a fixed name.",
    ),
    ("recording", "recording"): Advice(
        "blind", None, "Check the disk that it was recorded to. `natstui sessions verify` says "
        "what is missing.",
    ),
    ("comparison", "slower"): Advice(
        "late", None, "Check what changed between the two sessions: the client, its "
        "configuration, the server.",
    ),
    ("comparison", "faster"): Advice("none", None, "No action is needed."),
    ("availability", "gap"): Advice(
        "blind", None, "Check whether the recording machine slept or was overloaded."
    ),
    ("capacity", "storage full soon"): Advice("soon", None, _LIMIT),
    ("capacity", "memory full soon"): Advice("soon", None, _LIMIT),
    ("hour", "hour"): Advice(
        "none", None, "Check that hour first: the tables and charts show what happened in it."
    ),
    ("idle", "idle"): Advice(
        "wasteful", None, "Check who needs them: the table of idle streams and consumers lists "
        "them. Delete those that are not needed.",
    ),
    ("change", "stuck"): Advice("stuck", None, _CHANGE),
    ("change", "lagging"): Advice("late", None, _CHANGE),
    ("change", "redelivery"): Advice("wasteful", None, _CHANGE),
    ("delay", "bursts"): Advice(
        "late", None, "Check whether messages may wait so long. If not, start more clients, or "
        "limit the rate of the publishers.",
    ),
    ("delay", "repeats"): Advice(
        "late", None, "Check why messages are redelivered: redeliveries delay new messages."
    ),
    ("delay", "elections"): Advice(
        "late", None, "Check why leaders change: read the logs of the servers, check the network."
    ),
    ("benchmark", "benchmark"): Advice(
        "lost", None, "Check the errors of its workers, and whether the stream had room for its "
        "messages.",
    ),
    ("benchmark", "does not add up"): Advice(
        "blind", None, "Check whether the recording has the entire run: it may begin or end in "
        "the middle of it, or have lost lines.",
    ),
}  # fmt: skip


def advice(kind: str, cause: str) -> Advice:
    """Return the advice for a finding, by its kind and its cause."""
    if (kind, cause) in _OTHERS:
        return _OTHERS[kind, cause]
    if (kind, cause) in _RECORDED:
        code = f"NT-{_RECORDED[kind, cause]}"
    else:
        code = cause if cause in CATALOGUE else _CODES[cause]
    # Whoever is stuck is stuck, whatever the reason.
    harm = "stuck" if kind == "stuck" else harm_of(code)
    return Advice(harm, code, CATALOGUE[code].advice)


def harm_of(code: str) -> str:
    """Return the harm of a code of the catalogue."""
    return _HARM_BY_CODE.get(code, "late")
