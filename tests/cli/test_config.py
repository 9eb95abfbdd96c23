from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from natstui.cli.config import config
from tests.cli.test_manage import run_here


def lines_of(*arguments: str) -> dict[str, tuple[str, str]]:
    """Return value and origin of every setting `natstui config --json` prints."""
    result = CliRunner().invoke(config, [*arguments, "--json"], catch_exceptions=False)
    rows = map(json.loads, result.stdout.splitlines())
    return {row["key"]: (row["value"], row["origin"]) for row in rows}


def test_each_setting_is_printed_with_its_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[monitor]\nmax_requests_per_s = 5\n[viewer]\nkeys = { quit = 'x' }\n")
    monkeypatch.setenv("NATSTUI_MONITOR_INTERVAL_S", "3")
    monkeypatch.setenv("NATS_URL", "nats://ann:very-secret@h")
    monkeypatch.setenv("NATS_TOKEN", "very-secret")
    monkeypatch.setenv("NATSTUI_CONNECTION_MONITORING", "http://ops:very-secret@h:8222")
    rows = lines_of("--config", str(file))
    assert rows["monitor.interval_s"] == (3.0, "NATSTUI_MONITOR_INTERVAL_S")
    assert rows["monitor.max_requests_per_s"] == (5.0, str(file))
    assert rows["monitor.list_timeout_s"] == (6.0, "default")
    assert rows["viewer.keys"] == ({"quit": "x"}, str(file))
    assert rows["connection.server"] == ("nats://********@h", "NATS_URL")
    assert rows["connection.monitoring"][0] == "http://********@h:8222"
    assert rows["connection.token"] == ("********", "NATS_TOKEN")
    assert "very-secret" not in json.dumps(rows)


def test_the_table_shows_no_secret_either(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        "[connection]\nuser = 'ann'\npassword = 'very-secret'\n"
        "[profiles.x]\npassword = 'very-secret'\ncreds = 'data:;base64,dmVyeQ=='\n"
        "[profiles.y]\ntoken = 'env://TOKEN'\n"
        "[alerts.w]\nwebhook = 'https://ann:very-secret@chat.example/hooks/very-secret?t=very-secret'\n"
        "[alerts.v]\nwebhook = 'https://chat.example?t=very-secret'\n"
        "[profiles.z]\nmonitoring = 'http://ops:very-secret@n1:8222,http://ops:very-secret@n2:8222'\n"
    )
    shown = CliRunner().invoke(config, ["--config", str(file)], catch_exceptions=False).stdout
    assert "very-secret" not in shown
    assert "dmVyeQ" not in shown
    assert 'connection.user               "ann"' in shown
    assert '"env://TOKEN"' in shown
    assert '"https://********@chat.example/********"' in shown
    assert '"https://chat.example/********"' in shown
    assert '"http://********@n1:8222,http://********@n2:8222"' in shown


def test_the_context_in_use_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "nats" / "context").mkdir(parents=True)
    (tmp_path / "nats" / "context" / "prod.json").write_text('{"url": "nats://a,b"}')
    (tmp_path / "nats" / "context.txt").write_text("prod\n")
    rows = lines_of()
    assert rows["connection.context"] == ("prod", "selected in the NATS CLI")
    assert rows["connection.server"] == ("nats://a,b", "context prod")


def test_the_path_of_the_file_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    shown = CliRunner().invoke(config, ["--path"], catch_exceptions=False).stdout
    assert shown.endswith("config.toml\n")


def test_what_an_error_quotes_cannot_steer_the_terminal() -> None:
    done = run_here("watch", "--config", "none\x1b]2;mine\x07.toml")
    assert done.returncode == 2
    assert "does not exist" in done.stderr
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr
