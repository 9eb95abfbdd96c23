"""What a planned consumer would deliver is what the server then says it has pending."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from natstui.jetstream.messages.delivery_preview import preview_delivery
from natstui.model.records.messages import PreviewDelivery
from tests.accounts import Account
from tests.jetstream.admin_session import admin_session

pytestmark = pytest.mark.server


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"filter_subjects": ["s.1"]},
        {"filter_subjects": ["s.0", "s.2"]},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 4},
        {"deliver_policy": "last"},
        {"deliver_policy": "last_per_subject", "filter_subjects": ["s.>"]},
        {"deliver_policy": "new"},
    ],
)
def test_the_preview_counts_what_the_server_then_has_pending(
    account: Account, tmp_path: Path, config: dict[str, Any], direct: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        stream = {"name": "S", "subjects": ["s.>"], "allow_direct": direct}
        session.request("STREAM.CREATE.S", stream)
        client = session.writer.client
        for number in range(10):
            session.run(client.request_subject(f"s.{number % 3}", b"x"))
        asked = PreviewDelivery(1, "S", json.dumps(config))
        preview = session.run(preview_delivery(client, asked))
        made = {"durable_name": "C", "ack_policy": "explicit", **config}
        body = {"stream_name": "S", "config": made, "action": "create"}
        info = session.request("CONSUMER.CREATE.S.C", body)
        assert preview.pending_msgs == info["num_pending"]
