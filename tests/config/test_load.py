from __future__ import annotations

from pathlib import Path

import pytest

from natstui.config.load import load
from natstui.errors import UsageError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_the_environment_wins_over_the_file_and_a_flag_over_both(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("[monitor]\ninterval_s = 2\nmax_requests_per_s = 5\nlist_timeout_s = 7\n")
    monkeypatch.setenv("NATSTUI_MONITOR_INTERVAL_S", "3")
    monkeypatch.setenv("NATSTUI_MONITOR_MAX_REQUESTS_PER_S", "6")
    loaded = load(file, {"monitor": {"interval_s": 4.0}})
    monitor = loaded.settings.monitor
    assert (monitor.interval_s, monitor.max_requests_per_s, monitor.list_timeout_s) == (4, 6, 7)
    assert loaded.origins == {
        "monitor.interval_s": "flag",
        "monitor.max_requests_per_s": "NATSTUI_MONITOR_MAX_REQUESTS_PER_S",
        "monitor.list_timeout_s": str(file),
    }


def test_without_a_file_the_defaults_count() -> None:
    assert load().settings.monitor.interval_s == 1.0


def test_the_file_can_be_named_by_a_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[viewer]\ntheme = 'nord'\n")
    monkeypatch.setenv("NATSTUI_CONFIG", str(file))
    assert load().settings.viewer.theme == "nord"


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml does not exist"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[monitor]\nintervall_s = 1\n", "monitor.intervall_s is not a setting; did you mean "),
        ("[monitr]\ninterval_s = 1\n", "monitr is not a setting; did you mean 'monitor'?"),
        ("[profiles.x]\nserv = 'y'\n", "profiles.x.serv is not a setting; did you mean 'server'?"),
        ("[viewer]\nzzz = 1\n", "viewer.zzz is not a setting"),
        ("[monitor]\ninterval_s = 0\n", "monitor.interval_s: input should be greater than"),
        ("[monitor]\ninterval_s = 0.1\n", "monitor.interval_s: input should be greater than"),
        ("[monitor]\ninterval_s = 'x'\n", "monitor.interval_s: input should be a valid number"),
        ("monitor = 3\n", "monitor: input should be a valid dictionary"),
        ("[monitor\n", "is not valid TOML"),
        ("[monitor]\ninterval_s = " + "9" * 10_000, "is not valid TOML"),
        ("[connection]\ncolour = 'mud'\n", "connection.colour: string should match pattern"),
    ],
)
def test_a_wrong_file_is_refused_by_file_key_and_nearest_name(
    file: Path, text: str, complaint: str
) -> None:
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(file)
    assert str(file) in str(caught.value)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("NATSTUI_MONITOR_INTERVALL_S", "NATSTUI_MONITOR_INTERVAL_S"),
        ("NATSTUI_MONITR_INTERVAL_S", "NATSTUI_MONITOR_INTERVAL_S"),
        ("NATSTUI_CONFG", "NATSTUI_CONFIG"),
    ],
)
def test_an_unknown_variable_is_refused_by_name_and_nearest_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, nearest: str
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(UsageError) as caught:
        load()
    assert str(caught.value) == (
        f"the environment variable {variable} is not a setting; did you mean {nearest!r}?"
    )


def test_the_removed_setting_that_started_spark_early_is_answered_with_a_sentence(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = "was removed: Spark is started when an analysis is requested"
    file.write_text("[analysis]\nstart_early = true\n")
    with pytest.raises(UsageError, match=sentence) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: analysis")
    file.write_text("")
    monkeypatch.setenv("NATSTUI_ANALYSIS_START_EARLY", "true")
    with pytest.raises(UsageError, match=sentence) as caught:
        load(file)
    assert "variable NATSTUI_ANALYSIS_START_EARLY was" in str(caught.value)


def test_a_wrong_value_of_a_variable_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NATSTUI_MONITOR_INTERVAL_S", "soon")
    with pytest.raises(UsageError, match=r"^NATSTUI_MONITOR_INTERVAL_S: input should be a valid"):
        load()


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("NATSTUI_ALERTS", "not json", "NATSTUI_ALERTS must be JSON, and is not: Expecting value"),
        ("NATSTUI_VIEWER_KEYS", "{", "NATSTUI_VIEWER_KEYS must be JSON, and is not: Expecting"),
        ("natstui_viewer_keys", "x", "NATSTUI_VIEWER_KEYS must be JSON, and is not: Expecting"),
        ("NATSTUI_VIEWER", "3", "NATSTUI_VIEWER must be an object of JSON"),
        ("NATSTUI_PROFILES", "[]", "NATSTUI_PROFILES must be an object of JSON"),
    ],
)
def test_a_table_in_a_variable_that_is_none_is_one_sentence(
    name: str, text: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(UsageError, match=sentence):
        load()


def test_a_table_in_a_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATSTUI_VIEWER_KEYS", '{"quit": "ctrl+q"}')
    assert load().settings.viewer.keys == {"quit": "ctrl+q"}


def test_a_wrong_secret_is_never_shown(file: Path) -> None:
    file.write_text("[connection]\npassword = 12345\n")
    with pytest.raises(UsageError) as caught:
        load(file)
    assert "12345" not in str(caught.value)
