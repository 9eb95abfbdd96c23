"""What publishing removes of a stream that is at its limits: counted before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natstui.model.assets.fields import is_on, number_at, text_at
from natstui.units import bytes_text, duration_text

SHORT_AGE_S = 60.0
"""A max age up to this removes what is published before anybody would look for it."""
OVERHEAD_BYTES = 256
"""Of a stored message at most beside payload and headers: sequence, time, checksum, subject."""


@dataclass(frozen=True, slots=True)
class Publishing:
    """What is going to be published to one stream."""

    added_msgs: int | None
    """None: as many as come within a time."""
    stored_bytes: int = 0
    """Of all these messages, with what the server stores beside a payload."""
    by_subject_msgs: Mapping[str, int] | None = None
    """Messages by subject; None: each may have any subject."""


@dataclass(frozen=True, slots=True)
class Removed:
    """The most messages that limits remove."""

    others_msgs: int = 0
    """Of what the stream has now."""
    own_msgs: int = 0
    """Of what is published."""


@dataclass(frozen=True, slots=True)
class LimitedStream:
    """A stream as far as its limits matter."""

    config: Mapping[str, object]
    state: Mapping[str, object]
    present_msgs: Mapping[str, int] = field(default_factory=dict)
    """Its messages by subject, of the subjects that are published to."""
    has_all_subjects: bool = True
    """Whether that is every such subject: of the others, the most that is possible is counted."""

    @property
    def drops_messages(self) -> bool:
        """Whether a limit removes old messages for new ones."""
        limits = (self._most("max_msgs"), self._most("max_bytes"), self._most_per_subject)
        return any(limits)

    def removed(self, publishing: Publishing) -> Removed:
        """Return what is removed at most; the limits are not added up: the largest counts."""
        removals = (
            self._over_msgs(publishing),
            self._over_bytes(publishing),
            self._over_subjects(publishing),
        )
        return Removed(
            max(removal.others_msgs for removal in removals),
            max(removal.own_msgs for removal in removals),
        )

    def _most(self, limit: str) -> int:
        """Return a limit that removes the oldest messages; 0 without one."""
        most = number_at(self.config, limit)
        return most if most > 0 and text_at(self.config, "discard") != "new" else 0

    @property
    def _most_per_subject(self) -> int:
        most = number_at(self.config, "max_msgs_per_subject")
        is_new = text_at(self.config, "discard") == "new"
        refuses = is_new and is_on(self.config, "discard_new_per_subject")
        return most if most > 0 and not refuses else 0

    def _over_msgs(self, publishing: Publishing) -> Removed:
        most, stored_msgs = self._most("max_msgs"), number_at(self.state, "messages")
        if not most:
            return Removed()
        return _removed(stored_msgs, publishing.added_msgs, most)

    def _over_bytes(self, publishing: Publishing) -> Removed:
        """Return all messages as soon as the limit may be reached: their sizes are unknown."""
        most, stored_msgs = self._most("max_bytes"), number_at(self.state, "messages")
        if not most:
            return Removed()
        if publishing.added_msgs is None:
            return Removed(stored_msgs)
        added_bytes = publishing.stored_bytes
        others_msgs = stored_msgs if number_at(self.state, "bytes") + added_bytes > most else 0
        return Removed(others_msgs, publishing.added_msgs if added_bytes > most else 0)

    def _over_subjects(self, publishing: Publishing) -> Removed:
        most = self._most_per_subject
        if not most:
            return Removed()
        known = publishing.by_subject_msgs
        if known is None:
            removed = [
                _removed(count, publishing.added_msgs, most)
                for count in self.present_msgs.values()
            ]
            if not self.has_all_subjects:
                uncounted_msgs = number_at(self.state, "messages") - sum(
                    self.present_msgs.values()
                )
                added_msgs = publishing.added_msgs
                removed.append(
                    Removed(
                        uncounted_msgs if added_msgs is None else min(uncounted_msgs, added_msgs)
                    )
                )
        else:
            # One that was not counted may be at the limit.
            unseen_msgs = 0 if self.has_all_subjects else most
            removed = [
                _removed(self.present_msgs.get(subject, unseen_msgs), added, most)
                for subject, added in known.items()
            ]
        return Removed(
            sum(each.others_msgs for each in removed),
            0 if known is None else sum(each.own_msgs for each in removed),
        )


def max_age_s(config: Mapping[str, object]) -> float:
    """Return after how many seconds a stream removes a message; 0 for never."""
    return number_at(config, "max_age") / 1e9


def removal_reason(config: Mapping[str, object], consumers_count: int) -> str | None:
    """Return what has removed new messages of a stream by name; None where its consumers may have.

    Consumers of a work queue remove what they acked, and so do all together at interest retention.
    """
    retention = text_at(config, "retention")
    if retention == "interest" and not consumers_count:
        return "interest retention, and it has no consumer"
    if retention in ("interest", "workqueue"):
        return None
    counts = (("max_msgs", "max messages"), ("max_msgs_per_subject", "max messages per subject"))
    limits = [
        f"{label} {number_at(config, key):,}"
        for key, label in counts
        if number_at(config, key) > 0
    ]
    if number_at(config, "max_bytes") > 0:
        limits.append(f"max bytes {bytes_text(number_at(config, 'max_bytes'))}")
    if max_age_s(config):
        limits.append(f"max age {duration_text(max_age_s(config))}")
    if is_on(config, "allow_msg_ttl"):
        limits.append("TTLs of messages")
    if is_on(config, "allow_rollup_hdrs"):
        limits.append("roll-ups")
    return ", ".join(limits) or "deleted or purged in the meantime"


def _removed(stored_msgs: int, added_msgs: int | None, most_msgs: int) -> Removed:
    if added_msgs is None:
        return Removed(stored_msgs)
    over_msgs = max(stored_msgs + added_msgs - most_msgs, 0)
    others_msgs = min(stored_msgs, over_msgs)
    return Removed(others_msgs, over_msgs - others_msgs)
