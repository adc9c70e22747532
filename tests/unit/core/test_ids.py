"""Ids that count, so that "lifted before" can be told from "never existed"."""

import pytest

from midcourse.core.ids import ask_id, pause_id, was_given


@pytest.mark.parametrize("ordinal", [1, 2, 10, 123_456_789])
def test_the_name_of_a_pause_or_an_ask_was_given_once_so_many_were(ordinal: int) -> None:
    assert was_given(pause_id(ordinal), pause_id, ordinal)
    assert was_given(ask_id(ordinal), ask_id, ordinal)
    assert not was_given(pause_id(ordinal), pause_id, ordinal - 1)
    assert not was_given(pause_id(ordinal), ask_id, ordinal)


@pytest.mark.parametrize(
    "name",
    [
        *("", "pause", "pause_", "pause_x", "pause_-1", "pause_0", "pause_01", "pause_1.0", "pause_\u0661"),
        *("pause_1_2", "pause_" + "9" * 10),
    ],
)
def test_what_is_no_such_name_was_never_given(name: str) -> None:
    assert not was_given(name, pause_id, 10**12)
