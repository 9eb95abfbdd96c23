"""Record ⇄ line."""

import pytest

from natstui.lines import BadLine, decode_command, decode_record, encode_command, encode_record
from natstui.model.live.snapshot import ConsumerColumns, PollCost, Snapshot, StreamColumns
from natstui.model.records.record import AckSample, Noted, SetInterval
from natstui.model.servers.server import Servers, ServerState
from natstui.model.servers.watch import ServersRead


def test_a_record_comes_back_from_its_line() -> None:
    note = Noted(at_us=1, text='x,18446744073709551615,"]')
    assert decode_record(encode_record(note)) == note


def test_a_sequence_beyond_63_bits_is_a_string_in_the_line_and_comes_back() -> None:
    sample = AckSample(1, "S", "C", 2**64 - 1, 2**63 - 1, 1, 5)
    line = encode_record(sample)
    assert b'"stream_seq":"18446744073709551615"' in line
    assert b'"consumer_seq":9223372036854775807' in line
    assert decode_record(line) == sample


def test_a_command_comes_back_from_its_line() -> None:
    command = SetInterval(command_id=7, interval_s=0.5)
    assert decode_command(encode_command(command)) == command


def test_a_snapshot_with_ragged_columns_is_refused() -> None:
    cost = PollCost(1, 1, 1, None, 1, None)
    ragged = StreamColumns(name=("ORDERS",))
    snapshot = Snapshot(1, 1, ragged, ConsumerColumns(), True, True, (), (), (), None, cost)
    with pytest.raises(BadLine, match="different lengths"):
        decode_record(encode_record(snapshot))


@pytest.mark.parametrize("digits_count", [21, 400])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_number_beyond_64_bits_is_refused_wherever_it_is(digits_count: int, quote: str) -> None:
    number = f"{quote}{'9' * digits_count}{quote}".encode()
    seen = ServerState(
        "A", "n1", None, None, 1, None, None, None, None, None, None, None, cores_count=1234567
    )
    read = encode_record(ServersRead(1, Servers("monitoring", (seen,))))
    for line in (encode_record(AckSample(1, "S", "C", 1234567, 1, 1, 5)), read):
        assert b"1234567" in line
        with pytest.raises(BadLine, match="beyond 64 bits"):
            decode_record(line.replace(b"1234567", number))
    # The same digits are a name.
    assert decode_record(encode_record(Noted(1, "9" * digits_count)))
