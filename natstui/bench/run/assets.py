"""What a run needs on the server: its stream and consumers, made before and deleted after."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from natstui.bench.job.job import RUN_KEY, made_for, remove
from natstui.bench.result.accounting import ConsumerFigures, owed_msgs, read_figures
from natstui.bench.run.losses import published_loss, sent_subject
from natstui.errors import (
    JetStreamUnavailable,
    NotFound,
    PermissionDenied,
    Refused,
    RequestFailed,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.storing import check_domain
from natstui.jetstream.connection.subject_counts import SubjectCounts, read_subject_counts
from natstui.jetstream.connection.times import time_us
from natstui.model.assets.defaults import consumer_request
from natstui.model.assets.rules import newer_server
from natstui.model.assets.stream_fields import STREAM_FIELD
from natstui.model.assets.subjects import overlap
from natstui.model.bench.plan import BENCHMARK_STREAM, BenchmarkPlan, Role, StreamPlan

_NAME_IN_USE = 10058
_KEPT = StreamPlan("", keep=True)
_IDLE_CONSUMER_S = 60
"""A consumer nobody uses for so long is deleted by the server, whatever happened to us."""


@dataclass(frozen=True, slots=True)
class RunTarget:
    """What a run works on, before it begins."""

    name: str
    """What has to be typed, where the run is confirmed."""
    loses: str | None = None
    """What it takes of others for good: acknowledged, or removed by what is published."""
    streams: tuple[str, ...] = ()
    """The streams that exist already and store what it sends, or that it reads."""
    consumer: str | None = None
    """The first consumer that exists already."""
    stream_created_at_us: int | None = None
    created_at_us: int | None = None
    """When the consumers that it reads from were created, else the stream."""


@dataclass(slots=True)
class RunAssets:
    """The stream and the consumers of one run."""

    client: Client
    plan: BenchmarkPlan
    run_id: str
    epoch_ns: int = field(default_factory=time.monotonic_ns)
    """Before anything is due."""
    first_seq: int = 1
    """Of the first message stored by this run."""
    oldest_seq: int = 1
    """Of the first message in the stream before the run began."""
    waiting_msgs: int = 0
    """In the stream before the run began."""
    consumers: dict[str, str] = field(default_factory=dict)
    """Role → name of the consumer its workers share."""
    begun: dict[str, ConsumerFigures] = field(default_factory=dict)
    """Role → that consumer before the run."""
    own_consumers: list[str] = field(default_factory=list)
    made_stream: bool = False
    made_responses: bool = False
    _in_memory: bool = True

    @property
    def stream(self) -> str | None:
        """The stream's name on the server: a bucket has a prefix."""
        stream = self.plan.stream
        return None if stream is None else stream_name(stream)

    @property
    def responses(self) -> str | None:
        """The name of the stream for responses."""
        return None if self.plan.responses is None else self.plan.responses.name

    def cleanup(self) -> tuple[str, ...]:
        """Return the API verbs that remove everything the run made."""
        second = self.made_responses and not (self.plan.responses or _KEPT).keep
        return (
            *self._cleanup_of_stream(),
            *((f"STREAM.DELETE.{self.responses}",) if second else ()),
        )

    def _cleanup_of_stream(self) -> tuple[str, ...]:
        if self.made_stream and self.plan.stream is not None and not self.plan.stream.keep:
            return (f"STREAM.DELETE.{self.stream}",)
        return tuple(f"CONSUMER.DELETE.{self.stream}.{name}" for name in self.own_consumers)

    async def build(self) -> None:
        """Make what is to be made; raise RequestFailed when the server says no."""
        stream = self.plan.stream
        if stream is None:
            return
        if stream.create:
            self._refuse_newer_patterns()
            await self._create_stream(stream)
            self.made_stream = True
        if self.plan.responses is not None:
            await self._create_stream(self.plan.responses)
            self.made_responses = True
        info = await self._ask(f"STREAM.INFO.{self.stream}")
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

    async def target(self) -> RunTarget:
        """Return what the run publishes to or takes from that is there before it.

        Raises Refused for what would be no load, but requests to the server.
        """
        self._check_subjects()
        stream = self.plan.stream
        existing = None if stream is None or stream.create else stream_name(stream)
        streams = dict.fromkeys((existing,) if existing else ())
        senders = [role for role in self.plan.roles if role.traits.sends]
        for role in senders:
            await check_domain(self.client, sent_subject(role))
        stored_by = {role.name: await self._storing_streams(role) for role in senders}
        streams |= dict.fromkeys(name for names in stored_by.values() for name in names)
        lines, created_at_us = list[str](), dict[str, int]()
        consumers = await self._consumers_to_read(existing)
        for name in streams:
            own = [role for role in senders if name in stored_by[role.name]]
            try:
                info = await self._ask(f"STREAM.INFO.{name}")
                if stream is not None and name == existing:
                    await self._check_keys(stream, info)
                present = await self._present(name, own)
            except PermissionDenied:
                if name == existing:
                    raise
                lines.append(
                    f"messages of {name} may be removed: you have no permission to read its limits"
                )
                continue
            created_at_us[name] = time_us(info["created"])
            lines += filter(None, [published_loss(info, own, present)])
            if name == existing:
                lines += self._taken(name, info, consumers)
        # Of several the newest: another one in the place of any is newer.
        times_us = [time_us(info["created"]) for info in consumers.values()]
        times_us = times_us or list(created_at_us.values())
        return RunTarget(
            self._name_to_type(tuple(consumers), tuple(streams), is_loss=bool(lines)),
            " and ".join(lines) or None,
            tuple(streams),
            next(iter(consumers), None),
            created_at_us.get(existing or next(iter(streams), "")),
            max(times_us, default=None),
        )

    def _check_subjects(self) -> None:
        for role in self.plan.roles:
            if not role.traits.sends and not role.traits.answers:
                continue
            if overlap(sent_subject(role), f"{self.client.prefix}.>"):
                raise Refused(
                    f"{role.subject} is for requests to the server: a benchmark cannot use it"
                )

    def _name_to_type(
        self, consumers: tuple[str, ...], streams: tuple[str, ...], *, is_loss: bool
    ) -> str:
        stream = self.plan.stream
        if stream is not None and not consumers:
            return stream_name(stream)
        plain = next((role.subject for role in self.plan.roles if role.subject), self.plan.title)
        return next(iter((*consumers, *(streams if is_loss else ()))), plain)

    async def _consumers_to_read(self, stream: str | None) -> dict[str, dict[str, Any]]:
        """Return the INFO of the consumers of an existing stream that the run reads through."""
        if stream is None:
            return {}
        roles = [role for role in self.plan.roles if role.traits.has_shared_consumer]
        names = dict.fromkeys(role.consumer for role in roles if role.consumer is not None)
        return {name: await self._ask(f"CONSUMER.INFO.{stream}.{name}") for name in names}

    def _taken(
        self, stream: str, info: dict[str, Any], consumers: dict[str, dict[str, Any]]
    ) -> list[str]:
        """Return a clause for what is acknowledged for good."""
        roles = [role for role in self.plan.roles if role.traits.has_shared_consumer]
        if not any(role.acks != "none" for role in roles):
            return []
        counts = {
            name: consumer.get("num_pending", 0) + consumer.get("num_ack_pending", 0)
            for name, consumer in consumers.items()
        }
        lines = [
            f"up to {count:,} messages of consumer {name} are acknowledged"
            for name, count in counts.items()
            if count
        ]
        count = info["state"]["messages"]
        if count and not consumers and info["config"]["retention"] == "workqueue":
            lines.append(f"up to {count:,} messages of {stream} are consumed")
        return lines

    async def _storing_streams(self, role: Role) -> tuple[str, ...]:
        """Return the streams that store what a role sends; none without JetStream."""
        # A server without JetStream, or a user who may not ask, has nothing to name.
        with contextlib.suppress(JetStreamUnavailable, PermissionDenied):
            reply = await self.client.request("STREAM.NAMES", {"subject": sent_subject(role)})
            return tuple(json.loads(reply).get("streams") or ())
        return ()

    async def _present(self, stream: str, senders: list[Role]) -> SubjectCounts:
        """Return the messages by subject that a stream has of what is published to."""
        pages = [
            await read_subject_counts(self.client, stream, subject)
            for subject in sorted({sent_subject(role) for role in senders})
        ]
        msgs = {subject: count for page in pages for subject, count in page.msgs.items()}
        return SubjectCounts(msgs, sum(page.left_count for page in pages))

    async def remove(self) -> tuple[str, ...]:
        """Remove what was made, and return what was kept; what is gone already does not matter."""
        kept = list[str]()
        for verb in (*self.cleanup(), *await self._left_behind()):
            with contextlib.suppress(NotFound):
                if not await remove(self.client, verb, self.run_id):
                    name = verb.rpartition(".")[2]
                    kept.append(f"stream {name} was recreated during the run: natstui keeps it")
        return tuple(kept)

    async def _left_behind(self) -> tuple[str, ...]:
        """Return the verbs that remove consumers which killed workers had made for themselves."""
        if self.stream is None or (self.made_stream and not (self.plan.stream or _KEPT).keep):
            return ()
        names: list[str] = []
        async for data in self.client.pages(f"CONSUMER.LIST.{self.stream}"):
            names += [
                consumer["name"] or consumer["config"]["name"]
                for consumer in json.loads(data).get("consumers") or []
                if consumer["config"].get("description") == made_for(self.run_id)
            ]
        return tuple(f"CONSUMER.DELETE.{self.stream}.{name}" for name in names)

    async def stored_msgs(self) -> int | None:
        """Return how many messages the stream stored since the run began."""
        if self.stream is None:
            return None
        info = await self._ask(f"STREAM.INFO.{self.stream}")
        stored: int = info["state"]["last_seq"] + 1 - self.first_seq
        return stored

    async def dropped_msgs(self) -> int:
        """Return how many messages the stream had, and has no more."""
        state = (await self._ask(f"STREAM.INFO.{self.stream}"))["state"]
        ever: int = state["last_seq"] + 1 - self.first_seq + self.waiting_msgs
        messages: int = state["messages"]
        return ever - messages

    async def pending(self) -> tuple[int, int] | None:
        """Return (not delivered, not acknowledged) of the shared consumers; None without any."""
        if not self.consumers:
            return None
        found = (await self.figures()).values()
        return sum(one.pending_msgs for one in found), sum(one.ack_pending_msgs for one in found)

    async def figures(self) -> dict[str, ConsumerFigures]:
        """Return what the server says of the shared consumers now, by role."""
        return {
            role: read_figures(await self._ask(f"CONSUMER.INFO.{self.stream}.{name}"))
            for role, name in self.consumers.items()
        }

    def owed_msgs(self, role: Role, stored_msgs: int | None) -> int | None:
        """Return how many messages the readers of a role should get; None when nobody knows."""
        if role.name in self.begun:
            return owed_msgs(self.begun[role.name], stored_msgs)
        return None if stored_msgs is None else stored_msgs + self.waiting_msgs

    def _refuse_newer_patterns(self) -> None:
        """Raise Refused for a pattern whose stream this server cannot have."""
        for role in self.plan.roles:
            switch = role.traits.stream_switch
            if switch is not None and not _knows(self.client.api_level, switch):
                raise Refused(f"{role.pattern}: {newer_server(STREAM_FIELD[switch])}")

    async def _create_stream(self, stream: StreamPlan) -> None:
        """Create a stream of this run's own: a second run must not use it, nor delete it."""
        name = stream_name(stream)
        # Without the run in it, the server would take it for the stream that is there already.
        config = stream_config(stream, self.client.api_level)
        config["metadata"] = {RUN_KEY: self.run_id}
        try:
            await self.client.request(f"STREAM.CREATE.{name}", config)
        except RequestFailed as error:
            if error.err_code != _NAME_IN_USE:
                raise
            raise Refused(
                f"stream {name} exists, and a benchmark removes what it creates: name another with"
                f" --stream, or work on {name} (--stream {name} without --create, or create ="
                " false in a scenario)"
            ) from error

    async def _check_keys(self, bucket: StreamPlan, info: dict[str, Any]) -> None:
        """Raise Refused when the run would overwrite keys of a bucket that no benchmark made."""
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


def stream_name(stream: StreamPlan) -> str:
    """Return the name the server knows the stream by."""
    return stream.name if stream.history_count is None else f"KV_{stream.name}"


def _knows(api_level: int | None, switch: str) -> bool:
    return api_level is None or STREAM_FIELD[switch].api_level_count <= api_level


def stream_config(stream: StreamPlan, api_level: int | None = None) -> dict[str, Any]:
    """Return the configuration of a stream or bucket that is made for a run.

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
    """Return the configuration of the consumer a role's workers share."""
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


def new_run_id() -> str:
    """Return a short name for a run, sortable by time and unlike that of any other host."""
    return f"{time.time_ns() // 1_000_000:x}{secrets.token_hex(4)}"
