"""What the publish form sends."""

from __future__ import annotations

import pytest

from natstui.errors import UsageError
from natstui.tui.messages.publish import build_publish_command


@pytest.mark.parametrize("path", ["message_id", "ttl", "last_seq", "subject_seq"])
def test_a_request_refuses_what_only_a_stream_reads(path: str) -> None:
    with pytest.raises(UsageError, match="only with Wait for: stream"):
        build_publish_command({"subject": "a", "kind": "request", path: "5"}, "")
