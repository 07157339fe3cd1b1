"""A round may be moved on between the moment it is read and the transaction that brings it along."""

import pytest

from verillm.chain.roundlog import TRIES, on_round
from verillm.errors import ChainError, RoundMoved


def test_a_call_is_repeated_with_the_round_as_it_stands_by_then():
    seen: list[int] = []

    @on_round
    def call(value: int) -> int:
        seen.append(value)
        if len(seen) < TRIES:
            raise RoundMoved("openDispute: RoundMismatch(1)")
        return value

    assert call(7) == 7
    assert seen == [7] * TRIES


@pytest.mark.parametrize(("error", "calls"), [(RoundMoved("moved"), TRIES), (ChainError("other"), 1)])
def test_other_errors_and_the_last_of_several_are_raised(error: ChainError, calls: int):
    seen: list[int] = []

    @on_round
    def call() -> None:
        seen.append(1)
        raise error

    with pytest.raises(ChainError) as raised:
        call()
    assert raised.value is error
    assert len(seen) == calls
