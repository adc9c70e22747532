"""The command table of the design, every cell of it, and what the refusals say."""

from collections.abc import Callable, Mapping
from typing import Final, get_args

import pytest

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.deadlines import expire
from midcourse.core.decisions import TABLE, allowed, decide
from midcourse.core.effects import UndoChoice
from midcourse.core.events import Level
from midcourse.core.ids import AskId, CommandId, Epoch, MessageId, PauseId
from midcourse.core.session import ENDED, LIVE, Status
from midcourse.errors import InvalidInput, Refused
from tests.unit.core.stories import (
    ASK_1,
    ASK_2,
    FETCH,
    ID,
    OTHER_QUESTION,
    PAUSE_1,
    PAUSE_2,
    QUESTION,
    STOP,
    Story,
    asked,
    begun,
    finished,
    in_status,
    value,
)

S = Status
ID_1: Final = CommandId("one")

# ---- the table of DESIGN section 2. In a cell: the status that follows; "same" when something is recorded and the
# status stays; "nothing" when it is granted and changes nothing; or the refusal's code.

AS_ANYONE: Final = """
in         | pause         | resume          | redirect    | cancel        | answer
queued     | paused        | already_resumed | same        | cancelled     | ask_not_found
running    | pausing       | already_resumed | same        | cancelling    | ask_not_found
pausing    | nothing       | running         | same        | cancelling    | ask_not_found
paused     | nothing       | running         | same        | cancelling    | ask_not_found
waiting    | paused        | already_resumed | running     | cancelling    | running
cancelling | not_allowed   | not_allowed     | not_allowed | nothing       | not_allowed
halted     | not_allowed   | operator_only   | not_allowed | operator_only | ask_not_found
completed  | session_ended | session_ended   | running     | nothing       | session_ended
failed     | session_ended | running         | running     | nothing       | session_ended
cancelled  | session_ended | session_ended   | running     | nothing       | session_ended
"""
AS_OPERATOR: Final = """
in         | pause         | resume          | redirect    | cancel        | answer        | halt          | lift
queued     | paused        | already_resumed | same        | cancelled     | ask_not_found | halted        | not_allowed
running    | pausing       | already_resumed | same        | cancelling    | ask_not_found | halted        | not_allowed
pausing    | nothing       | running         | same        | cancelling    | ask_not_found | halted        | not_allowed
paused     | nothing       | running         | same        | cancelling    | ask_not_found | halted        | not_allowed
waiting    | paused        | already_resumed | running     | cancelling    | running       | halted        | not_allowed
cancelling | not_allowed   | not_allowed     | not_allowed | nothing       | not_allowed   | halted        | not_allowed
halted     | not_allowed   | running         | not_allowed | cancelling    | ask_not_found | nothing       | running
"""
MESSAGES_AS_EVERYONE: Final = """
in         | message     | edit              | withdraw          | event         | budget
queued     | same        | message_not_found | message_not_found | same          | same
running    | same        | message_not_found | message_not_found | same          | same
pausing    | same        | message_not_found | message_not_found | same          | running
paused     | same        | message_not_found | message_not_found | same          | running
waiting    | same        | message_not_found | message_not_found | running       | same
cancelling | not_allowed | message_not_found | message_not_found | not_allowed   | not_allowed
halted     | not_allowed | message_not_found | message_not_found | not_allowed   | not_allowed
completed  | running     | message_not_found | message_not_found | session_ended | same
failed     | running     | message_not_found | message_not_found | session_ended | same
cancelled  | running     | message_not_found | message_not_found | session_ended | same
"""
UNDO_AS_EVERYONE: Final = """
in         | undo
queued     | not_allowed
running    | not_allowed
pausing    | not_allowed
paused     | not_allowed
waiting    | not_allowed
cancelling | not_allowed
halted     | not_allowed
completed  | same
failed     | same
cancelled  | same
"""
INTERVENTIONS_AS_EVERYONE: Final = """
in         | intervene | label | rate
queued     | paused    | same  | not_allowed
running    | pausing   | same  | not_allowed
pausing    | nothing   | same  | not_allowed
paused     | nothing   | same  | not_allowed
waiting    | paused    | same  | not_allowed
cancelling | nothing   | same  | not_allowed
halted     | nothing   | same  | not_allowed
completed  | nothing   | same  | same
failed     | nothing   | same  | same
cancelled  | nothing   | same  | same
"""
KILL_SWITCH_AS_ANYONE: Final = """
in         | halt          | lift
queued     | operator_only | not_allowed
running    | operator_only | not_allowed
pausing    | operator_only | not_allowed
paused     | operator_only | not_allowed
waiting    | operator_only | not_allowed
cancelling | operator_only | not_allowed
halted     | operator_only | operator_only
completed  | session_ended | session_ended
failed     | session_ended | session_ended
cancelled  | session_ended | session_ended
"""
WITH_AN_OPEN_ASK: Final = """
in         | answer
queued     | same
running    | same
pausing    | same
paused     | same
waiting    | running
cancelling | not_allowed
halted     | same
completed  | session_ended
failed     | session_ended
"""

