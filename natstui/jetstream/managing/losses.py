"""Counts on the server what a change would delete for good, before it is done."""

from __future__ import annotations

import asyncio
import base64
import json

from natstui.errors import NotFound, PermissionDenied, RequestFailed, UsageError
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.asset import leader_of, replicas_of
from natstui.jetstream.connection.decode.consumers import ConsumerRow, read_consumer
from natstui.jetstream.connection.decode.streams import StreamRow, StreamState, read_stream
from natstui.jetstream.connection.shapes import check_shape
from natstui.jetstream.connection.storing import (
    consumer_filters,
    describe_side_effects,
    request_api,
)
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Asset, Config
from natstui.model.assets.defaults import normalize_stream
from natstui.model.assets.fields import is_on, number_at, text_at
from natstui.model.assets.limits_loss import ACK_RETENTIONS, LimitedStream, PlannedMessages
from natstui.model.assets.loss import (
    NO_LOSS,
    NONE_NEEDED_TEXT,
    Loss,
    StoredMessages,
    adds_limit_per_subject,
    consumer_edit_loss,
    enables_message_ttl,
    filters_of,
    has_ttl,
    lowers_max_age,
    lowers_msgs_per_subject,
    removed_messages_text,
    sets_interest_retention,
    stream_edit_loss,
)
from natstui.model.assets.subjects import contains, stored_filter
from natstui.model.records.managing import Change
from natstui.model.servers.replicas import has_lost_leader_contact
from natstui.model.servers.versions import (
    VERSIONS_KEEPING_UNCONSUMED_MSGS,
    VERSIONS_LIMITING_SUBJECTS_LATE,
    is_version_in,
)
from natstui.units import bytes_text, counted, is_or_are
from natstui.values import replace

_MAX_SUBJECTS = 50_000
_MAX_READ_MSGS, _READ_AT_ONCE_MSGS = 2_000, 50
"""Limits of messages that are read for a count."""


ACTIONS_SHOWING_LOSS_GROWTH = ("delete_stream", "delete_consumer", "edit_consumer")
"""Actions whose confirmation shows that messages published meanwhile are removed too."""


async def count_loss(client: Client, change: Change, asset: Asset) -> Loss:
    """Return what a change of an existing stream or consumer deletes for good.

    Raises the request errors; a count that the user may not read is unknown, never 0.
    """
    arguments: Config = json.loads(change.body_json)
    loss = await _count_current_loss(client, change, asset, arguments)
    # A purge is limited to what was counted, where none of the newest are to be kept.
    is_purge_limited_to_count = change.action == "purge_stream" and not arguments.get("keep")
    if is_purge_limited_to_count or change.action == "delete_message" or loss.most_msgs == 0:
        return loss
    return replace(loss, grows_until_confirmed=True)


async def _count_current_loss(
    client: Client, change: Change, asset: Asset, arguments: Config
) -> Loss:
    match change.action:
        case "edit_stream":
            stored_messages = await _read_stored(client, change.stream, asset, arguments)
            edit_loss = stream_edit_loss(asset.config, arguments, stored_messages)
            return edit_loss + await upstreams_and_republish_loss(client, arguments, asset)
        case "edit_consumer":
            edit_loss = consumer_edit_loss(
                asset.config, arguments, *await _count_needed(client, change, asset),
                asset.consumer_info.num_ack_pending,
            )  # fmt: skip
            edit_loss += await _delivery_loss(client, arguments, asset.config)
            return edit_loss + await _added_filter_loss(client, change, asset, arguments)
        case "delete_stream":
            removed_upstreams_loss = await _removed_upstreams_loss(
                client, _list_upstreams(asset.config)
            )
            return _stream_deletion_loss(asset) + removed_upstreams_loss
        case "purge_stream":
            stored_msgs, count, limit_text = await _count_purged(client, change.stream, arguments)
            stored_messages = StoredMessages(stored_msgs, asset.stream_info.state.bytes)
            return Loss((removed_messages_text(count, stored_messages, limit_text),), count)
        case "delete_message":
            return await _message_loss(client, change.stream, arguments.get("seq"))
        case "delete_consumer":
            return await _consumer_deletion_loss(client, change, asset)
        case "remove_peer_stream":
            peer = str(arguments.get("peer") or "")
            replica_loss = _replica_loss(change.stream, asset, peer)
            return replica_loss + await _sole_consumers_loss(client, change.stream, asset, peer)
        case "reset_consumer":
            return await _reset_loss(client, change, asset, arguments)
        case _:
            return Loss()


