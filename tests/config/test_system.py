"""Who to be for what only the system account may request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from natstui.config import Connection
from natstui.config.contexts import write_context
from natstui.config.listing import STARS, effective_settings
from natstui.config.load import load
from natstui.config.resolve import ConnectionNames, resolve
from natstui.errors import UsageError

FILE = """
[connection]
server = "nats://here:4222"
user = "app"
password = "app-secret"
monitoring = "http://here:8222,http://there:8222"
[system]
user = "sys"
password = "sys-secret"
[profiles.other]
server = "nats://other:4222"
tls_first = true
[profiles.own]
server = "nats://own:4222"
system = { creds = "~/own.creds" }
"""


def resolved(folder: Path, text: str, **named: str) -> Connection:
    file = folder / "config.toml"
    file.write_text(text)
    return resolve(load(file), ConnectionNames(**named)).connection


def test_it_goes_to_the_same_servers_as_another_user(tmp_path: Path) -> None:
    found = resolved(tmp_path, FILE)
    assert found.system is not None
    assert (found.system.servers, found.system.user) == (("nats://here:4222",), "sys")
    assert found.monitoring == ("http://here:8222", "http://there:8222")


def test_the_secret_of_the_file_goes_to_no_other_server(tmp_path: Path) -> None:
    assert resolved(tmp_path, FILE, server="nats://evil:4222").system is None
    assert resolved(tmp_path, FILE, profile="other").system is None


def test_a_profile_has_its_own(tmp_path: Path) -> None:
    found = resolved(tmp_path, FILE, profile="own").system
    assert found is not None and found.creds_file is not None
    assert found.servers == ("nats://own:4222",)


def test_the_environment_says_it_for_any_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATSTUI_SYSTEM_USER", "root")
    monkeypatch.setenv("NATSTUI_SYSTEM_PASSWORD", "pw")
    found = resolved(tmp_path, FILE, profile="other").system
    assert found is not None and (found.user, found.tls_first) == ("root", True)


def test_a_context_brings_its_own_addresses(tmp_path: Path) -> None:
    context = tmp_path / "sys.json"
    context.write_text(json.dumps({"url": "nats://sys:4222", "user": "s", "password": "p"}))
    found = resolved(tmp_path, f'[system]\ncontext = "{context}"\n').system
    assert found is not None and (found.servers, found.user) == (("nats://sys:4222",), "s")


def test_without_a_user_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names no user"):
        resolved(tmp_path, '[system]\nserver = "nats://sys:4222"\n')


SEED = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU"
SECRETS = (SEED, f"-----BEGIN USER NKEY SEED-----{SEED}", "eyJ0eXAiOiJKV1Qi.eyJ.x")


@pytest.mark.parametrize("field", ["creds", "nkey", "ca", "cert", "key"])
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_where_a_file_is_expected_is_refused_and_not_shown(
    field: str, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="a secret was given where the name of a file") as caught:
        resolved(tmp_path, f'[connection]\n{field} = "{secret}"\n')
    assert secret not in str(caught.value)
    (tmp_path / "config.toml").write_text(f'[profiles.other]\n{field} = "{secret}"\n')
    rows = str(list(effective_settings(load(tmp_path / "config.toml"), ConnectionNames())))
    assert secret not in rows and STARS in rows
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="a secret was given where the name of a file") as caught:
        write_context("one", {"url": "nats://127.0.0.1:4222", field: secret}, is_new=True)
    assert secret not in str(caught.value)
    assert not (tmp_path / "nats" / "context" / "one.json").exists()


def test_no_secret_is_shown_or_handed_to_a_child(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(FILE + '[profiles.third]\nsystem = { user = "s", password = "third" }\n')
    rows = str(list(effective_settings(load(file), ConnectionNames())))
    assert "sys-secret" not in rows and "'third'" not in rows and "app-secret" not in rows
    line = resolved(tmp_path, FILE).to_json_line()
    assert "sys-secret" not in line
    assert Connection.from_json_line(line).monitoring == ("http://here:8222", "http://there:8222")