COMMANDS: Final[Mapping[str, Callable[[cmd.Role], cmd.AnyCommand]]] = {
    "pause": lambda role: cmd.Pause(id=ID, role=role),
    "resume": lambda role: cmd.Resume(id=ID, role=role),
    "redirect": lambda role: cmd.Redirect(id=ID, role=role, text="in French"),
    "cancel": lambda role: cmd.Cancel(id=ID, role=role),
    "undo": lambda role: cmd.Undo(id=ID, role=role),
    "answer": lambda role: cmd.Answer(id=ID, role=role, value=value('"yes"')),
    "message": lambda role: cmd.Message(id=ID, role=role, text="then the appendix"),
    "edit": lambda role: cmd.Edit(id=ID, role=role, message=MessageId("msg_2"), text="in Dutch"),
    "withdraw": lambda role: cmd.Withdraw(id=ID, role=role, message=MessageId("msg_2")),
    "event": lambda role: cmd.OutsideEvent(id=ID, role=role, text="the build broke"),
    "budget": lambda role: cmd.Budget(id=ID, role=role, budget=5.0),
    "halt": lambda role: cmd.Halt(id=ID, role=role),
    "lift": lambda role: cmd.Lift(id=ID, role=role),
    "intervene": lambda role: cmd.Intervene(id=ID, role=role, by="policy:standard@1", decision=STOP),
    "label": lambda role: cmd.Label(id=ID, role=role, about="msg_1", verdict="right"),
    "rate": lambda role: cmd.Rate(id=ID, role=role, score=4),
}
WITH_ASK: Final[Mapping[Status, Callable[[], Story]]] = {
    S.QUEUED: lambda: Story().happen(asked()),
    S.RUNNING: lambda: started().happen(begun(), asked()),
    S.PAUSING: lambda: WITH_ASK[S.RUNNING]().want(PAUSE),
    S.PAUSED: lambda: WITH_ASK[S.PAUSING]().happen(finished(), ev.SessionPaused()),
    S.WAITING: lambda: in_status(S.WAITING),
    S.CANCELLING: lambda: WITH_ASK[S.RUNNING]().want(CANCEL),
    S.HALTED: lambda: WITH_ASK[S.RUNNING]().want(HALT),
    S.COMPLETED: lambda: WITH_ASK[S.RUNNING]().happen(finished(), ev.SessionCompleted()),
    S.FAILED: lambda: WITH_ASK[S.RUNNING]().happen(finished(), ev.SessionFailed(code="x", message="y")),
}
PAUSE: Final = cmd.Pause(id=ID)
RESUME: Final = cmd.Resume(id=ID)
REDIRECT: Final = cmd.Redirect(id=ID, text="in French")
CANCEL: Final = cmd.Cancel(id=ID)
UNDO: Final = cmd.Undo(id=ID)
HALT: Final = cmd.Halt(id=ID, role="operate")
LIFT: Final = cmd.Lift(id=ID, role="operate")


