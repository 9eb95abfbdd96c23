"""Making a bucket or a store on the screen, and a value in the user's own editor."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import nats
import pytest

from natstui.errors import UsageError
from natstui.tui.kit.fields import FieldRow
from natstui.tui.stores.buckets import BucketForm, build_bucket_config, meaning_text
from natstui.tui.stores.keys import KeysScreen
from natstui.tui.stores.objects import ObjectsScreen
from natstui.tui.stores.put import edit_text, editor_command
from tests.accounts import Account
from tests.tui.viewer import Viewer, viewing


async def begin(viewer: Viewer, **texts: str) -> None:
    """Open the form and fill its fields."""
    await viewer.press("7", "a")
    await viewer.until(lambda: isinstance(viewer.app.screen, BucketForm), "the form")
    await fill(viewer, **texts)


async def fill(viewer: Viewer, **texts: str) -> None:
    for row in viewer.app.screen.query(FieldRow):
        if row.field.path in texts:
            row.set_text(texts[row.field.path])
            row.post_message(FieldRow.Edited(row.field.path, texts[row.field.path]))
    await viewer.settle()


@pytest.mark.server
async def test_a_bucket_and_a_store_are_made_as_the_sentence_says(account: Account) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    async with viewing(account.url) as viewer:
        await begin(viewer)
        assert "Enter a name" in viewer.words
        await viewer.type("A-b")
        await viewer.until(lambda: "KV_A-b: keeps 5 values of each key" in viewer.words, "as new")
        await fill(viewer, history="9", ttl="2M", bytes="1MB", compressed="yes")
        await viewer.until(
            lambda: "KV_A-b: keeps 9 values of each key, each for 60d" in viewer.words
        )
        assert "60 days" in viewer.words and "1,048,576 bytes" in viewer.words
        assert "at most 1.00 MiB; compressed on disk of 1 server" in viewer.words
        await viewer.press("ctrl+s")
        await viewer.until(lambda: isinstance(viewer.app.screen, KeysScreen), "the bucket")
        config = (await js.stream_info("KV_A-b")).config
        assert (config.max_msgs_per_subject, config.max_age, config.max_bytes) == (
            9, 60 * 86400, 1 << 20,
        )  # fmt: skip
        await viewer.press("escape")
        await begin(viewer, name="FILES", holds="files", storage="memory")
        await viewer.until(lambda: "OBJ_FILES: keeps files" in viewer.words, "what it is")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: isinstance(viewer.app.screen, ObjectsScreen), "the store")
        await viewer.press("escape")
        await begin(viewer, name="A-b", history="65")
        await viewer.until(lambda: "between 1 and 64, not 65" in viewer.words, "the reason")
        await viewer.press("ctrl+s")
        assert isinstance(viewer.app.screen, BucketForm)
        assert "between 1 and 64, not 65" in viewer.words, "it is not sent"
        await begin_again(viewer, "history", "3")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "KV_A-b exists already" in viewer.words, "the server's reason")
        await viewer.press("escape")
        await viewer.until(lambda: "the new bucket is not sent" in viewer.words, "the question")
    entries = await (await js.key_value("A-b")).status()
    assert entries.history == 9
    await nc.close()


async def begin_again(viewer: Viewer, path: str, text: str) -> None:
    """Change one field."""
    row = next(row for row in viewer.app.screen.query(FieldRow) if row.field.path == path)
    row.post_message(FieldRow.Edited(path, text))
    await viewer.settle()


def test_what_is_wrong_is_said_of_each_field() -> None:
    for texts, said in (
        ({"name": "a b"}, "is not a valid bucket name"),
        ({"name": "a", "ttl": "soon"}, "is not a duration"),
        ({"name": "a", "bytes": "much"}, "is not a size"),
        ({"name": "a", "replicas": "6"}, "between 1 and 5"),
        ({"name": "a", "storage": "tape"}, "must be one of file, memory"),
    ):
        with pytest.raises(ValueError, match=said):
            build_bucket_config(texts)
    config = build_bucket_config({"name": "a", "value_bytes": "64KB", "bytes": "unlimited"})
    assert meaning_text(config) == (
        "KV_a: keeps 1 value of each key, each until deleted; a value of at most 64.0 KiB; "
        "without a limit; on disk of 1 server"
    )


def writing(text: str) -> list[str]:
    """Return an editor that adds a text to the end of the file."""
    script = f"import sys; open(sys.argv[1], 'ab').write({text.encode()!r})"
    return [sys.executable, "-c", script]


def test_an_editor_changes_the_value_and_adds_no_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert edit_text(writing(""), "a\r\nb") == "a\r\nb"
    assert edit_text(writing("c\n"), "a") == "ac", "the line's end is the editor's"
    assert edit_text(writing("c\n"), "a\n") == "a\nc\n"
    with pytest.raises(UsageError, match="ended with 3"):
        edit_text([sys.executable, "-c", "raise SystemExit(3)"], "a")
    with pytest.raises(UsageError, match="No such file"):
        edit_text([str(tmp_path / "none")], "a")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    with pytest.raises(UsageError, match="neither VISUAL nor EDITOR"):
        editor_command()
    monkeypatch.setenv("EDITOR", "'vim")
    with pytest.raises(UsageError, match="EDITOR is no command: No closing quotation"):
        editor_command()
    monkeypatch.setenv("EDITOR", shlex.join(["my editor", "--wait"]))
    assert editor_command() == ["my editor", "--wait"]
