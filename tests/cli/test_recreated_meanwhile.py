"""What others create or recreate just before a request arrives is not taken for one's own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg

from natstui.jetstream.managing import apply, restore
from tests.accounts import Account
from tests.cli.rewriting import just_before, speaking
from tests.cli.test_manage import Shell
from tests.jetstream.flushing import flushed

pytestmark = pytest.mark.server


@pytest.fixture
def shell(account: Account, tmp_path: Path) -> Shell:
    return Shell(account.url, tmp_path)


STORE_NOT_CREATED = 10049


def request(url: str, *requests: tuple[str, dict[str, Any] | bytes]) -> None:
    """Send requests, one after the other; a subject that begins with $JS is of the API."""

    async def send() -> None:
        nc = await nats.connect(url)
        try:
            for subject, body in requests:
                payload = body if isinstance(body, bytes) else json.dumps(body).encode()
                reply = json.loads((await nc.request(subject, payload, 30)).data)
                # A node of a cluster may still be removing the store of the same name.
                async with asyncio.timeout(30):
                    while reply.get("error", {}).get("err_code") == STORE_NOT_CREATED:
                        await asyncio.sleep(0.1)
                        reply = json.loads((await nc.request(subject, payload, 30)).data)
                assert "error" not in reply, reply
        finally:
            await nc.close()

    asyncio.run(send())


_STREAM = {"name": "S", "subjects": ["s.>"], "max_age": 0}
_CONSUMER = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
_FILL: tuple[tuple[str, dict[str, Any] | bytes], ...] = (
    ("$JS.API.STREAM.CREATE.S", _STREAM),
    ("$JS.API.CONSUMER.DURABLE.CREATE.S.C", _CONSUMER),
    ("s.a", b"one"),
    ("s.a", b"two"),
)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ("STREAM.UPDATE.S", ("stream", "seal", "S")),
        ("STREAM.UPDATE.S", ("stream", "edit", "S", "--max-msgs", "100")),
        ("STREAM.MSG.DELETE.S", ("stream", "rmm", "S", "2")),
        ("STREAM.PURGE.S", ("stream", "purge", "S")),
        ("CONSUMER.PAUSE.S.C", ("consumer", "pause", "S", "C", "1h")),
        ("CONSUMER.CREATE.S.C", ("consumer", "edit", "S", "C", "--description", "mine")),
    ],
)
def test_a_change_of_what_was_recreated_just_before_it_is_no_success(
    shell: Shell, account: Account, sent: str, words: tuple[str, ...]
) -> None:
    request(account.url, *_FILL)

    def recreate() -> None:
        request(account.url, ("$JS.API.STREAM.DELETE.S", {}), *_FILL)

    with just_before(account.url, sent.encode(), recreate) as url:
        done = shell.run(*words, "--server", url, "--yes")
    kind_name = "consumer C" if words[0] == "consumer" else "stream S"
    assert done.returncode == 4, done
    assert done.stderr.endswith(
        f"the {kind_name} of now is another one: it was recreated meanwhile\n"
    )


def test_a_consumer_that_is_deleted_on_a_recreated_stream_is_no_success(
    shell: Shell, account: Account
) -> None:
    request(account.url, *_FILL)

    def recreate() -> None:
        request(account.url, ("$JS.API.STREAM.DELETE.S", {}), *_FILL)

    with just_before(account.url, b"CONSUMER.DELETE.S.C", recreate) as url:
        done = shell.run("consumer", "rm", "S", "C", "--server", url, "--yes")
    assert done.returncode == 4, done
    assert done.stderr.endswith("the stream S of now is another one: it was recreated meanwhile\n")


@pytest.mark.parametrize(
    ("sent", "read", "words", "done_text"),
    [
        ("STREAM.MSG.DELETE.S", "STREAM.INFO.S", "stream rmm S 2", "message 2 of S deleted"),
        ("STREAM.PURGE.S", "STREAM.INFO.S", "stream purge S", "2 messages of S removed"),
        (
            "CONSUMER.PAUSE.S.C",
            "CONSUMER.INFO.S.C",
            "consumer pause S C 1h",
            "C on S paused until",
        ),
        ("CONSUMER.PAUSE.S.C", "CONSUMER.INFO.S.C", "consumer resume S C", "C on S resumed"),
    ],
)
def test_a_change_of_what_was_deleted_right_after_it_is_no_success(
    shell: Shell, account: Account, sent: str, read: str, words: str, done_text: str
) -> None:
    request(account.url, *_FILL)

    def delete() -> None:
        request(account.url, ("$JS.API.STREAM.DELETE.S", {}))

    with just_before(account.url, read.encode(), delete, after=sent.encode()) as url:
        done = shell.run(*words.split(), "--server", url, "--yes")
    assert done.returncode == 4, done
    assert done_text in done.stderr, done
    assert "as the server replied; it could not be read again: " in done.stderr


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("STREAM.DELETE.S", "stream rm S"),
        ("CONSUMER.DELETE.S.C", "consumer rm S C"),
        ("STREAM.MSG.DELETE.S", "stream rmm S 2"),
    ],
)
async def test_what_the_server_says_to_be_deleted_and_is_not_is_no_success(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, words: str
) -> None:
    monkeypatch.setattr(apply, "_DELETE_TIMEOUT_S", 0.2)
    await asyncio.to_thread(request, account.url, *_FILL)
    nc = await nats.connect(account.url)

    async def reply(msg: Msg) -> None:
        await msg.respond(b'{"success": true}')

    # The request goes to somebody who replies as the server does, and does nothing.
    await nc.subscribe(f"LIE.API.{verb}", cb=reply)
    await flushed(nc)
    lie, truth = f"LIE.API.{verb}".encode(), f"$JS.API.{verb}".encode()
    with speaking(account.url, lie, truth) as url:
        done = await asyncio.to_thread(Shell(url, tmp_path).run, *words.split(), "--yes")
    await nc.close()
    assert done.returncode == 4, done
    assert "the server replied that it was deleted, but it is still there" in done.stderr


def test_a_message_that_is_not_there_is_not_requested_to_be_deleted(
    shell: Shell, account: Account
) -> None:
    request(account.url, *_FILL)
    missing = shell.run("stream", "rmm", "S", "999999", "--yes")
    assert (missing.returncode, missing.stderr) == (4, "natstui: S has no message 999999\n")
    assert json.loads(shell.ok("journal", "--json")) == []
    question = shell.run("stream", "rmm", "S", "2").stderr
    assert "this will delete message 2 of stream S: 1 message, 2 of s.a, is removed" in question


def test_what_somebody_else_created_and_uses_is_not_undone(shell: Shell, account: Account) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>", "--yes")
    shell.ok("kv", "add", "B")
    shell.ok("object", "add", "B")
    configs = {
        name: json.loads(shell.ok("stream", "info", name, "--json"))["config"]
        for name in ("S", "KV_B", "OBJ_B")
    }
    uses = {
        "S": ("s.a", ("stream", "add", "S", "--subjects", "s.>"), "stream S"),
        "KV_B": ("$KV.B.a", ("kv", "add", "B"), "bucket B"),
        "OBJ_B": ("$O.B.C.a", ("object", "add", "B"), "object store B"),
    }
    for name, (subject, words, text) in uses.items():
        request(account.url, (f"$JS.API.STREAM.DELETE.{name}", {}))

        def create(name: str = name, subject: str = subject) -> None:
            create_verb = f"$JS.API.STREAM.CREATE.{name}"
            request(account.url, (create_verb, configs[name]), (subject, b"precious"))

        with just_before(account.url, f"STREAM.CREATE.{name}".encode(), create) as url:
            printed = shell.ok(*words, "--server", url, "--yes")
        assert f"{text} is there: it has 1 message already, and may be of somebody" in printed
        undone = shell.run("undo", "--yes")
        assert undone.returncode == 2, undone
        assert f"create stream {name}, cannot be undone" in undone.stderr
        info = json.loads(shell.ok("stream", "info", name, "--json"))
        assert info["state"]["messages"] == 1


def test_a_restored_stream_that_is_recreated_before_its_last_change_is_named(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    request(account.url, *_FILL)
    shell.ok("stream", "backup", "S", str(tmp_path / "kept"))
    shell.ok("stream", "rm", "S", "--yes")

    def recreate() -> None:
        request(account.url, ("$JS.API.STREAM.DELETE.S", {}), *_FILL)

    with just_before(account.url, b"STREAM.UPDATE.S", recreate) as url:
        done = shell.run("stream", "restore", str(tmp_path / "kept"), "--server", url)
    assert done.returncode == 4, done
    assert "is another one: it was recreated meanwhile, and has the configuration" in done.stderr


@pytest.mark.parametrize(
    ("sent", "after", "meanwhile", "sentence"),
    [
        ("INFO", "UPDATE", "recreated", "S was restored, but the stream that has the name now is"),
        ("INFO", "UPDATE", "deleted", "S was restored, but somebody deleted it meanwhile"),
        ("UPDATE", "", "deleted", "S was restored, but somebody deleted it meanwhile"),
        ("INFO", "UPDATE", "purged", "S was restored, but changed meanwhile: messages 0 instead"),
    ],
)
@pytest.mark.parametrize(
    "words", [("stream", "backup", "S"), pytest.param(("backup",), marks=pytest.mark.long)]
)
def test_a_restored_stream_that_is_another_one_at_the_end_is_no_success(
    shell: Shell,
    account: Account,
    tmp_path: Path,
    words: tuple[str, ...],
    sent: str,
    after: str,
    meanwhile: str,
    sentence: str,
) -> None:
    request(account.url, *_FILL)
    folder = str(tmp_path / "kept")
    shell.ok(*words, folder)
    shell.ok("stream", "rm", "S", "--yes")

    def change() -> None:
        if meanwhile == "purged":
            request(account.url, ("$JS.API.STREAM.PURGE.S", {}))
            return
        again = _FILL if meanwhile == "recreated" else ()
        request(account.url, ("$JS.API.STREAM.DELETE.S", {}), *again)

    sent_bytes, after_bytes = f"STREAM.{sent}.S".encode(), after and f"STREAM.{after}.S"
    with just_before(account.url, sent_bytes, change, after=after_bytes.encode()) as url:
        restore = ("stream", "restore") if words[0] == "stream" else ("restore",)
        done = shell.run(*restore, folder, "--server", url)
    assert done.returncode == 4, done
    assert sentence in done.stderr
    assert "restored before this" not in done.stderr


@pytest.mark.needs_server("2.11")
def test_messages_without_a_ttl_have_not_expired_in_a_restored_stream(
    shell: Shell, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "_MIN_STABLE_S", 0.3)
    create = ("$JS.API.STREAM.CREATE.S", {**_STREAM, "allow_msg_ttl": True})
    request(account.url, create, *_FILL[1:])
    shell.ok("stream", "backup", "S", str(tmp_path / "kept"))
    shell.ok("stream", "rm", "S", "--yes")

    def purge() -> None:
        request(account.url, ("$JS.API.STREAM.PURGE.S", {"keep": 1}))

    with just_before(account.url, b"STREAM.INFO.S", purge, after=b"STREAM.UPDATE.S") as url:
        done = shell.run("stream", "restore", str(tmp_path / "kept"), "--server", url)
    assert done.returncode == 4, done
    assert "S was restored, but changed meanwhile: messages 1 instead of 2" in done.stderr


def test_a_restored_stream_from_which_a_consumer_takes_is_restored(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    request(account.url, ("$JS.API.STREAM.CREATE.S", {**_STREAM, "retention": "workqueue"}))
    request(account.url, *_FILL[1:])
    shell.ok("stream", "backup", "S", str(tmp_path / "kept"))
    shell.ok("stream", "rm", "S", "--yes")

    def take() -> None:
        shell.ok("consumer", "next", "S", "C", "--ack", "--yes")

    with just_before(account.url, b"STREAM.INFO.S", take, after=b"STREAM.UPDATE.S") as url:
        done = shell.run("stream", "restore", str(tmp_path / "kept"), "--server", url)
    assert done.returncode == 0, done
    assert "S restored, not the same as in its backup: 1 message" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("sub", "--stream", "S", "--all", "--wait", "1s"),
        ("kv", "watch", "B", "--wait", "1s"),
    ],
)
def test_a_read_that_ends_by_itself_names_a_stream_that_was_recreated(
    shell: Shell, account: Account, words: tuple[str, ...]
) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>", "--yes")
    shell.ok("kv", "add", "B")
    name = "S" if words[0] == "sub" else "KV_B"
    config = json.loads(shell.ok("stream", "info", name, "--json"))["config"]

    def recreate() -> None:
        create_verb = f"$JS.API.STREAM.CREATE.{name}"
        message = ("s.a" if name == "S" else "$KV.B.theirs", b"theirs")
        request(account.url, (f"$JS.API.STREAM.DELETE.{name}", {}), (create_verb, config), message)

    # The consumer is of the new stream: messages of the one that was announced are gone.
    with just_before(account.url, f"CONSUMER.CREATE.{name}".encode(), recreate) as url:
        done = shell.run(*words, "--server", url)
    assert done.returncode == 4, done
    sentence = f"{name} was deleted and recreated while it was read"
    assert f"{sentence}: nothing was read\n" in done.stderr
    assert "theirs" not in done.stdout
    # The consumer is of the old one; the last look at the stream comes after it is read.
    own = ("s.a" if name == "S" else "$KV.B.mine", b"mine")
    request(account.url, (f"$JS.API.STREAM.PURGE.{name}", {}), own)
    with just_before(
        account.url, f"STREAM.INFO.{name}".encode(), recreate, nth=2, after=b"CONSUMER.CREATE"
    ) as url:
        done = shell.run(*words, "--server", url)
    assert done.returncode == 4, done
    assert f"{sentence}: what was read up to sequence 2 is of the deleted stream" in done.stderr
    assert "mine" in done.stdout and "theirs" not in done.stdout


def test_messages_of_a_stream_that_was_recreated_with_others_are_not_called_stored(
    shell: Shell, account: Account
) -> None:
    request(account.url, *_FILL)

    def recreate() -> None:
        others = [("s.b", b"theirs")] * 4
        request(account.url, ("$JS.API.STREAM.DELETE.S", {}), _FILL[0], *others)

    # Their numbers go on, so that the sequences of the acks do not tell.
    with just_before(account.url, b"mine 3", recreate) as url:
        words = ("pub", "s.a", "mine {{Count}}", "--templates", "--count", "5", "-J")
        done = shell.run(*words, "--server", url)
    assert done.returncode == 4, done
    assert "S was deleted and recreated meanwhile: what it stored before" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("nth", [30, pytest.param(100, marks=pytest.mark.long)])
def test_a_benchmark_does_not_count_what_a_recreated_stream_has(
    shell: Shell, account: Account, nth: int
) -> None:
    request(account.url, *_FILL)

    def recreate() -> None:
        others = [("s.b", b"theirs")] * 40
        request(account.url, ("$JS.API.STREAM.DELETE.S", {}), _FILL[0], *others)

    with just_before(account.url, b"PUB s.a", recreate, nth=nth) as url:
        words = ("bench", "js", "pub", "sync", "s.a", "--stream", "S", "--msgs", "100")
        done = shell.run(*words, "--server", url, "--yes")
    assert done.returncode == 4, done
    assert "S was deleted and recreated during the run" in done.stderr
    assert "verdict    failed" in done.stdout
    assert "every message accounted for" not in done.stdout


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ("CONSUMER.MSG.NEXT.S", ("js", "fetch", "--stream", "S", "--msgs", "50")),
        *(
            pytest.param(
                sent, ("js", way, "--stream", "S", "--msgs", "50"), marks=pytest.mark.long
            )
            for sent, way in (
                ("CONSUMER.MSG.NEXT.S", "consume"),
                ("CONSUMER.CREATE.S", "ordered"),
                ("DIRECT.GET.S", "get"),
            )
        ),
        ("PUB $KV.B.", ("kv", "put", "--bucket", "B", "--msgs", "50")),
    ],
)
def test_a_benchmark_does_not_read_on_in_a_recreated_stream(
    shell: Shell, account: Account, sent: str, words: tuple[str, ...]
) -> None:
    stream = {**_STREAM, "allow_direct": True}
    request(account.url, ("$JS.API.STREAM.CREATE.S", stream), *[("s.a", b"x" * 32)] * 50)
    shell.ok("kv", "add", "B")
    name = "S" if "S" in words else "KV_B"
    config = json.loads(shell.ok("stream", "info", name, "--json"))["config"]
    message = ("s.a" if name == "S" else "$KV.B.0", b"x" * 32)

    def recreate() -> None:
        create = (f"$JS.API.STREAM.CREATE.{name}", config)
        request(account.url, (f"$JS.API.STREAM.DELETE.{name}", {}), create, *[message] * 50)

    with just_before(account.url, sent.encode(), recreate) as url:
        done = shell.run("bench", *words, "--server", url, "--yes")
    assert done.returncode == 4, done
    assert f"{name} was deleted and recreated during the run" in done.stderr


def test_a_benchmark_does_not_count_what_a_recreated_consumer_delivers(
    shell: Shell, account: Account
) -> None:
    request(account.url, *_FILL)

    def recreate() -> None:
        request(account.url, ("$JS.API.CONSUMER.DELETE.S.C", {}), _FILL[1])

    with just_before(account.url, b"CONSUMER.MSG.NEXT.S.C", recreate) as url:
        words = ("bench", "js", "fetch", "--stream", "S", "--consumer", "C", "--msgs", "2")
        done = shell.run(*words, "--server", url, "--confirm", "C")
    assert done.returncode == 4, done
    assert "consumer C of S was deleted and recreated during the run" in done.stderr


@pytest.mark.parametrize("sent", [b"PUB $KV.B.a", b"STREAM.INFO.KV_B"])
@pytest.mark.parametrize("words", [("put", "B", "a", "x"), ("create", "B", "a", "x")])
def test_a_key_of_a_bucket_that_is_recreated_is_not_called_put(
    shell: Shell, account: Account, sent: bytes, words: tuple[str, ...]
) -> None:
    shell.ok("kv", "add", "B")
    config = json.loads(shell.ok("stream", "info", "KV_B", "--json"))["config"]

    def recreate() -> None:
        create = ("$JS.API.STREAM.CREATE.KV_B", config)
        request(account.url, ("$JS.API.STREAM.DELETE.KV_B", {}), create)

    after = b"PUB $KV.B.a" if b"INFO" in sent else b""
    with just_before(account.url, sent, recreate, after=after) as url:
        done = shell.run("kv", *words, "--server", url, "--yes")
    assert done.returncode == 4, done
    assert "the bucket B of now is another one: it was recreated meanwhile" in done.stderr


def test_a_key_is_not_put_into_a_bucket_that_was_recreated_when_it_is_written_again(
    shell: Shell, account: Account
) -> None:
    shell.ok("kv", "add", "B")
    for value in ("one", "two"):
        shell.ok("kv", "put", "B", "a", value, "--yes")
    config = json.loads(shell.ok("stream", "info", "KV_B", "--json"))["config"]

    def recreate() -> None:
        create = ("$JS.API.STREAM.CREATE.KV_B", config)
        request(account.url, ("$JS.API.STREAM.DELETE.KV_B", {}), create, ("$KV.B.a", b"theirs"))

    with just_before(account.url, b"PUB $KV.B.a", recreate) as url:
        done = shell.run("kv", "put", "B", "a", "mine", "--server", url, "--yes")
    assert done.returncode == 4, done
    assert "B was recreated in the meantime: nothing was changed" in done.stderr
    assert shell.ok("kv", "get", "B", "a", "--raw") == "theirs"


@pytest.mark.parametrize("words", [("next", "S", "C"), ("sub", "S", "C")])
def test_a_message_whose_consumer_is_deleted_before_the_ack_is_not_called_acknowledged(
    shell: Shell, account: Account, words: tuple[str, ...]
) -> None:
    request(account.url, *_FILL)

    def delete() -> None:
        request(account.url, ("$JS.API.CONSUMER.DELETE.S.C", {}))

    with just_before(account.url, b"PUB $JS.ACK", delete) as url:
        done = shell.run("consumer", *words, "--ack", "--count", "1", "--server", url, "--yes")
    assert done.returncode == 4, done
    assert "the message is not acknowledged: its consumer is deleted" in done.stderr, done
    assert "1 acknowledged" not in done.stderr


async def _pull(url: str) -> None:
    """Pull one message of C, which is not acked."""
    nc = await nats.connect(url)
    consumer = await nc.jetstream().pull_subscribe_bind("C", "S")
    await consumer.fetch(1, 30)
    await nc.close()


@pytest.mark.parametrize("word", ["next", "sub"])
@pytest.mark.parametrize("recreated", [False, True], ids=["more to lose", "recreated"])
def test_nothing_is_received_of_a_consumer_that_was_changed_before_the_confirmation(
    shell: Shell, account: Account, word: str, recreated: bool
) -> None:
    config = {"durable_name": "C", "ack_policy": "all"}
    create = "$JS.API.CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config}
    messages = [("s.a", b"%d" % number) for number in range(5)]
    request(account.url, ("$JS.API.STREAM.CREATE.S", _STREAM), create, *messages)
    asyncio.run(_pull(account.url))

    def change() -> None:
        if recreated:
            request(account.url, ("$JS.API.CONSUMER.DELETE.S.C", {}), create)
        asyncio.run(_pull(account.url))

    words = ("consumer", word, "S", "C", "--ack", "--count", "1", "--yes", "--raw")
    with just_before(account.url, b"CONSUMER.INFO.S.C", change, nth=2) as url:
        done = shell.run(*words, "--server", url)
    assert done.returncode == 4 and done.stdout == "", done
    assert "clients of C have 1 message to ack" in done.stderr
    assert "C was changed before you confirmed: nothing was done" in done.stderr
    assert shell.ok(*words) == ("1\n" if recreated else "2\n")


def test_a_key_of_a_bucket_that_is_deleted_at_once_is_not_called_put(
    shell: Shell, account: Account
) -> None:
    shell.ok("kv", "add", "B")
    shell.ok("kv", "put", "B", "a", "x", "--yes")

    def delete() -> None:
        request(account.url, ("$JS.API.STREAM.DELETE.KV_B", {}))

    with just_before(account.url, b"STREAM.INFO.KV_B", delete, after=b"PUB $KV.B.a") as url:
        done = shell.run("kv", "del", "B", "a", "--server", url, "--yes")
    assert done.returncode == 4, done
    assert "key a of B deleted, revision 2, as the server replied" in done.stderr


@pytest.mark.parametrize("others", ["replaced", "deleted"])
def test_a_file_that_another_client_replaces_at_once_was_stored(
    shell: Shell, account: Account, tmp_path: Path, others: str
) -> None:
    shell.ok("object", "add", "B")
    files = {name: tmp_path / name for name in ("before", "mine", "theirs")}
    for name, file in files.items():
        file.write_text(name)
    put = ("object", "put", "B", "--name", "f", "--yes")
    shell.ok(*put, str(files["before"]))

    def change() -> None:
        if others == "replaced":
            shell.ok(*put, str(files["theirs"]))
        else:
            shell.ok("object", "rm", "B", "f", "--yes")

    with just_before(account.url, b"STREAM.INFO.OBJ_B", change, after=b"PUB $O.B.M.") as url:
        done = shell.run(*put, str(files["mine"]), "--server", url)
    assert done.returncode == 4, done
    assert f"f was stored, and another client has {others} it at once\n" in done.stderr
    # The chunks of what it was before are removed all the same.
    info = json.loads(shell.ok("stream", "info", "OBJ_B", "--json"))
    assert info["state"]["messages"] == (2 if others == "replaced" else 1)


@pytest.mark.parametrize("meanwhile", ["recreated", "deleted"])
def test_a_file_of_a_store_that_is_recreated_is_not_called_deleted(
    shell: Shell, account: Account, tmp_path: Path, meanwhile: str
) -> None:
    shell.ok("object", "add", "B")
    config = json.loads(shell.ok("stream", "info", "OBJ_B", "--json"))["config"]
    (tmp_path / "f").write_text("x")
    shell.ok("object", "put", "B", str(tmp_path / "f"), "--name", "f", "--yes")

    def change() -> None:
        again = [("$JS.API.STREAM.CREATE.OBJ_B", config)] if meanwhile == "recreated" else []
        request(account.url, ("$JS.API.STREAM.DELETE.OBJ_B", {}), *again)

    with just_before(account.url, b"STREAM.INFO.OBJ_B", change, after=b"PUB $O.B.M.") as url:
        done = shell.run("object", "rm", "B", "f", "--server", url, "--yes")
    assert done.returncode == 4, done
    sentence = {
        "recreated": "the object store B of now is another one: it was recreated meanwhile",
        "deleted": "f of B deleted, as the server replied; it could not be read again: ",
    }
    assert sentence[meanwhile] in done.stderr


def test_a_file_of_a_store_that_is_deleted_at_once_is_not_called_stored(
    shell: Shell, account: Account, tmp_path: Path
) -> None:
    (tmp_path / "f").write_text("x")
    for before, sentence in (
        (b"PUB $O.B.C.", "the object store B was deleted meanwhile: f was not stored"),
        (
            b"PUB $O.B.M.",
            "f was stored, but is not complete: the object store B was deleted meanw",
        ),
    ):
        shell.ok("object", "add", "B")

        def delete() -> None:
            request(account.url, ("$JS.API.STREAM.DELETE.OBJ_B", {}))

        with just_before(account.url, b"STREAM.INFO.OBJ_B", delete, after=before) as url:
            put = ("object", "put", "B", str(tmp_path / "f"), "--name", "f", "--yes")
            done = shell.run(*put, "--server", url)
        assert done.returncode == 4, done
        assert sentence in done.stderr


@pytest.mark.parametrize("change", ["deleted", "purged"])
def test_a_link_whose_file_is_deleted_just_before_is_no_success(
    shell: Shell, account: Account, tmp_path: Path, change: str
) -> None:
    shell.ok("object", "add", "B")
    (tmp_path / "f").write_text("x")
    shell.ok("object", "put", "B", str(tmp_path / "f"), "--name", "f", "--yes")

    def remove() -> None:
        if change == "deleted":
            shell.ok("object", "rm", "B", "f", "--yes")
        else:
            request(account.url, ("$JS.API.STREAM.PURGE.OBJ_B", {}))

    with just_before(account.url, b"PUB $O.B.M.", remove) as url:
        done = shell.run("object", "link", "B", "l", "f", "--server", url, "--yes")
    assert done.returncode == 4, done
    assert "B has no object f any more: somebody deleted it meanwhile" in done.stderr