def started() -> Story:
    return Story().happen(ev.SessionStarted())


def cells(table: str) -> list[tuple[Status, str, str]]:
    header, *rows = (list(map(str.strip, line.split("|"))) for line in table.strip().splitlines())
    return [(Status(row[0]), verb, cell) for row in rows for verb, cell in zip(header[1:], row[1:], strict=True)]


AS_EVERYONE: Final = cells(UNDO_AS_EVERYONE) + cells(MESSAGES_AS_EVERYONE) + cells(INTERVENTIONS_AS_EVERYONE)
NOT_OFFERED: Final = {"event", "budget", "halt", "lift", "intervene", "label", "rate"}


def check_cell(story: Story, command: cmd.AnyCommand, expected: str) -> None:
    before = story.session
    if expected in {"nothing", "same", *Status}:
        events = decide(before, command)
        story.happen(*events)
        assert bool(events) is (expected != "nothing")
        assert story.session.status == (before.status if expected in ("nothing", "same") else expected)
    else:
        error = refusal(story, command)
        assert error.code == expected
        assert story.session is before


def refusal(story: Story, command: cmd.AnyCommand) -> Refused:
    with pytest.raises(Refused) as caught:
        decide(story.session, command)
    error = caught.value
    assert str(error).startswith(f"Cannot {cmd.phrase(command)} session 'sess_42': ")
    assert f"({error.code})" in str(error)
    assert error.fields["status"] == str(story.session.status)
    assert error.allowed == allowed(story.session, command.role)
    if error.allowed:
        assert str(error).endswith(f"Allowed now: {', '.join(error.allowed)}.")
    return error


def test_the_tables_here_and_the_table_there_have_a_cell_for_every_command_and_status() -> None:
    everything = {(status, cmd.verb(kind)) for status in Status for kind in get_args(cmd.AnyCommand)}
    tables = cells(AS_ANYONE) + AS_EVERYONE + cells(KILL_SWITCH_AS_ANYONE)
    here = [(status, verb) for status, verb, _ in tables]

    assert sorted(here) == sorted(everything)
    assert {(status, cmd.verb(kind)) for kind, row in TABLE.items() for status in row} == everything
    for_everyone = {(status, verb) for status, verb, _ in AS_EVERYONE}
    assert {(status, verb) for status, verb, _ in cells(AS_OPERATOR)} == {
        (status, verb) for status, verb in everything - for_everyone if status in LIVE
    }


@pytest.mark.parametrize(("status", "verb", "expected"), cells(AS_ANYONE) + AS_EVERYONE + cells(KILL_SWITCH_AS_ANYONE))
def test_a_command_does_what_the_table_says(status: Status, verb: str, expected: str) -> None:
    check_cell(in_status(status), COMMANDS[verb]("steer"), expected)


@pytest.mark.parametrize(("status", "verb", "expected"), cells(AS_OPERATOR) + AS_EVERYONE)
def test_an_operators_command_does_what_the_table_says(status: Status, verb: str, expected: str) -> None:
    check_cell(in_status(status), COMMANDS[verb]("operate"), expected)


@pytest.mark.parametrize(("status", "verb", "expected"), cells(WITH_AN_OPEN_ASK))
def test_an_open_ask_is_answered_where_the_table_says(status: Status, verb: str, expected: str) -> None:
    check_cell(WITH_ASK[status](), COMMANDS[verb]("steer"), expected)


@pytest.mark.parametrize("role", ["steer", "operate"])
@pytest.mark.parametrize("status", Status)
def test_allowed_lists_exactly_the_verbs_that_would_be_taken(status: Status, role: cmd.Role) -> None:
    story = in_status(status)

    def is_taken(verb: str) -> bool:
        try:
            decide(story.session, COMMANDS[verb](role))
        except Refused:
            return False
        return True

    assert set(allowed(story.session, role)) == {verb for verb in COMMANDS if is_taken(verb)} - NOT_OFFERED


