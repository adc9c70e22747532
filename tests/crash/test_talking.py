"""The story's own rules: what a provider refuses in a conversation is found, and nothing where all is well."""

import pytest

from midcourse.models.script import Call, Conversation, Said
from tests.crash.chat_story import FOX, GOAL, ONCE_MORE, faults

ASKED = Said("user", GOAL)
CALLED = Said("assistant", "", (Call("a", id="1"), Call("b", id="2")))
FIRST, SECOND = Said("tool", "a", call_id="1"), Said("tool", "b", call_id="2")


def test_nothing_is_found_where_all_is_well() -> None:
    """Results in any order, a text that was cut, and several turns."""
    said = (Said("system", "Do it."), ASKED, CALLED, SECOND, FIRST, Said("assistant", "Once"), Said("user", FOX))
    assert not list(faults(Conversation(said)))
    assert not list(faults(Conversation((*said, Said("user", ONCE_MORE)))))


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ((ASKED, CALLED, FIRST), "no result of 2"),
        ((ASKED, CALLED, FIRST, Said("user", FOX), SECOND), "no result of 2 right after the call"),
        ((ASKED, CALLED, FIRST, SECOND, SECOND), "a result of 2 that nothing waits for"),
        ((ASKED, CALLED, FIRST, SECOND, CALLED, FIRST, SECOND), "the call id 1 twice"),
        ((ASKED, ASKED), "what the person said as ['survive', 'survive']"),
        ((ASKED, Said("user", ONCE_MORE)), "what the person said as ['survive', 'once more']"),
        ((CALLED, FIRST, SECOND), "what the person said as []"),
    ],
)
def test_what_a_provider_refuses_is_found(said: tuple[Said, ...], fault: str) -> None:
    """And what was told twice, or not at all."""
    assert fault in list(faults(Conversation(said)))
