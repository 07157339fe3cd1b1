"""Rows of text that repeats itself do not count; those of ordinary text, and before a repetition, do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from verillm.comparator.repetition import WINDOW, countable


def test_one_token_again_and_again_counts_until_it_repeats() -> None:
    text = [7, 5] + [9] * 60 + [1, 2, 3]
    assert (
        countable(text) == [True] * 4 + [False] * 61
    )  # the pair (9, 9) is new once; what follows is no better


def test_a_phrase_counts_the_first_time_and_text_recovers_after_it() -> None:
    phrase = list(range(10, 16))
    text = phrase * 8 + list(range(100, 100 + 2 * WINDOW))
    counts = countable(text)
    assert counts[:7] == [True] * 7
    assert not any(counts[7 : len(phrase) * 8])
    assert all(counts[-WINDOW:])


def test_a_word_that_comes_back_is_no_repetition() -> None:
    text = [token for i in range(60) for token in (1, 100 + i)]
    assert all(countable(text))


@given(st.lists(st.integers(0, 3), max_size=120))
def test_it_is_decided_by_the_text_before_alone(text: list[int]) -> None:
    counts = countable(text)
    assert len(counts) == len(text)
    assert all(countable(text[:n]) == counts[:n] for n in range(0, len(text), 17))
