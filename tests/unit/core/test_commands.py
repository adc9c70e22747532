"""Commands as they lie in an inbox, and what is refused before it gets there."""

import math
from typing import Any, get_args

import msgspec
import pytest

from midcourse.core import commands as cmd
from midcourse.core.ids import CommandId, MessageId
from midcourse.core.parameters import parameters
from midcourse.core.request_checks import answer_value
from midcourse.errors import Damaged, InvalidInput
from midcourse.server.problem_codes import CODES
from tests.unit.core.stories import ASK_1, ID, PAUSE_1, STOP, value

EVERY: tuple[cmd.AnyCommand, ...] = (
    cmd.Pause(id=ID, by="ada", reason="let me read", grace=1.5),
    cmd.Resume(id=ID, pause=PAUSE_1),
    cmd.Redirect(id=ID, text="in French", level="goal", grace=0.0, resume=True),
    cmd.Cancel(id=ID, grace=0.0, reason="enough", undo="all"),
    cmd.Undo(id=ID, reason="the wrong folder"),
    cmd.Answer(id=ID, ask=ASK_1, value=value('{"yes":[1,null]}')),
    cmd.Message(id=ID, text="then the appendix", behaviour="redirect", expects="running.1"),
    cmd.Edit(id=ID, message=MessageId("msg_2"), text="in Dutch"),
    cmd.Withdraw(id=ID, message=MessageId("queued_1")),
    cmd.OutsideEvent(id=ID, text="the build broke", source="ci"),
    cmd.Budget(id=ID, budget=12.5, resume=False),
    cmd.Halt(id=ID, role="operate", reason="fire"),
    cmd.Lift(id=ID, role="operate"),
    cmd.Intervene(id=ID, by="policy:standard@1", decision=STOP),
    cmd.Label(id=ID, about="int_1", verdict="wrong", note="it was waiting for the build"),
    cmd.Rate(id=ID, score=4, note="the table is missing"),
)


def test_there_is_an_example_of_every_command() -> None:
    assert {type(command) for command in EVERY} == set(get_args(cmd.AnyCommand))


@pytest.mark.parametrize("command", EVERY, ids=cmd.verb)
def test_a_command_comes_out_of_the_inbox_as_it_was_put(command: cmd.AnyCommand) -> None:
    cmd.check_command(command)

    assert cmd.decode_command(cmd.encode_command(command)) == command