def test_hints_are_for_whoever_asked() -> None:
    story = in_status(S.HALTED)

    assert allowed(story.session) == ()
    assert refusal(story, PAUSE).allowed == ()
    assert refusal(story, cmd.Pause(id=ID, role="operate")).allowed == ("resume", "cancel")


def test_a_refusal_reads_like_a_sentence() -> None:
    assert str(refusal(in_status(S.RUNNING), RESUME)) == (
        "Cannot resume session 'sess_42': it is running (already_resumed). "
        "Allowed now: pause, redirect, cancel, message."
    )


# ---- pause


def test_a_pause_of_a_running_session_is_requested_under_the_next_ordinal() -> None:
    command = cmd.Pause(id=ID, by="ada", reason="let me read", grace=3.0)

    assert decide(in_status(S.RUNNING).session, command) == (
        ev.PauseRequested(pause=PAUSE_1, by="ada", reason="let me read", grace=3.0),
    )


def test_a_session_that_never_started_is_paused_at_once_and_never_starts() -> None:
    story = in_status(S.QUEUED).want(PAUSE)

    assert story.session.status is S.PAUSED
    assert story.want(RESUME).session.status is S.QUEUED


def test_a_waiting_session_is_paused_at_once_with_its_ask_open() -> None:
    story = in_status(S.WAITING).want(PAUSE)

    assert [ask.id for ask in story.session.asks] == [ASK_1]
    assert story.want(RESUME).session.status is S.WAITING


def test_a_waiting_session_is_not_called_paused_while_a_call_runs() -> None:
    story = started().happen(begun(), asked(), ev.SessionWaiting()).want(PAUSE)

    assert story.session.status is S.PAUSING


def test_a_pause_that_is_complete_at_once_names_the_calls_that_were_lost() -> None:
    lost = ev.SessionTaken(epoch=Epoch(2), worker="w2", lost=(FETCH,))
    story = started().happen(begun(effect="idempotent"), lost, asked(), ev.SessionWaiting())

    assert decide(story.session, PAUSE)[1] == ev.SessionPaused(unknown=(FETCH,))


@pytest.mark.parametrize(
    ("standing", "second", "wins"),
    [
        (None, None, None),
        (None, 5.0, 5.0),
        (5.0, None, 5.0),
        (5.0, 1.0, 1.0),
        (1.0, 5.0, 1.0),
        (1.0, 1.0, 1.0),
        (0.0, 0.0, 0.0),
    ],
)
def test_of_two_pauses_the_shorter_grace_wins(standing: float | None, second: float | None, wins: float | None) -> None:
    story = in_status(S.RUNNING).want(cmd.Pause(id=ID, grace=standing)).want(cmd.Pause(id=ID, grace=second))

    assert story.session.pause is not None
    assert (story.session.pause.id, story.session.pause.grace) == (PAUSE_1, wins)


# ---- resume


@pytest.mark.parametrize("status", [S.PAUSING, S.PAUSED])
def test_a_resume_lifts_the_pause_it_names(status: Status) -> None:
    story = in_status(status)

    assert decide(story.session, cmd.Resume(id=ID, by="ada", pause=PAUSE_1)) == (
        ev.SessionResumed(by="ada", pause=PAUSE_1),
    )


def test_a_late_resume_does_not_lift_a_later_pause() -> None:
    story = in_status(S.PAUSED).want(RESUME).want(PAUSE)

    error = refusal(story, cmd.Resume(id=ID, pause=PAUSE_1))
    assert error.code == "already_resumed"
    assert "'pause_2'" in str(error)
    assert story.want(cmd.Resume(id=ID, pause=PAUSE_2)).session.status is S.RUNNING


