"""A process that records numbered notes and polls under load until it is killed.

Prints the folder, then the number of the last note added, again and again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from natstui.clock import wall_us
from natstui.model.records.record import Noted
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.library import seal_unfinished_sessions
from natstui.session.write.recorder import Recorder
from natstui.session.write.settings import RecorderSettings
from tests.session.scenario import Scenario


def main(sessions: str, per_s: int) -> None:
    scenario = Scenario(streams=10, consumers=300)
    polls = [scenario.poll(second) for second in range(20)]
    settings = RecorderSettings(Path(sessions), segment_s=0.3)
    seal_unfinished_sessions(settings.sessions)
    recorder = Recorder(settings, KeyframeBuilder().keyframe(wall_us()), lambda change: None)
    print(recorder.folder, flush=True)
    number = 0
    while True:
        for _ in range(per_s // 100):
            recorder.add(Noted(time.time_ns() // 1000, str(number)))
            number += 1
        recorder.add(polls[number % len(polls)])
        print(number - 1, time.time_ns() // 1000, flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
