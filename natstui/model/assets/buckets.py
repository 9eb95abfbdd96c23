"""Key-value buckets and object stores: the names of their streams, subjects and configurations."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from msgspec import Struct

from natstui.model.assets.fields import Config, strings_at, text_at
from natstui.model.assets.subjects import is_literal, is_stored_subject

KV, OBJECTS = "KV_", "OBJ_"
"""Prefixes of the names of the streams of buckets and of object stores."""
MAX_HISTORY_COUNT = 64
CHUNK_BYTES = 128 * 1024
_DIGEST_PREFIX = "SHA-256="
OPERATION_HEADER, ROLLUP_HEADER, MARKER_REASON_HEADER = (
    "KV-Operation",
    "Nats-Rollup",
    "Nats-Marker-Reason",
)
TTL_HEADER = "Nats-TTL"
_OPERATION_BY_MARKER_REASON = {"MaxAge": "DEL", "Purge": "PURGE", "Remove": "DEL"}
"""Reason of a marker by the server → operation on the key."""
_MAX_DUPLICATE_WINDOW_NS = 120_000_000_000
_VALID_BUCKET_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_VALID_NEW_KEY = re.compile(r"[-/_=.a-zA-Z0-9]+")


def is_bucket_name(name: str) -> bool:
    """Return whether a name is valid for a bucket or object store: letters, digits, - and _."""
    return _VALID_BUCKET_NAME.fullmatch(name) is not None


def is_valid_new_key(key: str) -> bool:
    """Return whether a name is valid for a new key: tokens of letters, digits and `-/_=`."""
    return _VALID_NEW_KEY.fullmatch(key) is not None and all(key.split("."))


def is_stored_key(key: str) -> bool:
    """Return whether a key may exist, also one that only another client allows, as `user@host`."""
    return is_literal(key)


def is_key_filter(text: str) -> bool:
    """Return whether a text is a key, or a filter of keys with `*` and `>` as tokens."""
    tokens = [token for token in text.split(".") if token not in ("*", ">")]
    has_valid_wildcards = all("*" not in token and ">" not in token for token in tokens)
    return is_stored_subject(text) and has_valid_wildcards


def key_subject(bucket: str, key: str) -> str:
    """Return the subject of a key, or of a filter of keys."""
    return f"$KV.{bucket}.{key}"


def key_of(subject: str) -> str:
    """Return the key of a stored value, by its subject."""
    return subject.split(".", 2)[-1]


def operation_of(headers: Mapping[str, str]) -> str:
    """Return the operation on the key that a stored message stands for: PUT, DEL or PURGE.

    As in other clients, an unknown operation or marker reason counts as PUT.
    """
    operation = headers.get(OPERATION_HEADER)
    if operation in ("DEL", "PURGE"):
        return operation
    return _OPERATION_BY_MARKER_REASON.get(headers.get(MARKER_REASON_HEADER, ""), "PUT")


def is_marker(headers: Mapping[str, str]) -> bool:
    """Return whether a message is a marker that the server stored for a removed message."""
    return headers.get(MARKER_REASON_HEADER) in _OPERATION_BY_MARKER_REASON


class BucketOptions(Struct, frozen=True):
    """The options of a new bucket; None: the default of the NATS CLI."""

    description: str | None = None
    history_count: int = 1
    ttl_ns: int = 0
    marker_ttl_ns: int = 0
    replicas_count: int = 1
    storage: str = "file"
    max_value_bytes: int = -1
    max_bytes: int = -1
    compressed: bool = False


def bucket_config(bucket: str, options: BucketOptions) -> Config:
    """Return the stream configuration of a new key-value bucket."""
    config: Config = {
        "subjects": [key_subject(bucket, ">")],
        "max_msgs_per_subject": options.history_count,
        "max_msg_size": options.max_value_bytes,
        "deny_delete": True,
        "allow_direct": True,
        "duplicate_window": min(
            _MAX_DUPLICATE_WINDOW_NS, options.ttl_ns or _MAX_DUPLICATE_WINDOW_NS
        ),
    }
    if options.marker_ttl_ns:
        config["subject_delete_marker_ttl"] = options.marker_ttl_ns
        config["allow_msg_ttl"] = True
    return _shared_bucket_config(f"{KV}{bucket}", options) | config


def object_store_config(bucket: str, options: BucketOptions) -> Config:
    """Return the stream configuration of a new object store."""
    subjects = [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"]
    return _shared_bucket_config(f"{OBJECTS}{bucket}", options) | {
        "subjects": subjects,
        "allow_direct": True,
    }


def _shared_bucket_config(name: str, options: BucketOptions) -> Config:
    config: Config = {
        "name": name,
        "retention": "limits",
        "storage": options.storage,
        "discard": "new",
        "max_age": options.ttl_ns,
        "max_bytes": options.max_bytes,
        "num_replicas": options.replicas_count,
        "allow_rollup_hdrs": True,
        "compression": "s2" if options.compressed else "none",
    }
    return config | ({"description": options.description} if options.description else {})


def is_bucket_stream(config: Config) -> bool:
    """Return whether a stream whose name has the prefix of a bucket or object store is one.

    All its subjects must be those of its bucket or store; without subjects, it must be a mirror or
    have sources.
    """
    name = text_at(config, "name")
    is_kv = name.startswith(KV)
    prefix = f"$KV.{name.removeprefix(KV)}." if is_kv else f"$O.{name.removeprefix(OBJECTS)}."
    subjects = strings_at(config, "subjects")
    if not subjects:
        return bool(config.get("mirror") or config.get("sources"))
    return all(subject.startswith(prefix) for subject in subjects)


def object_info_subject(bucket: str, name: str) -> str:
    """Return the subject of the meta entry (`ObjectInfo`) of an object."""
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def object_name(subject: str) -> str:
    """Return the object name in the subject of a meta entry; the subject itself if it has none."""
    token = subject.rpartition(".")[2]
    try:
        return base64.urlsafe_b64decode(token).decode() or subject
    except ValueError:
        return subject


def chunk_subject(bucket: str, nuid: str) -> str:
    """Return the subject of the chunks of the object with the id `nuid`; `*`: of any object."""
    return f"$O.{bucket}.C.{nuid}"


def bucket_change_text(subject: str) -> str:
    """Return a clause about what a message to a subject changes in a bucket or object store.

    Empty for other subjects. `subject` may be a filter, and have the prefix of another domain.
    """
    tokens = subject.split(".")
    prefix_index = next(
        (index for index, token in enumerate(tokens) if token in ("$KV", "$O")), None
    )
    if prefix_index is None or (prefix_index > 0 and tokens[0] != "$JS"):
        return ""
    tokens = tokens[prefix_index:]
    bucket = tokens[1] if len(tokens) > 1 else ""
    bucket_text = "buckets" if bucket in ("*", ">") else f"bucket {bucket}"
    is_filter = not is_literal(subject)
    if tokens[0] == "$KV":
        if is_filter:
            return f"it changes or deletes keys of {bucket_text}"
        return (
            f"it changes or deletes key {'.'.join(tokens[2:])} of {bucket_text}"
            if len(tokens) > 2
            else ""
        )
    store_text = bucket_text.replace("bucket", "store")
    match tokens[2:]:
        case _ if is_filter:
            return f"it changes objects of {store_text}"
        case ["M", _]:
            return f"it replaces the entry of object {object_name(subject)} in {store_text}"
        case ["C", *_]:
            return f"it adds a chunk to the objects of {store_text}"
        case _:
            return ""


def digest_text(sha256: bytes) -> str:
    """Return a checksum as text, in the format of an object's meta entry."""
    return _DIGEST_PREFIX + base64.urlsafe_b64encode(sha256).decode()


def is_same_digest(digest: str, sha256: bytes) -> bool:
    """Return whether a stored digest is that of the bytes `sha256`, in any base64 variant."""
    algorithm, _, stored_base64 = digest.partition("=")
    expected_base64 = digest_text(sha256).partition("=")[2]
    stored_base64 = stored_base64.rstrip("=").replace("+", "-").replace("/", "_")
    return algorithm.upper() == _DIGEST_PREFIX[:-1] and stored_base64 == expected_base64.rstrip(
        "="
    )
