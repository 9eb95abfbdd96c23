"""Rules for a stream's configuration: problems that the server refuses, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from natstui.model.assets.defaults import normalize_stream
from natstui.model.assets.fields import (
    Config,
    is_on,
    number_at,
    objects_at,
    read,
    strings_at,
    text_at,
)
from natstui.model.assets.rules import NamesInUse, Problem, common_problems, name_problems
from natstui.model.assets.stream_fields import STREAM_FIELDS
from natstui.model.assets.subjects import (
    first_overlap,
    has_wildcard,
    is_valid_subject,
    mapping_problem,
    overlap,
)
from natstui.units import counted

_OPTIONS_NOT_IN_A_MIRROR = {
    "allow_msg_counter": "counters",
    "allow_msg_schedules": "schedules",
    "allow_atomic": "atomic batches",
    "allow_batched": "fast batches",
}


def upstream_problems(config: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the problems of the mirror and the sources."""
    mirror, sources = read(config, "mirror"), objects_at(config, "sources")
    if isinstance(mirror, Mapping):
        yield from _mirror_problems(config)
        yield from _source_problems("mirror", dict(mirror), text_at(config, "name"))
    elif is_on(config, "mirror_direct"):
        yield Problem("mirror_direct", "mirror direct works only for mirrors")
    for source in sources:
        yield from _source_problems("sources", source, text_at(config, "name"))
    keys = [_source_identity(source) for source in sources]
    if len(set(keys)) < len(keys):
        yield Problem("sources", "the same source with the same filters is listed twice")


def _source_identity(source: Config) -> tuple[str, ...]:
    transforms = objects_at(source, "subject_transforms")
    mapping_texts = [f"{text_at(item, 'src')}:{text_at(item, 'dest')}" for item in transforms]
    filter_subject = text_at(source, "filter_subject") or ("" if mapping_texts else ">")
    return text_at(source, "name"), text_at(source, "external.api"), filter_subject, *mapping_texts


def _mirror_problems(config: Mapping[str, object]) -> Iterator[Problem]:
    if strings_at(config, "subjects"):
        yield Problem("subjects", "a mirror cannot have subjects: it stores those of its origin")
    if read(config, "sources"):
        yield Problem("sources", "a mirror cannot have sources")
    if number_at(config, "first_seq") > 0:
        yield Problem(
            "first_seq",
            "a mirror cannot have a first sequence: it keeps the sequences of its origin",
        )
    for path, option_text in _OPTIONS_NOT_IN_A_MIRROR.items():
        if is_on(config, path):
            yield Problem(path, f"a mirror cannot have {option_text}: publish to its origin")


def _source_problems(path: str, source: Config, stream_name: str) -> Iterator[Problem]:
    name, api_prefix = text_at(source, "name"), text_at(source, "external.api")
    for problem in name_problems(path, name, "stream"):
        yield Problem(path, f"{path}: {problem.text}")
    if name == stream_name and name and not api_prefix:
        yield Problem(path, f"{path}: a stream cannot copy from itself")
    if number_at(source, "opt_start_seq") and text_at(source, "opt_start_time"):
        yield Problem(path, f"{path}: start at a sequence or at a time, not both")
    for prefix in (api_prefix, text_at(source, "external.deliver")):
        if prefix and (not is_valid_subject(prefix) or has_wildcard(prefix)):
            yield Problem(path, f"{path}: {prefix!r} is not a valid subject prefix")
    consumer_name, deliver_subject = (
        text_at(source, "consumer.name"),
        text_at(source, "consumer.deliver_subject"),
    )
    if bool(consumer_name) != bool(deliver_subject):
        yield Problem(path, f"{path}: a custom consumer needs consumer= and consumer-deliver=")
    yield from _filter_problems(path, source)