@pytest.mark.parametrize("status", [S.QUEUED, S.RUNNING, S.PAUSING, S.PAUSED, S.WAITING, S.FAILED])
@pytest.mark.parametrize("name", ["pause_0", "pause_9", "pause_01", "ask_1", "", "{status}", "{0}"])
def test_a_resume_of_a_pause_that_never_was_is_checkpoint_not_found(status: Status, name: str) -> None:
    assert refusal(in_status(status), cmd.Resume(id=ID, pause=PauseId(name))).code == "checkpoint_not_found"


def test_of_many_resumes_one_wins_and_the_others_are_told_so() -> None:
    story = in_status(S.PAUSED).want(cmd.Resume(id=ID, pause=PAUSE_1))

    for _ in range(99):
        assert refusal(story, cmd.Resume(id=ID, pause=PAUSE_1)).code == "already_resumed"


def test_a_late_resume_of_a_pause_does_not_try_a_failed_session_again() -> None:
    story = in_status(S.PAUSED).happen(ev.SessionFailed(code="agent_failed", message="no"))

    assert refusal(story, cmd.Resume(id=ID, pause=PAUSE_1)).code == "already_resumed"


def test_a_late_resume_of_a_pause_does_not_lift_the_kill_switch() -> None:
    story = in_status(S.PAUSED).want(HALT)

    error = refusal(story, cmd.Resume(id=ID, role="operate", pause=PAUSE_1))
    assert error.code == "not_allowed"
    assert "lift the halt first" in str(error)


@pytest.mark.parametrize("code", ["agent_failed", "diverged", "ask_expired"])
def test_a_failed_session_is_tried_again(code: str) -> None:
    story = started().happen(ev.SessionFailed(code=code, message="no {braces}"))

    assert decide(story.session, RESUME) == (ev.SessionResumed(by="local"),)


@pytest.mark.parametrize("command", [RESUME, REDIRECT], ids=cmd.verb)
def test_a_damaged_session_is_not_tried_again(command: cmd.AnyCommand) -> None:
    story = started().happen(ev.SessionFailed(code="damaged", message="a row was changed: {position}"))

    error = refusal(story, command)
    assert error.code == "session_damaged"
    assert "{position}" in str(error)
    assert error.allowed == ("cancel", "undo")


# ---- redirect


def test_a_redirect_supersedes_the_open_asks_of_the_turn() -> None:
    story = started().happen(asked(), asked(2, OTHER_QUESTION), ev.SessionWaiting())

    assert decide(story.session, cmd.Redirect(id=ID, by="ada", text="no", level="goal", grace=0.0)) == (
        ev.SessionRedirected(text="no", level="goal", by="ada", grace=0.0),
        ev.AskClosed(ask=ASK_1, step=QUESTION, end="superseded"),
        ev.AskClosed(ask=ASK_2, step=OTHER_QUESTION, end="superseded"),
    )
    assert story.want(REDIRECT).session.status is S.RUNNING


@pytest.mark.parametrize("status", [S.PAUSING, S.PAUSED])
def test_a_redirect_of_a_paused_session_resumes_only_if_asked_to(status: Status) -> None:
    kept = in_status(status).want(REDIRECT)
    assert kept.session.status is status
    assert kept.session.messages[-1].text == "in French"

    resumed = in_status(status).want(cmd.Redirect(id=ID, text="in French", resume=True))
    assert resumed.session.status is S.RUNNING


def test_a_redirect_of_a_session_that_was_paused_while_waiting_sets_it_going_after_the_resume() -> None:
    story = in_status(S.WAITING).want(PAUSE).want(REDIRECT)

    assert story.session.status is S.PAUSED
    assert story.want(RESUME).session.status is S.RUNNING


def test_asking_a_redirect_to_resume_what_is_not_paused_is_just_a_redirect() -> None:
    story = in_status(S.RUNNING).want(cmd.Redirect(id=ID, text="in French", resume=True))

    assert story.session.status is S.RUNNING


