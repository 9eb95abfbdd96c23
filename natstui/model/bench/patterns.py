"""The load patterns of a benchmark and their traits.

Other code uses traits instead of names of patterns: `traits(role.pattern).receives`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from msgspec import Struct

Pattern = Literal[
    "publish",
    "subscribe",
    "request",
    "serve",
    "js-publish-sync",
    "js-publish-async",
    "js-publish-atomic",
    "js-publish-fast",
    "js-request",
    "js-consume",
    "js-fetch",
    "js-push",
    "js-ordered",
    "js-respond",
    "js-get",
    "js-get-batch",
    "kv-put",
    "kv-get",
]


class PatternTraits(Struct, frozen=True):
    """The traits of a pattern; all are False by default."""

    pattern: Pattern
    sends: bool = False
    """Sends numbered messages by a schedule."""
    is_stored: bool = False
    """Its messages are stored and acked."""
    reads_stored: bool = False
    """Requests stored messages, at its own pace."""
    receives: bool = False
    """Receives messages until the benchmark ends it."""
    consumes: bool = False
    """Receives through a consumer of a stream."""
    is_ordered: bool = False
    """Each worker has an ordered consumer of its own."""
    is_push: bool = False
    """The server delivers to a subject of the consumer."""
    replies: bool = False
    """Is a service that replies to requests."""
    awaits_reply: bool = False
    """Sends requests to a service and waits for each reply."""
    awaits_responses: bool = False
    """Stores requests in a stream, and receives the responses over another."""
    stores_responses: bool = False
    """Consumes requests from a stream, and stores the responses in another."""
    needs_stream: bool = False
    """Works on a stream or a KV bucket."""
    feeds_stream: bool = False
    """Its subject is stored by the run's own stream."""
    required_stream_option: str | None = None
    """The stream option that must be on; old servers do not have it."""
    is_one_at_a_time: bool = False
    """Sends one message at a time, so that short forms send fewer."""

    @property
    def has_own_end(self) -> bool:
        """Return whether the role ends by itself, after its messages or its time."""
        return self.sends or self.reads_stored

    @property
    def has_rate(self) -> bool:
        """Return whether the role has a rate: it sends messages, or reads them one by one."""
        return self.sends or (self.reads_stored and self.is_one_at_a_time)

    @property
    def has_shared_consumer(self) -> bool:
        """Return whether the workers of the role share a consumer."""
        return self.consumes and not self.is_ordered

    @property
    def has_queue(self) -> bool:
        """Return whether the workers can share a subject in a queue group."""
        return self.receives or self.replies

    @property
    def receives_replies(self) -> bool:
        """Return whether the role receives only replies, or stored messages that it requests."""
        return self.reads_stored or self.awaits_reply or self.awaits_responses

    def is_summed(self, count_name: str) -> bool:
        """Return whether a count of the role, as `sent_msgs`, is part of the sum over all roles.

        Sent replies are not part of the requested load, and received responses are reported
        separately.
        """
        if count_name == "sent_msgs":
            return self.sends
        return count_name != "received_msgs" or not self.awaits_responses

    @property
    def needs_responses(self) -> bool:
        """Return whether the role uses a second stream, which stores responses."""
        return self.awaits_responses or self.stores_responses


_ALL_TRAITS = (
    PatternTraits("publish", sends=True, feeds_stream=True),
    PatternTraits("subscribe", receives=True),
    PatternTraits("request", sends=True, awaits_reply=True, is_one_at_a_time=True),
    PatternTraits("serve", replies=True),
    PatternTraits(
        "js-publish-sync",
        sends=True,
        is_stored=True,
        needs_stream=True,
        feeds_stream=True,
        is_one_at_a_time=True,
    ),
    PatternTraits(
        "js-publish-async", sends=True, is_stored=True, needs_stream=True, feeds_stream=True
    ),
    PatternTraits(
        "js-publish-atomic",
        sends=True,
        is_stored=True,
        needs_stream=True,
        feeds_stream=True,
        required_stream_option="allow_atomic",
    ),
    PatternTraits(
        "js-publish-fast",
        sends=True,
        is_stored=True,
        needs_stream=True,
        feeds_stream=True,
        required_stream_option="allow_batched",
    ),
    PatternTraits(
        "js-request",
        sends=True,
        is_stored=True,
        awaits_responses=True,
        needs_stream=True,
        feeds_stream=True,
    ),
    PatternTraits("js-consume", receives=True, consumes=True, needs_stream=True),
    PatternTraits("js-fetch", receives=True, consumes=True, needs_stream=True),
    PatternTraits("js-push", receives=True, consumes=True, needs_stream=True, is_push=True),
    PatternTraits("js-ordered", receives=True, consumes=True, needs_stream=True, is_ordered=True),
    PatternTraits(
        "js-respond",
        receives=True,
        consumes=True,
        stores_responses=True,
        needs_stream=True,
    ),
    PatternTraits("js-get", reads_stored=True, needs_stream=True, is_one_at_a_time=True),
    PatternTraits("js-get-batch", reads_stored=True, needs_stream=True),
    PatternTraits("kv-put", sends=True, is_stored=True, needs_stream=True),
    PatternTraits("kv-get", reads_stored=True, needs_stream=True, is_one_at_a_time=True),
)
_TRAITS_BY_PATTERN = {pattern_traits.pattern: pattern_traits for pattern_traits in _ALL_TRAITS}
assert tuple(_TRAITS_BY_PATTERN) == get_args(Pattern)


def traits(pattern: Pattern) -> PatternTraits:
    """Return the traits of a pattern."""
    return _TRAITS_BY_PATTERN[pattern]


def patterns_with(condition: Callable[[PatternTraits], bool]) -> frozenset[Pattern]:
    """Return the patterns for whose traits `condition` returns True."""
    return frozenset(
        pattern_traits.pattern for pattern_traits in _ALL_TRAITS if condition(pattern_traits)
    )