async def count_loss_of_new(client: Client, change: Change) -> Loss:
    """Return what a new stream or consumer removes from others; raises the request errors."""
    config: Config = json.loads(change.body_json)
    match change.action:
        case "create_stream":
            return await upstreams_and_republish_loss(client, config)
        case "create_consumer":
            return await _delivery_loss(client, config)
        case _:
            return NO_LOSS


async def upstreams_and_republish_loss(
    client: Client, config: Config, asset: Asset | None = None
) -> Loss:
    """Return what the sources, mirror or republishing of a configuration delete.

    A new source or mirror may delete messages of the copied stream, and of the copying one.
    `asset` is the stream before an edit. Raises the request errors.
    """
    before = {} if asset is None else asset.config
    loss = NO_LOSS
    for upstream in _find_added_upstreams(config, before):
        loss += await _upstream_loss(client, upstream, config, asset)
    loss += await _removed_upstreams_loss(client, _find_added_upstreams(before, config))
    if asset is not None and _may_have_refused_messages(asset, config):
        new_upstreams = _find_added_upstreams(config, before)
        for upstream in _list_upstreams(config):
            if upstream not in new_upstreams:
                loss += await _resumed_source_loss(client, upstream, config, asset)
    source, destination = (text_at(config, f"republish.{key}") for key in ("src", "dest"))
    if destination and config.get("republish") != before.get("republish"):
        subject = stored_filter(source or ">", source or ">", destination)
        loss += await _side_effects_loss(client, "each message that it republishes", subject)
    return loss


def _may_have_refused_messages(asset: Asset, config: Config) -> bool:
    """Return whether a stream may have refused messages of its sources that it accepts after an
    edit.
    """
    before, after = normalize_stream(asset.config), normalize_stream(config)
    max_msgs, max_size_bytes = number_at(before, "max_msgs"), number_at(before, "max_msg_size")
    max_msgs_per_subject = number_at(before, "max_msgs_per_subject")
    is_full = text_at(before, "discard") == "new" and (
        0 < max_msgs <= asset.stream_info.state.messages
        # The next message may have been too big for the rest, or of a subject that is full.
        or number_at(before, "max_bytes") > 0
        or (max_msgs_per_subject > 0 and is_on(before, "discard_new_per_subject"))
    )
    changed_fields = [key for key in _ACCEPTANCE_FIELDS if before.get(key) != after.get(key)]
    return bool(is_full and changed_fields) or (
        max_size_bytes > 0 and "max_msg_size" in changed_fields
    )


_ACCEPTANCE_FIELDS = (
    "discard", "discard_new_per_subject", "max_msgs", "max_bytes", "max_msg_size",
    "max_msgs_per_subject",
)  # fmt: skip
"""Fields that decide which messages a stream accepts."""


async def _resumed_source_loss(
    client: Client, upstream: Config, config: Config, asset: Asset
) -> Loss:
    """Return what is removed if an edited stream accepts messages of a source that it refused."""
    name = str(upstream["name"])
    try:
        info = await _upstream_info(client, upstream)
    except NotFound:
        return NO_LOSS
    except (PermissionDenied, RequestFailed):
        waiting_msgs, are_acked_deleted = None, True
    else:
        # How far it has copied is unknown: its lag is only that of the last copied message.
        waiting_msgs = info.state.messages
        are_acked_deleted = text_at(info.read_config(), "retention") in ACK_RETENTIONS
    if waiting_msgs == 0:
        return NO_LOSS
    limited_stream = LimitedStream(config, asset.stream_info.state, {}, has_all_subjects=False)
    # Their sizes are unknown: any limit of bytes may be reached.
    removed_messages = limited_stream.count_removed(
        PlannedMessages(waiting_msgs, number_at(config, "max_bytes") + 1)
    )
    lines, lost_msgs = list[str](), removed_messages.existing_msgs
    if lost_msgs:
        lost_text = counted(f"{lost_msgs:,}", "message")
        text = f"it accepts more messages of {name}, for which its limits remove up to {lost_text}"
        lines.append(text)
    if are_acked_deleted and limited_stream.drops_messages:
        moved_msgs_text = "messages"
        if waiting_msgs is not None:
            moved_msgs_text = f"up to {counted(f'{waiting_msgs:,}', 'message')}"
        lines.append(f"{moved_msgs_text} of {name} may move to it, where its limits remove some")
        return Loss(tuple(lines), None, grows_until_confirmed=True)
    return Loss(tuple(lines), lost_msgs, grows_until_confirmed=bool(lines))


