"""What nobody foresaw in a command is its answer; the engine reports it and goes on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from natstui.defects import report_defects, write_crash_log
from natstui.errors import ActionRefusal
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Outcome, PollNow, WriteNote
from tests.accounts import Account
from tests.engine.engine_process import EngineProcess

BROKEN = """
import sys
from natstui.jetstream.polling.control import PollControl

def fail(self):
    raise KeyError("nobody foresaw this")

PollControl.poll_now = fail
from natstui.__main__ import main
sys.argv[0] = "natstui"
main()
"""


@pytest.mark.long
@pytest.mark.server
def test_a_defect_in_a_command_is_its_answer_and_the_engine_goes_on(
    account: Account, tmp_path: Path
) -> None:
    start = (sys.executable, "-P", "-c", BROKEN, "engine")
    with EngineProcess("--server", account.url, start=start) as engine:
        engine.next(Snapshot)
        for _ in range(2):
            engine.send(PollNow(1))
            outcome = engine.next(Outcome, lambda it: it.command_id == 1)
            assert outcome.status == "failed"
            assert "failed by a defect (KeyError); the report is in " in outcome.text
        log = Path(outcome.text.partition("the report is in ")[2])
        assert "nobody foresaw this" in log.read_text()
        assert len(list(log.parent.iterdir())) == 1, "one report of one defect"
        # What is no command is left out as well.
        assert engine.process.stdin is not None
        engine.process.stdin.write(b"no command\n")
        engine.process.stdin.flush()
        engine.send(WriteNote(3, "still here"))
        assert engine.next(Outcome, lambda it: it.command_id == 3).status == "done"
        engine.next(Snapshot)


def test_the_same_defect_is_reported_once_and_said_again_after_a_while() -> None:
    told: list[str] = []

    def fail(again_s: float) -> None:
        with report_defects("this", told.append, repeat_after_s=again_s):
            raise ZeroDivisionError

    fail(3600)
    fail(3600)
    assert len(told) == 1
    fail(0)
    assert len(told) == 2 and told[0] == told[1]


def test_errors_that_have_their_own_words_pass_through() -> None:
    with pytest.raises(ActionRefusal), report_defects("this", print):
        raise ActionRefusal("no")


def test_the_newest_reports_are_kept(tmp_path: Path) -> None:
    (tmp_path / "notes.log").touch()
    paths = [write_crash_log(KeyError(number), tmp_path) for number in range(25)]
    assert sorted(tmp_path.glob("crash-*.log")) == paths[5:]
    assert (tmp_path / "notes.log").exists()
