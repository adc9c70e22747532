"""A script says the same to the same conversation, and gives each call an id that is new to it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from midcourse.models.script import (
    Call,
    Conversation,
    Fail,
    Garbage,
    Piece,
    Said,
    Text,
    Usage,
    Wait,
    answer,
    call_of,
    replies,
    tokens,
    usage,
)

LOOK = Call("look", {"at": "map"}, "c1")
ASKED = (Said("system", "Be brief."), Said("user", "Find the way"))
CALLED = (*ASKED, Said("assistant", "", (LOOK,)))
LOOKED = (*CALLED, Said("tool", "north", call_id="c1"))


@given(st.text())
def test_the_parts_of_a_text_are_the_text(text: str) -> None:
    assert "".join(Text(text).parts) == text


@given(st.text(), st.text())
def test_the_parts_of_a_call_are_its_arguments(key: str, value: str) -> None:
    call = Call("f", {key: value})
    assert "".join(call.parts) == call.spelled
    assert json.loads(call.spelled) == {key: value}


def test_a_text_is_streamed_word_by_word() -> None:
    assert Text("one two  three").parts == ("one ", "two  ", "three")


def test_raw_arguments_are_sent_letter_for_letter() -> None:
    assert Call("f", {"ignored": 1}, raw='{"broken').spelled == '{"broken'


def test_a_call_that_is_read_back_is_the_call_that_was_made() -> None:
    assert call_of("look", LOOK.spelled, "c1") == LOOK
    assert call_of("look", '{"broken', "c1") == Call("look", id="c1", raw='{"broken')
    assert call_of("look", "[1]", "c1") == Call("look", id="c1", raw="[1]")


def test_a_conversation_knows_what_scripts_ask_of_it() -> None:
    redirected = Conversation((*LOOKED, Said("assistant", "Go north."), Said("user", "South, please")))
    assert redirected.system == "Be brief."
    assert redirected.user == "South, please"
    assert redirected.latest == Conversation((Said("user", "South, please"),))
    assert redirected.calls == (LOOK,)
    assert redirected.results("look") == ("north",)
    assert redirected.results("dig") == ()
    assert len(redirected) == 6
    assert Conversation().user == ""


def test_a_round_is_finished_when_its_calls_have_results() -> None:
    assert Conversation(ASKED).rounds == 0
    assert Conversation(CALLED).rounds == 0
    assert Conversation(LOOKED).rounds == 1
    assert Conversation((*LOOKED, Said("assistant", " "))).rounds == 1
    assert Conversation((*LOOKED, Said("assistant", "North."))).rounds == 2


def test_replies_says_one_round_after_the_other() -> None:
    script = replies(LOOK, [Wait(0.1), Text("North.")])
    assert script(Conversation(ASKED)) == (LOOK,)
    assert script(Conversation(CALLED)) == (LOOK,), "the call has no result: the round is not over"
    assert script(Conversation(LOOKED)) == (Wait(0.1), Text("North."))


def test_past_its_end_it_says_that_it_is_at_its_end() -> None:
    (piece,) = replies(Text("All."))(Conversation((*ASKED, Said("assistant", "All."))))
    assert isinstance(piece, Fail)
    assert piece.status == 400
    assert "The script has 1 rounds" in piece.message


def test_calls_get_ids_that_are_the_same_again() -> None:
    script = replies([Call("look"), Text("and"), Call("dig", id="mine"), Call("look")])
    first = answer(script, Conversation(ASKED))
    assert [piece.id for piece in first if isinstance(piece, Call)] == ["call_0_0", "mine", "call_0_2"]
    assert answer(script, Conversation(ASKED)) == first


def test_an_id_is_new_even_to_a_conversation_that_lost_its_beginning() -> None:
    shortened = Conversation((Said("user", "Go on"), Said("assistant", "", (Call("look", id="call_1_0"),))))
    (call,) = answer(lambda _: (Call("look"),), shortened)
    assert isinstance(call, Call)
    assert call.id == "call_2_0"


def test_tokens_are_words() -> None:
    pieces: tuple[Piece, ...] = (Text("Go north now."), Wait(1), Garbage("x y z"), Call("look", {"at": "map"}))
    assert tokens("") == 0
    assert usage(Conversation(LOOKED), pieces) == Usage(heard=2 + 3 + 3 + 1, said=3 + 3)
