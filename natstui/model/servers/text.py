"""Texts about servers: the same on the screen and on the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from natstui.model.servers.replicas import has_lost_leader_contact, replica_state, replica_text
from natstui.model.servers.server import AccountTotals, Meta, MetaPeer, Servers, Source, Storage
from natstui.units import UNKNOWN, bytes_text, counted, duration_text, moment_text

LEADER, NO_LEADER = "leader", "leaderless"

TEXT_BY_SOURCE: dict[Source, str] = {
    "system": "the system account",
    "monitoring": "the monitoring ports",
    "account": "your account: only its own connections and traffic",
}


def summary(servers: Servers) -> str:
    """Return a line with the number of servers, the source, different versions, silent servers."""
    text = f"{counted(len(servers.rows), 'server')}, data from {TEXT_BY_SOURCE[servers.source]}"
    versions = sorted({row.version for row in servers.rows if row.version})
    if len(versions) > 1:
        text += f"; versions differ: {', '.join(versions)}"
    if servers.silent:
        text += f"; no reply from {', '.join(sorted(servers.silent))}"
    return text


def storage_text(store: Storage | None) -> str:
    """Return the used, reserved and free bytes of a storage as text."""
    if store is None:
        return "–"
    return (
        f"{bytes_text(store.used_bytes)} used, {bytes_text(store.reserved_bytes)} reserved, "
        f"{bytes_text(store.free_bytes)} free of {bytes_text(store.max_bytes)}"
    )


def meta_text(meta: Meta, *, has_reply: bool = True) -> str:
    """Return a sentence about the meta group; `has_reply` is whether its leader replied."""
    leader = f"led by {meta.leader}" if meta.leader else "without a leader"
    if meta.leader and not has_reply:
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


def peer_text(peer: MetaPeer) -> str:
    """Return the state of a member of the meta group as text."""
    return replica_text(peer, peer.lag_entries_count)


def meta_role(meta: Meta | None, name: str) -> str:
    """Return the role of the server `name` in its meta group: leader, or its lag."""
    if meta is None:
        return UNKNOWN
    if meta.leader is None:
        return NO_LEADER
    if meta.leader == name:
        return LEADER
    peer = meta.peer(name)
    if peer is None:
        return UNKNOWN
    state = replica_state(peer)
    if state in ("current", "behind"):
        return f"{'lag' if state == 'current' else state} {peer.lag_entries_count}"
    return state


def used_text(used_bytes: int | None, max_bytes: int | None) -> str:
    """Return used and maximum bytes as text, with the used share in %; `–` if unknown."""
    if used_bytes is None:
        return "–"
    if max_bytes is None:
        return f"{bytes_text(used_bytes)} of unlimited"
    share = f" ({100 * used_bytes / max_bytes:.0f}%)" if max_bytes else ""
    return f"{bytes_text(used_bytes)} of {bytes_text(max_bytes)}{share}"


def account_text(account: AccountTotals) -> str:
    """Return the use of an account as one line."""
    parts = []
    if account.connections_count is not None:
        parts.append(counted(account.connections_count, "connection"))
    if account.subscriptions_count is not None:
        parts.append(counted(account.subscriptions_count, "subscription"))
    if account.slow_consumers_count:
        parts.append(counted(account.slow_consumers_count, "slow consumer event"))
    if account.file_bytes is not None:
        parts.append(f"file {used_text(account.file_bytes, account.max_file_bytes)}")
        parts.append(f"memory {used_text(account.memory_bytes, account.max_memory_bytes)}")
    return ", ".join(parts)


def leader_bars(led_counts: Iterable[tuple[str, int]], cells: int = 20) -> list[tuple[str, str]]:
    """Return each server with a bar of its number of leaders, `cells` wide for the most.

    `led_counts` are server names with their number of leaders.
    """
    rows = list(led_counts)
    max_count = max((count for _, count in rows), default=0)
    return [
        (name, f"{'█' * round(cells * count / max_count) if max_count else ''} {count}".strip())
        for name, count in rows
    ]


def removal_loss(meta: Meta, name: str) -> str:
    """Return the losses and risks of removing the server `name` from the meta group, as text."""
    remaining_count = max(1, meta.size_count - 1)
    quorum_count = remaining_count // 2 + 1
    return (
        "its replicas are removed, and recreated on other servers if possible; what has its only "
        f"copy on {name} is lost: the messages of a stream, the delivery state of a consumer; the "
        f"other servers do not report which these are; {cluster_text(meta)} then has "
        f"{counted(remaining_count, 'member')}, of which {quorum_count} must be up; {name} "
        "may come back only with an empty store: keep the old one until nothing is missing"
    )


def cluster_text(meta: Meta) -> str:
    """Return the display name of the meta group."""
    return meta.cluster or "the meta group"


def step_down_failure_text(
    target_text: str,
    old_leader: str | None,
    leader: str | None,
    preferred: str | None,
    within_s: float,
) -> str:
    """Return a sentence about a failed step-down of `target_text`; empty after a success.

    It fails if there is no other leader after `within_s`, or not the `preferred` server, if any.
    """
    if leader is None:
        return (
            f"{target_text}: its leader stepped down, and none was elected within {within_s:g} s"
        )
    if leader == old_leader:
        return f"{target_text} is led by {leader}: no other server took over within {within_s:g} s"
    if preferred not in (None, leader):
        return f"{target_text} is led by {leader} now: its replicas elected it, not {preferred}"
    return ""


def removal_prompt(meta: Meta, name: str) -> str:
    """Return the text to confirm before a server is removed from the meta group."""
    return f"this will remove server {name} from {cluster_text(meta)}: {removal_loss(meta, name)}"


def removable_members(meta: Meta, replying_names: Collection[str]) -> list[str]:
    """Return the meta group's members that are lagging or out of contact, and do not reply.

    `replying_names` are the names of the servers that replied.
    """
    down_members = (
        peer for peer in meta.peers if has_lost_leader_contact(peer) or not peer.current
    )
    return sorted(member.name for member in down_members if member.name not in replying_names)
