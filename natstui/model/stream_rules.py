"""What the server would refuse in a stream's configuration, said before it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from natstui.model.config_field import (
    is_on,
    number_at,
    objects_at,
    read,
    strings_at,
    text_at,
)
from natstui.model.config_rules import Problem, common_problems, name_problems
from natstui.model.stream_rules_upstream import upstream_problems
from natstui.model.stream_spec import STREAM_FIELDS
from natstui.model.subjects import first_overlap, is_subject, mapping_problem, overlap

_S = 1_000_000_000
_SHORTEST_NS = 100_000_000
_LARGEST_MSG_BYTES = 2**31 - 1


def stream_problems(
    config: Mapping[str, object], api_level: int | None = None, *, creating: bool = True
) -> tuple[Problem, ...]:
    """Return everything wrong with a stream's configuration, in the order of the form.

    `api_level` is the connected server's; None does not judge what it is too old for.
    """
    found = list(name_problems("name", text_at(config, "name"), "stream"))
    for rule in (_subjects, _limits, _duplicates, _discard, _ages, upstream_problems):
        found += rule(config)
    for rule in (_counters, _schedules, _storage, _rewriting):
        found += rule(config)
    if creating and is_on(config, "sealed"):
        found.append(Problem("sealed", "a new stream cannot be sealed: nothing could be stored"))
    found += common_problems(config, STREAM_FIELDS, api_level)
    return tuple(found)


def _subjects(config: Mapping[str, object]) -> Iterator[Problem]:
    subjects = strings_at(config, "subjects")
    for subject in subjects:
        if not is_subject(subject):
            yield Problem("subjects", f"Subjects: {subject!r} is not a valid subject")
        elif not is_on(config, "no_ack") and subject == ">":
            yield Problem("subjects", "to store every subject (>), switch acknowledgements off")
        elif not is_on(config, "no_ack") and _of_the_system(subject):
            text = f"{subject!r} holds requests to the server: switch acknowledgements off"
            yield Problem("subjects", text)
    pair = first_overlap(subjects)
    if pair:
        yield Problem("subjects", f"the subjects {pair[0]!r} and {pair[1]!r} overlap")


def _of_the_system(subject: str) -> bool:
    """Tell whether a filter takes in requests to the server; its announcements are allowed."""
    if subject.startswith(("$JS.EVENT.", "$SYS.ACCOUNT.")):
        return False
    return overlap(subject, "$JS.>") or overlap(subject, "$JSC.>") or overlap(subject, "$SYS.>")


def _limits(config: Mapping[str, object]) -> Iterator[Problem]:
    if number_at(config, "max_msg_size") > _LARGEST_MSG_BYTES:
        yield Problem("max_msg_size", "the largest maximum message size is 2 GiB")
    if number_at(config, "first_seq") < 0:
        yield Problem("first_seq", "a first sequence is not negative")


def _duplicates(config: Mapping[str, object]) -> Iterator[Problem]:
    window_ns, age_ns = number_at(config, "duplicate_window"), number_at(config, "max_age")
    if window_ns < 0:
        yield Problem("duplicate_window", "a duplicate window is not negative")
    elif 0 < window_ns < _SHORTEST_NS:
        yield Problem("duplicate_window", "a duplicate window is at least 100ms")
    elif 0 < age_ns < window_ns:
        text = "a duplicate window longer than the maximum age remembers what is gone"
        yield Problem("duplicate_window", text)


def _ages(config: Mapping[str, object]) -> Iterator[Problem]:
    age_ns = number_at(config, "max_age")
    if age_ns < 0:
        yield Problem("max_age", "a maximum age is not negative")
    elif 0 < age_ns < _SHORTEST_NS:
        yield Problem("max_age", "a maximum age is at least 100ms")
    marker_ns = number_at(config, "subject_delete_marker_ttl")
    if marker_ns < 0 or 0 < marker_ns < _S:
        yield Problem("subject_delete_marker_ttl", "a delete marker stays for at least 1s")
    if marker_ns > 0 and read(config, "mirror"):
        yield Problem("subject_delete_marker_ttl", "a mirror makes no delete markers of its own")


def _discard(config: Mapping[str, object]) -> Iterator[Problem]:
    if is_on(config, "discard_new_per_subject"):
        path = "discard_new_per_subject"
        if text_at(config, "discard") != "new":
            yield Problem(path, "refusing new messages per subject needs discard new")
        elif number_at(config, "max_msgs_per_subject") <= 0:
            yield Problem(path, "refusing new messages per subject needs a maximum per subject")
    if is_on(config, "allow_rollup_hdrs") and is_on(config, "deny_purge"):
        yield Problem("allow_rollup_hdrs", "roll-ups remove messages: they need purge allowed")


def _counters(config: Mapping[str, object]) -> Iterator[Problem]:
    if not is_on(config, "allow_msg_counter"):
        return
    path = "allow_msg_counter"
    if text_at(config, "retention") not in ("", "limits"):
        yield Problem(path, "a stream of counters has limits retention")
    if text_at(config, "discard") == "new":
        yield Problem(path, "a stream of counters cannot discard new")
    if is_on(config, "allow_msg_ttl"):
        yield Problem(path, "a stream of counters has no message TTL")
    if is_on(config, "allow_msg_schedules"):
        yield Problem(path, "a stream of counters has no schedules")


def _schedules(config: Mapping[str, object]) -> Iterator[Problem]:
    if not is_on(config, "allow_msg_schedules"):
        return
    if text_at(config, "discard") == "new":
        yield Problem("allow_msg_schedules", "a stream with schedules cannot discard new")
    if objects_at(config, "sources"):
        yield Problem("allow_msg_schedules", "a stream with sources cannot schedule messages")


def _storage(config: Mapping[str, object]) -> Iterator[Problem]:
    if text_at(config, "persist_mode") == "async":
        if text_at(config, "storage") == "memory":
            yield Problem("persist_mode", "async persist mode is for file storage")
        if is_on(config, "allow_atomic"):
            yield Problem("persist_mode", "async persist mode excludes atomic batches")
        if number_at(config, "num_replicas") > 1:
            yield Problem("persist_mode", "async persist mode is for one replica")
    if text_at(config, "placement.preferred"):
        yield Problem("placement", "a stream cannot ask for a preferred server")


def _rewriting(config: Mapping[str, object]) -> Iterator[Problem]:
    for name, what in (("subject_transform", "transform"), ("republish", "republish")):
        source, target = text_at(config, f"{name}.src"), text_at(config, f"{name}.dest")
        if read(config, name) and not target:
            yield Problem(f"{name}.dest", f"{what} needs a subject to go to")
        problem = mapping_problem(source, target)
        if problem:
            yield Problem(f"{name}.dest", f"{what}: {problem}")
    target = text_at(config, "republish.dest")
    for subject in strings_at(config, "subjects") or (text_at(config, "name"),):
        if target and is_subject(target) and overlap(target, subject):
            text = f"republish to {target!r} leads back into {subject!r}"
            yield Problem("republish.dest", text)
