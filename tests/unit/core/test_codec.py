"""One encoding for values, one spelling for arguments, and digests that notice every change."""

import dataclasses
import decimal
import enum
import math
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Protocol

import msgspec
import pytest

from midcourse.core import codec
from midcourse.core.codec import (
    NOTHING,
    Value,
    canonical,
    decode,
    digest_of,
    encode,
    is_secret_name,
    preview,
    secret_free,
    value_of,
    without_credentials,
)
from midcourse.errors import Damaged, Unencodable


@dataclasses.dataclass
class Point:
    x: object
    y: object = 0


class Shape(msgspec.Struct):
    name: str
    corners: object


class Colour(enum.Enum):
    RED = "red"


class Model:
    """What Pydantic models look like from here."""

    def __init__(self, **fields: object) -> None:
        self.fields = fields

    def model_dump(self) -> dict[str, object]:
        return self.fields

    @classmethod
    def model_validate(cls, fields: dict[str, object]) -> "Model":
        return cls(**fields)


class Moody:
    def model_dump(self) -> object:
        raise RuntimeError("not today")


class Opaque:
    pass


class Duck(Protocol):
    def quack(self) -> None: ...


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


# ---- values


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 2**80, 1.5, -0.0, 1e300, "", "é\u0000\U0001f600", [], {}, {"a": [1, {"b": None}]}, nested(200)],
)
def test_a_json_like_value_comes_back_as_it_was(value: object) -> None:
    assert decode(encode(value, what="it")) == value


def test_what_knows_its_own_type_comes_back_as_that_type() -> None:
    assert decode(encode(Point(1, [2]), what="it"), Point) == Point(1, [2])
    assert decode(encode(Shape("square", 4), what="it"), Shape) == Shape("square", 4)
    assert decode(encode(Colour.RED, what="it"), Colour) is Colour.RED
    assert decode(encode(datetime(2026, 1, 1, tzinfo=UTC), what="it"), datetime) == datetime(2026, 1, 1, tzinfo=UTC)
    assert decode(encode(Model(a=1), what="it"), Model).fields == {"a": 1}


@pytest.mark.parametrize("kind", [Opaque, Duck, Callable[[], None]], ids=str)
def test_an_annotation_that_cannot_be_built_gives_what_json_gives(kind: Any) -> None:
    assert decode(b'{"a":1}', kind) == {"a": 1}


