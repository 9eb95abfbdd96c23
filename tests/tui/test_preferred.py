"""What has a finding is polled in most polls, while the rest takes turns."""

from __future__ import annotations

import asyncio
import os
import signal

import nats
import pytest
from nats.js.api import ConsumerConfig, StorageType, StreamConfig

from natstui.model.records.record import (
    Command,
    SetInterval,
    SetPolling,
    SetPriorityConsumers,
    SetViewedRows,
)
from tests.accounts import Account
from tests.tui.engine_records import engine_records
from tests.tui.test_overview import STREAMS, polls
from tests.tui.viewer import FedViewer, Viewer, fed, viewing

_STREAMS_COUNT = 60
_FEW_REQUESTS = {"NATSTUI_MONITOR_MAX_REQUESTS_PER_S": "6"}
_STUCK = ("S30", "C")
_POLLS = 10


async def _filled(url: str) -> None:
    nc = await nats.connect(url)
    js = nc.jetstream()

    async def one(name: str) -> None:
        await js.add_stream(
            StreamConfig(name=name, subjects=[name.lower()], storage=StorageType.MEMORY)
        )
        config = ConsumerConfig(durable_name="C", deliver_subject=f"to.{name}")
        await js.add_consumer(name, config)

    for begin in range(0, _STREAMS_COUNT, 20):
        await asyncio.gather(*(one(f"S{number:02}") for number in range(begin, begin + 20)))
    await js.publish("s30", b"waits")
    await nc.close()


def _sampled(viewer: Viewer) -> dict[tuple[str, str], int]:
    columns = viewer.app.state.consumers.columns
    names = zip(columns.stream, columns.name, strict=True)
    return dict(zip(names, columns.sampled_mono_us, strict=True))


async def test_a_consumer_with_a_finding_is_named_to_the_engine_once() -> None:
    async with fed(*engine_records(STREAMS)) as viewer:
        await viewer.feed(*polls())
        await viewer.until(lambda: viewer.sent(SetPriorityConsumers), "what is preferred")
        findings = viewer.app.state.findings.list_open_findings()
        assert ("BETA", "one") in {one.entity[:2] for one in findings}
        assert [command.consumers for command in viewer.sent(SetPriorityConsumers)] == [
            (("BETA", "one"),)
        ]


async def test_the_rows_of_the_screen_that_is_in_view_again_are_polled_first() -> None:
    table = (("ALPHA", "BETA"), ())
    messages = (("BETA",), ())
    consumer = (("BETA",), (("BETA", "one"),))
    async with fed(*engine_records(STREAMS)) as viewer:

        async def polls_first(rows: tuple[object, object]) -> None:
            def newest() -> list[tuple[object, object]]:
                return [(one.streams, one.consumers) for one in viewer.sent(SetViewedRows)[-1:]]

            await viewer.until(lambda: newest() == [rows], f"{rows}, but {newest()}")

        await polls_first(table)
        await viewer.type_command("consumer BETA one")
        await polls_first(consumer)
        await viewer.press("m")
        await polls_first(messages)
        await viewer.press("escape")
        await polls_first(consumer)
        await viewer.press("escape")
        await polls_first(table)
        await viewer.press("2")
        await polls_first(((), (("BETA", "one"),)))
        await viewer.press("1")
        await polls_first(table)


async def test_another_engine_polls_as_the_one_before_was_told_to() -> None:
    records = engine_records(STREAMS)
    kinds: tuple[type[Command], ...] = (SetInterval, SetPolling, SetViewedRows)

    def polled(viewer: FedViewer) -> list[Command]:
        last = [viewer.sent(kind)[-1:] for kind in kinds]
        return [command for commands in last for command in commands]

    async with fed(*records) as viewer:
        await viewer.until(lambda: viewer.sent(SetViewedRows), "the rows in view")
        await viewer.type_command("interval 30s")
        await viewer.press("p")
        await viewer.until(lambda: len(polled(viewer)) == len(kinds), "all")
        before, link = polled(viewer), viewer.app.link
        os.killpg(link.pid, signal.SIGKILL)
        await viewer.until(lambda: "the engine was ended by SIGKILL" in viewer.said, "its end")
        viewer.commands.clear()
        await viewer.feed(*records)
        await viewer.until(lambda: viewer.app.link is not link, "another engine")
        await viewer.until(lambda: len(polled(viewer)) == len(kinds), "all of them again")
        assert polled(viewer) == before


@pytest.mark.long
@pytest.mark.server
async def test_a_consumer_with_a_finding_is_in_most_polls_of_a_slow_sweep(
    account: Account,
) -> None:
    await _filled(account.url)
    async with viewing(account.url, environ=_FEW_REQUESTS) as viewer:
        await viewer.press("5")
        await viewer.until(
            lambda: any(
                one.kind.code == "NT-C08" for one in viewer.app.state.findings.list_open_findings()
            ),
            "no finding",
            s=120,
        )
        await viewer.until(lambda: len(_sampled(viewer)) == _STREAMS_COUNT, "not all seen", s=120)
        # The engine learns it with the poll that raised it, and the next one knows.
        await viewer.pilot.pause(3.0)
        before, last = _sampled(viewer), viewer.app.state.costs[-1].mono_us
        fresh = dict.fromkeys(before, 0)
        for _ in range(_POLLS):
            await viewer.until(lambda: viewer.app.state.costs[-1].mono_us > last, "no poll", s=60)  # noqa: B023
            last, now = viewer.app.state.costs[-1].mono_us, _sampled(viewer)
            for name, sampled_us in now.items():
                fresh[name] += sampled_us > before.get(name, sampled_us)
            before = now
    # With six requests a second, some polls have none left for it: 6 to 10 of ten were seen.
    assert fresh[_STUCK] >= 0.5 * _POLLS, fresh
    others = sorted(count for name, count in fresh.items() if name != _STUCK)
    assert others[len(others) // 2] <= 0.3 * _POLLS, fresh
