"""Every option of a stream on servers 2.10 to 2.15, in the order of the form."""

from __future__ import annotations

from natstui.model.config_field import Field
from natstui.model.stream_spec_basic import BASIC
from natstui.model.stream_spec_limits import LIMITS
from natstui.model.stream_spec_publishing import PUBLISHING, SUBJECTS
from natstui.model.stream_spec_replication import REPLICATION
from natstui.model.stream_spec_storage import ACCESS, STORAGE

STREAM_FIELDS: tuple[Field, ...] = (
    BASIC + LIMITS + REPLICATION + STORAGE + PUBLISHING + SUBJECTS + ACCESS
)

STREAM_FIELD = {field.path: field for field in STREAM_FIELDS}

NEW_STREAM: dict[str, object] = {"name": "", "storage": "file", "allow_direct": True}
"""What an empty creation form starts with."""
