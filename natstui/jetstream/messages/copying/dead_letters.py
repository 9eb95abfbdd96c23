"""The messages that a consumer dropped after max deliver, to view and send again."""

from __future__ import annotations

import asyncio
import json

from natstui.errors import Conflict, NotFound
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.storing import gone_back_text, has_gone_back, newest_of
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
from natstui.jetstream.messages.copying.losses import copy_changes, copy_loss
from natstui.jetstream.messages.copying.selection import Selection, Wanted
from natstui.jetstream.messages.gets import ApiGetter
from natstui.model.records.copies import (
    MOST_LISTED_MSGS,
    AgainCounted,
    CountAgain,
    Drop,
    FindGivenUp,
    GivenUpFound,
    SendAgain,
)
from natstui.units import counted


async def find_given_up(
    client: Client, command: FindGivenUp, recorded_drops: tuple[Drop, ...]
) -> GivenUpFound:
    """Return the messages that a consumer dropped, or a set that contains them.

    `recorded_drops` are those in recordings. Raises NotFound when nothing tells which they are.
    """
    info = json.loads(await client.request(f"STREAM.INFO.{command.stream}"))
    consumer = json.loads(
        await client.request(f"CONSUMER.INFO.{command.stream}.{command.consumer}")
    )
    is_certain = True
    try:
        heard = tuple(Drop(at_us, seq) for at_us, seq in command.heard)
        seqs, remark = await given_up(client, info, consumer, recorded_drops, heard)
    except NotFound as error:
        seqs = await perhaps_given_up(client, command.stream, consumer, MOST_LISTED_MSGS)
        if not seqs:
            raise
        is_certain, remark = False, str(error)
    looked_at = seqs[:MOST_LISTED_MSGS]
    messages = await ApiGetter(client, command.stream, command.preview_bytes).each(looked_at)
    return GivenUpFound(
        tuple(messages), seqs, len(looked_at) - len(messages), is_certain, remark,
        time_us(info["created"]), newest_of(info["state"]),
    )  # fmt: skip


async def count_again(client: Client, command: CountAgain) -> AgainCounted:
    """Return the effect of sending messages again; nothing is sent.

    Raises Refused where they would be stored in another domain as well.
    """
    copy = await _copy(client, command)
    loses = await _loses(client, copy)
    counts = await count_copy(client, client, copy)
    top_subjects = counts.subjects.most_common(MOST_SUBJECTS)
    return AgainCounted(
        counts.messages, counts.payload_bytes, counts.gone,
        tuple(
            (subject, count, counts.streams.get(subject) or "") for subject, count in top_subjects
        ),
        len(counts.subjects) - len(top_subjects), loses,
    )  # fmt: skip


async def send_again(writer: Writer, command: SendAgain) -> Account:
    """Store messages again, journalled as one, and return their account.

    Raises what `send_copy` and `copy_loss` raise, Conflict when the stream was recreated, and
    Refused where messages are deleted for good and that was not confirmed.
    """
    copy = await _copy(writer.client, command)
    loses = await _loses(writer.client, copy)
    writer.check(command.stream, command.confirmed, loses=loses)
    await send_copy(
        writer.client, writer, copy, (command.stream, command.confirmed), asyncio.Event()
    )
    return copy.account


def account_text(account: Account) -> str:
    """Return the result of the messages, in a sentence."""
    parts = [f"{counted(f'{account.kept_msgs:,}', 'message')} stored again"]
    for count, text in (
        (account.not_kept.total(), "acknowledged, but not kept"),
        (account.duplicate_msgs, "were there already"),
        (account.refused_msgs, "refused"),
        (account.unknown_msgs, "sent without a reply: it is not known whether they are stored"),
        (account.gone_msgs, "gone meanwhile"),
        (account.without_rollup_msgs, "sent without their roll-up or schedule"),
    ):
        parts += [f"{count:,} {text}"] if count else []
    most = [*account.not_kept.most_common(3), *account.refusals.most_common(3)]
    reasons = [f"{reason} ({count:,})" for reason, count in most]
    return "; ".join([*parts, *reasons])


async def _loses(client: Client, copy: Copy) -> str | None:
    texts = await copy_loss(client, client, copy), await copy_changes(client, client, copy)
    return " and ".join(filter(None, texts)) or None


async def _copy(client: Client, command: CountAgain | SendAgain) -> Copy:
    info = json.loads(await client.request(f"STREAM.INFO.{command.stream}"))
    made_us = time_us(info["created"])
    if made_us != command.created_at_us:
        raise Conflict(
            f"{command.stream} was recreated: these messages were in the deleted stream"
        )
    if await has_gone_back(client, command.stream, info["state"], *command.newest):
        raise Conflict(f"{gone_back_text(command.stream)}: nothing was sent again")
    selection = Selection(
        Wanted(command.stream), made_us, 1, info["state"]["last_seq"], (), command.sequences,
        info["config"].get("retention", "limits") == "limits", state=info["state"],
    )  # fmt: skip
    target = Target(maps=((">", command.to_subject),) if command.to_subject else ())
    target.check()
    return Copy(target, selection)