@pytest.mark.parametrize("level", ["step", "goal", "clarify"])
def test_a_redirect_before_the_start_amends_what_the_agent_is_told(level: ev.Level) -> None:
    story = in_status(S.QUEUED).want(cmd.Redirect(id=ID, text="in French", level=level))

    assert [(message.text, message.level) for message in story.session.messages] == [
        ("write the report", "goal"),
        ("in French", level),
    ]
    assert story.session.goal == ("in French" if level == "goal" else "write the report")


def test_a_new_turn_supersedes_the_asks_a_failed_one_left_open() -> None:
    story = WITH_ASK[S.FAILED]()

    assert decide(story.session, REDIRECT) == (
        ev.AskClosed(ask=ASK_1, step=QUESTION, end="superseded"),
        ev.TurnOpened(text="in French", level="step", by="local"),
    )
    assert story.want(REDIRECT).session.asks == ()
    assert refusal(story, cmd.Answer(id=ID, ask=ASK_1)).code == "already_answered"


def test_an_ask_that_a_failed_turn_left_open_can_be_answered_once_it_is_tried_again() -> None:
    story = WITH_ASK[S.FAILED]().want(RESUME).want(cmd.Answer(id=ID, ask=ASK_1))

    assert story.session.asks == ()


# ---- cancel


def test_a_cancel_withdraws_the_open_asks() -> None:
    story = in_status(S.WAITING)

    assert decide(story.session, cmd.Cancel(id=ID, by="ada", grace=1.0, reason="enough")) == (
        ev.CancelRequested(by="ada", grace=1.0, reason="enough"),
        ev.AskClosed(ask=ASK_1, step=QUESTION, end="withdrawn"),
    )
    assert story.want(CANCEL).session.asks == ()


def test_a_session_that_never_started_is_cancelled_with_an_empty_receipt() -> None:
    story = in_status(S.QUEUED).want(CANCEL)

    assert (story.session.status, story.session.receipt) == (S.CANCELLED, ())


@pytest.mark.parametrize(("second", "grace"), [(5.0, 2.0), (2.0, 2.0), (1.0, 1.0), (0.0, 0.0)])
def test_a_second_cancel_only_makes_it_firmer(second: float, grace: float) -> None:
    story = in_status(S.CANCELLING).want(cmd.Cancel(id=ID, grace=second))

    assert story.session.cancel is not None
    assert story.session.cancel.grace == grace


@pytest.mark.parametrize(
    ("first", "second", "undo"),
    [
        (None, None, "in-flight"),
        ("all", None, "all"),
        ("none", None, "none"),
        ("none", "in-flight", "in-flight"),
        ("in-flight", "all", "all"),
        ("all", "none", "all"),
    ],
)
def test_a_second_cancel_rolls_back_as_much_or_more(
    first: UndoChoice | None, second: UndoChoice | None, undo: UndoChoice
) -> None:
    story = in_status(S.RUNNING).want(cmd.Cancel(id=ID, undo=first)).want(cmd.Cancel(id=ID, undo=second))

    assert story.session.cancel is not None
    assert story.session.cancel.undo == undo


@pytest.mark.parametrize("status", sorted(ENDED))
def test_an_undo_that_is_under_way_is_not_begun_again(status: Status) -> None:
    story = in_status(status).want(UNDO)

    assert decide(story.session, UNDO) == ()
    assert decide(story.happen(ev.UndoFinished(receipt=())).session, UNDO) == (ev.UndoRequested(by="local"),)


@pytest.mark.parametrize(
    ("status", "command"),
    [(S.FAILED, REDIRECT), (S.COMPLETED, REDIRECT), (S.CANCELLED, REDIRECT)],
)
def test_a_session_goes_on_only_when_its_undo_has_ended(status: Status, command: cmd.AnyCommand) -> None:
    story = in_status(status).want(UNDO)
    error = refusal(story, command)

    assert (error.code, error.allowed) == ("not_allowed", ("cancel", "undo"))
    assert "is being undone" in str(error)
    assert story.happen(ev.UndoFinished()).want(command).session.status is S.RUNNING


