"""A mirror or source as one line of text: `NAME seq=5 filter=a.> map=a.*:b.$1`."""

from __future__ import annotations

from natstui.model.config_field import Config, number_at, objects_at, text_at, written

_SOURCE_KEYS = {
    "seq": "opt_start_seq",
    "time": "opt_start_time",
    "filter": "filter_subject",
    "api": "external.api",
    "deliver": "external.deliver",
    "consumer": "consumer.name",
    "consumer-deliver": "consumer.deliver_subject",
}


def source_of(text: str) -> Config:
    """Return the mirror or source that `NAME seq=5 filter=a.> map=a.*:b.$1` describes."""
    name, *words = text.split()
    source: Config = {"name": name}
    maps: list[Config] = []
    for word in words:
        key, sign, value = word.partition("=")
        if key == "map" and ":" in value:
            maps.append(dict(zip(("src", "dest"), value.split(":", 1), strict=True)))
        elif sign and value and key in _SOURCE_KEYS:
            sequence = key == "seq"
            if sequence and not value.isdigit():
                raise ValueError(f"{value!r} is not a sequence: write it as seq=100")
            source = written(source, _SOURCE_KEYS[key], int(value) if sequence else value)
        else:
            known = ", ".join([*_SOURCE_KEYS, "map"])
            raise ValueError(f"{word!r} is not understood: write key=value with {known}")
    return {**source, "subject_transforms": maps} if maps else source


def source_text(source: Config) -> str:
    """Return the text that `source_of` reads back."""
    words = [text_at(source, "name")]
    for key, path in _SOURCE_KEYS.items():
        value = number_at(source, path) if key == "seq" else text_at(source, path)
        words += [f"{key}={value}"] if value else []
    for mapping in objects_at(source, "subject_transforms"):
        words.append(f"map={text_at(mapping, 'src')}:{text_at(mapping, 'dest')}")
    return " ".join(words)
