"""What a status is called, what lag is, when a row is stale or a limit reached: written once."""

from __future__ import annotations

import ast
import re

from natstui.model.findings.catalogue import status
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.records.actions import CATALOGUE as ACTIONS
from tests.architecture.source import Module, modules

FINDINGS = "natstui.model.findings"

CALM = [one for one in vars(status).values() if isinstance(one, status.Status)]
WORDS = {one.word for one in (*KINDS.values(), *CALM)}
OTHER_MEANINGS = {"in memory", "API errors", "no leader", "no reply"}
"""Also said of something else: of storage, of a count, in a cell of the leader."""


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


def test_the_words_for_what_is_wrong_are_written_beside_the_findings_alone() -> None:
    assert len(WORDS) > 80
    # Single words also name columns, levels and states of other things.
    phrases = {word for word in WORDS if " " in word} - OTHER_MEANINGS
    for module in modules():
        if not module.name.startswith(FINDINGS):
            assert strings(module) & phrases == set(), module.name


def keys_read(module: Module) -> set[object]:
    """Return the constant keys that a module reads from dictionaries."""
    found = set[object]()
    for node in module.nodes():
        match node:
            case ast.Subscript(slice=ast.Constant(value=key)):
                found.add(key)
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=key), *_]):
                found.add(key)
            case ast.Call(func=ast.Name(id="number_at"), args=[_, ast.Constant(value=key)]):
                found.add(key)
    return found


def test_fields_of_the_servers_info_are_read_from_decoded_rows() -> None:
    fields = {"num_pending", "num_ack_pending", "num_redelivered", "num_waiting", "num_deleted",
              "num_subjects", "consumer_count", "push_bound", "ack_floor"}  # fmt: skip
    assert {m.name: keys_read(m) & fields for m in modules() if keys_read(m) & fields} == {}


def test_the_thresholds_of_judgement_are_written_in_one_module() -> None:
    numbers = (
        r"(?i)\b_?(stuck_after|no_pulls_after|most_samples)\w*\s*(:\s*\w+\s*)?=\s*(\w+\(\s*)?[\d.]"
    )
    (thresholds,) = users(numbers)
    assert users(r"(?m)^MAX_BYTES_REACHED_SHARE = |^NEAR_LIMIT_SHARE = |0\.98\b") == {thresholds}
    assert users(r"stuck-after\"[^)]*default=[\d.]") == set()
    rooms = [m for room in ("rules", "facts", "causes") for m in modules(f"{FINDINGS}.{room}")]
    assert len(rooms) >= 6
    for module in rooms:
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
    assert len(users(r"\.next_at_us\[")) == 1


def test_whether_a_row_is_stale_is_decided_in_one_module() -> None:
    deciding = {
        module.name
        for module in modules()
        for node in module.nodes()
        if isinstance(node, ast.Compare)
        and re.search(r"stale_after_us|\bstale_us\b|MIN_STALE_US", ast.unparse(node))
    }
    assert len(deciding) == 1
    assert users(r"MIN_STALE_US = |_STALE_DELAY_US = ") == deciding


def test_whether_a_limit_of_bytes_is_reached_is_decided_in_one_module_and_one_query() -> None:
    rooms = sorted(name.split(".")[1] for name in users(r"MAX_BYTES_REACHED_SHARE \*"))
    assert rooms == ["analysis", "model"]
    assert users(r"\b0\.[89]\d? \* (config|limit|columns)|percent >= \d") == set()
    assert len(users(r"def (time_to_full|time_to_drain)_s")) == 1


def test_the_percentiles_shown_are_listed_in_one_module() -> None:
    lists = {"p90", "p90_us", "p99.9", "p999", "p999_us", "p9999"}
    again = {module.name for module in modules() if strings(module) & lists}
    assert len(again) == 1
    assert users(r"\b99\.99?\b") == again


def test_the_speeds_of_a_replay_are_listed_in_one_module() -> None:
    assert len(users(r"SPEEDS\w* = ")) == len(users(r"\b16\.0, 32\.0\b")) == 1


def test_the_defaults_of_an_analysis_are_written_in_one_module() -> None:
    assert len(users(r"\"1g\"")) == 1
    fields = r"(bucket_s|rows_count|memory): \w+ = [1-9\"]"
    options = r"\"--(bucket|rows|memory|stuck-after)\"[^)]*\bdefault=[\d\"]"
    assert users(fields) == set()
    assert users(options) == set()


def test_how_a_recording_is_written_unless_told_is_said_in_one_module() -> None:
    assert len(users(r"segment_(s|bytes): \w+ = ")) == 1


def test_what_an_action_asks_for_is_written_in_one_module() -> None:
    arguments = {field.path for it in ACTIONS.values() for field in it.arguments}
    assert arguments == {"filter", "seq", "keep", "pause_until", "group", "preferred", "peer"}
    words = {field.help for it in ACTIONS.values() for field in it.arguments}
    assert len({module.name for module in modules() if strings(module) & words}) == 1


def test_decoders_are_made_in_one_place() -> None:
    """Elsewhere one could be made while another thread uses what it shares with it."""
    makers = {
        module.name
        for module in modules()
        for node in module.nodes()
        if isinstance(node, ast.Call) and makes_a_decoder(node)
    }
    assert makers == {"natstui.decoding"}


def makes_a_decoder(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr="Decoder", value=ast.Attribute(value=ast.Name(id="msgspec"))):
            return True
        case ast.Attribute(attr="decode", value=ast.Attribute(value=ast.Name(id="msgspec"))):
            return any(keyword.arg == "type" for keyword in call.keywords)
    return False


def test_parallel_requests_of_polls_are_created_where_their_errors_are_retrieved() -> None:
    """Python logs the error of a task that nobody awaits; `PollingApi.spawn` retrieves it."""
    polling = "natstui.jetstream.polling"
    creators = {
        name for name in users(r"\b(create_task|ensure_future)\(") if name.startswith(polling)
    }
    names = ("budget.requests", "bulk.poller", "open_requests")
    assert creators == {f"{polling}.{name}" for name in names}