def _filter_problems(path: str, source: Config) -> Iterator[Problem]:
    filter_subject = text_at(source, "filter_subject")
    transforms = objects_at(source, "subject_transforms")
    if filter_subject and not is_valid_subject(filter_subject):
        yield Problem(path, f"{path}: {filter_subject!r} is not a valid subject")
    if filter_subject and transforms:
        yield Problem(path, f"{path}: both a filter and maps are set: use only one of them")
    for transform in transforms:
        problem = mapping_problem(text_at(transform, "src"), text_at(transform, "dest"))
        if problem:
            yield Problem(path, f"{path}: {problem}")
    overlapping_pair = first_overlap(
        [text_at(transform, "src") or ">" for transform in transforms]
    )
    if overlapping_pair:
        yield Problem(
            path,
            f"{path}: the filters {overlapping_pair[0]!r} and {overlapping_pair[1]!r} overlap",
        )


_MIN_MARKER_TTL_NS = 1_000_000_000
_MIN_AGE_OR_WINDOW_NS = 100_000_000
"""Minimum of the maximum age and of the duplicate window, if they are set."""
_MAX_MSG_BYTES = 2**31 - 1


def stream_problems(
    config: Mapping[str, object],
    api_level: int | None = None,
    *,
    config_before: Mapping[str, object] | None = None,
) -> tuple[Problem, ...]:
    """Return all problems of a stream's configuration, in the order of the form.

    `api_level` is that of the connected server; None: options of newer servers are no problem.
    `config_before` is the configuration before an edit, which the server has accepted.
    """
    problems = _find_problems(config, api_level)
    if config_before is not None:
        accepted_problems = _find_problems(config_before, api_level)
        return tuple(problem for problem in problems if problem not in accepted_problems)
    if is_on(config, "sealed"):
        problems.append(
            Problem("sealed", "a new stream cannot be sealed: nothing could be stored")
        )
    return tuple(problems)


def _find_problems(config: Mapping[str, object], api_level: int | None) -> list[Problem]:
    problems = list(name_problems("name", text_at(config, "name"), "stream"))
    for rule in (
        _check_subjects,
        _check_limits,
        _check_duplicate_window,
        _check_discard,
        _check_ages,
        upstream_problems,
    ):
        problems += rule(config)
    for rule in (_check_counters, _check_schedules, _check_storage, _check_transforms):
        problems += rule(config)
    problems += common_problems(config, STREAM_FIELDS, api_level)
    return problems


def _check_subjects(config: Mapping[str, object]) -> Iterator[Problem]:
    subjects = strings_at(config, "subjects")
    for subject in subjects:
        if not is_valid_subject(subject):
            yield Problem("subjects", f"Subjects: {subject!r} is not a valid subject")
        elif not is_on(config, "no_ack") and subject == ">":
            yield Problem("subjects", "to store every subject (>), switch acknowledgements off")
        elif not is_on(config, "no_ack") and _matches_server_requests(subject):
            text = (
                f"{subject!r} matches requests to the server: switch acknowledgements off to "
                "store them"
            )
            yield Problem("subjects", text)
    overlapping_pair = first_overlap(subjects)
    if overlapping_pair:
        yield Problem(
            "subjects", f"the subjects {overlapping_pair[0]!r} and {overlapping_pair[1]!r} overlap"
        )


def _matches_server_requests(subject: str) -> bool:
    """Return whether a filter matches requests to the server, not only its advisories."""
    if subject.startswith(("$JS.EVENT.", "$SYS.ACCOUNT.")):
        return False
    return overlap(subject, "$JS.>") or overlap(subject, "$JSC.>") or overlap(subject, "$SYS.>")


def _check_limits(config: Mapping[str, object]) -> Iterator[Problem]:
    if number_at(config, "max_msg_size") > _MAX_MSG_BYTES:
        yield Problem("max_msg_size", "maximum message size is above 2 GiB")
    if number_at(config, "first_seq") < 0:
        yield Problem("first_seq", "the first sequence is negative")


def _check_duplicate_window(config: Mapping[str, object]) -> Iterator[Problem]:
    duplicate_window_ns, max_age_ns = (
        number_at(config, "duplicate_window"),
        number_at(config, "max_age"),
    )
    if duplicate_window_ns < 0:
        yield Problem("duplicate_window", "the duplicate window is negative")
    elif 0 < duplicate_window_ns < _MIN_AGE_OR_WINDOW_NS:
        yield Problem("duplicate_window", "the duplicate window is shorter than 100ms")
    elif 0 < max_age_ns < duplicate_window_ns:
        text = "the duplicate window is longer than the maximum age"
        yield Problem("duplicate_window", text)


