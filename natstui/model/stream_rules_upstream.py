"""What the server would refuse in the mirror and the sources of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from natstui.model.config_field import (
    Config,
    is_on,
    number_at,
    objects_at,
    read,
    strings_at,
    text_at,
)
from natstui.model.config_rules import Problem, name_problems
from natstui.model.subjects import first_overlap, has_wildcard, is_subject, mapping_problem

_NOT_IN_A_MIRROR = {
    "allow_msg_counter": "counters",
    "allow_msg_schedules": "schedules",
    "allow_atomic": "atomic batches",
    "allow_batched": "fast batches",
}


def upstream_problems(config: Mapping[str, object]) -> Iterator[Problem]:
    """Yield what is wrong with the mirror and the sources."""
    mirror, sources = read(config, "mirror"), objects_at(config, "sources")
    if isinstance(mirror, Mapping):
        yield from _mirror_problems(config)
        yield from _upstream_problems("mirror", dict(mirror), text_at(config, "name"))
    elif is_on(config, "mirror_direct"):
        yield Problem("mirror_direct", "mirror direct is for mirrors")
    for source in sources:
        yield from _upstream_problems("sources", source, text_at(config, "name"))
    keys = [_identity(source) for source in sources]
    if len(set(keys)) < len(keys):
        yield Problem("sources", "a source is named twice with the same filters")


def _identity(source: Config) -> tuple[str, ...]:
    transforms = objects_at(source, "subject_transforms")
    maps = [f"{text_at(item, 'src')}:{text_at(item, 'dest')}" for item in transforms]
    wide = text_at(source, "filter_subject") or ("" if maps else ">")
    return text_at(source, "name"), text_at(source, "external.api"), wide, *maps


def _mirror_problems(config: Mapping[str, object]) -> Iterator[Problem]:
    if strings_at(config, "subjects"):
        yield Problem("subjects", "a mirror has no subjects: it stores those of its origin")
    if read(config, "sources"):
        yield Problem("sources", "a mirror has no other sources")
    if number_at(config, "first_seq") > 0:
        yield Problem("first_seq", "a mirror takes its sequences from its origin")
    for path, what in _NOT_IN_A_MIRROR.items():
        if is_on(config, path):
            yield Problem(path, f"a mirror has no {what}: publish to its origin")


def _upstream_problems(path: str, source: Config, own_name: str) -> Iterator[Problem]:
    name, api = text_at(source, "name"), text_at(source, "external.api")
    for problem in name_problems(path, name, "stream"):
        yield Problem(path, f"{path}: {problem.text}")
    if name == own_name and name and not api:
        yield Problem(path, f"{path}: a stream cannot copy from itself")
    if number_at(source, "opt_start_seq") and text_at(source, "opt_start_time"):
        yield Problem(path, f"{path}: start at a sequence or at a time, not both")
    for prefix in (api, text_at(source, "external.deliver")):
        if prefix and (not is_subject(prefix) or has_wildcard(prefix)):
            yield Problem(path, f"{path}: {prefix!r} is not a subject prefix without wildcards")
    named, subject = text_at(source, "consumer.name"), text_at(source, "consumer.deliver_subject")
    if bool(named) != bool(subject):
        yield Problem(path, f"{path}: a custom consumer needs consumer= and consumer-deliver=")
    yield from _filter_problems(path, source)


def _filter_problems(path: str, source: Config) -> Iterator[Problem]:
    filter_subject = text_at(source, "filter_subject")
    transforms = objects_at(source, "subject_transforms")
    if filter_subject and not is_subject(filter_subject):
        yield Problem(path, f"{path}: {filter_subject!r} is not a valid subject")
    if filter_subject and transforms:
        yield Problem(path, f"{path}: write a filter or maps, not both")
    for item in transforms:
        problem = mapping_problem(text_at(item, "src"), text_at(item, "dest"))
        if problem:
            yield Problem(path, f"{path}: {problem}")
    pair = first_overlap([text_at(item, "src") or ">" for item in transforms])
    if pair:
        yield Problem(path, f"{path}: the filters {pair[0]!r} and {pair[1]!r} overlap")