async def _upstream_info(
    client: Client, upstream: Config, body: Config | None = None
) -> StreamRow:
    """Return the STREAM.INFO of a source or mirror; raises the request errors."""
    name, prefix = str(upstream["name"]), text_at(upstream, "external.api")
    if prefix:
        verb = f"STREAM.INFO.{name}"
        data = await request_api(client, prefix, verb, body or {})
        check_shape(verb, data)
        return read_stream(data)
    return await client.stream_info(name, body)


async def _delivery_loss(client: Client, config: Config, before: Config | None = None) -> Loss:
    """Return the side effects of the deliveries of a push consumer; raises the request errors."""
    subject = text_at(config, "deliver_subject")
    if not subject or subject == text_at(before or {}, "deliver_subject"):
        return NO_LOSS
    return await _side_effects_loss(client, "each message that it delivers", subject)


async def _side_effects_loss(client: Client, messages_text: str, subject: str) -> Loss:
    side_effects_text = await describe_side_effects(client, [subject])
    return Loss((f"{messages_text}: {side_effects_text}",)) if side_effects_text else NO_LOSS


async def _upstream_loss(
    client: Client, upstream: Config, config: Config, asset: Asset | None
) -> Loss:
    """Return what one new source or mirror of a stream removes.

    A work queue deletes messages that are copied from it, unless one of its consumers needs them.
    Roll-ups remove messages of the stream, and so do its limits. Raises the request errors.
    """
    name, subject_filter = str(upstream["name"]), str(upstream.get("filter_subject") or ">")
    prefix = text_at(upstream, "external.api")
    try:
        info = await _upstream_info(client, upstream, {"subjects_filter": subject_filter})
    except NotFound:
        return NO_LOSS
    except (PermissionDenied, RequestFailed) as error:
        if not prefix and not isinstance(error, PermissionDenied):
            raise
        reason_text = (
            f"{name} cannot be read ({error})"
            if prefix
            else f"you have no permission to read {name}"
        )
        text = f"{reason_text}: if it is a work queue, it is emptied"
        return Loss((text,), None) + _new_source_loss(name, None, None, config, asset)
    page_msgs = sum((info.state.subjects or {}).values())
    # If there are more subjects than a page has, not all are counted.
    added_msgs = info.state.messages if subject_filter == ">" else page_msgs
    loss = _new_source_loss(name, info, added_msgs, config, asset)
    retention = text_at(info.read_config(), "retention")
    if consumer := text_at(upstream, "consumer.name"):
        return loss + await _copying_consumer_loss(client, name, consumer, prefix, retention)
    if retention != "workqueue":
        return loss
    # Consumers of another system are not listed: its messages may be moved.
    filters = [] if prefix else await consumer_filters(client, name)
    if any(contains(consumer_filter, subject_filter) for consumer_filter in filters):
        return loss
    return loss + Loss(
        (work_queue_copy_text(name, added_msgs),), added_msgs, grows_until_confirmed=True
    )


async def _copying_consumer_loss(
    client: Client, stream: str, consumer: str, prefix: str, retention: str
) -> Loss:
    """Return what is removed if another stream copies messages by a consumer, which acks them."""
    try:
        if prefix:
            verb = f"CONSUMER.INFO.{stream}.{consumer}"
            data = await request_api(client, prefix, verb, {})
            check_shape(verb, data)
            info = read_consumer(data)
        else:
            info = await client.consumer_info(stream, consumer)
    except NotFound:
        return NO_LOSS
    except PermissionDenied:
        text = f"{consumer} of {stream} cannot be read: what waits for it may be moved for good"
        return Loss((text,), None)
    lines, moved_msgs = list[str](), 0
    if info.push_bound:
        lines.append(f"{consumer} of {stream} is in use: others do not get what is copied by it")
    if retention != "limits":
        moved_msgs = _count_waiting_msgs(info)
        moved_text_start = f"what waits for {consumer} from now on is"
        if moved_msgs:
            text = counted(f"{moved_msgs:,}", "message")
            moved_text_start = f"up to {text} waiting for {consumer} {is_or_are(moved_msgs)}"
        lines.append(f"{moved_text_start} moved out of {stream} for good")
    return Loss(tuple(lines), moved_msgs, grows_until_confirmed=True) if lines else NO_LOSS


