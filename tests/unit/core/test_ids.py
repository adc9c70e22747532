"""Ids that count, so that "lifted before" can be told from "never existed"."""

import pytest

from midcourse.core.ids import ask_id, ordinal_of, pause_id


@pytest.mark.parametrize("ordinal", [1, 2, 10, 123_456_789])
def test_the_name_of_a_pause_or_an_ask_tells_its_ordinal(ordinal: int) -> None:
    assert ordinal_of(pause_id(ordinal)) == ordinal
    assert ordinal_of(ask_id(ordinal)) == ordinal


@pytest.mark.parametrize(
    "name",
    ["", "pause", "pause_", "pause_x", "pause_-1", "pause_1.0", "pause_\u0661", "pause_1_2", "pause_" + "9" * 10],
)
def test_what_is_no_such_name_has_no_ordinal(name: str) -> None:
    assert ordinal_of(name) is None