def test_a_session_that_was_rolled_back_is_not_tried_again_but_has_a_new_turn() -> None:
    story = in_status(S.FAILED).want(UNDO)
    assert "is being undone" in str(refusal(story, RESUME))

    error = refusal(story.happen(ev.UndoFinished()), RESUME)
    assert (error.code, error.allowed) == ("not_allowed", ("redirect", "cancel", "undo", "message"))
    assert "was rolled back" in str(error)


def test_a_live_session_is_not_undone_but_cancelled_with_undo_all() -> None:
    assert "cancel it with undo='all'" in str(refusal(in_status(S.RUNNING), UNDO))


@pytest.mark.parametrize(("second", "grace"), [(5.0, 2.0), (0.0, 0.0)])
def test_an_operators_cancel_of_a_session_halted_while_cancelling_is_no_softer(second: float, grace: float) -> None:
    story = in_status(S.CANCELLING).want(HALT).want(cmd.Cancel(id=ID, role="operate", grace=second))

    assert story.session.status is S.CANCELLING
    assert story.session.cancel is not None
    assert story.session.cancel.grace == grace


@pytest.mark.parametrize("command", [LIFT, cmd.Cancel(id=ID, role="operate")], ids=cmd.verb)
def test_a_session_that_goes_on_cancelling_after_a_halt_has_no_open_ask(command: cmd.AnyCommand) -> None:
    story = in_status(S.CANCELLING).want(HALT).happen(asked()).want(command)

    assert (story.session.status, story.session.asks) == (S.CANCELLING, ())


def test_an_operators_cancel_of_a_halted_session_withdraws_its_asks() -> None:
    story = in_status(S.WAITING).want(HALT).want(cmd.Cancel(id=ID, role="operate"))

    assert (story.session.status, story.session.asks) == (S.CANCELLING, ())


# ---- answer


def test_an_answer_goes_to_the_ask_it_names() -> None:
    story = started().happen(asked(), asked(2, OTHER_QUESTION))

    assert decide(story.session, cmd.Answer(id=ID, by="ada", ask=ASK_2, value=value('"no"'))) == (
        ev.AskAnswered(ask=ASK_2, step=OTHER_QUESTION, value=value('"no"'), by="ada"),
    )


def test_an_answer_that_names_no_ask_is_taken_only_if_one_is_open() -> None:
    story = started().happen(asked(), asked(2, OTHER_QUESTION))

    error = refusal(story, cmd.Answer(id=ID))
    assert error.code == "ask_id_required"
    assert "ask_1 (Delete?), ask_2 (Delete?)" in str(error)


def test_an_ask_is_answered_once() -> None:
    story = in_status(S.WAITING).want(cmd.Answer(id=ID, ask=ASK_1))

    assert refusal(story, cmd.Answer(id=ID, ask=ASK_1)).code == "already_answered"
    assert refusal(story, cmd.Answer(id=ID)).code == "ask_not_found"


@pytest.mark.parametrize("name", ["ask_0", "ask_2", "pause_1", "", "{status}"])
def test_an_answer_to_an_ask_that_never_was_is_ask_not_found(name: str) -> None:
    assert refusal(in_status(S.WAITING), cmd.Answer(id=ID, ask=AskId(name))).code == "ask_not_found"


def test_a_prompt_with_braces_does_not_break_the_sentence() -> None:
    opened = ev.AskOpened(ask=ASK_1, step=QUESTION, reason="r", prompt='{"delete": "{path}"}?')
    story = started().happen(opened, asked(2, OTHER_QUESTION))

    assert '{"delete": "{path}"}?' in str(refusal(story, cmd.Answer(id=ID)))


# ---- kill switch


@pytest.mark.parametrize("status", sorted(LIVE))
@pytest.mark.parametrize("role", ["watch", "steer", "approve"])
def test_the_kill_switch_is_an_operators(status: Status, role: cmd.Role) -> None:
    assert refusal(in_status(status), cmd.Halt(id=ID, role=role)).code == "operator_only"