async def _removed_upstreams_loss(client: Client, removed_upstreams: list[Config]) -> Loss:
    """Return what is deleted if a stream no longer copies others; raises the request errors.

    Interest retention deletes messages that only the copying still needs.
    """
    loss = NO_LOSS
    for upstream in removed_upstreams:
        if text_at(upstream, "consumer.name"):
            # The consumer stays, and keeps the messages.
            continue
        name, prefix = str(upstream["name"]), text_at(upstream, "external.api")
        try:
            info = await _upstream_info(client, upstream)
        except NotFound:
            continue
        except (PermissionDenied, RequestFailed) as error:
            if not prefix and not isinstance(error, PermissionDenied):
                raise
            text = f"{name} cannot be read: with interest retention it loses what waits there"
            loss += Loss((text,), None)
            continue
        waiting_msgs = info.state.messages
        if waiting_msgs and text_at(info.read_config(), "retention") == "interest":
            text = f"up to {counted(f'{waiting_msgs:,}', 'message')} of {name} that only this "
            text += f"stream still copies {is_or_are(waiting_msgs)} removed for good"
            # These are not messages of the changed stream, which are counted separately.
            loss += Loss((text,), grows_until_confirmed=True)
    return loss


def _new_source_loss(
    name: str, info: StreamRow | None, added_msgs: int | None, config: Config, asset: Asset | None
) -> Loss:
    """Return how many messages of a stream are removed if another stream becomes its source.

    `info` is the STREAM.INFO of the source and `added_msgs` its messages; both None if unknown.
    """
    stored_msgs = 0 if asset is None else asset.stream_info.state.messages
    if asset is None or not stored_msgs or added_msgs == 0:
        return NO_LOSS
    may_roll_up = info is None or is_on(info.read_config(), "allow_rollup_hdrs")
    if may_roll_up and is_on(config, "allow_rollup_hdrs"):
        text = f"roll-ups of {name} remove up to {counted(f'{stored_msgs:,}', 'message')} of it"
        return Loss((text,), stored_msgs)
    stored_bytes = 0 if info is None else info.state.bytes
    limited_stream = LimitedStream(config, asset.stream_info.state, {}, has_all_subjects=False)
    removed_msgs = limited_stream.count_removed(
        PlannedMessages(added_msgs, stored_bytes)
    ).existing_msgs
    if not removed_msgs:
        return NO_LOSS
    removed_text = counted(f"{removed_msgs:,}", "message")
    text = f"with the messages of {name}, its limits remove up to {removed_text} of it"
    return Loss((text,), removed_msgs)


def work_queue_copy_text(stream: str, max_msgs: int) -> str:
    """Return the clause about the messages that copying removes from a work queue.

    `max_msgs` is their maximum number; 0: only later messages.
    """
    if not max_msgs:
        return f"what the work queue {stream} gets from now on is moved out of it for good"
    text = f"up to {counted(f'{max_msgs:,}', 'message')} of the work queue {stream}"
    return f"{text} {is_or_are(max_msgs)} moved out of it for good"


def local_upstreams(config: Config) -> set[tuple[str, str]]:
    """Return name and filter of each stream of this account that a stream copies."""
    return {
        (str(upstream["name"]), str(upstream.get("filter_subject") or ">"))
        for upstream in _list_upstreams(config)
        if not upstream.get("external")
    }


def _list_upstreams(config: Config) -> list[Config]:
    """Return the mirror and the sources of a stream."""
    return [*filter(None, [config.get("mirror"), *(config.get("sources") or ())])]


def _find_added_upstreams(config: Config, before: Config) -> list[Config]:
    """Return the mirror and sources that are new or changed; the server copies these from their
    start.
    """
    keys_before = {_upstream_key(upstream) for upstream in _list_upstreams(before)}
    return [
        upstream
        for upstream in _list_upstreams(config)
        if _upstream_key(upstream) not in keys_before
    ]


