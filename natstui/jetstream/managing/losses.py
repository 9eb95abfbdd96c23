"""What a change would remove for good, counted on the server before it is done."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from natstui.errors import NotFound, PermissionDenied, UsageError
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Asset, Config
from natstui.model.assets.defaults import normal_stream
from natstui.model.assets.fields import number_at, text_at
from natstui.model.assets.loss import (
    Loss,
    StoredMessages,
    ages,
    consumer_edit_loss,
    limits_subjects_first,
    messages_gone,
    settles,
    stream_edit_loss,
    thins,
)
from natstui.model.records.managing import Change
from natstui.model.servers.versions import (
    KEEPS_OVER_FIRST_SUBJECT_LIMIT,
    KEEPS_WITHOUT_INTEREST,
    is_in,
)
from natstui.units import bytes_text, counted

_MOST_SUBJECTS = 50_000


async def loss_of(client: Client, change: Change, asset: Asset) -> Loss:
    """Return what a change of an existing stream or consumer removes for good.

    Raises the request errors; what the user may not count is unknown, never 0.
    """
    asked: Config = json.loads(change.body_json)
    loss = await _loss_now(client, change, asset, asked)
    # A purge is limited to what was counted, where none of the newest are to be kept.
    bounded = change.action == "purge_stream" and not asked.get("keep")
    if bounded or change.action == "delete_message" or not loss.most_msgs:
        return loss
    return replace(loss, grows=True)


async def _loss_now(client: Client, change: Change, asset: Asset, asked: Config) -> Loss:
    match change.action:
        case "edit_stream":
            held = await _held(client, change.stream, asset, asked)
            return stream_edit_loss(asset.config, asked, held)
        case "edit_consumer":
            return consumer_edit_loss(asset.config, asked, *await _wanted(client, change, asset))
        case "delete_stream":
            return _all_of_it(asset)
        case "purge_stream":
            held_msgs, count, sure = await _purged(client, change.stream, asked)
            held = StoredMessages(held_msgs, asset.info["state"]["bytes"])
            return Loss((messages_gone(count, held, sure),), count)
        case "delete_message":
            return await _one_message(client, change.stream, asked.get("seq"))
        case "delete_consumer":
            return await _consumer(client, change, asset)
        case "remove_peer_stream":
            return _copy_of_it(change.stream, asset, str(asked.get("peer") or ""))
        case "reset_consumer":
            return Loss((_forgotten(change.consumer or "", asset),))
        case _:
            return Loss()


def _all_of_it(asset: Asset) -> Loss:
    state = asset.info["state"]
    held = StoredMessages(state["messages"], state["bytes"])
    lines = [messages_gone(held.held_msgs, held)]
    if state["consumer_count"]:
        lines.append(f"{counted(state['consumer_count'], 'consumer')} with it")
    return Loss(tuple(lines), held.held_msgs)


def members_of(asset: Asset) -> list[str]:
    """Return the servers that have a copy of a stream, its leader first."""
    cluster = asset.info.get("cluster") or {}
    leader = cluster.get("leader")
    peers = [str(one["name"]) for one in cluster.get("replicas") or ()]
    return [*([str(leader)] if leader else []), *(peer for peer in peers if peer != leader)]


def _copy_of_it(stream: str, asset: Asset, peer: str) -> Loss:
    """Return the risk of giving up one copy, in words: no message goes while others have it.

    Raises UsageError for a server without a copy, and for the only copy.
    """
    state, members = asset.info["state"], members_of(asset)
    if peer not in members:
        named = ", ".join(members) or "no server with a known name"
        raise UsageError(f"{peer or 'no server'} has no copy of {stream}: it is on {named}")
    if len(members) < 2:
        raise UsageError(
            f"{peer} has the only copy of {stream}: all messages would be lost; scale it first, "
            "or move it"
        )
    held = f"{counted(state['messages'], 'message')}, {bytes_text(state['bytes'])}"
    lines = [f"the copy on {peer} ({held}) is deleted"]
    if members[0] == peer:
        lines.append(f"{peer} leads it: publishers wait until another one does")
    left = len(members) - 1
    lines.append(
        f"until another server has copied all of it, there {'is' if left == 1 else 'are'} "
        f"{counted(left, 'copy')}"
    )
    return Loss(tuple(lines))


async def _one_message(client: Client, stream: str, seq: object) -> Loss:
    """Return the loss of one message; one that is not there any more is none."""
    try:
        reply = json.loads(await client.request(f"STREAM.MSG.GET.{stream}", {"seq": seq}))
    except NotFound:
        return Loss((f"message {seq} is not there any more",))
    except PermissionDenied:
        return Loss((f"1 message, {seq}, is removed for good",), 1)
    subject = str(reply["message"].get("subject", ""))
    return Loss((f"1 message, {seq} of {subject}, is removed for good",), 1)


def _forgotten(name: str, asset: Asset) -> str:
    info = asset.info
    waiting = f"{info['num_ack_pending']:,} waiting for an acknowledgement"
    return f"the delivery state of {name} is lost: {info['num_pending']:,} unprocessed, {waiting}"


async def _consumer(client: Client, change: Change, asset: Asset) -> Loss:
    owner, wanted_msgs = await _wanted(client, change, asset)
    lines = [_forgotten(change.consumer or "", asset)]
    most = wanted_msgs if text_at(owner, "retention") == "interest" else 0
    if most:
        lines.append(f"at most {counted(most, 'message')} that only it needs are removed for good")
    return Loss(tuple(lines), most)


async def _wanted(client: Client, change: Change, asset: Asset) -> tuple[Config, int]:
    """Return the stream's configuration, and how many of its messages a consumer still wants."""
    stream = await _info(client, change.stream)
    config: Config = stream["config"]
    return config, asset.info["num_pending"] + asset.info["num_ack_pending"]


