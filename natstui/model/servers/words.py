"""Servers in words: the same on the screen and headless."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from natstui.model.servers.replicas import is_away, replica_text, state_of
from natstui.model.servers.server import AccountSeen, Meta, MetaPeer, Servers, Source, Storage
from natstui.units import UNKNOWN, bytes_text, counted, duration_text, moment_text

LEADER, NO_LEADER = "leader", "leaderless"

SOURCES: dict[Source, str] = {
    "system": "the system account",
    "monitoring": "the monitoring ports",
    "account": "your account: only its own connections and traffic",
}


def summary(seen: Servers) -> str:
    """Return one sentence on where the data is from, and which servers did not reply."""
    text = f"{counted(len(seen.rows), 'server')}, data from {SOURCES[seen.source]}"
    versions = sorted({row.version for row in seen.rows if row.version})
    if len(versions) > 1:
        text += f"; versions differ: {', '.join(versions)}"
    if seen.silent:
        text += f"; no reply from {', '.join(sorted(seen.silent))}"
    return text


def storage_text(store: Storage | None) -> str:
    """Return what is used, reserved and free of one store."""
    if store is None:
        return "–"
    return (
        f"{bytes_text(store.used_bytes)} used, {bytes_text(store.reserved_bytes)} reserved, "
        f"{bytes_text(store.free_bytes)} free of {bytes_text(store.max_bytes)}"
    )


def meta_text(meta: Meta, *, answers: bool = True) -> str:
    """Return one sentence on the meta group; `answers` tells whether its leader does."""
    leader = f"led by {meta.leader}" if meta.leader else "without a leader"
    if meta.leader and not answers:
        leader += ", which does not reply"
    text = f"{leader}, {counted(meta.size_count, 'member')}"
    if not meta.leader and meta.quorum_count is not None:
        text += f", of which {meta.quorum_count} are needed"
    text += f", {counted(meta.pending_count, 'entry')} pending".replace("entrys", "entries")
    if meta.snapshot_entries_count is not None:
        text += f"; {meta.snapshot_entries_count} since the last snapshot"
    if meta.snapshot_at_us is not None:
        text += f" of {moment_text(meta.snapshot_at_us)}"
        if meta.snapshot_took_ns is not None:
            text += f", which took {duration_text(meta.snapshot_took_ns / 1e9)}"
    return text


def peer_text(one: MetaPeer) -> str:
    """Return how far a member of the meta group is."""
    return replica_text(one, one.lag_entries_count)


def meta_role(meta: Meta | None, name: str) -> str:
    """Return what a server is in its meta group: its leader, or how far it is behind."""
    if meta is None:
        return UNKNOWN
    if meta.leader is None:
        return NO_LEADER
    if meta.leader == name:
        return LEADER
    peer = meta.peer(name)
    if peer is None:
        return UNKNOWN
    state = state_of(peer)
    if state in ("current", "behind"):
        return f"{'lag' if state == 'current' else state} {peer.lag_entries_count}"
    return state


def used_text(used_bytes: int | None, most_bytes: int | None) -> str:
    """Return the use of a limit."""
    if used_bytes is None:
        return "–"
    if most_bytes is None:
        return f"{bytes_text(used_bytes)} of unlimited"
    share = f" ({100 * used_bytes / most_bytes:.0f}%)" if most_bytes else ""
    return f"{bytes_text(used_bytes)} of {bytes_text(most_bytes)}{share}"


def account_text(one: AccountSeen) -> str:
    """Return what an account uses, as one line."""
    parts = []
    if one.connections_count is not None:
        parts.append(counted(one.connections_count, "connection"))
    if one.subscriptions_count is not None:
        parts.append(counted(one.subscriptions_count, "subscription"))
    if one.slow_consumers_count:
        parts.append(counted(one.slow_consumers_count, "slow consumer event"))
    if one.file_bytes is not None:
        parts.append(f"file {used_text(one.file_bytes, one.max_file_bytes)}")
        parts.append(f"memory {used_text(one.memory_bytes, one.max_memory_bytes)}")
    return ", ".join(parts)


def shares(led: Iterable[tuple[str, int]], cells: int = 20) -> list[tuple[str, str]]:
    """Return server → a bar with its number of leaders; the longest bar is the most leaders."""
    rows = list(led)
    most = max((count for _, count in rows), default=0)
    return [
        (name, f"{'█' * round(cells * count / most) if most else ''} {count}".strip())
        for name, count in rows
    ]


def removal_loss(meta: Meta, name: str) -> str:
    """Return the risks of taking a server out of the meta group, in words."""
    left = max(1, meta.size_count - 1)
    quorum = left // 2 + 1
    return (
        "its replicas are removed, and recreated on other servers if possible; "
        f"{cluster_text(meta)} then has {counted(left, 'member')}, of which {quorum} must be "
        f"up; empty the store of {name} before it comes back"
    )


def cluster_text(meta: Meta) -> str:
    """Return what the meta group is called."""
    return meta.cluster or "the meta group"


def removal_question(meta: Meta, name: str) -> str:
    """Return what is asked before a server is taken out of the meta group."""
    return f"this will remove server {name} from {cluster_text(meta)}: {removal_loss(meta, name)}"


def removable(meta: Meta, answering: Collection[str]) -> list[str]:
    """Return the members of the meta group that are gone: nobody heard of them, none answers."""
    gone = (peer for peer in meta.peers if is_away(peer) or not peer.current)
    return sorted(one.name for one in gone if one.name not in answering)