def _check_ages(config: Mapping[str, object]) -> Iterator[Problem]:
    max_age_ns = number_at(config, "max_age")
    if max_age_ns < 0:
        yield Problem("max_age", "the maximum age is negative")
    elif 0 < max_age_ns < _MIN_AGE_OR_WINDOW_NS:
        yield Problem("max_age", "the maximum age is shorter than 100ms")
    marker_ttl_ns = number_at(config, "subject_delete_marker_ttl")
    if marker_ttl_ns < 0 or 0 < marker_ttl_ns < _MIN_MARKER_TTL_NS:
        yield Problem("subject_delete_marker_ttl", "the time of delete markers is shorter than 1s")
    if marker_ttl_ns > 0 and read(config, "mirror"):
        yield Problem(
            "subject_delete_marker_ttl", "a mirror cannot have delete markers of its own"
        )


def _check_discard(config: Mapping[str, object]) -> Iterator[Problem]:
    if is_on(config, "discard_new_per_subject"):
        path = "discard_new_per_subject"
        if text_at(config, "discard") != "new":
            yield Problem(path, "discard new per subject needs discard new")
        elif number_at(config, "max_msgs_per_subject") <= 0:
            yield Problem(path, "discard new per subject needs max messages per subject")
    if is_on(config, "allow_rollup_hdrs") and is_on(config, "deny_purge"):
        yield Problem(
            "allow_rollup_hdrs",
            "roll-ups purge messages, which deny purge forbids: switch deny purge off",
        )


def _check_counters(config: Mapping[str, object]) -> Iterator[Problem]:
    if not is_on(config, "allow_msg_counter"):
        return
    path = "allow_msg_counter"
    if text_at(config, "retention") not in ("", "limits"):
        yield Problem(path, "a stream of counters needs limits retention")
    if text_at(config, "discard") == "new":
        yield Problem(path, "a stream of counters cannot discard new")
    if is_on(config, "allow_msg_ttl"):
        yield Problem(path, "a stream of counters cannot have message TTL")
    if is_on(config, "allow_msg_schedules"):
        yield Problem(path, "a stream of counters cannot have schedules")


def _check_schedules(config: Mapping[str, object]) -> Iterator[Problem]:
    if not is_on(config, "allow_msg_schedules"):
        return
    if text_at(config, "discard") == "new":
        yield Problem("allow_msg_schedules", "a stream with schedules cannot discard new")
    if objects_at(config, "sources"):
        yield Problem("allow_msg_schedules", "a stream with sources cannot schedule messages")


def _check_storage(config: Mapping[str, object]) -> Iterator[Problem]:
    if text_at(config, "persist_mode") == "async":
        if text_at(config, "storage") == "memory":
            yield Problem("persist_mode", "async persist mode needs file storage")
        if is_on(config, "allow_atomic"):
            yield Problem("persist_mode", "async persist mode does not work with atomic batches")
        if number_at(config, "num_replicas") > 1:
            yield Problem("persist_mode", "async persist mode works only with one replica")
    if text_at(config, "placement.preferred"):
        yield Problem("placement", "a stream cannot have a preferred server")


def _check_transforms(config: Mapping[str, object]) -> Iterator[Problem]:
    for name, option_text in (("subject_transform", "transform"), ("republish", "republish")):
        source, target = text_at(config, f"{name}.src"), text_at(config, f"{name}.dest")
        if read(config, name) and not target:
            yield Problem(f"{name}.dest", f"{option_text} needs a destination subject")
        problem = mapping_problem(source, target)
        if problem:
            yield Problem(f"{name}.dest", f"{option_text}: {problem}")
    target = text_at(config, "republish.dest")
    for subject in strings_at(config, "subjects") or (text_at(config, "name"),):
        if target and is_valid_subject(target) and overlap(target, subject):
            text = f"republish to {target!r} would be stored again by {subject!r}"
            yield Problem("republish.dest", text)


