"""The size of a payload that is a file."""

from __future__ import annotations

import os
from dataclasses import replace

from natstui.model.bench.plan import Payload


def sized(payload: Payload) -> Payload:
    """Return a payload with the size of its file; one that is not there is told by `check`."""
    if payload.kind != "file" or not os.path.isfile(payload.file or ""):
        return payload
    return replace(payload, size_bytes=os.path.getsize(payload.file or ""), size_max_bytes=None)
