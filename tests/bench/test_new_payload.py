"""Another payload while a run goes: sent by every pattern, counted right, told in the result."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from natstui.bench.job.content import MessageContent, SenderSettings
from natstui.bench.plan.flags import core_plan, with_changes
from natstui.bench.run.controller import Benchmark
from natstui.bench.wire.one_in_flight import FrameBuilder
from natstui.config.connection import Connection
from natstui.errors import ActionRefusal, NatstuiError, NotFound, UsageError
from natstui.model.bench.counts import Counts, total_counts
from natstui.model.bench.patterns import patterns_with
from natstui.model.bench.payload_text import format_payload, parse_payload
from natstui.model.bench.plan import BenchmarkPlan, Payload, RateSegment, Role, StreamPlan
from natstui.model.bench.result import BenchmarkResult
from natstui.model.records.benchmark import BenchmarkReport
from natstui.model.records.record import Record
from tests.accounts import Account
from tests.bench.here import Workers, run_here
from tests.bench.running import Records, check_sums, plan
from tests.bench.test_content import orders, sizes_of

BEFORE, AFTER = 128, 3000
EACH, CHANGE_AT_MSGS = 200, 5
"""Of each sender: one that a busy machine starts late has sent some before the change, too."""
RATE = (RateSegment(None, 100, 100),)
STREAM = StreamPlan("CHANGED", subjects=("s.>",), allow_batches=True)
SENDERS = sorted(
    patterns_with(lambda row: row.sends and not (row.awaits_reply or row.awaits_responses))
    - {"kv-put"}
)


async def steered(
    connection: Connection, what: BenchmarkPlan, steer: Callable[[Benchmark], None]
) -> BenchmarkResult:
    """Run a plan, and steer it once each of its senders has sent a part of its messages."""
    records, sent_msgs, done = Records(), Counter[str](), list[bool]()
    senders = [role.name for role in what.roles if role.schedule]
    benchmark = Benchmark(what, connection, records)

    def look(record: Record) -> None:
        if isinstance(record, BenchmarkReport):
            sent_msgs[record.role] += record.counts.sent_msgs
        if min(sent_msgs[name] for name in senders) > CHANGE_AT_MSGS and not done:
            done.append(True)
            steer(benchmark)

    records.on_add = look
    result = await asyncio.wait_for(benchmark.run(), 60)
    check_sums(result, records)
    assert done
    return result


def changes(size_bytes: int, counts: Counts) -> int:
    """How many of the messages sent were of the second size."""
    more, rest = divmod(counts.sent_bytes - counts.sent_msgs * BEFORE, size_bytes - BEFORE)
    assert rest == 0, "every message has one of the two sizes"
    return more


@pytest.mark.long
@pytest.mark.server
async def test_every_pattern_sends_another_size_and_every_byte_is_counted(
    account: Account,
) -> None:
    def role(name: str, pattern: str, subject: str, **others: object) -> Role:
        return Role(name, pattern, 1, subject, **others)  # type: ignore[arg-type]

    senders = [
        role(each, each, "core" if each == "publish" else f"s.{each}", total_msgs=EACH,
             schedule=RATE)
        for each in SENDERS
    ]  # fmt: skip
    beside = [role("subs", "subscribe", "core"), role("eat", "js-consume", "s")]

    async def change(workers: Workers) -> None:
        while any(workers.sum("sent_msgs", one.name) < CHANGE_AT_MSGS for one in senders):
            await asyncio.sleep(0.01)
        for worker in workers.all:
            worker.job.sender_settings.change_payload(Payload(size_bytes=AFTER))

    connection = Connection(servers=(account.url,))
    result = await run_here(connection, plan(*beside, *senders, stream=STREAM), change)
    assert result.verdict == "ok", result.notes
    by_role = {one.role: one.counts for one in result.workers}
    for one in senders:
        assert 0 < changes(AFTER, by_role[one.name]) < EACH, one.name
    # Receivers count what the server says of each message.
    assert by_role["subs"].received_bytes == by_role["publish"].sent_bytes
    stored = total_counts(by_role[one.name] for one in senders if one.traits.is_stored)
    assert by_role["eat"].received_bytes == stored.sent_bytes
    assert result.accounting.lost_msgs == 0


REFUSED: tuple[tuple[str, type[NatstuiError], str], ...] = (
    ("16", ActionRefusal, "need 24 bytes"),
    ("16..64", ActionRefusal, "need 24 bytes"),
    ("json 200", ActionRefusal, "cannot change between JSON and bytes"),
    ("2MB", UsageError, "larger than max_payload"),
    ("file /nowhere/at/all", UsageError, "does not exist"),
    ("many", UsageError, "is not a size"),
    ("9..3", UsageError, "has a maximum below its minimum"),
)


@pytest.mark.server
async def test_a_payload_that_fits_is_sent_and_another_one_is_refused(
    account: Account, tmp_path: Path
) -> None:
    file = tmp_path / "payload"
    file.write_bytes(bytes(range(250)) * (AFTER // 250))
    refusals, said = dict[str, tuple[type, str]](), list[str]()

    def steer(benchmark: Benchmark) -> None:
        for text, _, _ in REFUSED:
            with pytest.raises(NatstuiError) as caught:
                benchmark.change_payload(text)
            refusals[text] = (caught.type, str(caught.value))
        with pytest.raises(NotFound):
            benchmark.change_payload("1KB", "nobody")
        said.append(benchmark.change_payload(f"file {file}"))

    what = plan(
        Role("subs", "subscribe"),
        Role("pubs", "publish", total_msgs=EACH, schedule=RATE),
    )
    result = await steered(Connection(servers=(account.url,)), what, steer)
    for text, kind, words in REFUSED:
        assert refusals[text][0] is kind and words in refusals[text][1], (text, refusals[text])
    assert result.verdict == "ok", result.notes
    (sentence,) = said
    assert f"pubs now sends the file {file} (2.93 KiB) a message, not 128 B" in sentence
    # What was refused is no change of the run.
    (note,) = (text for text in result.notes if "after" in text)
    assert note.endswith(sentence)
    by_role = {one.role: one.counts for one in result.workers}
    assert 0 < changes(AFTER, by_role["pubs"]) < EACH
    assert by_role["subs"].received_bytes == by_role["pubs"].sent_bytes


def test_what_is_sent_changes_with_the_next_block_and_keeps_its_stamp() -> None:
    settings = SenderSettings(orders(Role("p", "publish")))
    content = MessageContent(settings, 500)
    assert set(sizes_of(content, [500])) == {BEFORE}
    settings.change_payload(Payload(size_bytes=AFTER))
    assert set(sizes_of(content, [500])) == {AFTER}
    # Of large messages fewer are made at once, whatever was asked for.
    settings.change_payload(Payload(size_bytes=1 << 20))
    assert sizes_of(content, [11]) == [1 << 20] * 11
    assert settings.stamp_layout.width == 24


def test_what_one_sends_that_waits_for_each_reply_changes_with_the_next_message() -> None:
    settings = SenderSettings(orders(Role("p", "request")))
    single = FrameBuilder(settings, b"_INBOX.x")
    assert single.build_frame(1, 0, 0)[1] == BEFORE
    settings.change_payload(Payload(size_bytes=AFTER))
    frame, payload_bytes = single.build_frame(2, 0, 0)
    assert payload_bytes == AFTER and f" {AFTER}\r\n".encode() in frame


@pytest.mark.parametrize("text", ["64", "16..4096", "json 512", "file some where"])
def test_a_payload_is_typed_as_it_is_shown(text: str) -> None:
    headers = (("Kind", "test"),)
    new = parse_payload(text, Payload(headers=headers, msg_ids=True))
    assert format_payload(new) == text
    assert (new.headers, new.msg_ids) == (headers, True)
    assert parse_payload(format_payload(new), new) == new


def test_a_payload_file_brings_its_own_size(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.write_bytes(b"0123456789")
    found = with_changes(core_plan("t", pubs=1), {"payload": str(small)})
    assert found.roles[0].payload.size_bytes == 10
    assert set(sizes_of(MessageContent(SenderSettings(orders(found.roles[0])), 5), [5])) == {10}
