"""Counts the messages and bytes of every subject, in a tree of tokens, in bounded memory.

Subjects that are used only once, such as inboxes, are counted together as one. When the memory is
used up, further subjects are counted together, and their number is estimated.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable

from natstui.jetstream.connection.wire_parser import BlockMessage
from natstui.model.assets.subjects import is_internal

MAX_NODES_COUNT = 100_000
"""Maximum number of tokens and subjects with counts of their own."""
MAX_PATHS_BYTES = 32 * 1024 * 1024
"""Maximum size of the names of all these together."""
_MAX_LEVELS = 16
ROOT_NODE = 0
"""The node above all others. Its counts are those of all subjects that have no node."""
_INDEX_BITS_COUNT = 12
_RANKS_COUNT = 1 << _INDEX_BITS_COUNT
_HYPERLOGLOG_BIAS_RATIO = 0.7213 / (1 + 1.079 / _RANKS_COUNT)
_HASH_BITS_COUNT = 61
"""Number of bits of Python's hash of bytes; its salt differs in each process."""
_ONE_OFF_TOKENS = {"$JS.ACK": 4, "$JS.FC": 4, "$JS.SNAPSHOT": 4}
"""Start of subjects that differ in each message → how many of their tokens are kept."""


class SubjectTree:
    """A tree with a node for each token of each subject; the node of a subject is that of its last
    token.

    Nodes are numbered; the lists and arrays have one element per node.
    """

    def __init__(self) -> None:
        self.paths = [""]
        self.parents, self.levels = array("q", [ROOT_NODE]), array("q", [0])
        self.children: dict[int, array[int]] = {}
        self._node_by_parent_and_token: dict[tuple[int, str], int] = {}
        self._total_path_bytes = 0

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def is_full(self) -> bool:
        """Return whether no more nodes can be added."""
        return len(self.paths) >= MAX_NODES_COUNT or self._total_path_bytes >= MAX_PATHS_BYTES

    def find_or_add(self, subject: str) -> int | None:
        """Return the node of a subject, adding a missing one; None if the tree is full."""
        node = ROOT_NODE
        for token in subject.split(".", _MAX_LEVELS - 1):
            child = self._node_by_parent_and_token.get((node, token))
            if child is None and self.is_full:
                return None
            node = self._add_node(node, token) if child is None else child
        return node

    def _add_node(self, parent: int, token: str) -> int:
        node = len(self.paths)
        path = f"{self.paths[parent]}.{token}" if parent != ROOT_NODE else token
        self.paths.append(path)
        self.parents.append(parent)
        self.levels.append(self.levels[parent] + 1)
        self.children.setdefault(parent, array("q")).append(node)
        self._node_by_parent_and_token[parent, token] = node
        self._total_path_bytes += len(path.encode())
        return node


class Tally:
    """Counts of the received messages and their bytes, for each node of the subject tree, without
    those of the nodes below it.
    """

    def __init__(self, internal_subjects: InternalSubjects) -> None:
        self.tree = SubjectTree()
        self.msgs, self.byte_counts = array("q", [0]), array("q", [0])
        self.other_subjects = DistinctCounter()
        self._internal_subjects = internal_subjects
        self._nodes_by_subject: dict[bytes, int] = {}

    def add(self, messages: list[BlockMessage]) -> None:
        """Count the messages of a block."""
        find_known_node, msgs, byte_counts = (
            self._nodes_by_subject.get,
            self.msgs,
            self.byte_counts,
        )
        for subject, _reply, _start, _header_bytes, size_bytes in messages:
            node = find_known_node(subject)
            if node is None:
                node = self._find_node(subject)
            msgs[node] += 1
            byte_counts[node] += size_bytes

    def _find_node(self, subject: bytes) -> int:
        """Return the node that counts the messages of a new subject."""
        is_one_off = subject.startswith(self._internal_subjects.one_off_prefixes)
        text = subject_text(subject)
        node = self.tree.find_or_add(
            self._internal_subjects.fold_one_off(text) if is_one_off else text
        )
        # Also without a node of its own, its first tokens may have used the last free nodes.
        missing_nodes_count = len(self.tree) - len(self.msgs)
        self.msgs.extend([0] * missing_nodes_count)
        self.byte_counts.extend([0] * missing_nodes_count)
        if node is None:
            self.other_subjects.add(subject)
            return ROOT_NODE
        if not is_one_off:
            self._nodes_by_subject[subject] = node
        return node


