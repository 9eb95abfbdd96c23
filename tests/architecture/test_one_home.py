"""What a status is called, what lag is, when a row is stale or a limit reached: written once."""

from __future__ import annotations

import ast
import re

from natstui.model.findings.catalogue import status
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.records.actions import CATALOGUE as ACTIONS
from tests.architecture.source import Module, modules

DEFAULTS = "natstui.analysis.defaults"
CATALOGUE = "natstui.model.findings.catalogue"
THRESHOLDS = "natstui.model.findings.thresholds"
AGE = "natstui.model.live.age"
LIMITS = "natstui.model.live.limits"
CAPACITY = "natstui.analysis.gold.capacity"
"""The query for the same rule; `tests/analysis/test_rule_cases.py` holds it to the same cases."""

CALM = [one for one in vars(status).values() if isinstance(one, status.Status)]
WORDS = {one.word for one in (*KINDS.values(), *CALM)}
OTHER_MEANINGS = {
    "natstui.cli.watch.server": {"in memory"},  # of what the account stores
    "natstui.tui.servers.text": {"API errors"},  # a count
    "natstui.tui.streams.cells": {"no leader", "no answer"},  # of a stream, in its LEADER column
}
"""Where one of the words is said of something else."""


def test_what_is_recorded_has_one_clock_that_counts_while_the_machine_sleeps() -> None:
    rooms = ("natstui.jetstream.polling", "natstui.jetstream.connection", "natstui.session.write")
    found = [module.name for module in modules()
             if module.name.startswith(rooms) and "monotonic" in names_in(module)]  # fmt: skip
    assert found == []


def names_in(module: Module) -> set[str]:
    """Return the attributes that a module looks up, without what follows `_ns`."""
    return {
        node.attr.removesuffix("_ns") for node in module.nodes() if isinstance(node, ast.Attribute)
    }


def strings(module: Module) -> set[str]:
    """Return every string constant of a module."""
    return {
        node.value
        for node in module.nodes()
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def users(pattern: str) -> set[str]:
    """Return the modules with code, docstrings aside, in which a pattern occurs."""
    return {
        module.name
        for module in modules()
        if re.search(pattern, re.sub(r'"""[\s\S]*?"""', "", module.text))
    }


def test_the_words_for_what_is_wrong_are_written_in_the_catalogue_alone() -> None:
    assert len(WORDS) > 80
    # Single words also name columns, levels and states of other things.
    phrases = {word for word in WORDS if " " in word}
    for module in modules():
        if not module.name.startswith((CATALOGUE, THRESHOLDS)):
            again = strings(module) & phrases - OTHER_MEANINGS.get(module.name, set())
            assert again == set(), module.name


def test_the_thresholds_of_judgement_are_written_in_one_module() -> None:
    numbers = (
        r"(?i)\b_?(stuck_after|no_pulls_after|most_samples)\w*\s*(:\s*\w+\s*)?=\s*(\w+\(\s*)?[\d.]"
    )
    assert users(numbers) == {THRESHOLDS}
    assert users(r"stuck-after\"[^)]*default=[\d.]") == set()
    rules = [m for m in modules() if m.name.startswith("natstui.model.findings.rules")]
    assert len(rules) >= 6
    for module in rules:
        compared = {
            ast.unparse(node)
            for node in module.nodes()
            if isinstance(node, ast.Compare)
            for side in node.comparators
            if isinstance(side, ast.Constant)
            and isinstance(side.value, int | float)
            and side.value not in (0, 1, 2, 4, 10)
        }
        assert compared == set(), module.name


def test_lag_is_computed_in_one_module() -> None:
    assert users(r"\bstored_at_mono_us\(") == {AGE, "natstui.model.live.rates"}
    assert users(r"\.next_at_us\[") == {AGE}


def test_whether_a_row_is_stale_is_decided_in_one_module() -> None:
    deciding = {
        module.name
        for module in modules()
        for node in module.nodes()
        if isinstance(node, ast.Compare)
        and re.search(r"stale_after_us|\bstale_us\b|FRESH_US", ast.unparse(node))
    }
    assert deciding == {AGE}
    assert users(r"FRESH_US = |_LATE_US = ") == {AGE}


def test_whether_a_limit_of_bytes_is_reached_is_decided_in_one_module_and_one_query() -> None:
    assert users(r"FULL_SHARE \*") == {LIMITS, CAPACITY}
    assert users(r"(?m)^FULL_SHARE = |^NEAR_SHARE = ") == {THRESHOLDS}
    assert users(r"0\.98\b") == {THRESHOLDS}
    near = {name for name in users(r"\bNEAR_SHARE") if "model.findings" not in name}
    assert near == {LIMITS}
    assert users(r"\b0\.[89]\d? \* (config|limit|columns)|percent >= \d") == set()
    assert users(r"def (time_to_full|time_to_drain)_s") == {LIMITS}


def test_the_percentiles_shown_are_listed_in_one_module() -> None:
    lists = {"p90", "p90_us", "p99.9", "p999", "p999_us", "p9999"}
    again = {module.name for module in modules() if strings(module) & lists}
    assert again == {"natstui.model.bench.latency"}
    assert users(r"\b99\.99?\b") == {"natstui.model.bench.latency"}


def test_the_speeds_of_a_replay_are_listed_in_one_module() -> None:
    assert users(r"SPEEDS\w* = ") == {"natstui.model.records.recording"}
    assert users(r"\b16\.0, 32\.0\b") == {"natstui.model.records.recording"}


def test_the_defaults_of_an_analysis_are_written_in_one_module() -> None:
    assert users(r"\"1g\"") == {DEFAULTS}
    fields = r"(bucket_s|rows_count|partitions_count|memory): \w+ = [1-9\"]"
    options = r"\"--(bucket|rows|partitions|memory|stuck-after)\"[^)]*\bdefault=[\d\"]"
    assert users(fields) == set()
    assert users(options) == set()


def test_how_a_recording_is_written_unless_told_is_said_in_one_module() -> None:
    assert users(r"segment_(s|bytes): \w+ = ") == {"natstui.session.write.settings"}


def test_a_row_of_watch_is_declared_filled_and_drawn_in_one_module() -> None:
    for word in ("Stream", "Consumer"):
        found = users(rf"class {word}Row\b|, {word}Row\)|row: {word}Row\b")
        assert {name for name in found if name.startswith("natstui.cli.")} == {
            f"natstui.cli.watch.{word.lower()}s"
        }


def test_what_an_action_asks_for_is_written_in_one_module() -> None:
    arguments = {field.path for it in ACTIONS.values() for field in it.arguments}
    assert arguments == {"filter", "seq", "keep", "pause_until", "group", "preferred", "peer"}
    words = {field.help for it in ACTIONS.values() for field in it.arguments}
    again = {module.name for module in modules() if strings(module) & words}
    assert again == {"natstui.model.records.actions"}


def test_no_rows_go_to_spark_by_way_of_python_beside_the_jvm() -> None:
    # What the JVM has already it may make a table of: those rows are never in Python.
    inside = r"(?<!\b_jsparkSession\.)"
    assert users(rf"{inside}\bcreateDataFrame\(|\bparallelize\(") == set()
    assert "natstui.analysis.spark.local_rows" in users(r"\blocal_rows\(")