def _upstream_key(upstream: Config) -> str:
    field_names = ("name", "filter_subject", "subject_transforms", "external", "consumer")
    return json.dumps([upstream.get(key) or None for key in field_names], sort_keys=True)


def _stream_deletion_loss(asset: Asset) -> Loss:
    state = asset.stream_info.state
    stored_messages = StoredMessages(state.messages, state.bytes)
    lines = [removed_messages_text(stored_messages.total_msgs, stored_messages)]
    if state.consumer_count:
        lines.append(f"{counted(state.consumer_count, 'consumer')} with it")
    return Loss(tuple(lines), stored_messages.total_msgs, grows_until_confirmed=True)


def members_of(asset: Asset) -> list[str]:
    """Return the servers with a replica of a stream, the leader first."""
    cluster = asset.stream_info.cluster
    leader, peers = leader_of(cluster, None), [peer.name for peer in replicas_of(cluster)]
    return [*([leader] if leader else []), *(peer for peer in peers if peer != leader)]


def _replica_loss(stream: str, asset: Asset, peer: str) -> Loss:
    """Return the risk of removing the replica on the server `peer`; others keep the messages.

    Raises UsageError for a server without a replica, for the only replica, and if no other replica
    is complete and reachable.
    """
    state, members = asset.stream_info.state, members_of(asset)
    if peer not in members:
        server_names = ", ".join(members) or "no server with a known name"
        raise UsageError(f"{peer or 'no server'} has no copy of {stream}: it is on {server_names}")
    if len(members) < 2:
        raise UsageError(
            f"{peer} has the only copy of {stream}: all messages would be lost; scale it first, "
            "or move it"
        )
    replicas = replicas_of(asset.stream_info.cluster)
    other_replicas = [replica for replica in replicas if replica.name != peer]
    silent_members = [
        replica.name for replica in other_replicas if has_lost_leader_contact(replica)
    ]
    incomplete_members = [
        f"{replica.name} ({counted(f'{replica.lag:,}', 'operation')} behind)"
        if replica.lag
        else replica.name
        for replica in other_replicas
        if not has_lost_leader_contact(replica) and not replica.current
    ]
    reachable_others_count = len(members) - 1 - len(silent_members)
    silent_members_text = (
        f"{', '.join(silent_members)} {'has' if len(silent_members) == 1 else 'have'}"
    )
    if not reachable_others_count:
        raise UsageError(
            f"{peer} has the only copy of {stream} that replies: {silent_members_text} no contact "
            "to its leader, and all messages would be lost; scale it first, or move it"
        )
    if reachable_others_count == len(incomplete_members):
        raise UsageError(
            f"{peer} has the only complete copy of {stream} that replies: of the others, "
            f"{', '.join(incomplete_members)} {is_or_are(len(incomplete_members))} not "
            "complete, and messages would be lost; wait until one is"
        )
    stored_text = f"{counted(state.messages, 'message')}, {bytes_text(state.bytes)}"
    lines = [f"the copy on {peer} ({stored_text}) is deleted"]
    if members[0] == peer:
        lines.append(f"{peer} leads it: publishers wait until another one does")
    lines.append(
        f"until another server has copied all of it, there {is_or_are(reachable_others_count)} "
        f"{counted(reachable_others_count, 'copy')}"
    )
    if silent_members:
        lines.append(f"{silent_members_text} no contact to its leader, and may not have all of it")
    if incomplete_members:
        lines.append(f"not complete: {', '.join(incomplete_members)}")
    return Loss(tuple(lines))


async def _sole_consumers_loss(client: Client, stream: str, asset: Asset, peer: str) -> Loss:
    """Return what is lost of consumers whose only replica is on the server `peer`."""
    if not asset.stream_info.state.consumer_count:
        return NO_LOSS
    try:
        rows = [row async for row in client.consumer_rows(stream)]
    except PermissionDenied:
        return Loss((f"the delivery state of consumers that are only on {peer} is lost",))
    is_durable_by_name = {
        row.name: bool(text_at(row.read_config(), "durable_name"))
        for row in rows
        if leader_of(row.cluster, None) == peer and not replicas_of(row.cluster)
    }
    durable_names = ", ".join(name for name in is_durable_by_name if is_durable_by_name[name])
    ephemeral_names = ", ".join(
        name for name in is_durable_by_name if not is_durable_by_name[name]
    )
    lines = (
        [f"only on {peer}, so their delivery state is lost: {durable_names}"]
        if durable_names
        else []
    )
    lines += [f"only on {peer}, so they are deleted: {ephemeral_names}"] if ephemeral_names else []
    return Loss(tuple(lines))


