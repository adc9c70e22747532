"""What is wrong with a value, in words: what it must be, what was given, and what was probably meant."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from midcourse.core.choices import did_you_mean, must_be, quoted_value


class Status(StrEnum):
    PAUSED = "paused"
    FAILED = "failed"


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (int, "x", "must be a whole number, not 'x'."),
        (int, 1.5, "must be a whole number, not 1.5."),
        (int, None, "must be a whole number, not null."),
        (float, "much", "must be a number, not 'much'."),
        (bool, "perhaps", "must be true or false, not 'perhaps'."),
        (str, 3, "must be text, not 3."),
        (tuple[str, ...], {"a": 1}, "must be a list, not an object."),
        (Annotated[int, Field(ge=1)], "0", "must be at least 1, not '0'."),
        (Annotated[int, Field(le=10_000)], 99_999, "must be at most 10,000, not 99999."),
        (Annotated[float, Field(gt=0)], -0.5, "must be more than 0, not -0.5."),
        (Annotated[float, Field(allow_inf_nan=False)], "nan", "must be a finite number, not 'nan'."),
        (Annotated[list[int], Field(max_length=1)], [1, 2], "must have at most 1 part, not 2."),
        (Literal["json", "html"], "htm", "must be 'json' or 'html', not 'htm'. Did you mean 'html'?"),
        (Literal["json", "html"], 7, "must be 'json' or 'html', not 7."),
        (Status, "Pausd", "must be 'paused' or 'failed', not 'Pausd'. Did you mean 'paused'?"),
        (Annotated[str, Field(pattern="^[a-z]+$")], "A", "must be small letters, not 'A'."),
    ],
)
def test_it_says_what_is_allowed_and_what_was_given(kind: Any, value: object, said: str) -> None:
    with pytest.raises(ValidationError) as wrong:
        TypeAdapter(kind).validate_python(value)
    assert must_be(dict(wrong.value.errors()[0]), {"^[a-z]+$": "small letters"}) == said


def test_what_nobody_foresaw_is_still_a_sentence() -> None:
    finding = {"type": "value_error", "msg": "Value error, it has 101 fields", "input": None}
    assert must_be(finding, {}) == "cannot be used: it has 101 fields."


def test_what_is_long_is_not_repeated_in_full() -> None:
    assert quoted_value("x" * 1000) == f"'{'x' * 59}…'"
    assert quoted_value(10**9000) == "a number that is far too large"


def test_only_what_is_near_was_probably_meant() -> None:
    assert did_you_mean("pausd", ["paused", "failed"]) == " Did you mean 'paused'?"
    assert did_you_mean("zebra", ["paused", "failed"]) == ""
