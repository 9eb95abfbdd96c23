"""The sessions that were frozen when a version of the format was made."""

from pathlib import Path

from natstui.analysis.bronze.schema import SCHEMA_VERSIONS
from natstui.session.read.recording import Recording
from tests.session.making import made

DATA = Path(__file__).parents[1] / "session" / "data"
VERSIONS = [f"version-{number}" for number in SCHEMA_VERSIONS]
FROZEN = [DATA / version for version in VERSIONS]
AGAIN = "version-1-again"


def write(folder: Path) -> None:
    """Write what is in the session of version 1 as it is written today."""
    session = made(folder / "parent", Recording(FROZEN[0]).records())
    session.rename(folder / AGAIN)
    (folder / "parent").rmdir()