async def _message_loss(client: Client, stream: str, seq: object) -> Loss:
    """Return the loss of one deleted message; raises NotFound if it does not exist."""
    try:
        reply = json.loads(await client.request(f"STREAM.MSG.GET.{stream}", {"seq": seq}))
    except NotFound as error:
        raise NotFound(f"{stream} has no message {seq}", err_code=error.err_code) from error
    except PermissionDenied:
        return Loss((f"1 message, {seq}, is removed for good",), 1)
    subject = str(reply["message"].get("subject", ""))
    return Loss((f"1 message, {seq} of {subject}, is removed for good",), 1)


def _lost_delivery_state_text(name: str, asset: Asset) -> str:
    info = asset.consumer_info
    waiting_text = f"{info.num_ack_pending:,} waiting for an acknowledgement"
    pending_text = f"{info.num_pending:,} unprocessed"
    return f"the delivery state of {name} is lost: {pending_text}, {waiting_text}"


async def _reset_loss(client: Client, change: Change, asset: Asset, arguments: Config) -> Loss:
    """Return the loss of a consumer's reset: its delivery state, and messages that it skips."""
    lines = [_lost_delivery_state_text(change.consumer or "", asset)]
    first_seq = asset.consumer_info.ack_floor.stream_seq + 1
    last_seq = number_at(arguments, "seq") - 1
    if last_seq < first_seq:
        return Loss(tuple(lines))
    text = f"sequences {first_seq:,} to {last_seq:,} of {change.stream} are not delivered"
    try:
        stream = await client.stream_info(change.stream)
    except PermissionDenied:
        return Loss((*lines, text))
    end_seq = stream.state.last_seq
    if last_seq > end_seq:
        unstored_msgs = last_seq - max(end_seq, first_seq - 1)
        text += f", {unstored_msgs:,} of them not stored yet: its last is {end_seq:,}"
    lines.append(text)
    skipped_msgs = 0
    if text_at(stream.read_config(), "retention") == "interest":
        skipped_msgs = max(0, min(last_seq, end_seq) - first_seq + 1)
        _, needed_msgs = await _count_needed(client, change, asset)
        skipped_msgs = min(needed_msgs, skipped_msgs)
    if skipped_msgs:
        lines.append(_needed_only_by_consumer_text(skipped_msgs))
    return Loss(tuple(lines), skipped_msgs)


def _needed_only_by_consumer_text(max_msgs: int) -> str:
    if not max_msgs:
        return NONE_NEEDED_TEXT
    text = counted(f"{max_msgs:,}", "message")
    return f"at most {text} that only it needs {is_or_are(max_msgs)} removed for good"


async def _consumer_deletion_loss(client: Client, change: Change, asset: Asset) -> Loss:
    stream_config, needed_msgs = await _count_needed(client, change, asset)
    lines = [_lost_delivery_state_text(change.consumer or "", asset)]
    if text_at(stream_config, "retention") != "interest":
        return Loss(tuple(lines))
    return Loss(
        (*lines, _needed_only_by_consumer_text(needed_msgs)),
        needed_msgs,
        grows_until_confirmed=True,
    )


async def _count_needed(client: Client, change: Change, asset: Asset) -> tuple[Config, int]:
    """Return the stream's configuration, and how many messages only the consumer may need.

    Only interest retention removes messages that no consumer needs.
    """
    stream, consumer = await client.stream_info(change.stream), asset.consumer_info
    config, state = stream.read_config(), stream.state
    if text_at(config, "retention") != "interest":
        return config, _max_kept_msgs(consumer, state)
    try:
        rows = [row async for row in client.consumer_rows(change.stream)]
    except PermissionDenied:
        return config, state.messages
    other_consumers = [row for row in rows if row.name != change.consumer]
    return config, _count_removed_without(state, [consumer], other_consumers)