def test_a_command_is_called_by_the_word_people_write() -> None:
    assert [cmd.verb(kind) for kind in get_args(cmd.AnyCommand)] == [
        *("pause", "resume", "redirect", "cancel", "undo", "answer"),
        *("message", "edit", "withdraw", "event", "budget", "halt", "lift"),
        *("intervene", "label", "rate"),
    ]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b'{"command":"explode","id":"c"}', b'{"command":"pause"}']
)
def test_a_command_that_cannot_be_read_is_damaged_and_says_to_send_it_again(content: bytes) -> None:
    with pytest.raises(Damaged, match="send it again") as caught:
        cmd.decode_command(content)

    assert caught.value.code == "damaged"


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (cmd.Redirect(id=ID, text=" \n"), "text"),
        (cmd.Redirect(id=ID, text="x" * (cmd.TEXT_LIMIT + 1)), "text"),
        (cmd.Pause(id=ID, reason="x" * (cmd.TEXT_LIMIT + 1)), "reason"),
        (cmd.Cancel(id=ID, reason="x" * (cmd.TEXT_LIMIT + 1)), "reason"),
        (cmd.Undo(id=ID, reason="x" * (cmd.TEXT_LIMIT + 1)), "reason"),
        (cmd.Halt(id=ID, reason="x" * (cmd.TEXT_LIMIT + 1)), "reason"),
        (cmd.Pause(id=ID, grace=-1.0), "grace"),
        (cmd.Pause(id=ID, grace=math.nan), "grace"),
        (cmd.Pause(id=ID, grace=math.inf), "grace"),
        (cmd.Redirect(id=ID, text="x", grace=-0.1), "grace"),
        (cmd.Cancel(id=ID, grace=math.inf), "grace"),
        (cmd.Message(id=ID, text=" "), "text"),
        (cmd.Message(id=ID, text="x" * (cmd.TEXT_LIMIT + 1)), "text"),
        (cmd.Message(id=ID, text="x", behaviour="shout"), "behaviour"),  # pyright: ignore[reportArgumentType]
        (cmd.Edit(id=ID, message=MessageId("msg_2"), text=""), "text"),
        (cmd.Edit(id=ID, message=MessageId("msg_2"), text="x" * (cmd.TEXT_LIMIT + 1)), "text"),
        (cmd.Edit(id=ID, message=MessageId("m" * (cmd.ID_LIMIT + 1)), text="x"), "message"),
        (cmd.Withdraw(id=ID, message=MessageId("m" * (cmd.ID_LIMIT + 1))), "message"),
        (cmd.OutsideEvent(id=ID, text="\t"), "text"),
        (cmd.OutsideEvent(id=ID, text="x" * (cmd.TEXT_LIMIT + 1)), "text"),
        (cmd.OutsideEvent(id=ID, text="x", source="x" * (cmd.ID_LIMIT + 1)), "source"),
        (cmd.OutsideEvent(id=ID, text="x", source=7), "source"),  # pyright: ignore[reportArgumentType]
        (cmd.Budget(id=ID, budget=0.0), "budget"),
        (cmd.Budget(id=ID, budget=-1.0), "budget"),
        (cmd.Budget(id=ID, budget=math.nan), "budget"),
        (cmd.Budget(id=ID, budget=math.inf), "budget"),
        (cmd.Budget(id=ID, budget=1e10), "budget"),
        (cmd.Budget(id=ID, budget="ten"), "budget"),  # pyright: ignore[reportArgumentType]
        (cmd.Label(id=ID, about="int_1", verdict="maybe"), "verdict"),  # pyright: ignore[reportArgumentType]
        (cmd.Label(id=ID, about="i" * (cmd.ID_LIMIT + 1), verdict="right"), "about"),
        (cmd.Label(id=ID, about=3, verdict="right"), "about"),  # pyright: ignore[reportArgumentType]
        (cmd.Label(id=ID, about="int_1", verdict="right", note="x" * (cmd.TEXT_LIMIT + 1)), "note"),
        (cmd.Rate(id=ID, score=0), "score"),
        (cmd.Rate(id=ID, score=6), "score"),
        (cmd.Rate(id=ID, score=4.5), "score"),  # pyright: ignore[reportArgumentType]
        (cmd.Rate(id=ID, score="5"), "score"),  # pyright: ignore[reportArgumentType]
        (cmd.Rate(id=ID, score=5, note="x" * (cmd.TEXT_LIMIT + 1)), "note"),
        (cmd.Pause(id=ID, expects="x" * (cmd.MARK_LIMIT + 1)), "expects"),
        (cmd.Redirect(id=ID, text="x", level="louder"), "level"),  # pyright: ignore[reportArgumentType]
        (cmd.Redirect(id=ID, text="x", level="louder", grace=0.0), "level"),  # pyright: ignore[reportArgumentType]
        (cmd.Pause(id=ID, grace=cmd.LONGEST_GRACE + 1), "grace"),
        (cmd.Pause(id=ID, lapses=cmd.LONGEST_LAPSE + 1), "lapses"),
        (cmd.Pause(id=CommandId("")), "id"),
        (cmd.Pause(id=CommandId("x" * (cmd.ID_LIMIT + 1))), "id"),
    ],
)
def test_what_no_session_could_use_is_refused_with_the_name_of_the_field(command: cmd.AnyCommand, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        cmd.check_command(command)

    assert caught.value.fields["field"] == field


@pytest.mark.parametrize(
    "fields", [{"level": "louder"}, {"text": "\ud800"}, {"by": 7}, {"role": "king"}, {"grace": "soon"}]
)
def test_a_field_that_could_not_be_read_back_is_refused_before_it_becomes_durable(fields: dict[str, Any]) -> None:
    command = msgspec.structs.replace(cmd.Redirect(id=ID, text="x"), **fields)

    with pytest.raises(InvalidInput):
        cmd.check_command(command)


def test_a_refused_field_is_told_what_it_must_be_and_what_it_is_for() -> None:
    with pytest.raises(InvalidInput) as grace:
        cmd.check_command(cmd.Pause(id=ID, grace=-1.0))
    with pytest.raises(InvalidInput) as level:
        cmd.check_command(cmd.Redirect(id=ID, text="x", level="gaol"))  # pyright: ignore[reportArgumentType]

    assert str(grace.value) == (
        "grace is -1.0; it must be a number, at least 0 and at most 31,622,400. "
        "Seconds that calls in flight have to finish; left out, as long as they need."
    )
    assert str(level.value).startswith("level is 'gaol'; it must be one of step, goal, clarify. ")
    assert str(level.value).endswith(" Did you mean 'goal'?")


def test_a_cancel_stored_with_a_grace_that_was_longer_once_is_read_with_the_longest() -> None:
    stored = b'{"command":"cancel","id":"c","grace":1000000000.0,"undo":"all"}'

    assert cmd.decode_command(stored) == cmd.Cancel(id=CommandId("c"), grace=cmd.LONGEST_GRACE, undo="all")


def test_every_command_that_people_send_says_what_each_of_its_fields_is() -> None:
    for kind in cmd.SENT:
        assert kind.sent is not None
        own = {name: one for name, one in parameters(kind).items() if name not in cmd.Command.__struct_fields__}
        assert all(one.help for name, one in own.items() if f"{{{name}}}" not in kind.sent.place), kind
        assert set(kind.sent.example) | set(kind.sent.chosen) <= set(own)
        assert set(kind.sent.refusals) <= set(CODES)


def test_the_longest_text_that_is_taken_is_taken() -> None:
    cmd.check_command(cmd.Redirect(id=ID, text="x" * cmd.TEXT_LIMIT))


def test_an_answer_that_is_too_large_is_refused_on_every_way_to_send_it() -> None:
    large = cmd.Answer(id=CommandId("cmd_1"), value=answer_value("a" * cmd.ANSWER_LIMIT))
    with pytest.raises(InvalidInput, match="Put it where the agent can read it") as refused:
        cmd.check_command(large)
    assert refused.value.fields["field"] == "value"
    cmd.check_command(cmd.Answer(id=CommandId("cmd_1"), value=answer_value("a" * (cmd.ANSWER_LIMIT - 2))))
