"""Somebody who may make consumers of one filter only makes and changes them, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from natstui.jetstream.testbed.broker import Broker
from tests.cli.test_manage import Shell

pytestmark = pytest.mark.server

EUROPE = """
accounts {
  APP: {
    jetstream: enabled
    users: [
      { user: app, password: app }
      { user: eu, password: eu, permissions: {
          publish: { allow: [
            "$JS.API.INFO", "$JS.API.STREAM.INFO.S", "$JS.API.CONSUMER.INFO.S.*",
            "$JS.API.CONSUMER.CREATE.S.*.s.eu.>"
          ] }
      } }
    ]
  }
}
"""


def test_a_permission_for_one_filter_is_enough_for_it_and_no_more(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    url = nats_server_factory(EUROPE).url
    everybody = Shell(url.replace("nats://", "nats://app:app@"), tmp_path / "app")
    europe = Shell(url.replace("nats://", "nats://eu:eu@"), tmp_path / "eu")
    everybody.ok("stream", "add", "S", "--subjects", "s.>")
    europe.ok("consumer", "add", "S", "C", "--filter", "s.eu.>", "--pull", "--defaults")
    config = europe.config("consumer", "info", "S", "C")
    assert (config["filter_subject"], config.get("filter_subjects")) == ("s.eu.>", None)
    europe.ok("consumer", "add", "S", "E", "--filter", "s.eu.a", "--ephemeral")
    europe.ok("consumer", "edit", "S", "C", "--description", "ours", "--filter", "s.eu.b", "-f")
    assert europe.config("consumer", "info", "S", "C")["filter_subject"] == "s.eu.b"
    europe.ok("undo")
    assert europe.config("consumer", "info", "S", "C")["filter_subject"] == "s.eu.>"
    for words in (
        ("add", "S", "N"),
        ("add", "S", "N", "--filter", "s.us.>"),
        ("add", "S", "N", "--filter", "s.eu.a", "--filter", "s.eu.b"),
        ("edit", "S", "C", "--filter", "s.us.a"),
        ("edit", "S", "C", "--filter", ""),
    ):
        refused = europe.run("consumer", *words)
        assert "permission" in refused.stderr, (words, refused)
    assert everybody.ok("consumer", "ls", "S").count("\n") == 3
