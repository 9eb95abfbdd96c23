"""What is wrong with a change is said before what it would do, and before anything is asked."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from natstui.errors import NatstuiError, RequestFailed, UsageError
from natstui.jetstream.managing.apply import preview
from natstui.model.records.managing import Action, Change


@pytest.mark.parametrize(
    ("action", "arguments", "kind", "reason"),
    [
        ("purge_stream", {"seq": 5, "keep": 3}, UsageError, "up to a sequence or keep some"),
        ("delete_message", {}, UsageError, "needs its sequence"),
        ("pause_consumer", {"pause_until": "soon"}, UsageError, "neither a time nor a duration"),
        ("reset_consumer", {}, RequestFailed, "resetting a consumer needs server"),
    ],
)
async def test_arguments_are_checked_before_the_effect_is_shown(
    action: Action, arguments: dict[str, Any], kind: type[NatstuiError], reason: str
) -> None:
    async def request(*_: object) -> bytes:
        raise AssertionError("nothing is asked for it")

    writer = cast(Any, SimpleNamespace(client=SimpleNamespace(api_level=1, request=request)))
    consumer = "C" if action.endswith("consumer") else None
    with pytest.raises(kind, match=reason):
        await preview(writer, Change(1, action, "S", consumer, json.dumps(arguments)))
