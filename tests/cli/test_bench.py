"""`natstui bench` from the outside: stdout is data, stderr is for people, exit codes mean it."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from natstui.bench.plan.scenario import built_in_scenarios
from natstui.cli.root import root
from natstui.errors import UsageError
from tests.accounts import Account
from tests.cli.test_core import connected
from tests.cli.test_manage import Done, Shell, run_here

pytestmark = pytest.mark.server


def bench(*words: str, folder: Path) -> Done:
    config = folder / "config.toml"
    config.write_text(f'[benchmark]\nfolder = "{folder / "runs"}"\n')
    return run_here("bench", *words, "--config", str(config))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("vs", "js", "pub", "--rounds", "2"), "`python -m benchmarks clients`"),
        (("pub", "x", "--client", "nats-py"), "`python -m benchmarks clients`"),
        (("worker", "--join", "nats://127.0.0.1:1"), "start natstui bench on each of them"),
        (("pub", "x", "--machines", "2"), "start natstui bench on each of them"),
    ],
)
def test_what_is_gone_is_answered_with_what_to_do_instead(
    words: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(UsageError) as caught:
        CliRunner().invoke(root, ["bench", *words], catch_exceptions=False)
    assert sentence in str(caught.value)


def test_mistakes_are_one_sentence_and_their_exit_code(account: Account, tmp_path: Path) -> None:
    server = ("--server", account.url)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('title = "x"\n[[role]]\nname = "a"\npattern = "publish"\n')
    cases = [
        (("no-such-scenario", *server), 2, "no scenario"),
        ((str(wrong), *server), 2, "the run has no end"),
        (("js", "consume", "--stream", "NOPE", *server), 4, "stream not found"),
        (("js", "consume", *server), 2, "--stream NAME"),
        (("pub", "x", "--assert", "speed > 1", *server), 2, "no metric 'speed'"),
        (("pub", "x", "--msgs", "3", "--server", "nats://127.0.0.1:1"), 3, "127.0.0.1:1"),
        (("pub", "x", "--msgs", "0", *server), 2, "msgs must be at least 1, not 0"),
        (("sub", "x", "--msgs", "0", *server), 2, "msgs must be at least 1, not 0"),
        (("pub", "x", "--duration", "0s", *server), 2, "the duration must be longer than 0"),
    ]
    shell = Shell(account.url, tmp_path)
    for words, exit_code, sentence in cases:
        done = shell.run("bench", *words)
        assert done.returncode == exit_code, done.stderr
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr


def test_a_run_in_which_no_message_came_says_so_and_is_not_ok(
    account: Account, tmp_path: Path
) -> None:
    words = ("sub", "nobody.sends.here", "--duration", "100ms", "--server", account.url)
    done = bench(*words, folder=tmp_path)
    assert done.returncode == 1
    assert "verdict    incomplete" in done.stdout
    assert "NOTHING WAS MEASURED" in done.stdout
    assert "nothing was measured: no message was sent and none received" in done.stderr


DEDUPLICATED = """
title = "twice"
warmup = "60s"
[stream]
name = "TWICE"
[[role]]
name = "pubs"
pattern = "js-publish-async"
msgs = 1100
payload = { msg-ids = true, duplicates = 0.1 }
"""


@pytest.mark.long
def test_a_run_that_ends_in_its_warm_up_measured_nothing_and_counts_the_refused_repeats(
    account: Account, tmp_path: Path
) -> None:
    (tmp_path / "twice.toml").write_text(DEDUPLICATED)
    words = (str(tmp_path / "twice.toml"), "--assert", "repeats_refused == 100")
    done = bench(*words, "--server", account.url, folder=tmp_path)
    assert done.returncode == 1
    assert "every message fell into ramp and warm-up" in done.stderr
    assert "repeats_refused" not in done.stderr
    assert "sent 1,100, acked 1,000, repeats refused 100, stored 1,000" in " ".join(
        done.stdout.split()
    )


def test_a_run_that_cannot_be_saved_is_printed_and_tells_its_ramp_and_the_warm_up_behind_it(
    account: Account, tmp_path: Path
) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    (tmp_path / "ramp.toml").write_text("""
title = "rising"
ramp = "20ms"
warmup = "20ms"
duration = "150ms"
[[role]]
name = "pubs"
pattern = "publish"
rate = 500
""")
    words = (str(tmp_path / "ramp.toml"), "--json", "--server", account.url)
    done = bench(*words, folder=tmp_path)
    assert done.returncode == 6 and "cannot be saved" in done.stderr
    assert json.loads(done.stdout)["metrics"]["sent"] > 0
    told = [line for line in done.stderr.splitlines() if line.startswith("phase ")]
    assert told == ["phase ramp", "phase warmup", "phase steady", "phase drain"]


def test_the_ready_scenarios_are_objects_too() -> None:
    lines = CliRunner().invoke(root, ["bench", "scenarios", "--json"]).output.splitlines()
    names = [json.loads(line)["name"] for line in lines]
    assert names == list(built_in_scenarios())
    one = CliRunner().invoke(root, ["bench", "scenarios", names[0], "--json"]).output
    told = json.loads(one)
    assert told["text"] == built_in_scenarios()[names[0]]
    assert told["plan"]["title"] == json.loads(lines[0])["title"]


def test_a_table_that_cannot_be_written_is_refused_before_the_run(
    account: Account, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("precious")
    for file, why in (notes, "exists already"), (tmp_path / "no" / "x.csv", "does not exist"):
        words = ("pub", "x", "--msgs", "10", "--csv", str(file), "--server", account.url)
        done = bench(*words, folder=tmp_path)
        assert done.returncode == 2 and why in done.stderr and "phase" not in done.stderr
    assert notes.read_text() == "precious"


def test_a_run_that_takes_messages_of_others_or_works_in_production_is_confirmed(
    account: Account,
) -> None:
    async def fill() -> None:
        async with connected(account.url) as nc:
            js = nc.jetstream()
            await js.add_stream(name="WQ", subjects=["wq.>"], retention="workqueue")
            await js.add_stream(name="A", subjects=["a.>"])
            for number in range(5):
                await js.publish(f"wq.{number}", b"x")
                await js.publish(f"a.{number}", b"x")
            await js.add_consumer("WQ", durable_name="d", ack_policy="explicit")
            await js.add_consumer("A", durable_name="c", ack_policy="explicit")

    async def stored() -> tuple[int, int, int]:
        async with connected(account.url) as nc:
            js = nc.jetstream()
            states = [(await js.stream_info(name)).state for name in ("WQ", "A")]
            floor = (await js.consumer_info("A", "c")).ack_floor
            assert floor is not None
            return states[0].messages, states[1].messages, floor.stream_seq

    def tried(*words: str, production: bool = False) -> tuple[int, str]:
        own = {"NATSTUI_CONNECTION_SERVER": account.url}
        own |= {"NATSTUI_CONNECTION_PRODUCTION": "true"} if production else {}
        done = run_here("bench", *words, "--no-save", environment=own)
        return done.returncode, done.stderr

    asyncio.run(fill())
    for words, sentence in (
        (("js", "consume", "--stream", "WQ", "--consumer", "d", "--msgs", "2"),
         "up to 5 messages of consumer d are acknowledged"),
        (("js", "fetch", "--stream", "A", "--consumer", "c", "--msgs", "2"),
         "up to 5 messages of consumer c are acknowledged"),
    ):  # fmt: skip
        code, said = tried(*words)
        assert code == 5 and sentence in said, said
    publish = ("js", "pub", "async", "a.new", "--stream", "A", "--msgs", "3")
    for confirm in ((), ("--yes",), ("--confirm", "WQ")):
        code, said = tried(*publish, *confirm, production=True)
        assert code == 5, said
    assert asyncio.run(stored()) == (5, 5, 0)
    code, said = tried(*publish, "--confirm", "A", production=True)
    assert code == 0, said
    assert asyncio.run(stored()) == (5, 8, 0)