def _count_removed_without(
    state: StreamState, consumers: list[ConsumerRow], other_consumers: list[ConsumerRow]
) -> int:
    """Return the maximum number of messages that interest retention removes without `consumers`.

    Messages that no consumer needs, for example from before the stream had interest retention, may
    be removed with any consumer.
    """
    needed_msgs = sum(_max_kept_msgs(consumer, state) for consumer in consumers)
    waiting_msgs = max(map(_count_waiting_msgs, other_consumers), default=0)
    return min(state.messages, max(needed_msgs, state.messages - waiting_msgs))


def _count_waiting_msgs(consumer: ConsumerRow) -> int:
    return consumer.num_pending + consumer.num_ack_pending


def _max_kept_msgs(consumer: ConsumerRow, state: StreamState) -> int:
    """Return the maximum number of messages that a consumer keeps in an interest stream.

    Messages above its ack floor that were dropped after max deliver count too, even if max deliver
    was removed later.
    """
    unacked_msgs = consumer.num_ack_pending
    if text_at(consumer.read_config(), "ack_policy") != "none":
        kept_from_seq = max(consumer.ack_floor.stream_seq + 1, state.first_seq)
        unacked_msgs = max(unacked_msgs, consumer.delivered.stream_seq - kept_from_seq + 1)
    return min(state.messages, consumer.num_pending + unacked_msgs)


async def _added_filter_loss(
    client: Client, change: Change, asset: Asset, arguments: Config
) -> Loss:
    """Return which messages a work queue's consumer skips of the subjects that an edit adds.

    The consumer continues after its last delivery, and no other one may have these subjects.
    """
    before, after = (filters_of(config) or (">",) for config in (asset.config, arguments))
    added_filters = [
        new_filter
        for new_filter in after
        if not any(contains(old_filter, new_filter) for old_filter in before)
    ]
    delivered_seq = asset.consumer_info.delivered.stream_seq
    if not added_filters or not delivered_seq:
        return NO_LOSS
    stream_info = await client.stream_info(change.stream)
    is_work_queue = text_at(stream_info.read_config(), "retention") == "workqueue"
    if not is_work_queue or stream_info.state.first_seq > delivered_seq:
        return NO_LOSS
    filters_text = ", ".join(added_filters)
    text = f"messages of {filters_text} up to sequence {delivered_seq:,} are not delivered"
    return Loss((f"{text}: it has delivered until there",))


async def _read_stored(
    client: Client, stream: str, asset: Asset, wanted_config: Config
) -> StoredMessages:
    """Return the counts of messages that an edit could delete, requesting only the needed ones."""
    old_config, new_config = normalize_stream(asset.config), normalize_stream(wanted_config)
    state = asset.stream_info.state
    expired_msgs: int | None = 0
    if lowers_max_age(old_config, new_config):
        expired_msgs = await _count_older_seqs(
            client, stream, asset.stream_info, number_at(new_config, "max_age")
        )
    excess_msgs = None
    if not lowers_msgs_per_subject(old_config, new_config):
        excess_msgs = 0
    elif state.num_subjects <= _MAX_SUBJECTS:
        subjects_info = await client.stream_info(stream, {"subjects_filter": ">"})
        msgs_by_subject = subjects_info.state.subjects or {}
        max_msgs = number_at(new_config, "max_msgs_per_subject")
        excess_msgs = sum(max(0, count - max_msgs) for count in msgs_by_subject.values())
    changes_limits = wanted_config.get("consumer_limits") != asset.config.get("consumer_limits")
    consumers = (
        [row async for row in client.consumer_rows(stream)]
        if changes_limits or sets_interest_retention(old_config, new_config)
        else []
    )
    acked_msgs = (
        max(0, state.messages - max(map(_count_waiting_msgs, consumers), default=0))
        if sets_interest_retention(old_config, new_config)
        else 0
    )
    version = client.link.server_version
    if not consumers and is_version_in(version, VERSIONS_KEEPING_UNCONSUMED_MSGS):
        acked_msgs = 0
    deletes_excess_later = adds_limit_per_subject(old_config, new_config) and is_version_in(
        version, VERSIONS_LIMITING_SUBJECTS_LATE
    )
    consumers_without_threshold = [
        row for row in consumers if not row.read_config().get("inactive_threshold")
    ]
    needed_msgs = 0
    if consumers_without_threshold and text_at(new_config, "retention") == "interest":
        other_consumers = [row for row in consumers if row not in consumers_without_threshold]
        needed_msgs = _count_removed_without(state, consumers_without_threshold, other_consumers)
    msgs_with_ttl: int | None = 0
    if state.messages and enables_message_ttl(old_config, new_config):
        msgs_with_ttl = await _count_with_ttl(client, stream, state)
    return StoredMessages(
        state.messages, state.bytes, expired_msgs, state.num_deleted > 0, excess_msgs,
        deletes_excess_later, acked_msgs, len(consumers_without_threshold), needed_msgs,
        msgs_with_ttl,
    )  # fmt: skip


