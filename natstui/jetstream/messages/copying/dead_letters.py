"""The messages that a consumer gave up, to look at and to send again."""

from __future__ import annotations

import asyncio
import json

from natstui.errors import Conflict, NotFound
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.copying.account import Account
from natstui.jetstream.messages.copying.copy import (
    MOST_SUBJECTS,
    Copy,
    Target,
    count_copy,
    send_copy,
)
from natstui.jetstream.messages.copying.given_up import given_up, perhaps_given_up
from natstui.jetstream.messages.copying.losses import copy_loss
from natstui.jetstream.messages.copying.selection import Selection, Wanted
from natstui.jetstream.messages.gets import ApiGetter
from natstui.model.records.copies import (
    MOST_LISTED_MSGS,
    AgainCounted,
    CountAgain,
    FindGivenUp,
    GivenUpFound,
    SendAgain,
)
from natstui.units import counted


async def find_given_up(
    client: Client, asked: FindGivenUp, recorded: tuple[tuple[int, int], ...]
) -> GivenUpFound:
    """Return what a consumer gave up, or those among which it is.

    `recorded` is what recordings know: when, and which sequence. Raises NotFound when neither
    can be told.
    """
    info = json.loads(await client.request(f"STREAM.INFO.{asked.stream}"))
    consumer = json.loads(await client.request(f"CONSUMER.INFO.{asked.stream}.{asked.consumer}"))
    is_known = True
    try:
        seqs, remark = await given_up(client, info, consumer, recorded, asked.heard)
    except NotFound as error:
        seqs = await perhaps_given_up(client, asked.stream, consumer, MOST_LISTED_MSGS)
        if not seqs:
            raise
        is_known, remark = False, str(error)
    looked_at = seqs[:MOST_LISTED_MSGS]
    found = await ApiGetter(client, asked.stream, asked.preview_bytes).each(looked_at)
    return GivenUpFound(
        tuple(found), seqs, len(looked_at) - len(found), is_known, remark,
        time_us(info["created"]),
    )  # fmt: skip


async def count_again(client: Client, asked: CountAgain) -> AgainCounted:
    """Return what sending messages again would do; nothing is sent.

    Raises Refused where they would be stored in another domain as well.
    """
    copy = await _copy(client, asked)
    loses = await copy_loss(client, client, copy)
    counts = await count_copy(client, client, copy)
    most = counts.subjects.most_common(MOST_SUBJECTS)
    return AgainCounted(
        counts.messages, counts.payload_bytes, counts.gone,
        tuple((subject, count, counts.streams.get(subject) or "") for subject, count in most),
        len(counts.subjects) - len(most), loses,
    )  # fmt: skip


async def send_again(writer: Writer, asked: SendAgain) -> Account:
    """Store messages again, journalled as one, and return what became of each.

    Raises what `send_copy` and `copy_loss` raise, Conflict when the stream was recreated, and
    Refused where messages are removed for good and that was not confirmed.
    """
    copy = await _copy(writer.client, asked)
    loses = await copy_loss(writer.client, writer.client, copy)
    writer.check(asked.stream, asked.confirmed, loses=loses)
    await send_copy(writer.client, writer, copy, (asked.stream, asked.confirmed), asyncio.Event())
    return copy.account


def account_text(account: Account) -> str:
    """Return what became of the messages, in a sentence."""
    parts = [f"{counted(f'{account.kept_msgs:,}', 'message')} stored again"]
    for count, words in (
        (account.not_kept.total(), "acknowledged, but not kept"),
        (account.duplicate_msgs, "were there already"),
        (account.refused_msgs, "refused"),
        (account.gone_msgs, "gone meanwhile"),
        (account.without_rollup_msgs, "sent without their roll-up"),
    ):
        parts += [f"{count:,} {words}"] if count else []
    most = [*account.not_kept.most_common(3), *account.refusals.most_common(3)]
    reasons = [f"{reason} ({count:,})" for reason, count in most]
    return "; ".join([*parts, *reasons])


async def _copy(client: Client, asked: CountAgain | SendAgain) -> Copy:
    info = json.loads(await client.request(f"STREAM.INFO.{asked.stream}"))
    made_us = time_us(info["created"])
    if made_us != asked.created_at_us:
        raise Conflict(f"{asked.stream} was recreated: these messages were in the deleted stream")
    selection = Selection(
        Wanted(asked.stream), made_us, 1, info["state"]["last_seq"], (), asked.sequences,
        info["config"].get("retention", "limits") == "limits",
    )  # fmt: skip
    target = Target(maps=((">", asked.to_subject),) if asked.to_subject else ())
    target.check()
    return Copy(target, selection)
