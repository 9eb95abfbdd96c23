"""What a recording without a viewer logs."""

from __future__ import annotations

from natstui.engine.headless import ConnectionLog
from natstui.model.records.record import Restored, Unavailable


def test_what_cannot_be_read_and_what_can_be_again_are_a_sentence_each() -> None:
    said = list[str]()
    log = ConnectionLog(said.append)
    log.add(Unavailable(1, "CONSUMER.LIST.ORDERS", "no permission"))
    log.add(Restored(2, "CONSUMER.LIST.ORDERS"))
    assert said == [
        "CONSUMER.LIST.ORDERS cannot be read: no permission",
        "CONSUMER.LIST.ORDERS can be read again",
    ]