def subject_text(subject: bytes) -> str:
    """Return a subject as text; different invalid bytes give different texts."""
    return subject.decode("utf-8", "backslashreplace")


class SubjectFilter:
    """A filter of subjects, which remembers its result for each subject."""

    def __init__(
        self,
        internal_subjects: InternalSubjects,
        matches: Callable[[str], bool] | None,
        *,
        with_internal: bool,
    ) -> None:
        self._internal_subjects, self._matches = internal_subjects, matches
        self._with_internal = with_internal
        self.matches_everything = matches is None and with_internal
        self._matches_by_subject: dict[bytes, bool] = {}

    def matches_subject(self, subject: bytes) -> bool:
        """Return whether the filter matches an encoded subject."""
        is_match = self._matches_by_subject.get(subject)
        if is_match is None:
            text = subject_text(subject)
            is_match = self.matches_text(self._internal_subjects.fold_one_off(text))
            if len(self._matches_by_subject) >= MAX_NODES_COUNT:
                self._matches_by_subject.clear()
            self._matches_by_subject[subject] = is_match
        return is_match

    def matches_text(self, subject: str) -> bool:
        """Return whether the filter matches a subject."""
        if not self._with_internal and subject in self._internal_subjects:
            return False
        return self._matches is None or self._matches(subject)


class DistinctCounter:
    """Estimates how many different byte strings were added, by the HyperLogLog algorithm."""

    def __init__(self) -> None:
        self._ranks = bytearray(_RANKS_COUNT)

    def add(self, data: bytes) -> None:
        """Add a byte string; one that was added before changes nothing."""
        hash_value = hash(data) & ((1 << _HASH_BITS_COUNT) - 1)
        index, rank_bits = hash_value & (_RANKS_COUNT - 1), hash_value >> _INDEX_BITS_COUNT
        rank = _HASH_BITS_COUNT - _INDEX_BITS_COUNT - rank_bits.bit_length() + 1
        if rank > self._ranks[index]:
            self._ranks[index] = rank

    def count(self) -> int:
        """Return about how many different byte strings were added."""
        empty_count = self._ranks.count(0)
        if empty_count == _RANKS_COUNT:
            return 0
        estimated_count = (
            _HYPERLOGLOG_BIAS_RATIO * _RANKS_COUNT**2 / sum(2.0**-rank for rank in self._ranks)
        )
        if estimated_count <= 2.5 * _RANKS_COUNT and empty_count:
            estimated_count = _RANKS_COUNT * math.log(_RANKS_COUNT / empty_count)
        return max(1, round(estimated_count))


class InternalSubjects:
    """The set of internal subjects, for a client with its own prefix of inboxes.

    Internal subjects include inboxes and the subjects of JetStream.
    """

    def __init__(self, inbox_prefix: str, subjects: Iterable[str]) -> None:
        """Create the set of internal subjects for subscriptions to `subjects`.

        If one of them names one-off subjects, such as `_INBOX.x.>`, these are counted separately.
        """
        inbox = inbox_prefix.strip(".")
        subjects = tuple(subjects)
        self._inbox_prefixes = tuple(
            f"{prefix}." for prefix in dict.fromkeys(("_INBOX", inbox, "_R_", "_GR_"))
            if not _has_subject_with_prefix(subjects, prefix)
        )  # fmt: skip
        self._one_off_tokens = {
            f"{name}.": count
            for name, count in _ONE_OFF_TOKENS.items()
            if not _has_subject_with_prefix(subjects, name)
        }
        self._own_inbox_prefix = f"{inbox}."
        # Almost no subject starts like this: one check suffices for the others.
        self.one_off_prefixes = tuple(
            name.encode() for name in (*self._inbox_prefixes, *self._one_off_tokens)
        )  # fmt: skip

    def __contains__(self, subject: str) -> bool:
        """Return whether a subject is internal."""
        return is_internal(subject) or subject.startswith(self._own_inbox_prefix)

    def fold_one_off(self, subject: str) -> str:
        """Return the subject under which a one-off subject is counted: `_INBOX.>` for an inbox.

        Returns any other subject unchanged.
        """
        for prefix in self._inbox_prefixes:
            if subject.startswith(prefix):
                return f"{prefix}>"
        for prefix, count in self._one_off_tokens.items():
            if subject.startswith(prefix):
                tokens = subject.split(".")
                return ".".join([*tokens[:count], ">"]) if len(tokens) > count else subject
        return subject


def _has_subject_with_prefix(subjects: tuple[str, ...], prefix: str) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for name in subjects)
