"""Buckets and object stores that other clients wrote, or that lie: read as they are."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js import JetStreamContext

from natstui.errors import Conflict
from natstui.jetstream.connection.client import Client
from natstui.jetstream.managing.keys import remaining_ttl
from natstui.jetstream.messages.reading import Reader
from natstui.model.assets.buckets import digest_text, object_info_subject
from tests.accounts import Account
from tests.cli.rewriting import speaking
from tests.cli.test_manage import Shell, run_here
from tests.jetstream.admin_session import admin_session

pytestmark = pytest.mark.server

CONTENT = b"content of an object"


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


@asynccontextmanager
async def jetstream(account: Account) -> AsyncIterator[JetStreamContext]:
    nc = await nats.connect(account.url)
    try:
        yield nc.jetstream()
    finally:
        await nc.close()


def run(work: Any) -> Any:
    return asyncio.run(work)


async def publish(account: Account, *messages: tuple[str, bytes]) -> None:
    async with jetstream(account) as js:
        for subject, payload in messages:
            await js.publish(subject, payload)


def stored(name: str, nuid: str = "n1", **fields: Any) -> bytes:
    digest = digest_text(hashlib.sha256(CONTENT).digest())
    info = {"name": name, "bucket": "B", "nuid": nuid, "size": len(CONTENT), "chunks": 1,
            "digest": digest, **fields}  # fmt: skip
    return json.dumps({key: value for key, value in info.items() if value is not None}).encode()


@pytest.mark.parametrize(
    "key",
    [
        "user@host",
        "a\xa0b",
        "a\u2028b",
        *(
            pytest.param(key, marks=pytest.mark.long)
            for key in ("a:b", "über", "~", "a+b", "a\x85b", "\u3000")
        ),
    ],
)
def test_a_key_of_another_client_is_listed_read_and_deleted(
    shell: Shell, account: Account, key: str
) -> None:
    shell.ok("kv", "add", "B", "--history", "3")
    run(publish(account, (f"$KV.B.{key}", b"one"), (f"$KV.B.{key}", b"two")))
    assert json.loads(shell.ok("kv", "keys", "B", "--json")) == [key]
    assert shell.ok("kv", "get", "B", key) == "two"
    assert len(shell.ok("kv", "history", "B", key, "--json").splitlines()) == 2
    shell.ok("kv", "put", "B", key, "three")
    shell.ok("kv", "del", "B", key)
    assert json.loads(shell.ok("kv", "keys", "B", "--json")) == []


_UNKNOWN = [
    {"KV-Operation": "WEIRD"}, {"KV-Operation": "del"}, {"KV-Operation": ""},
    {"Nats-Marker-Reason": "Nope"}, {"KV-Operation": "PUT"},
]  # fmt: skip


@pytest.mark.parametrize(
    "headers",
    [*_UNKNOWN[:2], *(pytest.param(headers, marks=pytest.mark.long) for headers in _UNKNOWN[2:])],
)
def test_only_known_operations_and_reasons_delete_a_key(
    shell: Shell, account: Account, headers: dict[str, str]
) -> None:
    shell.ok("kv", "add", "B")

    async def put() -> bytes:
        async with jetstream(account) as js:
            await js.publish("$KV.B.k", b"theirs", headers=headers)
            return (await (await js.key_value("B")).get("k")).value or b""

    assert run(put()) == b"theirs"
    assert shell.ok("kv", "get", "B", "k") == "theirs"
    assert json.loads(shell.ok("kv", "keys", "B", "--json")) == ["k"]
    assert json.loads(shell.ok("kv", "history", "B", "k", "--json"))["operation"] == "PUT"
    refused = shell.run("kv", "create", "B", "k", "mine", "--yes")
    assert refused.returncode == 4
    assert "exists already, at revision 1" in refused.stderr
    assert shell.ok("kv", "get", "B", "k") == "theirs"


@pytest.mark.parametrize(
    "headers",
    [{"KV-Operation": "DEL"}, {"KV-Operation": "PURGE"}]
    + [{"Nats-Marker-Reason": reason} for reason in ("MaxAge", "Purge", "Remove")],
)
def test_a_key_that_another_client_or_the_server_deleted_has_no_value(
    shell: Shell, account: Account, headers: dict[str, str]
) -> None:
    shell.ok("kv", "add", "B")

    async def delete() -> None:
        async with jetstream(account) as js:
            await js.publish("$KV.B.k", b"", headers=headers)

    run(delete())
    missing = shell.run("kv", "get", "B", "k")
    assert missing.returncode == 4
    assert "was deleted at revision 1" in missing.stderr
    assert json.loads(shell.ok("kv", "keys", "B", "--json")) == []
    shell.ok("kv", "create", "B", "k", "mine")


def test_natstui_makes_no_key_that_other_clients_refuse(shell: Shell) -> None:
    shell.ok("kv", "add", "B")
    refused = shell.run("kv", "put", "B", "user@host", "x", "--yes")
    assert refused.returncode == 2
    assert "'user@host' cannot name a new key" in refused.stderr


def test_a_key_that_is_a_wildcard_removes_nothing_else(shell: Shell, account: Account) -> None:
    shell.ok("kv", "add", "B")
    shell.ok("kv", "put", "B", "precious", "x")
    for key in (">", "*", "a.>", "a b", "a..b"):
        for verb in ("purge", "del", "get"):
            assert shell.run("kv", verb, "B", key, "--yes" if verb != "get" else "--json"
                             ).returncode == 2, (verb, key)  # fmt: skip
    assert shell.ok("kv", "get", "B", "precious") == "x"


@pytest.mark.parametrize(
    "nuid",
    [">", "", "a b", *(pytest.param(nuid, marks=pytest.mark.long) for nuid in ("*", "a.b"))],
)
def test_an_id_that_is_a_wildcard_purges_nothing(
    shell: Shell, account: Account, nuid: str
) -> None:
    shell.ok("object", "add", "B")
    (shell.folder / "precious").write_bytes(b"precious")
    shell.ok("object", "put", "B", str(shell.folder / "precious"))
    run(publish(account, (object_info_subject("B", "evil"), stored("evil", nuid))))
    shell.run("object", "rm", "B", "evil", "--yes")
    shell.run("object", "put", "B", str(shell.folder / "precious"), "--name", "evil", "--yes")
    assert shell.ok("object", "get", "B", "precious", "-O", "-") == "precious"
    got = shell.run("object", "get", "B", "evil", "-O", str(shell.folder / "out"))
    assert got.returncode == 0 and (shell.folder / "out").read_bytes() == b"precious"


def test_an_entry_with_the_name_of_another_object_does_not_hide_it(
    shell: Shell, account: Account
) -> None:
    shell.ok("object", "add", "B")
    run(
        publish(
            account,
            ("$O.B.C.n1", CONTENT),
            *((object_info_subject("B", name), stored(name)) for name in ("good", "thief")),
            (object_info_subject("B", "other"), stored("good", "n2", deleted=True)),
            (object_info_subject("B", "third"), stored("good", "n3")),
        )
    )
    listed = [row["name"] for row in json.loads(shell.ok("object", "ls", "B", "--json"))]
    assert sorted(listed) == ["good", "thief", "third"]
    changed = shell.run("object", "rm", "B", "thief", "--yes")
    assert changed.returncode == 4 and "good has them too" in changed.stderr
    assert shell.ok("object", "get", "B", "good", "-O", "-") == CONTENT.decode()


@pytest.mark.parametrize("change", ["rm", "put"])
def test_chunks_that_another_object_has_too_stay(
    shell: Shell, account: Account, change: str
) -> None:
    shell.ok("object", "add", "B")
    # As after a rename that another client did not finish.
    run(
        publish(
            account,
            ("$O.B.C.n1", CONTENT),
            *((object_info_subject("B", name), stored(name)) for name in ("before", "after")),
        )
    )
    if change == "rm":
        changed = shell.run("object", "rm", "B", "before", "--yes")
    else:
        (shell.folder / "other").write_bytes(b"other")
        words = ("object", "put", "B", str(shell.folder / "other"), "--name", "before", "--yes")
        changed = shell.run(*words)
    assert changed.returncode == 4, changed
    assert "the chunks of what before was before stay in B: after has them too" in changed.stderr
    assert shell.ok("object", "get", "B", "after", "-O", "-") == CONTENT.decode()


def test_an_object_under_another_encoding_of_its_name_is_like_any_other(
    shell: Shell, account: Account
) -> None:
    name = "dir/ü.bin"
    subject = "$O.B.M." + base64.urlsafe_b64encode(name.encode("latin-1")).decode()
    shell.ok("object", "add", "B")
    run(publish(account, ("$O.B.C.n1", CONTENT), (subject, stored(name))))
    assert [row["name"] for row in json.loads(shell.ok("object", "ls", "B", "--json"))] == [name]
    assert "dir/ü.bin" in shell.ok("object", "info", "B", name)
    assert shell.ok("object", "get", "B", name, "-O", "-") == CONTENT.decode()
    shell.ok("object", "link", "B", "link", f"B/{name}")
    assert shell.ok("object", "get", "B", "link", "-O", "-") == CONTENT.decode()
    shell.ok("object", "rm", "B", name, "--yes")
    rows = json.loads(shell.ok("object", "ls", "B", "--json"))
    assert [row["name"] for row in rows] == ["link"]


@pytest.mark.parametrize(
    "info",
    [
        b"{",
        b'{"name": 7}',
        pytest.param(b'{"name": "bad", "size": "x"}', marks=pytest.mark.long),
        pytest.param(b"", marks=pytest.mark.long),
    ],
)
def test_one_damaged_entry_hides_no_other_file(
    shell: Shell, account: Account, info: bytes
) -> None:
    shell.ok("object", "add", "B")
    (shell.folder / "good").write_bytes(CONTENT)
    shell.ok("object", "put", "B", str(shell.folder / "good"))
    # Nothing tells whose these chunks are: they are no upload that was never finished.
    run(publish(account, ("$O.B.C.n9", CONTENT), (object_info_subject("B", "bad"), info)))
    for words in (("object", "ls", "B"), ("object", "ls", "B", "--json")):
        listed = shell.run(*words)
        assert listed.returncode == 4
        assert "good" in listed.stdout and "bad" not in listed.stdout
        (line,) = listed.stderr.splitlines()
        assert line.startswith("natstui: the metadata of bad in B cannot be read: ")
    described = shell.run("object", "info", "B")
    assert described.returncode == 0
    assert "the metadata of bad in B cannot be read" in described.stderr


def test_a_list_that_is_read_on_after_lost_messages_has_only_the_last_of_each_key_and_file(
    shell: Shell, account: Account
) -> None:
    shell.ok("kv", "add", "B", "--history", "5")
    for words in ("put B c 1", "put B a 1", "del B a", "put B b 1", "put B b 2"):
        shell.ok("kv", *words.split())
    shell.ok("object", "add", "B")
    infos = (("c", stored("c")), ("a", b"damaged"), ("a", stored("a")), ("b", stored("b")))
    run(publish(account, *((object_info_subject("B", name), info) for name, info in infos)))
    # The message with sequence 3 seems to follow others that were not received.
    with speaking(account.url, b".1.3.2.", b".1.3.9.") as url:
        assert json.loads(shell.ok("kv", "keys", "B", "--json", "--server", url)) == ["b", "c"]
        files = json.loads(shell.ok("object", "ls", "B", "--json", "--server", url))
    assert [file["name"] for file in files] == ["a", "b", "c"]


def test_what_a_digest_proves_is_said(shell: Shell, account: Account) -> None:
    shell.ok("object", "add", "B")
    sha256 = hashlib.sha256(CONTENT).digest()
    standard = "SHA-256=" + base64.b64encode(sha256).decode()
    digests = {"none": None, "standard": standard, "wrong": digest_text(b"x" * 32)}
    for name, digest in digests.items():
        info = stored(name, f"n-{name}", digest=digest)
        run(
            publish(account, (f"$O.B.C.n-{name}", CONTENT), (object_info_subject("B", name), info))
        )
    out = shell.folder / "out"
    assert "digest checked" in shell.ok("object", "get", "B", "standard", "-O", str(out))
    for name, why in (("none", "has no digest"), ("wrong", "its digest is not")):
        target = shell.folder / name
        refused = shell.run("object", "get", "B", name, "-O", str(target))
        assert refused.returncode == 4 and why in refused.stderr
        assert "--no-verify" in refused.stderr and not target.exists()
        rescued = shell.ok("object", "get", "B", name, "-O", str(target), "--no-verify")
        assert "NOT VERIFIED" in rescued and why in rescued and "digest checked" not in rescued
        assert target.read_bytes() == CONTENT
    for digest, code in ((digest_text(sha256), 4), (digest_text(hashlib.sha256().digest()), 0)):
        info = stored("empty", digest=digest, size=0, chunks=0)
        run(publish(account, (object_info_subject("B", "empty"), info)))
        done = shell.run("object", "get", "B", "empty", "-O", str(shell.folder / f"empty{code}"))
        assert (done.returncode, "its digest is not" in done.stderr) == (code, bool(code)), done


def test_a_name_with_a_line_break_forges_no_sentence(shell: Shell, account: Account) -> None:
    name, shown = "a\nnatstui: b\x1b[31m", "a␊natstui: b␛[31m"
    shell.ok("object", "add", "B")
    wrong = stored(name, digest=digest_text(b"x" * 32))
    run(publish(account, ("$O.B.C.n1", CONTENT), (object_info_subject("B", name), wrong)))
    (shell.folder / "f").write_bytes(CONTENT)
    out = str(shell.folder / "out")
    for words in (
        ("get", "B", name, "-O", out), ("get", "B", name, "-O", "-", "--no-verify"),
        ("put", "B", str(shell.folder / "f"), "--name", name), ("rm", "B", name),
        ("rm", "B", name, "--yes"), ("rm", "B", name, "--yes"), ("info", "B", name),
        ("link", "B", "x", f"B/{name}"),
    ):  # fmt: skip
        done = run_here("object", *words, environment=shell.environment)
        assert "\x1b" not in done.stderr and all(
            line.startswith(("natstui: ", "this ")) and "natstui: b" not in line[:10]
            for line in done.stderr.splitlines()
        ), done.stderr
        assert shown in done.stderr, words


def test_links_are_followed_to_their_end_and_loops_are_refused(
    shell: Shell, account: Account
) -> None:
    shell.ok("object", "add", "B")

    def link(name: str, to: str) -> tuple[str, bytes]:
        options = {"link": {"bucket": "B", "name": to}}
        info = stored(name, name, size=0, chunks=0, digest=None, options=options)
        return object_info_subject("B", name), info

    run(publish(account, ("$O.B.C.n1", CONTENT),
                (object_info_subject("B", "file"), stored("file")),
                link("first", "second"), link("second", "file"), link("self", "self"),
                link("left", "right"), link("right", "left")))  # fmt: skip
    assert shell.ok("object", "get", "B", "first", "-O", "-") == CONTENT.decode()
    for name in ("self", "left", "right"):
        out = shell.folder / name
        refused = shell.run("object", "get", "B", name, "-O", str(out))
        assert refused.returncode == 4 and "leads to itself" in refused.stderr
        assert not out.exists()


@pytest.mark.long
def test_a_reader_ends_when_what_it_reads_vanishes(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        client: Client = session.writer.client
        session.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        for number in range(3000):
            session.run(client.publish("s", b"x" * 1000 + b"%d" % number))

        async def read() -> int:
            count = 0
            async with Reader(client, "S", reads_stored_only=True) as reader:
                # Nothing is read before it vanishes: the messages in flight come all the same.
                await client.request("STREAM.PURGE.S")
                async for _ in reader:
                    count += 1
            return count

        async def within() -> int:
            async with asyncio.timeout(30):
                return await read()

        assert session.run(within()) < 3000
        assert session.run(within()) == 0


def test_a_value_that_is_put_back_has_what_was_left_of_its_ttl(
    shell: Shell, account: Account
) -> None:
    shell.ok("kv", "add", "B", "--history", "3", "--marker-ttl", "1h")
    shell.ok("kv", "create", "B", "lock", "mine", "--ttl", "1h")
    shell.ok("kv", "put", "B", "lock", "other")
    shell.ok("undo", "--yes")
    assert shell.ok("kv", "get", "B", "lock") == "mine"

    async def ttl() -> str:
        async with jetstream(account) as js:
            message = await js.get_last_msg("KV_B", "$KV.B.lock")
            return (message.headers or {})["Nats-TTL"]

    assert 3500 <= int(run(ttl()).removesuffix("s")) <= 3600


def test_what_is_left_of_a_ttl() -> None:
    assert remaining_ttl(None, 0, 10) is None
    assert remaining_ttl("never", 0, 10) == "never"
    assert remaining_ttl("90", 0, 30_000_000) == "60s"
    assert remaining_ttl("1h", 0, 1_800_000_000) == "1800s"
    assert remaining_ttl("10s", 0, 9_900_000) == "1s"
    for ttl in ("10s", "nonsense"):
        with pytest.raises(Conflict):
            remaining_ttl(ttl, 0, 10_000_000)


@pytest.mark.parametrize(
    "size",
    [
        10**400,
        "abc",
        0.5,
        *(pytest.param(size, marks=pytest.mark.long) for size in (-1, [1], 1e300)),
    ],
)
def test_a_size_that_no_object_has_is_a_sentence(
    shell: Shell, account: Account, size: object
) -> None:
    shell.ok("object", "add", "B")
    run(publish(account, (object_info_subject("B", "f"), stored("f", size=size))))
    for words in ("ls B", "info B f", "get B f -O -", "rm B f --yes"):
        done = shell.run("object", *words.split())
        assert done.returncode == 4, (words, done)
        assert "cannot be read" in done.stderr, (words, done)