def test_a_value_of_the_wrong_type_is_an_error_and_not_a_guess() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(b'"three"', int)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Opaque(), "the value is of type Opaque"),
        ({"a": [1, {"b": Opaque()}]}, "['a'][1]['b'] is of type Opaque"),
        ({"a": {(1, 2): 3}}, "the key (1, 2) of ['a'] is of type tuple"),
        ({"a": ["\ud800"]}, "['a'][0] is text that is not Unicode"),
        ({"a": [math.nan]}, "['a'][0] is nan"),
        (Point(1, math.inf), "['y'] is inf"),
        (nested(201), "nested deeper than 200"),
        (nested(100_000), ""),
        (Moody(), "the value is of type Moody"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_journaled_is_named_with_its_place(value: object, named: str) -> None:
    with pytest.raises(Unencodable) as caught:
        encode(value, what="The result of step 'fetch'")

    assert str(caught.value).startswith("The result of step 'fetch' cannot be journaled: ")
    assert named in str(caught.value)
    assert caught.value.code == "unencodable"


def test_a_wide_value_is_not_taken_for_a_deep_one() -> None:
    wide = [{"text": ']]][[[\\"{'} for _ in range(1000)]

    assert decode(encode(wide, what="it")) == wide


def test_a_none_beside_numbers_is_not_taken_for_a_number_without_end() -> None:
    assert decode(encode({"a": None, "b": 1.5}, what="it")) == {"a": None, "b": 1.5}


# ---- values in a journal


def test_a_value_up_to_the_limit_stands_in_the_journal_and_a_larger_one_beside_it() -> None:
    small, no_blob = value_of(b'"' + b"x" * (codec.BLOB_LIMIT - 2) + b'"')
    large, blob = value_of(b'"' + b"x" * (codec.BLOB_LIMIT - 1) + b'"')

    assert no_blob is None
    assert not small.blob
    assert blob is not None
    assert (large.blob, large.size) == (blob.digest, codec.BLOB_LIMIT + 1)
    assert codec.check_blob(large.blob, blob.content) == blob.content


def test_a_small_value_stands_in_the_journal() -> None:
    assert codec.inline(b"1") == Value(raw=msgspec.Raw(b"1"))


def test_values_are_equal_when_their_bytes_are() -> None:
    assert Value(raw=msgspec.Raw(b"[1]")) == Value(raw=msgspec.Raw(b"[1]"))
    assert Value(raw=msgspec.Raw(b"[1]")) != Value(raw=msgspec.Raw(b"[2]"))
    assert Value(raw=msgspec.Raw(b"null")) == NOTHING
    assert decode(NOTHING.raw) is None


@pytest.mark.parametrize("content", [None, b"other"])
def test_a_blob_that_is_missing_or_changed_is_noticed(content: bytes | None) -> None:
    with pytest.raises(Damaged, match="Restore the store from a backup"):
        codec.check_blob(digest_of(b"content"), content)


# ---- digests


def test_the_running_digest_covers_the_record_its_position_and_all_before() -> None:
    first = codec.chain(codec.GENESIS, 1, b"a")
    second = codec.chain(first, 2, b"b")

    assert second != codec.chain(first, 3, b"b")
    assert second != codec.chain(first, 2, b"c")
    assert second != codec.chain(codec.chain(codec.GENESIS, 1, b"A"), 2, b"b")


def test_a_checksum_knows_the_borders_of_its_parts() -> None:
    assert codec.checksum(b"ab", b"c") != codec.checksum(b"a", b"bc")
    assert codec.checksum(b"ab") != codec.checksum(b"ab", b"")


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": {"x": 1, "y": {"p": 1, "q": 2}}}, {"a": {"y": {"q": 2, "p": 1}, "x": 1}}),
        ((1, 2), [1, 2]),
        ({"args": ("a", ("b",))}, {"args": ["a", ["b"]]}),
        ({"x", "y", "z"}, {"z", "y", "x"}),
        ({1, "a", None, 2.5}, {None, 2.5, "a", 1}),
        ({1: "a", 10: "b", 9: "c"}, {9: "c", 10: "b", 1: "a"}),
        ({1: "a"}, {"1": "a"}),
        ({(1, 2): "a", None: "b"}, {None: "b", (1, 2): "a"}),
        (Point({3: 1}), Point({3: 1})),
        (Shape("s", {3: {1, "a"}}), Shape("s", {3: {"a", 1}})),
        ({"a": Opaque(), 1: 2}, {1: 2, "a": Opaque()}),
        ({"a": "\ud800"}, {"a": "\ud800"}),
        (Model(a=1, b=2), Model(b=2, a=1)),
    ],
)
def test_arguments_that_mean_the_same_have_one_spelling(one: object, same: object) -> None:
    assert canonical(one) == canonical(same)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, "1"),
        (1, 1.0),
        (1, True),
        (0, False),
        (None, "null"),
        (None, 0),
        ("", None),
        ([], {}),
        ([1, 2], [2, 1]),
        ([[1], 2], [1, [2]]),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {}),
        ({1: "a", "k": 1}, {1: "a", "k": 2}),
        ({1: {"deep": 1}}, {1: {"deep": 2}}),
        ({"a": Opaque(), 1: "x"}, {"a": Opaque(), 1: "y"}),
        ({"a": "\ud800", "b": 1}, {"a": "\ud800", "b": 2}),
        ({1, "a"}, {1, "b"}),
        (Point({3: 1}), Point({3: 2})),
        (Opaque(), Duck),
    ],
)
def test_arguments_that_differ_have_different_spellings(one: object, other: object) -> None:
    assert canonical(one) != canonical(other)


def test_arguments_that_went_through_the_journal_are_spelled_as_before() -> None:
    arguments = {"t": (1, 2), "n": {1: [1.5, 2**70]}, "p": Point(None, "é"), "c": Colour.RED}

    assert canonical(decode(encode(arguments, what="it"))) == canonical(arguments)


@pytest.mark.parametrize("arguments", [Opaque(), Moody(), {Opaque(): 1}, "\ud800", math.nan, lambda: 1])
def test_whatever_the_arguments_are_their_spelling_is_json(arguments: object) -> None:
    msgspec.json.decode(canonical(arguments))
    assert isinstance(preview(canonical({"token": arguments})), str)


def test_arguments_that_contain_themselves_have_a_spelling_too() -> None:
    endless: list[object] = []
    endless.append(endless)

    assert canonical(endless) == canonical(endless)


# ---- previews


def test_a_preview_is_short() -> None:
    assert preview(canonical(["x" * 10_000])).endswith("…")
    assert len(preview(canonical(["é" * 10_000]))) == 400
    assert preview(canonical({"path": "/tmp/x"})) == '{"path":"/tmp/x"}'


@pytest.mark.parametrize(
    "arguments",
    [
        {"password": "hunter2"},
        {"kwargs": {"db": [{"DB_PASSWORD": "hunter2"}]}},
        {"X-Api-Key": "hunter2"},
        {"apiKey": "hunter2"},
        {"access_token": "hunter2"},
        {"client_secret": {"inner": "hunter2"}},
        {"Cookie": ["hunter2"]},
        {"PWD": 22, "x": "hunter2"} | {"pwd": "hunter2", "x": 1},
        ["Authorization: Bearer hunter2abc"],
        ["authorization: Basic hunter2=="],
        ["https://ada:hunter2@example.org/x"],
        ["curl -d password=hunter2 https://example.org"],
        ["X-Api-Key: hunter2"],
        ["sk-live_hunter2hunter2hunter2"],
        ["ghp_hunter2hunter2hunter2"],
        ["eyJhbGciOiJIUzI1NiJ9.eyJodW50ZXIyIjoi.hunter2"],
        ["-----BEGIN RSA PRIVATE KEY-----\nhunter2"],
        [{"password": "x" * 5000}, {"token": "hunter2"}],
    ],
)
def test_what_looks_like_a_secret_is_left_out_of_a_preview(arguments: object) -> None:
    shown = preview(canonical(arguments))

    assert "hunter2" not in shown
    assert "[redacted]" in shown


