"""The assets of a run on the server: its stream and consumers, created before and deleted after
it.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from natstui.bench.job.job import consumer_description, remove, sent_subject
from natstui.bench.job.protocol import CreatedStream
from natstui.bench.result.accounting import ConsumerFigures, owed_msgs, read_figures
from natstui.errors import (
    Conflict,
    JetStreamUnavailable,
    NotFound,
    PermissionDenied,
    Refused,
    RequestFailed,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.storing import (
    bucket_changes,
    check_ack_consumer,
    check_domain,
    effects_of,
)
from natstui.jetstream.connection.subject_counts import SubjectCounts, read_subject_counts
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.messages.pull import listening_loss, receiving_loss
from natstui.model.assets.defaults import consumer_request
from natstui.model.assets.fields import is_on
from natstui.model.assets.limits_loss import (
    OVERHEAD_BYTES,
    LimitedStream,
    Publishing,
    destinations_of,
    rolled_up_filters,
    stored_filters,
)
from natstui.model.assets.rules import newer_server
from natstui.model.assets.stream_fields import STREAM_FIELD
from natstui.model.assets.subjects import overlap
from natstui.model.bench.plan import (
    BENCHMARK_STREAM,
    SERVICE_QUEUE,
    BenchmarkPlan,
    Role,
    StreamPlan,
)
from natstui.units import are, counted

_NAME_IN_USE = 10058
_KEPT = StreamPlan("", keep=True)
_IDLE_CONSUMER_S = 60
"""Inactive threshold of consumers: the server deletes them even if natstui is killed."""


@dataclass(frozen=True, slots=True)
class RunTarget:
    """The existing streams and consumers that a run works on."""

    name: str
    """The name to type, if the run must be confirmed."""
    loses: str | None = None
    """Messages of others that it deletes for good: acked ones, or those removed by limits."""
    streams: tuple[str, ...] = ()
    """The existing streams that store its messages, or that it reads."""
    consumer: str | None = None
    """The first existing consumer."""
    stream_created_at_us: int | None = None
    created_at_us: int | None = None
    """Creation time of the consumers that it reads from, else of the stream."""
    notes: tuple[str, ...] = ()
    """What could not be read of what it takes from others."""


@dataclass(frozen=True, slots=True)
class PublishedRemoval:
    """The messages of others that publishing to a stream removes."""

    present_msgs: int = 0
    """Messages that the stream has now, at most."""
    later_ones: bool = False
    """Whether those that others publish until the run ends may be removed, too."""

    def text(self, stream: str) -> str:
        """Return the clause about them, "" if there are none."""
        if self.present_msgs:
            messages_text = counted(f"{self.present_msgs:,}", "message")
            return (
                f"up to {messages_text} of {stream} {are(self.present_msgs)} removed, and those "
                "that others publish until the run ends"
            )
        if self.later_ones:
            return f"messages of {stream} that others publish until the run ends may be removed"
        return ""


@dataclass(frozen=True, slots=True)
class _StoringStream:
    """A stream that stores messages of a run, as it was at the check."""

    info: Mapping[str, Any]
    """Its STREAM.INFO."""
    senders: tuple[Role, ...]
    present: SubjectCounts


@dataclass(slots=True)
class RunAssets:
    """The stream and the consumers of one run."""

    client: Client
    plan: BenchmarkPlan
    run_id: str
    runs_count: int = 1
    """How often the run is repeated: what is removed is counted for all of them."""
    keeps_none: bool = False
    """Whether the stream keeps nothing: interest retention, and no consumer."""
    epoch_ns: int = field(default_factory=time.monotonic_ns)
    """A time before the first message is due."""
    first_seq: int = 1
    """Sequence of the first message stored by this run."""
    oldest_seq: int = 1
    """First sequence of the stream before the run."""
    waiting_msgs: int = 0
    """Messages in the stream before the run."""
    consumers: dict[str, str] = field(default_factory=dict)
    """Role → name of the consumer that its workers share."""
    begun: dict[str, ConsumerFigures] = field(default_factory=dict)
    """Role → the figures of that consumer before the run."""
    own_consumers: list[str] = field(default_factory=list)
    created: dict[str, CreatedStream] = field(default_factory=dict)
    """The streams that the run created, by name."""
    _in_memory: bool = True
    _storing: list[_StoringStream] = field(default_factory=list)
    _largest: dict[str, Role] = field(default_factory=dict)
    """Role → the same with its largest payload so far."""
    _created_at_us: dict[str, int] = field(default_factory=dict)
    """Creation times of the stream and of the shared consumers when they were read first, by API
    verb."""

    @property
    def stream(self) -> str | None:
        """The stream's name on the server: a bucket has a prefix."""
        stream = self.plan.stream
        return None if stream is None else stream_name(stream)

    @property
    def responses(self) -> str | None:
        """Return the name of the stream for responses."""
        return None if self.plan.responses is None else self.plan.responses.name

    def cleanup(self) -> tuple[str, ...]:
        """Return the API verbs that delete everything the run created."""
        is_made = self.responses in self.created
        second = is_made and not (self.plan.responses or _KEPT).keep
        return (
            *self._cleanup_of_stream(),
            *((f"STREAM.DELETE.{self.responses}",) if second else ()),
        )

    @property
    def _removes_stream(self) -> bool:
        return self.stream in self.created and not (self.plan.stream or _KEPT).keep

    def _cleanup_of_stream(self) -> tuple[str, ...]:
        if self._removes_stream:
            return (f"STREAM.DELETE.{self.stream}",)
        return tuple(f"CONSUMER.DELETE.{self.stream}.{name}" for name in self.own_consumers)

    async def build(self) -> None:
        """Create the assets; raises RequestFailed when the server refuses."""
        stream = self.plan.stream
        if stream is None:
            return
        if stream.create:
            self._refuse_newer_patterns()
            await self._create_stream(stream)
        if self.plan.responses is not None:
            await self._create_stream(self.plan.responses)
        info = await self._ask_same(f"STREAM.INFO.{self.stream}")
        await self._check_keys(stream, info)
        self.first_seq = info["state"]["last_seq"] + 1
        self.oldest_seq = max(info["state"]["first_seq"], 1)
        self.waiting_msgs = info["state"]["messages"]
        # A consumer of stored messages shall survive what they survive.
        self._in_memory = info["config"]["storage"] == "memory"
        for role in self.plan.roles:
            if role.traits.has_shared_consumer:
                await self._make_consumer(role)
        self.begun = await self.figures()
        self.keeps_none = (
            info["config"]["retention"] == "interest"
            and not info["state"]["consumer_count"]
            and not self.own_consumers
        )

    async def target(self) -> RunTarget:
        """Return the existing assets that the run publishes to or consumes from.

        Raises Refused if its messages would be requests to the server, or they or its acks would
        be taken in another domain as well.
        """
        self._check_subjects()
        stream = self.plan.stream
        existing = None if stream is None or stream.create else stream_name(stream)
        streams = dict.fromkeys((existing,) if existing else ())
        senders = [role for role in self.plan.roles if role.traits.sends]
        for role in senders:
            await check_domain(self.client, sent_subject(role))
        lines, notes = await self._listening_losses()
        created_at_us = dict[str, int]()
        stored_by = {role.name: await self._storing_streams(role) for role in senders}
        for role in senders:
            lines += await self._unnamed_losses(role, stored_by[role.name])
        streams |= dict.fromkeys(name for names in stored_by.values() for name in names or ())
        consumers = await self._consumers_to_read(existing)
        readers = [role for role in self.plan.roles if role.traits.has_shared_consumer]
        if any(role.acks != "none" for role in readers):
            for consumer in consumers:
                await check_ack_consumer(self.client, str(existing), consumer)
        for name in streams:
            own_senders = [role for role in senders if name in (stored_by[role.name] or ())]
            try:
                info = await self._ask(f"STREAM.INFO.{name}")
                if stream is not None and name == existing:
                    await self._check_keys(stream, info)
                present = await self._present(info, own_senders)
            except PermissionDenied:
                if name == existing:
                    raise
                lines.append(
                    f"messages of {name} may be removed: you have no permission to read its limits"
                )
                continue
            created_at_us[name] = time_us(info["created"])
            self._storing.append(_StoringStream(info, tuple(own_senders), present))
            most_msgs = self._most_msgs(own_senders, {})
            lines += filter(None, [published_loss(info, own_senders, present, most_msgs)])
            if name == existing:
                lines += await self._consumer_losses(name, consumers)
                lines += await self._own_consumer_losses(name, info)
        # Of several the newest: another one in the place of any is newer.
        times_us = [time_us(info["created"]) for info in consumers.values()]
        times_us = times_us or list(created_at_us.values())
        return RunTarget(
            self._name_to_type(tuple(consumers), tuple(streams), is_loss=bool(lines)),
            " and ".join(dict.fromkeys(lines)) or None,
            tuple(streams),
            next(iter(consumers), None),
            created_at_us.get(existing or next(iter(streams), "")),
            max(times_us, default=None),
            tuple(notes),
        )

    def check_change(self, senders: Iterable[Role], added_counts: Mapping[str, int]) -> None:
        """Raise Refused if a change of the run would remove more messages of others than was said
        before it.

        `senders` are the sending roles with their payload; `added_counts` are the workers that
        were added by hand, by role.
        """
        # What was sent before a change may be larger.
        largest = {
            role.name: max(role, self._largest.get(role.name, role), key=_message_bytes)
            for role in senders
        }
        for stream in self._storing:
            now_senders = [largest.get(role.name, role) for role in stream.senders]
            most_msgs = self._most_msgs(stream.senders, {})
            before = published_removal(stream.info, stream.senders, stream.present, most_msgs)
            most_msgs = self._most_msgs(stream.senders, added_counts)
            after = published_removal(stream.info, now_senders, stream.present, most_msgs)
            if after.present_msgs > before.present_msgs or after.later_ones > before.later_ones:
                raise Refused(
                    f"with this change {after.text(stream.info['config']['name'])}: start a new "
                    "run, which asks before"
                )
        self._largest |= largest

    def _most_msgs(
        self, senders: Iterable[Role], added_counts: Mapping[str, int]
    ) -> dict[str, int] | None:
        """Return the most messages that each role sends in all repetitions; None without a number
        of messages.
        """
        most_msgs = dict[str, int]()
        for role in senders:
            if role.total_msgs is None:
                return None
            added_msgs = added_counts.get(role.name, 0) * (role.total_msgs // role.workers_count)
            most_msgs[role.name] = most_sent_msgs(self.plan, role) * self.runs_count + added_msgs
        return most_msgs

    def _check_subjects(self) -> None:
        for role in self.plan.roles:
            if not role.traits.sends and not role.traits.answers:
                continue
            server_subjects = (f"{self.client.prefix}.>", "$JS.>", "$SYS.>")
            if any(overlap(sent_subject(role), subject) for subject in server_subjects):
                raise Refused(
                    f"{role.subject} is for requests to the server: a benchmark cannot use it"
                )

    def _name_to_type(
        self, consumers: tuple[str, ...], streams: tuple[str, ...], *, is_loss: bool
    ) -> str:
        stream = self.plan.stream
        if stream is not None and not consumers:
            return stream_name(stream)
        role_subject = next(
            (role.subject for role in self.plan.roles if role.subject), self.plan.title
        )
        return next(iter((*consumers, *(streams if is_loss else ()))), role_subject)

    async def _consumers_to_read(self, stream: str | None) -> dict[str, dict[str, Any]]:
        """Return the INFO of an existing stream's consumers that the run reads from."""
        if stream is None:
            return {}
        roles = [role for role in self.plan.roles if role.traits.has_shared_consumer]
        names = dict.fromkeys(role.consumer for role in roles if role.consumer is not None)
        return {name: await self._ask(f"CONSUMER.INFO.{stream}.{name}") for name in names}

    async def _listening_losses(self) -> tuple[list[str], list[str]]:
        """Return a clause for the push consumers without a listener whose messages its
        subscribers would receive, and a note where these are not known.
        """
        subjects_by_queue: dict[str, list[str]] = {}
        for role in self.plan.roles:
            if (role.traits.receives and not role.traits.consumes) or role.traits.answers:
                queue = subscribed_queue(role, self.run_id)
                subjects_by_queue.setdefault(queue, []).append(sent_subject(role))
        losses: list[str | None] = []
        for queue, subjects in subjects_by_queue.items():
            try:
                losses.append(await listening_loss(self.client, subjects, queue))
            except RequestFailed as error:
                return [], [f"not known whether this takes messages of push consumers: {error}"]
        return list(filter(None, losses)), []

    async def _consumer_losses(
        self, stream: str, consumers: dict[str, dict[str, Any]]
    ) -> list[str]:
        """Return a clause for each existing consumer whose messages are taken for good: acked, or
        delivered for the last time.
        """
        losses: list[str | None] = []
        for name, info in consumers.items():
            count = info.get("num_pending", 0) + info.get("num_ack_pending", 0)
            if any(role.consumer == name and role.acks != "none" for role in self.plan.roles):
                losses.append(_taken_text(count, f"consumer {name}", "acknowledged"))
                continue
            # Without acks nothing is known to be processed: ack policy none is the loss then.
            acks = None if info["config"].get("ack_policy") == "none" else False
            losses.append(await receiving_loss(self.client, stream, info, None, acks=acks))
        return list(filter(None, losses))

    async def _own_consumer_losses(self, stream: str, info: dict[str, Any]) -> list[str]:
        """Return a clause for the messages that consumers of the run's own remove; `info` is the
        STREAM.INFO.
        """
        roles = [role for role in self.plan.roles if role.traits.consumes]
        if all(role.consumer is not None for role in roles):
            return []
        held_msgs, retention = info["state"]["messages"], info["config"]["retention"]
        if retention == "workqueue":
            return [_taken_text(held_msgs, stream, "consumed")]
        if retention != "interest" or not held_msgs:
            return []
        unneeded_msgs = held_msgs - await self._needed_msgs(stream)
        if unneeded_msgs <= 0:
            return []
        messages_text = counted(f"{unneeded_msgs:,}", "message")
        return [
            f"up to {messages_text} of {stream} that no other consumer needs "
            f"{are(unneeded_msgs)} removed"
        ]

    async def _needed_msgs(self, stream: str) -> int:
        """Return how many messages one of the present consumers still needs, at least; 0 if that
        may not be read.
        """
        needed_msgs = 0
        try:
            async for page in self.client.pages(f"CONSUMER.LIST.{stream}"):
                for info in json.loads(page).get("consumers") or ():
                    needed_msgs = max(needed_msgs, info["num_pending"] + info["num_ack_pending"])
        except PermissionDenied:
            return 0
        return needed_msgs

    async def _unnamed_losses(self, role: Role, streams: tuple[str, ...] | None) -> list[str]:
        """Return a clause for the keys and objects that a role's messages change, or that it is
        unknown what they remove.
        """
        effects = await effects_of(self.client, destinations_of(role.payload.headers))
        if effects is not None:
            return [effects]
        is_bucket = self.plan.stream is not None and self.plan.stream.history_count is not None
        # What puts keys is meant for them.
        if streams != () and not is_bucket:
            changes = await bucket_changes(self.client, [sent_subject(role)])
            if changes is not None:
                return [changes]
        if streams is not None:
            return []
        return [
            "messages may be removed: you have no permission to read which streams store "
            f"{sent_subject(role)}"
        ]

    async def _storing_streams(self, role: Role) -> tuple[str, ...] | None:
        """Return the streams that store a role's messages; empty without JetStream, None for a
        user who may not ask.
        """
        try:
            reply = await self.client.request("STREAM.NAMES", {"subject": sent_subject(role)})
        except JetStreamUnavailable:
            return ()
        except PermissionDenied:
            return None
        return tuple(json.loads(reply).get("streams") or ())

    async def _present(self, info: Mapping[str, Any], senders: list[Role]) -> SubjectCounts:
        """Return the messages of a stream by subject, for what is published to it.

        `info` is its STREAM.INFO.
        """
        config = info["config"]
        pages = [
            await read_subject_counts(self.client, config["name"], subject_filter)
            for subject_filter in stored_filters(config, map(sent_subject, senders))
        ]
        msgs = {subject: count for page in pages for subject, count in page.msgs.items()}
        return SubjectCounts(msgs, sum(page.left_count for page in pages))

    async def remove(self, own_msgs: Mapping[str, int]) -> tuple[str, ...]:
        """Delete the created assets, and return those that were kept; ignores deleted ones.

        `own_msgs` are the messages that its workers have published, by stream: a stream with more
        has messages of others.
        """
        kept_assets = list[str]()
        for verb in (*self.cleanup(), *await self._left_behind()):
            with contextlib.suppress(NotFound):
                kept_assets.append(await remove(self.client, verb, self.created, own_msgs))
        return tuple(filter(None, kept_assets))

    async def _left_behind(self) -> tuple[str, ...]:
        """Return the verbs that delete consumers created by killed workers."""
        if self.stream is None or self._removes_stream:
            return ()
        names: list[str] = []
        async for data in self.client.pages(f"CONSUMER.LIST.{self.stream}"):
            names += [
                consumer["name"] or consumer["config"]["name"]
                for consumer in json.loads(data).get("consumers") or []
                if consumer["config"].get("description") == consumer_description(self.run_id)
            ]
        return tuple(f"CONSUMER.DELETE.{self.stream}.{name}" for name in names)

    async def stored_msgs(self) -> int | None:
        """Return how many messages the stream stored since the start of the run.

        Raises Conflict for a stream that was recreated meanwhile.
        """
        if self.stream is None:
            return None
        info = await self._ask_same(f"STREAM.INFO.{self.stream}")
        last_seq: int = info["state"]["last_seq"]
        return max(last_seq + 1 - self.first_seq, 0)

    async def dropped_msgs(self) -> int:
        """Return how many messages the stream has dropped; raises Conflict as `stored_msgs`."""
        state = (await self._ask_same(f"STREAM.INFO.{self.stream}"))["state"]
        ever: int = state["last_seq"] + 1 - self.first_seq + self.waiting_msgs
        messages: int = state["messages"]
        return ever - messages

    async def pending(self) -> tuple[int, int] | None:
        """Return (not delivered, not acked) of the shared consumers; None without any."""
        if not self.consumers:
            return None
        figures = (await self.figures()).values()
        return sum(consumer.pending_msgs for consumer in figures), sum(
            consumer.ack_pending_msgs for consumer in figures
        )

    async def figures(self) -> dict[str, ConsumerFigures]:
        """Return the current figures of the shared consumers, by role.

        Raises Conflict for one that was recreated meanwhile.
        """
        return {
            role: read_figures(await self._ask_same(f"CONSUMER.INFO.{self.stream}.{name}"))
            for role, name in self.consumers.items()
        }

    def owed_msgs(self, role: Role, stored_msgs: int | None) -> int | None:
        """Return how many messages the readers of a role should receive; None if unknown."""
        if role.name in self.begun:
            return owed_msgs(self.begun[role.name], stored_msgs)
        return None if stored_msgs is None else stored_msgs + self.waiting_msgs

    def _refuse_newer_patterns(self) -> None:
        """Raise Refused for a pattern whose stream this server does not support."""
        for role in self.plan.roles:
            switch = role.traits.stream_switch
            if switch is not None and not _knows(self.client.api_level, switch):
                raise Refused(f"{role.pattern}: {newer_server(STREAM_FIELD[switch])}")

    async def _create_stream(self, stream: StreamPlan) -> None:
        """Create the run's own stream: a second run must not use it, nor delete it."""
        name = stream_name(stream)
        # Without the run in it, the server would take it for the stream that is there already.
        config = stream_config(stream, self.client.api_level)
        config["metadata"] = {"natstui_run": self.run_id}
        try:
            reply = await self.client.request(f"STREAM.CREATE.{name}", config)
        except RequestFailed as error:
            if error.err_code != _NAME_IN_USE:
                raise
            raise Refused(
                f"stream {name} exists, and a benchmark removes what it creates: name another with"
                f" --stream, or work on {name} (--stream {name} without --create, or create ="
                " false in a scenario)"
            ) from error
        self.created[name] = CreatedStream(
            json.loads(reply).get("created", ""), tuple(config["subjects"])
        )

    async def _check_keys(self, bucket: StreamPlan, info: dict[str, Any]) -> None:
        """Raise Refused if the run would overwrite keys of a bucket that no benchmark created."""
        if bucket.history_count is None or info["config"].get("description") == BENCHMARK_STREAM:
            return
        for role in self.plan.roles:
            if not role.traits.sends:
                continue
            body = {"subjects_filter": f"{role.subject}.*"}
            reply = await self.client.request(f"STREAM.INFO.{self.stream}", body)
            keys = json.loads(reply)["state"].get("subjects")
            if keys:
                key = min(keys).removeprefix(f"$KV.{bucket.name}.")
                raise Refused(
                    f"bucket {bucket.name} has keys that this benchmark would overwrite, such as"
                    f" {key}: name another with --bucket, or none"
                )

    async def _make_consumer(self, role: Role) -> None:
        if role.consumer is not None:
            await self._ask(f"CONSUMER.INFO.{self.stream}.{role.consumer}")
            self.consumers[role.name] = role.consumer
            return
        name = f"natstui-{self.run_id}-{role.name}"
        config = consumer_config(role, name, f"_natstui.{name}")
        config["mem_storage"] = self._in_memory
        await self.client.request(*consumer_request(self.stream or "", name, config, "create"))
        self.own_consumers.append(name)
        self.consumers[role.name] = name

    async def _ask(self, verb: str) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(await self.client.request(verb))
        return reply

    async def _ask_same(self, verb: str) -> dict[str, Any]:
        """Return the INFO of a stream or consumer; raises Conflict if it is another one now."""
        info = await self._ask(verb)
        created_at_us = time_us(info["created"])
        if self._created_at_us.setdefault(verb, created_at_us) != created_at_us:
            is_consumer = verb.startswith("CONSUMER.")
            name = f"consumer {info['name']} of {self.stream}" if is_consumer else self.stream
            raise Conflict(
                f"{name} was deleted and recreated during the run: what it had before is missing"
            )
        return info


def stream_name(stream: StreamPlan) -> str:
    """Return the name of the stream on the server: that of a bucket has a prefix."""
    return stream.name if stream.history_count is None else f"KV_{stream.name}"


def _knows(api_level: int | None, switch: str) -> bool:
    return api_level is None or STREAM_FIELD[switch].api_level_count <= api_level


def stream_config(stream: StreamPlan, api_level: int | None = None) -> dict[str, Any]:
    """Return the configuration of a stream or bucket that is created for a run.

    Servers since 2.12 refuse a field that they do not know.
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
        "description": BENCHMARK_STREAM,
    }
    if stream.allow_batches:
        switches = ("allow_atomic", "allow_batched")
        config |= {switch: True for switch in switches if _knows(api_level, switch)}
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
        "inactive_threshold": _IDLE_CONSUMER_S * 10**9,
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


def _taken_text(count: int, owner: str, action: str) -> str:
    """Return the clause about messages that are taken from a consumer or stream for good."""
    if not count:
        return f"messages of {owner} that others publish until the run ends are {action}"
    messages_text = counted(f"{count:,}", "message")
    return (
        f"up to {messages_text} of {owner} {are(count)} {action}, and those that others publish "
        "until the run ends"
    )


def new_run_id() -> str:
    """Return a short id of a run, sortable by time and unique across hosts."""
    return f"{time.time_ns() // 1_000_000:x}{secrets.token_hex(4)}"


def subscribed_queue(role: Role, run_id: str) -> str:
    """Return the queue group in which a role's workers receive, empty without one.

    Receivers of other runs share none with them.
    """
    if role.traits.answers:
        return role.queue or SERVICE_QUEUE
    return f"{role.queue}-{run_id}" if role.queue is not None else ""


def most_sent_msgs(plan: BenchmarkPlan, role: Role) -> int:
    """Return how many messages a role sends in one run, with the workers that the plan adds."""
    added_count = sum(fault.kind == "add" and fault.role == role.name for fault in plan.faults)
    total_msgs = role.total_msgs or 0
    return total_msgs + added_count * (total_msgs // role.workers_count)


def published_loss(
    info: Mapping[str, Any],
    senders: Sequence[Role],
    present: SubjectCounts,
    most_msgs: Mapping[str, int] | None,
) -> str | None:
    """Return the clause about messages of a stream that publishing to it removes, or None.

    The arguments are those of `published_removal`.
    """
    removal = published_removal(info, senders, present, most_msgs)
    return removal.text(info["config"]["name"]) or None


def published_removal(
    info: Mapping[str, Any],
    senders: Sequence[Role],
    present: SubjectCounts,
    most_msgs: Mapping[str, int] | None,
) -> PublishedRemoval:
    """Return the messages of a stream that publishing to it removes.

    `info` is its STREAM.INFO; `present` has the subjects that are published to, or some of them;
    `most_msgs` are the most messages of each role, None without a number of messages. Limits
    remove the oldest messages, and a roll-up those before it. A stream that a benchmark created
    has nothing to lose.
    """
    config, state = info["config"], info["state"]
    if config.get("description") == BENCHMARK_STREAM:
        return PublishedRemoval()
    # Without a number of messages it ends by time, and reaches any limit.
    msgs = None if most_msgs is None else sum(most_msgs.values())
    stored_bytes = sum(
        (most_msgs or {}).get(role.name, 0) * _message_bytes(role) for role in senders
    )
    limited_stream = LimitedStream(config, state, present.msgs, present.is_last)
    publishing = Publishing(msgs, stored_bytes)
    limited_msgs = limited_stream.removed(publishing).others_msgs
    rolled_up_msgs = _rolled_up(config, state["messages"], senders, present)
    return PublishedRemoval(
        max(limited_msgs, rolled_up_msgs or 0),
        rolled_up_msgs is not None or limited_stream.removes_later_ones(publishing),
    )


def _message_bytes(role: Role) -> int:
    payload = role.payload
    headers_bytes = sum(len(name) + len(value) + 4 for name, value in payload.headers)
    return max(payload.size_bytes, payload.size_max_bytes or 0) + headers_bytes + OVERHEAD_BYTES


def _rolled_up(
    config: Mapping[str, Any],
    stored_msgs: int,
    senders: Sequence[Role],
    present: SubjectCounts,
) -> int | None:
    """Return how many messages roll-ups remove; None if there is none."""
    if not is_on(config, "allow_rollup_hdrs") and not is_on(config, "allow_msg_schedules"):
        return None
    filters = {
        subject_filter
        for role in senders
        for subject_filter in rolled_up_filters(sent_subject(role), role.payload.headers)
    }
    if not filters:
        return None
    if not present.is_last or not filters <= {sent_subject(role) for role in senders}:
        return stored_msgs
    return sum(present.msgs.values())