def stream_warnings(
    config: Mapping[str, object], in_use: NamesInUse, consumer_filters: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the warnings about a valid configuration, a sentence each.

    `in_use` are the other streams and consumers, `consumer_filters` the filters of its own
    consumers.
    """
    normal_config = normalize_stream(config)
    return (
        *_warn_of_overlaps(normal_config, in_use),
        *_warn_of_missing_origins(normal_config, in_use),
        *_warn_of_lossy_settings(normal_config, in_use),
        *_warn_of_ineffective_limits(normal_config),
        *_warn_of_unmatched_filters(normal_config, consumer_filters),
    )


def _warn_of_overlaps(config: Mapping[str, object], in_use: NamesInUse) -> Iterator[str]:
    for other_stream in in_use.streams:
        if other_stream.name == text_at(config, "name"):
            continue
        for other_subject in other_stream.subjects:
            for subject in strings_at(config, "subjects"):
                if overlap(subject, other_subject):
                    yield (
                        f"{subject!r} overlaps {other_subject!r} of stream "
                        f"{other_stream.name}: the server refuses that"
                    )


def _warn_of_missing_origins(config: Mapping[str, object], in_use: NamesInUse) -> Iterator[str]:
    mirror = read(config, "mirror")
    verbs_and_upstreams = [("mirrors", mirror)] if isinstance(mirror, Mapping) else []
    verbs_and_upstreams += [("copies from", source) for source in objects_at(config, "sources")]
    existing_stream_names = {stream.name for stream in in_use.streams}
    for verb, source in verbs_and_upstreams:
        name = text_at(source, "name")
        # Streams of other accounts and domains are not in this list.
        if (
            in_use.streams_known
            and not source.get("external")
            and name not in existing_stream_names
        ):
            yield f"this stream {verb} {name}, which does not exist: it stays empty until then"


def _warn_of_lossy_settings(config: Mapping[str, object], in_use: NamesInUse) -> Iterator[str]:
    replicas_count = number_at(config, "num_replicas")
    if in_use.servers_count is not None and replicas_count > in_use.servers_count:
        servers_text = counted(in_use.servers_count, "server")
        yield f"{replicas_count} replicas need {replicas_count} servers; available: {servers_text}"
    if replicas_count in (2, 4):
        yield (
            f"{replicas_count} replicas survive no more losses than {replicas_count - 1}: use an "
            "odd number"
        )
    if text_at(config, "storage") == "memory":
        yield (
            "memory storage: a restart of its server loses every message"
            if replicas_count == 1
            else "memory storage: a restart of all its servers loses every message"
        )
    if text_at(config, "persist_mode") == "async":
        yield "async persist mode: a crash loses messages that were already acknowledged"
    if is_on(config, "no_ack"):
        yield "no acknowledgements: publishers do not notice when a message is refused"


def _warn_of_ineffective_limits(config: Mapping[str, object]) -> Iterator[str]:
    has_size_limit = any(
        number_at(config, path) > 0 for path in ("max_msgs", "max_bytes", "max_msgs_per_subject")
    )
    if text_at(config, "discard") == "new" and not has_size_limit:
        yield "discard new has no effect without a limit of messages or bytes"
    has_max_age = number_at(config, "max_age") > 0
    if text_at(config, "retention") == "limits" and not has_size_limit and not has_max_age:
        yield "no limit at all: the stream grows until the disk or the account is full"
    if text_at(config, "retention") == "interest":
        yield "interest retention: messages published while there is no consumer are not kept"
    if text_at(config, "compression") == "s2" and text_at(config, "storage") == "memory":
        yield "compression has no effect on memory storage"


def _warn_of_unmatched_filters(
    config: Mapping[str, object], filters: Sequence[str]
) -> Iterator[str]:
    subjects = strings_at(config, "subjects")
    if read(config, "mirror") or read(config, "sources") or read(config, "subject_transform"):
        return
    for filter_subject in filters:
        if not any(overlap(filter_subject, subject) for subject in subjects):
            yield (
                f"a consumer filters {filter_subject!r}, which this stream would not store any "
                "more"
            )