def test_what_is_no_secret_stays_in_a_preview() -> None:
    assert preview(canonical({"max_tokens": 500, "key": "a"})) == '{"key":"a","max_tokens":500}'
    assert preview(canonical(["https://example.org/a?b=c", "basic English"])) == (
        '["https://example.org/a?b=c","basic English"]'
    )


CREDENTIALS = [
    "mct_" + "a1-_" * 10 + "xyz",
    "sk-proj-abcdefghijklmnop",
    "ghp_abcdefghijklmnop1234",
    "AKIAABCDEFGHIJKLMNOP",
    "eyJhbGciOiJI.eyJzdWIiOiIx.abc-_",
    "Bearer abcdefghijklmnopqrst",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_a_credential_is_left_out_wherever_it_stands(credential: str) -> None:
    assert credential not in without_credentials(f"Call it with {credential}")
    assert credential.encode() not in secret_free(canonical({"command": ["curl", credential]}))
    assert credential not in preview(canonical({"command": f"curl {credential}"}))


def test_credentials_in_an_address_are_left_out_and_the_address_stays() -> None:
    assert without_credentials("GET https://ada:hunter2@host/x") == "GET https://[redacted]@host/x"


def test_a_named_secret_is_left_out_of_arguments_and_the_rest_stays() -> None:
    arguments = {
        "user": "ada",
        "password": "hunter2",
        "headers": {"Authorization": "x", "Accept": "y"},
        "max_tokens": 5,
    }
    assert decode(secret_free(canonical(arguments))) == {
        "user": "ada",
        "password": "[redacted]",
        "headers": {"Authorization": "[redacted]", "Accept": "y"},
        "max_tokens": 5,
    }
    assert is_secret_name("db_password")
    assert not is_secret_name("path")


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a.py", "new": "def f(token: str, secret=None): ...", "old": "password = input()"},
        {"text": "see https://example.org/a?key=b, task_management_system, risk-assessment-report"},
        {"password": None, "token": "", "tokens": 7},
        {"text": "x" * 20_000 + " bearer of news"},
    ],
)
def test_what_only_may_be_a_secret_stays_in_arguments_that_an_undo_acts_on(arguments: object) -> None:
    content = canonical(arguments)
    assert secret_free(content) is content


class _Colour(enum.Enum):
    RED = "red"
    ONE = 1


class _Level(enum.IntEnum):
    HIGH = 3


_ID = uuid.UUID(int=7)
_DAY = date(2026, 11, 18)


@pytest.mark.parametrize(
    "value",
    [
        {1: "a", "1": "b"},
        {"rows": [{2.5: 0, "2.5": 1}]},
        [{-1: 0, "-1": 1}],
        {_ID: "a", str(_ID): "b"},
        {b"ab": "a", "YWI=": "b"},
        {_Colour.RED: "a", "red": "b"},
        {_Colour.ONE: "a", 1: "b"},
        {_Level.HIGH: "a", "3": "b"},
        {_DAY: "a", "2026-11-18": "b"},
        {_DAY: "a", date.isoformat(_DAY): "b", "c": {"d": 1}},
        {1e300: 0, "1e300": 1, "big": 2**70},
        {decimal.Decimal("1.0"): 0, "1.0": 1},
    ],
)
def test_two_keys_that_json_writes_alike_are_refused_and_not_lost(value: object) -> None:
    with pytest.raises(Unencodable, match="has two keys that are both written"):
        encode(value, what="The result")


@pytest.mark.parametrize("value", [{True: "a"}, {None: "a", "null": "b"}, {(1, 2): "a"}])
def test_a_key_that_json_has_no_word_for_is_refused(value: object) -> None:
    with pytest.raises(Unencodable):
        encode(value, what="The result")


@pytest.mark.parametrize(
    "value",
    [
        {1: "a", 2: "b"},
        {"1": "a", "b": {"1": 2}},
        {"a": 'said "1": 2'},
        {_ID: "a", _Colour.RED: "b", _DAY: "c", b"ab": "d"},
        {"big": 2**70, "a": 1e22, "b": '\u2028 " :'},
    ],
)
def test_numbers_as_keys_are_taken_where_nothing_is_lost(value: dict[object, object]) -> None:
    assert len(decode(encode(value, what="The result"))) == len(value)
