"""Finds the messages that a consumer dropped after max deliver, and stores them again."""

from __future__ import annotations

import asyncio

from natstui.errors import Conflict, NotFound
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.storing import has_lost_newest, lost_newest_text, newest_message
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.copying.account import CopyAccount
from natstui.jetstream.messages.copying.copy import (
    MAX_SHOWN_SUBJECTS,
    CopyTarget,
    MessageCopy,
    count_copy,
    send_copy,
)
from natstui.jetstream.messages.copying.dropped import find_dropped, find_possibly_dropped
from natstui.jetstream.messages.copying.losses import describe_changed_keys, describe_copy_loss
from natstui.jetstream.messages.copying.selection import Selection, SelectionRequest
from natstui.jetstream.messages.gets import ApiGetter
from natstui.model.records.copies import (
    MAX_LISTED_MSGS,
    DroppedMessages,
    FindDroppedMessages,
    MaxDeliverDrop,
    PreviewResend,
    ResendMessages,
    ResendPreview,
)
from natstui.units import counted


async def find_dead_letters(
    client: Client, command: FindDroppedMessages, recorded_drops: tuple[MaxDeliverDrop, ...]
) -> DroppedMessages:
    """Return the messages that a consumer dropped after max deliver, or a set that contains them.

    `recorded_drops` are the drops in recordings. Raises NotFound if no source has the
    dropped messages.
    """
    info = await client.stream_info(command.stream)
    consumer = await client.consumer_info(command.stream, command.consumer)
    are_certainly_dropped = True
    try:
        observed_drops = tuple(MaxDeliverDrop(at_us, seq) for at_us, seq in command.heard)
        seqs, remark = await find_dropped(client, info, consumer, recorded_drops, observed_drops)
    except NotFound as error:
        seqs = await find_possibly_dropped(client, command.stream, consumer, MAX_LISTED_MSGS)
        if not seqs:
            raise
        are_certainly_dropped, remark = False, str(error)
    listed_seqs = seqs[:MAX_LISTED_MSGS]
    messages = await ApiGetter(client, command.stream, command.preview_bytes).read_each(
        listed_seqs
    )
    return DroppedMessages(
        tuple(messages), seqs, len(listed_seqs) - len(messages), are_certainly_dropped, remark,
        info.created_at_us, newest_message(info.state),
    )  # fmt: skip


async def preview_send_again(client: Client, command: PreviewResend) -> ResendPreview:
    """Return the counts and losses of sending messages again, without sending any.

    Raises ActionRefusal if a stream of another domain would store them as well.
    """
    copy = await _make_copy(client, command)
    loss_text = await _describe_loss(client, copy)
    counts = await count_copy(client, client, copy)
    top_subjects = counts.subjects.most_common(MAX_SHOWN_SUBJECTS)
    return ResendPreview(
        counts.messages, counts.payload_bytes, counts.gone,
        tuple(
            (subject, count, counts.streams.get(subject) or "") for subject, count in top_subjects
        ),
        len(counts.subjects) - len(top_subjects), loss_text,
    )  # fmt: skip


async def send_again(writer: Writer, command: ResendMessages) -> CopyAccount:
    """Store messages again, with one journal entry, and return the account of the copy.

    Raises what `send_copy` and `describe_copy_loss` raise, Conflict if the stream was recreated
    or the losses are not those that were confirmed, and MissingConfirmation if messages are
    deleted for good and that was not confirmed.
    """
    copy = await _make_copy(writer.client, command)
    loss_text = await _describe_loss(writer.client, copy)
    writer.check_loss(command.stream, loss_text)
    writer.check_allowed(command.stream, command.confirmed, loss_text=loss_text)
    await send_copy(
        writer.client, writer, copy, (command.stream, command.confirmed), asyncio.Event()
    )
    return copy.account


def account_text(account: CopyAccount) -> str:
    """Return a sentence about what happened to the messages of a copy."""
    parts = [f"{counted(f'{account.kept_msgs:,}', 'message')} stored again"]
    for count, text in (
        (account.not_kept.total(), "acknowledged, but not kept"),
        (account.duplicate_msgs, "stored already"),
        (account.refused_msgs, "refused"),
        (account.unknown_msgs, "sent without a reply: it is not known whether they are stored"),
        (account.gone_msgs, "deleted meanwhile"),
        (account.without_rollup_msgs, "sent without their roll-up or schedule"),
    ):
        parts += [f"{count:,} {text}"] if count else []
    top_reasons = [*account.not_kept.most_common(3), *account.refusals.most_common(3)]
    reasons = [f"{reason} ({count:,})" for reason, count in top_reasons]
    return "; ".join([*parts, *reasons])


async def _describe_loss(client: Client, copy: MessageCopy) -> str | None:
    loss_texts = (
        await describe_copy_loss(client, client, copy),
        await describe_changed_keys(client, client, copy),
    )
    return " and ".join(filter(None, loss_texts)) or None


async def _make_copy(client: Client, command: PreviewResend | ResendMessages) -> MessageCopy:
    info = await client.stream_info(command.stream)
    if info.created_at_us != command.created_at_us:
        raise Conflict(
            f"{command.stream} was recreated: these messages were in the deleted stream"
        )
    if await has_lost_newest(client, command.stream, info.state, *command.newest):
        raise Conflict(f"{lost_newest_text(command.stream)}: nothing was sent again")
    selection = Selection(
        SelectionRequest(command.stream), info.created_at_us, 1, info.state.last_seq, (),
        command.sequences,
        info.read_config().get("retention", "limits") == "limits", state=info.state,
    )  # fmt: skip
    target = CopyTarget(subject_maps=((">", command.to_subject),) if command.to_subject else ())
    target.check()
    return MessageCopy(target, selection)