async def _held(client: Client, stream: str, asset: Asset, wanted: Config) -> StoredMessages:
    """Count what an edit could remove; asks only for what the edit changes."""
    old, new, state = normal_stream(asset.config), normal_stream(wanted), asset.info["state"]
    older: int | None = 0
    if ages(old, new):
        older = await _older(client, stream, state, number_at(new, "max_age"))
    excess = None
    if not thins(old, new):
        excess = 0
    elif state.get("num_subjects", 0) <= _MOST_SUBJECTS:
        counts = (await _info(client, stream, {"subjects_filter": ">"}))["state"].get("subjects")
        most = number_at(new, "max_msgs_per_subject")
        excess = sum(max(0, count - most) for count in (counts or {}).values())
    limits = wanted.get("consumer_limits") != asset.config.get("consumer_limits")
    consumers = await _consumers(client, stream) if limits or settles(old, new) else []
    wants = [row["num_pending"] + row["num_ack_pending"] for row in consumers]
    settled = max(0, state["messages"] - max(wants, default=0)) if settles(old, new) else 0
    version = client.link.server_version
    if not consumers and is_in(version, KEEPS_WITHOUT_INTEREST):
        settled = 0
    later = limits_subjects_first(old, new) and is_in(version, KEEPS_OVER_FIRST_SUBJECT_LIMIT)
    unlimited = sum(not row["config"].get("inactive_threshold") for row in consumers)
    gaps = bool(state.get("num_deleted"))
    held_msgs, held_bytes = state["messages"], state["bytes"]
    return StoredMessages(held_msgs, held_bytes, older, gaps, excess, later, settled, unlimited)


async def _older(client: Client, stream: str, state: Config, max_age_ns: int) -> int | None:
    """Return how many sequences were stored longer ago; None when the user may not look."""
    since_us = time.time_ns() // 1000 - max_age_ns // 1000
    low, high = state["first_seq"], state["last_seq"] + 1
    try:
        while low < high and state["messages"]:
            middle = (low + high) // 2
            message = await _next_message(client, stream, middle)
            if message is not None and time_us(message["time"]) < since_us:
                low = message["seq"] + 1
            else:
                high = middle
    except PermissionDenied:
        return None
    return int(low - state["first_seq"])


async def _next_message(client: Client, stream: str, seq: int) -> Config | None:
    """Return the first message from a sequence on; None when there is none."""
    try:
        body = {"seq": seq, "next_by_subj": ">"}
        message: Config = json.loads(await client.request(f"STREAM.MSG.GET.{stream}", body))[
            "message"
        ]
    except NotFound:
        return None
    return message


async def _consumers(client: Client, stream: str) -> list[dict[str, Any]]:
    pages = [json.loads(page) async for page in client.pages(f"CONSUMER.LIST.{stream}")]
    return [row for page in pages for row in page.get("consumers") or ()]


async def _info(client: Client, stream: str, body: Config | None = None) -> dict[str, Any]:
    info: dict[str, Any] = json.loads(await client.request(f"STREAM.INFO.{stream}", body))
    return info


async def _purged(client: Client, stream: str, asked: Config) -> tuple[int, int | None, str]:
    """Return how many messages there are, how many a purge removes, and how sure that is."""
    subject = asked.get("filter") or None
    state = (await _info(client, stream))["state"]
    held = total = state["messages"]
    if subject is not None:
        if state.get("num_subjects", 0) > _MOST_SUBJECTS:
            return held, None, ""
        matching = await _info(client, stream, {"subjects_filter": subject})
        total = sum((matching["state"].get("subjects") or {}).values())
    if asked.get("keep"):
        return held, max(0, total - int(asked["keep"])), ""
    if not asked.get("seq"):
        return held, total, ""
    # A stream that never had a message begins at 0.
    first_seq = max(1, state["first_seq"])
    below = max(0, min(int(asked["seq"]), state["last_seq"] + 1) - first_seq)
    exact = subject is None and not state.get("num_deleted")
    return (held, below, "") if exact or not below else (held, min(below, total), "at most ")