async def _count_with_ttl(client: Client, stream: str, state: StreamState) -> int | None:
    """Return how many stored messages have a TTL, as copied messages may.

    None without permission, or if there are more than 2,000 sequences to read.
    """
    first_seq, end_seq = state.first_seq, state.last_seq + 1
    if end_seq - first_seq > _MAX_READ_MSGS:
        return None
    count = 0
    try:
        for start_seq in range(first_seq, end_seq, _READ_AT_ONCE_MSGS):
            seqs = range(start_seq, min(start_seq + _READ_AT_ONCE_MSGS, end_seq))
            count += sum(await asyncio.gather(*(_has_ttl_at(client, stream, seq) for seq in seqs)))
    except PermissionDenied:
        return None
    return count


async def _has_ttl_at(client: Client, stream: str, seq: int) -> bool:
    """Return whether a stream has a message with this sequence and a TTL."""
    try:
        reply = json.loads(await client.request(f"STREAM.MSG.GET.{stream}", {"seq": seq}))
    except NotFound:
        return False
    return has_ttl(base64.b64decode(reply["message"].get("hdrs") or ""))


async def _count_older_seqs(
    client: Client, stream: str, info: StreamRow, max_age_ns: int
) -> int | None:
    """Return how many sequences are older than `max_age_ns`; None without permission."""
    # By the server's clock, by which messages expire; servers before 2.10 do not send it.
    state, oldest_kept_us = info.state, info.server_at_us - max_age_ns // 1000
    low_seq, high_seq = state.first_seq, state.last_seq + 1
    try:
        while low_seq < high_seq and state.messages:
            middle_seq = (low_seq + high_seq) // 2
            message = await _next_message(client, stream, middle_seq)
            if message is not None and time_us(message["time"]) < oldest_kept_us:
                low_seq = message["seq"] + 1
            else:
                high_seq = middle_seq
    except PermissionDenied:
        return None
    return low_seq - state.first_seq


async def _next_message(client: Client, stream: str, seq: int) -> Config | None:
    """Return the first message at or after a sequence; None without one."""
    try:
        body = {"seq": seq, "next_by_subj": ">"}
        message: Config = json.loads(await client.request(f"STREAM.MSG.GET.{stream}", body))[
            "message"
        ]
    except NotFound:
        return None
    return message


async def _count_purged(
    client: Client, stream: str, arguments: Config
) -> tuple[int, int | None, str]:
    """Return the number of stored messages, how many a purge deletes (None if unknown), and "at
    most " if that is a maximum.
    """
    subject = arguments.get("filter") or None
    state = (await client.stream_info(stream)).state
    stored_msgs = matching_msgs = state.messages
    if subject is not None:
        if state.num_subjects > _MAX_SUBJECTS:
            return stored_msgs, None, ""
        matching_info = await client.stream_info(stream, {"subjects_filter": subject})
        matching_msgs = sum((matching_info.state.subjects or {}).values())
    if arguments.get("keep"):
        return stored_msgs, max(0, matching_msgs - int(arguments["keep"])), ""
    if not arguments.get("seq"):
        return stored_msgs, matching_msgs, ""
    # A stream that never had a message begins at 0.
    first_seq = max(1, state.first_seq)
    below_msgs = max(0, min(int(arguments["seq"]), state.last_seq + 1) - first_seq)
    is_exact = subject is None and not state.num_deleted
    return (
        (stored_msgs, below_msgs, "")
        if is_exact or not below_msgs
        else (stored_msgs, min(below_msgs, matching_msgs), "at most ")
    )
