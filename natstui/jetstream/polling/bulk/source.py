"""What a poll needs of a source of bulk answers; another room asks the servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class BulkAnswer(Protocol):
    """What one server holds of the account, as raw JSON, and when that came."""

    @property
    def name(self) -> str:
        """The server's name, as in `cluster.leader`."""

    @property
    def domain(self) -> str | None:
        """JetStream's domain, where the answer's envelope says it."""

    @property
    def written_at(self) -> str | None:
        """When it was sent, by the server's clock."""

    @property
    def data(self) -> bytes:
        """The answer to JSZ."""

    @property
    def packed_bytes(self) -> int:
        """What came over the link."""

    @property
    def asked_mono_us(self) -> int:
        """When it was asked for."""

    @property
    def began_mono_us(self) -> int:
        """When its first bytes came."""

    @property
    def ended_mono_us(self) -> int:
        """When its last bytes came."""


class BulkSource(Protocol):
    """Asks all servers at once."""

    @property
    def may_hold_bytes(self) -> int | None:
        """What a server keeps for a slow connection before it closes it; None is not known."""

    async def ask(self, *, config: bool, packed: bool) -> Sequence[BulkAnswer] | None:
        """Return what each server holds; None where there is nobody to ask.

        Raises NatstuiError when there is, and no answer comes.
        """

    async def close(self) -> None:
        """End what was opened for it."""
