"""What a recording leaves out: payloads, unless asked for, and credentials, always."""

from __future__ import annotations

from dataclasses import replace

from natstui.model.records.link import LinkChanged
from natstui.model.records.record import (
    NEVER_RECORDED,
    EngineStarted,
    Outcome,
    Record,
)
from natstui.session.files.info import without_userinfo


def recordable(record: Record, *, payloads: bool) -> Record | None:
    """Return what may be written of a record; None when it is about recordings themselves."""
    if isinstance(record, NEVER_RECORDED):
        return None
    match record:
        case Outcome() if not payloads and record.body_json is not None:
            return replace(record, body_json=None)
        case LinkChanged() if record.server_url and "@" in record.server_url:
            return replace(record, server_url=without_userinfo(record.server_url))
        case EngineStarted() if "@" in record.target:
            return replace(record, target=without_userinfo(record.target))
        case _:
            return record
