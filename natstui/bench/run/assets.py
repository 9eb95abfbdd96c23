"""Creates the streams and consumers of a run, reads them during it, and deletes them after it."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from natstui.bench.job.job import consumer_description, delete_asset, sent_subject
from natstui.bench.job.protocol import CreatedStream
from natstui.bench.result.accounting import ConsumerFigures, deliverable_msgs, make_figures
from natstui.errors import (
    ActionRefusal,
    Conflict,
    ConnectionLost,
    JetStreamUnavailable,
    NatstuiError,
    NotFound,
    PermissionDenied,
    RequestFailed,
    RequestTimedOut,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.consumers import ConsumerRow
from natstui.jetstream.connection.decode.streams import StreamRow, read_stream
from natstui.jetstream.connection.storing import (
    check_ack_consumer,
    check_domain,
    describe_bucket_changes,
    describe_side_effects,
)
from natstui.jetstream.connection.subject_counts import SubjectCounts, read_subject_counts
from natstui.jetstream.messages.pull import describe_listening_loss, describe_receiving_loss
from natstui.model.assets.defaults import consumer_request
from natstui.model.assets.fields import Config, is_on
from natstui.model.assets.limits_loss import (
    MAX_MESSAGE_OVERHEAD_BYTES,
    LimitedStream,
    PlannedMessages,
    find_target_subjects,
    rolled_up_filters,
    stored_filters,
)
from natstui.model.assets.rules import newer_server_text
from natstui.model.assets.stream_fields import STREAM_FIELD_BY_PATH
from natstui.model.assets.subjects import overlap
from natstui.model.bench.plan import (
    BENCHMARK_STREAM_DESCRIPTION,
    SERVICE_QUEUE_GROUP,
    BenchmarkPlan,
    Role,
    StreamPlan,
)
from natstui.units import counted, is_or_are

_NAME_IN_USE_ERR_CODE = 10058
_NO_STREAM_TO_DELETE = StreamPlan("", keep=True)
_INACTIVE_THRESHOLD_S = 3600
"""Inactive threshold of consumers: the server deletes them even if natstui is killed. It is longer
than the start of as many workers as a run may have, and a pause, in which no worker pulls.
"""


class RunTarget(Struct, frozen=True):
    """The existing streams and consumers that a run works on."""

    name: str
    """The name to type, if the run must be confirmed."""
    loss_text: str | None = None
    """A text about messages of others that the run removes, by acks or by limits of streams."""
    streams: tuple[str, ...] = ()
    """The names of the existing streams that store its messages, or that it reads."""
    consumer: str | None = None
    """The name of the first existing consumer that it reads from."""
    stream_created_at_us: int | None = None
    created_at_us: int | None = None
    """Creation time (UTC µs) of the newest consumer that it reads from, else of a stream."""
    notes: tuple[str, ...] = ()
    """Sentences about losses of others that could not be read."""


class PublishedRemoval(Struct, frozen=True):
    """The messages of others that publishing to a stream removes."""

    present_msgs: int = 0
    """Number of messages that the stream has now and that may be removed, at most."""
    includes_later_msgs: bool = False
    """Whether messages that others publish until the run ends may be removed, too."""

    def text(self, stream: str) -> str:
        """Return a clause about the removed messages of `stream`; "" if there are none."""
        if self.present_msgs:
            messages_text = counted(f"{self.present_msgs:,}", "message")
            return (
                f"up to {messages_text} of {stream} {is_or_are(self.present_msgs)} removed, and "
                "those that others publish until the run ends"
            )
        if self.includes_later_msgs:
            return f"messages of {stream} that others publish until the run ends may be removed"
        return ""


class _StoringStream(Struct, frozen=True):
    """An existing stream that stores messages of the run, as it was when the run was checked."""

    info: StreamRow
    senders: tuple[Role, ...]
    subject_counts: SubjectCounts


@dataclass(slots=True)
class RunAssets:
    """The stream and the consumers of one run."""

    client: Client
    plan: BenchmarkPlan
    run_id: str
    runs_count: int = 1
    """How many repetitions the run has: removed messages are counted for all of them."""
    keeps_no_messages: bool = False
    """Whether the stream keeps no messages: it has interest retention and no consumer."""
    epoch_ns: int = field(default_factory=time.monotonic_ns)
    """A time (CLOCK_MONOTONIC) before the first message is due."""
    first_seq: int = 1
    """Sequence of the first message stored by this run."""
    oldest_seq: int = 1
    """First sequence of the stream before the run."""
    waiting_msgs: int = 0
    """Number of messages in the stream before the run."""
    consumers: dict[str, str] = field(default_factory=dict)
    """Role → name of the consumer that its workers share."""
    start_figures_by_role: dict[str, ConsumerFigures] = field(default_factory=dict)
    """Role → the figures of its shared consumer before the run."""
    created_consumers: list[str] = field(default_factory=list)
    """Names of the consumers that the run created."""
    created_streams: dict[str, CreatedStream] = field(default_factory=dict)
    """The streams that the run created, by name."""
    _unconfirmed_subjects: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name → subjects of a stream that may have been created: its creation got no reply."""
    _is_in_memory_storage: bool = True
    _max_inactive_ns: int | None = None
    """The longest inactive threshold (ns) that the stream allows; None without a limit."""
    _checked_streams: list[_StoringStream] = field(default_factory=list)
    _largest_sender_by_role: dict[str, Role] = field(default_factory=dict)
    """Name of a role → the role with its largest payload so far."""
    _created_at_us_by_name: dict[str, int] = field(default_factory=dict)
    """Name of a stream, or `consumer NAME of STREAM` → creation time (UTC µs) in the first
    reply.
    """

    @property
    def stream(self) -> str | None:
        """Return the name of the stream on the server; that of a bucket has a prefix."""
        stream = self.plan.stream
        return None if stream is None else stream_name(stream)

    @property
    def response_stream(self) -> str | None:
        """Return the name of the stream for responses; None without one."""
        return None if self.plan.responses is None else self.plan.responses.name

    def delete_verbs(self) -> tuple[str, ...]:
        """Return the API verbs that delete the streams and consumers that the run created."""
        has_responses = self.response_stream in self.created_streams
        deletes_responses = (
            has_responses and not (self.plan.responses or _NO_STREAM_TO_DELETE).keep
        )
        return (
            *self._stream_cleanup_verbs(),
            *((f"STREAM.DELETE.{self.response_stream}",) if deletes_responses else ()),
        )

    @property
    def _removes_stream(self) -> bool:
        return (
            self.stream in self.created_streams
            and not (self.plan.stream or _NO_STREAM_TO_DELETE).keep
        )

    def _stream_cleanup_verbs(self) -> tuple[str, ...]:
        if self._removes_stream:
            return (f"STREAM.DELETE.{self.stream}",)
        return tuple(f"CONSUMER.DELETE.{self.stream}.{name}" for name in self.created_consumers)

    async def create(self) -> None:
        """Create the streams and consumers, and read their state before the run.

        Raises ActionRefusal if a stream exists or the server is too old, and RequestFailed if the
        server refuses.
        """
        stream = self.plan.stream
        if stream is None:
            return
        if stream.create:
            self._refuse_newer_patterns()
            await self._create_stream(stream)
        if self.plan.responses is not None:
            await self._create_stream(self.plan.responses)
        info = await self._read_stream_unless_recreated()
        config, state = info.read_config(), info.state
        await self._refuse_overwriting_keys(stream, config)
        self.first_seq = state.last_seq + 1
        self.oldest_seq = max(state.first_seq, 1)
        self.waiting_msgs = state.messages
        # A consumer of stored messages must survive what they survive.
        self._is_in_memory_storage = config["storage"] == "memory"
        consumer_limits = config.get("consumer_limits") or {}
        self._max_inactive_ns = consumer_limits.get("inactive_threshold") or None
        for role in self.plan.roles:
            if role.traits.has_shared_consumer:
                await self._create_consumer(role)
        self.start_figures_by_role = await self.read_consumer_figures()
        self.keeps_no_messages = (
            config["retention"] == "interest"
            and not state.consumer_count
            and not self.created_consumers
        )

    async def find_target(self) -> RunTarget:
        """Return the existing assets that the run publishes to or consumes from.

        Raises ActionRefusal if its messages would be requests to the server, or if its messages or
        acks would also reach another domain.
        """
        self._refuse_server_subjects()
        stream = self.plan.stream
        existing_stream = None if stream is None or stream.create else stream_name(stream)
        streams = dict.fromkeys((existing_stream,) if existing_stream else ())
        senders = [role for role in self.plan.roles if role.traits.sends]
        for role in senders:
            await check_domain(self.client, sent_subject(role))
        loss_texts, notes = await self._subscription_losses()
        created_at_us = dict[str, int]()
        streams_by_role = {role.name: await self._storing_streams(role) for role in senders}
        for role in senders:
            loss_texts += await self._side_effect_losses(role, streams_by_role[role.name])
        streams |= dict.fromkeys(
            name for names in streams_by_role.values() for name in names or ()
        )
        consumers = await self._consumers_to_read(existing_stream)
        shared_consumer_roles = [
            role for role in self.plan.roles if role.traits.has_shared_consumer
        ]
        if any(role.acks != "none" for role in shared_consumer_roles):
            for consumer in consumers:
                await check_ack_consumer(self.client, str(existing_stream), consumer)
        for name in streams:
            own_senders = [role for role in senders if name in (streams_by_role[role.name] or ())]
            try:
                info = await self.client.stream_info(name)
                if stream is not None and name == existing_stream:
                    await self._refuse_overwriting_keys(stream, info.read_config())
                subject_counts = await self._read_subject_counts(info, own_senders)
            except PermissionDenied:
                if name == existing_stream:
                    raise
                loss_texts.append(
                    f"messages of {name} may be removed: you have no permission to read its limits"
                )
                continue
            created_at_us[name] = info.created_at_us
            self._checked_streams.append(_StoringStream(info, tuple(own_senders), subject_counts))
            max_msgs_by_role = self._max_msgs_by_role(own_senders, {})
            loss_texts += filter(
                None, [published_loss(info, own_senders, subject_counts, max_msgs_by_role)]
            )
            if name == existing_stream:
                loss_texts += await self._consumer_losses(name, consumers)
                loss_texts += await self._own_consumer_losses(name, info)
        # The newest creation time: a consumer or stream that was recreated later has a newer one.
        times_us = [info.created_at_us for info in consumers.values()]
        times_us = times_us or list(created_at_us.values())
        return RunTarget(
            self._name_to_confirm(tuple(consumers), tuple(streams), is_loss=bool(loss_texts)),
            " and ".join(dict.fromkeys(loss_texts)) or None,
            tuple(streams),
            next(iter(consumers), None),
            created_at_us.get(existing_stream or next(iter(streams), "")),
            max(times_us, default=None),
            tuple(notes),
        )

    def check_change(self, senders: Iterable[Role], added_counts: Mapping[str, int]) -> None:
        """Raise ActionRefusal if a change would remove more messages of others than was confirmed.

        `senders` are the sending roles with their payloads; `added_counts` are the workers that
        were added by hand, by role.
        """
        # What was sent before a change may be larger.
        largest_by_role = {
            role.name: max(
                role, self._largest_sender_by_role.get(role.name, role), key=_message_bytes
            )
            for role in senders
        }
        for stream in self._checked_streams:
            largest_senders = [largest_by_role.get(role.name, role) for role in stream.senders]
            max_msgs_by_role = self._max_msgs_by_role(stream.senders, {})
            removal_before = published_removal(
                stream.info, stream.senders, stream.subject_counts, max_msgs_by_role
            )
            max_msgs_by_role = self._max_msgs_by_role(stream.senders, added_counts)
            removal_after = published_removal(
                stream.info, largest_senders, stream.subject_counts, max_msgs_by_role
            )
            if (
                removal_after.present_msgs > removal_before.present_msgs
                or removal_after.includes_later_msgs > removal_before.includes_later_msgs
            ):
                raise ActionRefusal(
                    f"with this change {removal_after.text(stream.info.name)}: "
                    "start a new run, which must be confirmed before"
                )
        self._largest_sender_by_role |= largest_by_role

    def _max_msgs_by_role(
        self, senders: Iterable[Role], added_counts: Mapping[str, int]
    ) -> dict[str, int] | None:
        """Return the maximum of messages that each role sends in all repetitions, by role.

        None if a role has no number of messages.
        """
        max_msgs_by_role = dict[str, int]()
        for role in senders:
            if role.total_msgs is None:
                return None
            added_msgs = added_counts.get(role.name, 0) * (role.total_msgs // role.workers_count)
            max_msgs_by_role[role.name] = (
                max_sent_msgs(self.plan, role) * self.runs_count + added_msgs
            )
        return max_msgs_by_role

    def _refuse_server_subjects(self) -> None:
        for role in self.plan.roles:
            if not role.traits.sends and not role.traits.replies:
                continue
            server_subjects = (f"{self.client.prefix}.>", "$JS.>", "$SYS.>")
            if any(overlap(sent_subject(role), subject) for subject in server_subjects):
                raise ActionRefusal(
                    f"{role.subject} is for requests to the server: a benchmark cannot use it"
                )

    def _name_to_confirm(
        self, consumers: tuple[str, ...], streams: tuple[str, ...], *, is_loss: bool
    ) -> str:
        stream = self.plan.stream
        if stream is not None and not consumers:
            return stream_name(stream)
        role_subject = next(
            (role.subject for role in self.plan.roles if role.subject), self.plan.title
        )
        return next(iter((*consumers, *(streams if is_loss else ()))), role_subject)

    async def _consumers_to_read(self, stream: str | None) -> dict[str, ConsumerRow]:
        """Return the CONSUMER.INFO of the existing consumers that the run reads from, by name."""
        if stream is None:
            return {}
        roles = [role for role in self.plan.roles if role.traits.has_shared_consumer]
        names = dict.fromkeys(role.consumer for role in roles if role.consumer is not None)
        return {name: await self.client.consumer_info(stream, name) for name in names}

    async def _subscription_losses(self) -> tuple[list[str], list[str]]:
        """Return the losses of push consumers to the run's subscribers, and notes.

        A loss is a clause about push consumers without a subscriber, whose messages the run would
        receive. A note reports that they could not be read.
        """
        subjects_by_queue: dict[str, list[str]] = {}
        for role in self.plan.roles:
            if (role.traits.receives and not role.traits.consumes) or role.traits.replies:
                queue = subscribed_queue(role, self.run_id)
                subjects_by_queue.setdefault(queue, []).append(sent_subject(role))
        losses: list[str | None] = []
        for queue, subjects in subjects_by_queue.items():
            try:
                losses.append(await describe_listening_loss(self.client, subjects, queue))
            except RequestFailed as error:
                return [], [f"unknown whether push consumers lose messages: {error}"]
        return list(filter(None, losses)), []

    async def _consumer_losses(self, stream: str, consumers: dict[str, ConsumerRow]) -> list[str]:
        """Return a clause for each existing consumer that loses messages to the run.

        A message is lost when it is acked, or delivered for the last time.
        """
        losses: list[str | None] = []
        for name, info in consumers.items():
            count = info.num_pending + info.num_ack_pending
            if any(role.consumer == name and role.acks != "none" for role in self.plan.roles):
                losses.append(_consumed_msgs_text(count, f"consumer {name}", "acknowledged"))
                continue
            # Without acks nothing is known to be processed: ack policy none is the loss then.
            acks = None if info.read_config().get("ack_policy") == "none" else False
            losses.append(
                await describe_receiving_loss(self.client, stream, info, None, acks=acks)
            )
        return list(filter(None, losses))

    async def _own_consumer_losses(self, stream: str, info: StreamRow) -> list[str]:
        """Return a clause about the messages that consumers created by the run remove, if any."""
        roles = [role for role in self.plan.roles if role.traits.consumes]
        if all(role.consumer is not None for role in roles):
            return []
        stored_msgs, retention = info.state.messages, info.read_config()["retention"]
        if retention == "workqueue":
            return [_consumed_msgs_text(stored_msgs, stream, "consumed")]
        if retention != "interest" or not stored_msgs:
            return []
        unneeded_msgs = stored_msgs - await self._needed_msgs(stream)
        if unneeded_msgs <= 0:
            return []
        messages_text = counted(f"{unneeded_msgs:,}", "message")
        return [
            f"up to {messages_text} of {stream} that no other consumer needs "
            f"{is_or_are(unneeded_msgs)} removed"
        ]

    async def _needed_msgs(self, stream: str) -> int:
        """Return the largest number of messages that one existing consumer has not acked.

        0 without permission to list the consumers.
        """
        try:
            rows = [row async for row in self.client.consumer_rows(stream)]
        except PermissionDenied:
            return 0
        return max((row.num_pending + row.num_ack_pending for row in rows), default=0)

    async def _side_effect_losses(self, role: Role, streams: tuple[str, ...] | None) -> list[str]:
        """Return a clause about the keys and objects that a role's messages change, if any.

        If `streams`, which store the messages, is None, the clause states that they are unknown.
        """
        effects_text = await describe_side_effects(
            self.client, find_target_subjects(role.payload.headers)
        )
        if effects_text is not None:
            return [effects_text]
        is_bucket = self.plan.stream is not None and self.plan.stream.history_count is not None
        # What puts keys is meant for them.
        if streams != () and not is_bucket:
            changes = await describe_bucket_changes(self.client, [sent_subject(role)])
            if changes is not None:
                return [changes]
        if streams is not None:
            return []
        return [
            "messages may be removed: you have no permission to read which streams store "
            f"{sent_subject(role)}"
        ]

    async def _storing_streams(self, role: Role) -> tuple[str, ...] | None:
        """Return the names of the streams that store a role's messages.

        Empty without JetStream, None without the permission to request them.
        """
        try:
            reply = await self.client.request("STREAM.NAMES", {"subject": sent_subject(role)})
        except JetStreamUnavailable:
            return ()
        except PermissionDenied:
            return None
        return tuple(json.loads(reply).get("streams") or ())

    async def _read_subject_counts(self, info: StreamRow, senders: list[Role]) -> SubjectCounts:
        """Return the numbers of messages of a stream by the subjects that `senders` publish to."""
        pages = [
            await read_subject_counts(self.client, info.name, subject_filter)
            for subject_filter in stored_filters(info.read_config(), map(sent_subject, senders))
        ]
        msgs = {
            subject: count for page in pages for subject, count in page.msgs_by_subject.items()
        }
        return SubjectCounts(msgs, sum(page.later_subjects_count for page in pages))

    async def remove(self, own_msgs_by_stream: Mapping[str, int]) -> tuple[str, ...]:
        """Delete the assets that the run created; return a sentence for each stream that is kept.

        A stream with more messages than the workers published to it (`own_msgs_by_stream`) is
        kept: it has messages of others. Consumers that cannot be deleted expire.
        """
        kept_stream_texts = [
            await self._find_unconfirmed_stream(name) for name in self._unconfirmed_subjects
        ]
        kept_stream_texts += [
            await self._delete_asset(verb, own_msgs_by_stream) for verb in self.delete_verbs()
        ]
        with contextlib.suppress(NatstuiError):
            for verb in await self._leftover_verbs():
                await self._delete_asset(verb, own_msgs_by_stream)
        return tuple(filter(None, kept_stream_texts))

    async def _find_unconfirmed_stream(self, name: str) -> str:
        """Add a stream whose creation got no reply to `created_streams`, if this run created it.

        Returns a sentence if that cannot be read, else "".
        """
        try:
            info = await self.client.stream_info(name)
        except NatstuiError as error:
            return (
                f"the creation of stream {name} got no reply, so it may exist later: {error}: "
                f"natstui stream rm {name} removes it"
            )
        if (info.read_config().get("metadata") or {}).get("natstui_run") == self.run_id:
            subjects = self._unconfirmed_subjects[name]
            self.created_streams[name] = CreatedStream(info.created, subjects)
        return ""

    async def _delete_asset(self, verb: str, own_msgs_by_stream: Mapping[str, int]) -> str:
        """Delete an asset by an API verb; return why it is kept if it is a stream, else ""."""
        try:
            return await delete_asset(self.client, verb, self.created_streams, own_msgs_by_stream)
        except NotFound:
            return ""
        except NatstuiError as error:
            kind, _, name = verb.partition(".DELETE.")
            if kind != "STREAM":
                return ""
            return (
                f"stream {name} could not be deleted: {error}: natstui stream rm {name} removes it"
            )

    async def _leftover_verbs(self) -> tuple[str, ...]:
        """Return the API verbs that delete the consumers that killed workers left."""
        if self.stream is None or self._removes_stream:
            return ()
        names = [
            consumer.name
            async for consumer in self.client.consumer_rows(self.stream)
            if consumer.read_config().get("description") == consumer_description(self.run_id)
        ]
        return tuple(f"CONSUMER.DELETE.{self.stream}.{name}" for name in names)

    async def read_stored_msgs(self) -> int | None:
        """Return how many messages the stream stored since the start of the run; None without one.

        Raises Conflict if the stream was recreated meanwhile.
        """
        if self.stream is None:
            return None
        info = await self._read_stream_unless_recreated()
        return max(info.state.last_seq + 1 - self.first_seq, 0)

    async def read_dropped_msgs(self) -> int:
        """Return how many messages the stream has removed, including those from before the run.

        Raises Conflict if the stream was recreated meanwhile.
        """
        state = (await self._read_stream_unless_recreated()).state
        return state.last_seq + 1 - self.first_seq + self.waiting_msgs - state.messages

    async def read_pending(self) -> tuple[int, int] | None:
        """Return the sums of pending and ack pending of the shared consumers; None without one."""
        if not self.consumers:
            return None
        figures = (await self.read_consumer_figures()).values()
        return sum(consumer.pending_msgs for consumer in figures), sum(
            consumer.ack_pending_msgs for consumer in figures
        )

    async def read_consumer_figures(self) -> dict[str, ConsumerFigures]:
        """Return the current figures of the shared consumers, by role.

        Raises Conflict if one was recreated meanwhile.
        """
        return {
            role: make_figures(await self._read_consumer_unless_recreated(name))
            for role, name in self.consumers.items()
        }

    def deliverable_msgs(self, role: Role, stored_msgs: int | None) -> int | None:
        """Return how many messages the workers of a role should receive; None if unknown.

        `stored_msgs` are the messages stored during the run.
        """
        if role.name in self.start_figures_by_role:
            return deliverable_msgs(self.start_figures_by_role[role.name], stored_msgs)
        return None if stored_msgs is None else stored_msgs + self.waiting_msgs

    def _refuse_newer_patterns(self) -> None:
        """Raise ActionRefusal for a pattern that needs a newer server."""
        for role in self.plan.roles:
            stream_option = role.traits.required_stream_option
            if stream_option is not None and not _supports_field(
                self.client.api_level, stream_option
            ):
                raise ActionRefusal(
                    f"{role.pattern}: {newer_server_text(STREAM_FIELD_BY_PATH[stream_option])}"
                )

    async def _create_stream(self, stream: StreamPlan) -> None:
        """Create a stream of the run; raises ActionRefusal if one of this name exists."""
        name = stream_name(stream)
        # Without the run in it, the server would accept an equal stream that exists already.
        config = stream_config(stream, self.client.api_level)
        config["metadata"] = {"natstui_run": self.run_id}
        try:
            reply = await self.client.request(f"STREAM.CREATE.{name}", config)
        except (RequestTimedOut, ConnectionLost) as error:
            if not isinstance(error, ConnectionLost) or error.sent:
                self._unconfirmed_subjects[name] = tuple(config["subjects"])
            raise
        except RequestFailed as error:
            if error.err_code != _NAME_IN_USE_ERR_CODE:
                raise
            raise ActionRefusal(
                f"stream {name} exists, and a benchmark removes what it creates: name another with"
                f" --stream, or work on {name} (--stream {name} without --create, or create ="
                " false in a scenario)"
            ) from error
        self.created_streams[name] = CreatedStream(
            read_stream(reply).created, tuple(config["subjects"])
        )

    async def _refuse_overwriting_keys(self, bucket: StreamPlan, config: Config) -> None:
        """Raise ActionRefusal if the run would overwrite keys of a bucket that no benchmark
        created.
        """
        if (
            bucket.history_count is None
            or config.get("description") == BENCHMARK_STREAM_DESCRIPTION
        ):
            return
        for role in self.plan.roles:
            if not role.traits.sends:
                continue
            request_body = {"subjects_filter": f"{role.subject}.*"}
            info = await self.client.stream_info(stream_name(bucket), request_body)
            if keys := info.state.subjects:
                first_key = min(keys).removeprefix(f"$KV.{bucket.name}.")
                raise ActionRefusal(
                    f"bucket {bucket.name} has keys that this benchmark would overwrite, such as"
                    f" {first_key}: name another with --bucket, or none"
                )

    async def _create_consumer(self, role: Role) -> None:
        if role.consumer is not None:
            await self.client.consumer_info(str(self.stream), role.consumer)
            self.consumers[role.name] = role.consumer
            return
        name = f"natstui-{self.run_id}-{role.name}"
        config = consumer_config(role, name, f"_natstui.{name}")
        config["mem_storage"] = self._is_in_memory_storage
        if self._max_inactive_ns is not None:
            config["inactive_threshold"] = min(config["inactive_threshold"], self._max_inactive_ns)
        await self.client.request(*consumer_request(self.stream or "", name, config, "create"))
        self.created_consumers.append(name)
        self.consumers[role.name] = name

    async def _read_stream_unless_recreated(self) -> StreamRow:
        """Return the INFO of the stream; raises Conflict if it was recreated."""
        info = await self.client.stream_info(str(self.stream))
        self._check_not_recreated(info.name, info.created_at_us)
        return info

    async def _read_consumer_unless_recreated(self, consumer: str) -> ConsumerRow:
        """Return the INFO of a consumer; raises Conflict if it was recreated."""
        info = await self.client.consumer_info(str(self.stream), consumer)
        self._check_not_recreated(f"consumer {consumer} of {self.stream}", info.created_at_us)
        return info

    def _check_not_recreated(self, name: str, created_at_us: int) -> None:
        if self._created_at_us_by_name.setdefault(name, created_at_us) != created_at_us:
            raise Conflict(
                f"{name} was deleted and recreated during the run: what it had before is missing"
            )


def stream_name(stream: StreamPlan) -> str:
    """Return the name of the stream on the server: that of a bucket has a prefix."""
    return stream.name if stream.history_count is None else f"KV_{stream.name}"


def _supports_field(api_level: int | None, field_name: str) -> bool:
    return api_level is None or STREAM_FIELD_BY_PATH[field_name].needed_api_level <= api_level


def stream_config(stream: StreamPlan, api_level: int | None = None) -> dict[str, Any]:
    """Return the configuration of a stream or bucket that is created for a run.

    Fields newer than `api_level` are left out, because servers since 2.12 refuse unknown fields.
    """
    config: dict[str, Any] = {
        "name": stream_name(stream),
        "subjects": list(stream.subjects),
        "storage": stream.storage,
        "num_replicas": stream.replicas_count,
        "retention": stream.retention,
        "discard": stream.discard,
        "max_msgs": -1 if stream.max_msgs is None else stream.max_msgs,
        "max_bytes": -1 if stream.max_bytes is None else stream.max_bytes,
        "allow_direct": True,
        "description": BENCHMARK_STREAM_DESCRIPTION,
    }
    if stream.allow_batches:
        stream_options = ("allow_atomic", "allow_batched")
        config |= {option: True for option in stream_options if _supports_field(api_level, option)}
    if stream.duplicate_window_s is not None:
        config["duplicate_window"] = round(stream.duplicate_window_s * 1e9)
    if stream.history_count is not None:
        config |= {
            "subjects": [f"$KV.{stream.name}.>"],
            "max_msgs_per_subject": stream.history_count,
            "deny_delete": True,
            "allow_rollup_hdrs": True,
            "discard": "new",
        }
    return config


def consumer_config(role: Role, name: str, deliver_subject: str) -> dict[str, Any]:
    """Return the configuration of the consumer that a role's workers share."""
    acks = "explicit" if role.acks == "double" else role.acks
    config: dict[str, Any] = {
        "name": name,
        "durable_name": name,
        "ack_policy": acks,
        "deliver_policy": "all",
        "inactive_threshold": _INACTIVE_THRESHOLD_S * 10**9,
    }
    if acks != "none":
        config["ack_wait"] = round(role.ack_wait_s * 1e9)
        config["max_ack_pending"] = role.max_ack_pending_msgs
    if role.traits.is_push:
        config["deliver_subject"] = deliver_subject
        config["idle_heartbeat"] = 5 * 10**9
        if role.workers_count > 1:
            config["deliver_group"] = name
            del config["idle_heartbeat"]
        else:
            config["flow_control"] = True
    return config


def _consumed_msgs_text(count: int, owner: str, action: str) -> str:
    """Return a clause about `count` messages of a consumer or stream that the run consumes.

    `owner` is the text for the consumer or stream, `action` what happens, such as `consumed`.
    """
    if not count:
        return f"messages of {owner} that others publish until the run ends are {action}"
    messages_text = counted(f"{count:,}", "message")
    return (
        f"up to {messages_text} of {owner} {is_or_are(count)} {action}, and those that others "
        "publish until the run ends"
    )


def new_run_id() -> str:
    """Return a short id of a run, sortable by time and unique across hosts."""
    return f"{time.time_ns() // 1_000_000:x}{secrets.token_hex(4)}"


def subscribed_queue(role: Role, run_id: str) -> str:
    """Return the queue group of a role's workers, "" without one.

    The group of receivers has the run's id, so that receivers of other runs are in another group.
    """
    if role.traits.replies:
        return role.queue or SERVICE_QUEUE_GROUP
    return f"{role.queue}-{run_id}" if role.queue is not None else ""


def max_sent_msgs(plan: BenchmarkPlan, role: Role) -> int:
    """Return the maximum of messages that a role sends in one run, with its added workers."""
    added_count = sum(fault.kind == "add" and fault.role == role.name for fault in plan.faults)
    total_msgs = role.total_msgs or 0
    return total_msgs + added_count * (total_msgs // role.workers_count)


def published_loss(
    info: StreamRow,
    senders: Sequence[Role],
    subject_counts: SubjectCounts,
    max_msgs_by_role: Mapping[str, int] | None,
) -> str | None:
    """Return the clause about messages of a stream that publishing to it removes, or None.

    The parameters are those of `published_removal`.
    """
    removal = published_removal(info, senders, subject_counts, max_msgs_by_role)
    return removal.text(info.name) or None


def published_removal(
    info: StreamRow,
    senders: Sequence[Role],
    subject_counts: SubjectCounts,
    max_msgs_by_role: Mapping[str, int] | None,
) -> PublishedRemoval:
    """Return the messages of a stream that publishing to it removes.

    `info` is that of the stream; `subject_counts` has the subjects that are published to, or
    some of them; `max_msgs_by_role` is None without a number of messages. Limits remove the oldest
    messages, and a roll-up the messages before it. A stream that a benchmark created loses none.
    """
    config, state = info.read_config(), info.state
    if config.get("description") == BENCHMARK_STREAM_DESCRIPTION:
        return PublishedRemoval()
    # Without a number of messages it ends by time, and reaches any limit.
    msgs = None if max_msgs_by_role is None else sum(max_msgs_by_role.values())
    stored_bytes = sum(
        (max_msgs_by_role or {}).get(role.name, 0) * _message_bytes(role) for role in senders
    )
    limited_stream = LimitedStream(
        config, state, subject_counts.msgs_by_subject, subject_counts.is_last
    )
    planned_messages = PlannedMessages(msgs, stored_bytes)
    removed_by_limits_msgs = limited_stream.count_removed(planned_messages).existing_msgs
    rolled_up_msgs = _count_rolled_up_msgs(config, state.messages, senders, subject_counts)
    return PublishedRemoval(
        max(removed_by_limits_msgs, rolled_up_msgs or 0),
        rolled_up_msgs is not None
        or limited_stream.may_remove_concurrent_messages(planned_messages),
    )


def _message_bytes(role: Role) -> int:
    payload = role.payload
    headers_bytes = sum(len(name) + len(value) + 4 for name, value in payload.headers)
    return (
        max(payload.size_bytes, payload.size_max_bytes or 0)
        + headers_bytes
        + MAX_MESSAGE_OVERHEAD_BYTES
    )


def _count_rolled_up_msgs(
    config: Mapping[str, Any],
    stored_msgs: int,
    senders: Sequence[Role],
    subject_counts: SubjectCounts,
) -> int | None:
    """Return the maximum of messages that roll-ups remove; None if no message has a roll-up
    header.
    """
    if not is_on(config, "allow_rollup_hdrs") and not is_on(config, "allow_msg_schedules"):
        return None
    published_filters = {
        subject_filter
        for role in senders
        for subject_filter in rolled_up_filters(sent_subject(role), role.payload.headers)
    }
    if not published_filters:
        return None
    if not subject_counts.is_last or not published_filters <= {
        sent_subject(role) for role in senders
    }:
        return stored_msgs
    return sum(subject_counts.msgs_by_subject.values())