@pytest.mark.parametrize("verb", ["resume", "cancel", "lift", "halt"])
@pytest.mark.parametrize("role", ["watch", "steer", "approve"])
def test_a_halted_session_is_an_operators(verb: str, role: cmd.Role) -> None:
    assert refusal(in_status(S.HALTED), COMMANDS[verb](role)).code == "operator_only"


def test_an_answer_to_a_halted_session_is_recorded_and_used_after_the_halt() -> None:
    story = in_status(S.WAITING).want(HALT).want(cmd.Answer(id=ID, value=value('"yes"')))
    assert story.session.status is S.HALTED
    assert story.log.asks[QUESTION].value == value('"yes"')

    assert story.want(LIFT).session.status is S.RUNNING


# ---- deadlines


def test_an_ask_past_its_deadline_expires_and_an_earlier_one_does_not() -> None:
    story = started().happen(asked(1, expires_at=10.0), asked(2, OTHER_QUESTION, expires_at=20.0))

    assert expire(story.session, 9.9) == ()
    assert expire(story.session, 10.0) == (ev.AskClosed(ask=ASK_1, step=QUESTION, end="expired", then="fail"),)
    assert len(expire(story.session, 20.0)) == 2
    assert story.happen(*expire(story.session, 20.0)).session.asks == ()


def test_an_ask_with_a_default_answers_itself_at_its_deadline() -> None:
    opened = ev.AskOpened(ask=ASK_1, step=QUESTION, reason="r", prompt="p", expires_at=10.0, default=value('"no"'))
    story = started().happen(opened, ev.SessionWaiting())

    assert expire(story.session, 10.0) == (
        ev.AskAnswered(ask=ASK_1, step=QUESTION, value=value('"no"'), by="deadline"),
    )
    assert story.happen(*expire(story.session, 10.0)).session.status is S.RUNNING


@pytest.mark.parametrize("status", sorted(WITH_ASK))
def test_deadlines_make_only_facts_that_can_happen(status: Status) -> None:
    story = (
        WITH_ASK[status]() if status is not S.WAITING else started().happen(asked(expires_at=1.0), ev.SessionWaiting())
    )

    story.happen(*expire(story.session, 1e9))


@pytest.mark.parametrize("status", sorted({S.CANCELLING, *ENDED}))
def test_nothing_expires_in_a_session_that_is_cancelling_or_has_ended(status: Status) -> None:
    assert expire(in_status(status).session, 1e9) == ()


@pytest.mark.parametrize("status", sorted(LIVE))
@pytest.mark.parametrize("level", ["step", "clarify"])
def test_a_correction_is_no_longer_than_the_policy_takes(status: Status, level: Level) -> None:
    session = in_status(status).session

    with pytest.raises(InvalidInput, match="at most 10") as refused:
        decide(session, cmd.Redirect(id=ID_1, text="x" * 11, level=level), longest_correction=10)

    assert refused.value.fields == {"field": "text"}


def test_another_goal_and_another_turn_may_be_of_any_length() -> None:
    goal = cmd.Redirect(id=ID_1, text="x" * 11, level="goal")
    turn = cmd.Redirect(id=ID_1, text="x" * 11)
    short = cmd.Redirect(id=ID_1, text="x" * 10)

    assert decide(in_status(S.RUNNING).session, goal, longest_correction=10)
    assert decide(in_status(S.RUNNING).session, short, longest_correction=10)
    assert decide(in_status(S.COMPLETED).session, turn, longest_correction=10)


@pytest.mark.parametrize("status", sorted(S))
def test_a_cancel_begins_nothing_anew_that_it_does_not_force_to_end(status: Status) -> None:
    with pytest.raises(InvalidInput, match="goes with force") as refused:
        decide(in_status(status).session, cmd.Cancel(id=ID_1, role="operate", restart=True))

    assert refused.value.fields == {"field": "restart"}
