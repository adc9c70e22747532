"""An answer to an approval that may be meant as a yes counts neither way: it is asked again."""

import pytest

from midcourse.core.asks import is_no, is_unclear, is_yes
from midcourse.core.codec import Value, encode, inline
from midcourse.core.request_checks import answer_value


def _said(answer: object) -> Value:
    return inline(encode(answer, what="The answer"))


@pytest.mark.parametrize(
    "answer", ["y", "Y", "ok", "OK!", "okay", "sure", " Sure. ", "yes!", "yes please", "ok, go", "go  ahead", "👍"]
)
def test_words_like_yes_are_neither_yes_nor_no(answer: object) -> None:
    said = _said(answer)
    assert is_unclear(said)
    assert not is_yes(said)
    assert not is_no(said)


@pytest.mark.parametrize("answer", ["yes", "YES", "approve", "true", True, "no", "n", "", False, None])
def test_a_clear_word_is_not_asked_about(answer: object) -> None:
    assert not is_unclear(_said(answer))


@pytest.mark.parametrize(
    "answer", ["not before Monday", "wrong customer", "nope", "yes, but only the old ones", 0, 1, ["ok"], {"ok": True}]
)
def test_any_other_answer_refuses(answer: object) -> None:
    said = answer_value(answer)
    assert not is_unclear(said)
    assert not is_yes(said)


def test_what_the_ask_itself_offers_is_an_answer() -> None:
    assert is_unclear(_said("ok"))
    assert not is_unclear(_said("ok"), ("ok", "stop"))
