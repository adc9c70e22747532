"""What is said to a session: queued, edited, withdrawn, seen; events outside, budgets, and whoever may answer."""

from typing import Final

import pytest
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.decisions import allowed, decide
from midcourse.core.fold import fold
from midcourse.core.ids import MessageId, SessionId, child_id, root_of
from midcourse.core.session import ENDED, LIVE, Status
from midcourse.core.turns import next_turn
from midcourse.errors import ImpossibleEvent, Refused
from tests.unit.core.stories import (
    ASK_1,
    FETCH,
    ID,
    OTHER_QUESTION,
    PAUSE_1,
    QUESTION,
    SESSION,
    WRITE,
    Story,
    asked,
    begun,
    finished,
    in_status,
    value,
)

S = Status
MSG_2: Final = MessageId("msg_2")
MSG_3: Final = MessageId("msg_3")
MSG_4: Final = MessageId("msg_4")
QUEUED_1: Final = MessageId("queued_1")
QUEUED_2: Final = MessageId("queued_2")
REDIRECT: Final = cmd.Redirect(id=ID, text="in French")
MESSAGE: Final = cmd.Message(id=ID, by="ada", text="then the appendix")
WORKS: Final = sorted(LIVE - {S.CANCELLING, S.HALTED})


def edit(message: MessageId, text: str = "in Dutch") -> cmd.Edit:
    return cmd.Edit(id=ID, by="bob", message=message, text=text)


def withdraw(message: MessageId) -> cmd.Withdraw:
    return cmd.Withdraw(id=ID, by="bob", message=message)


def refusal(story: Story, command: cmd.AnyCommand) -> Refused:
    before = story.session
    with pytest.raises(Refused) as caught:
        decide(story.session, command)
    assert story.session is before
    return caught.value


def texts(story: Story) -> list[str]:
    return [one.text for one in story.session.said]


def redirected(times: int = 1) -> Story:
    story = in_status(S.RUNNING)
    for number in range(times):
        story.want(cmd.Redirect(id=ID, text=f"redirect {number + 1}"))
    return story


def completed(story: Story, *opens: ev.TurnOpened) -> Story:
    return story.happen(finished(), ev.SessionCompleted(), *opens)


# ---- behaviours


@pytest.mark.parametrize("status", WORKS)
def test_a_queued_message_waits_and_changes_neither_status_nor_course(status: Status) -> None:
    story = in_status(status)
    asks = story.session.asks

    assert decide(story.session, MESSAGE) == (ev.MessageQueued(message=QUEUED_1, text="then the appendix", by="ada"),)
    story.want(MESSAGE)
    assert (story.session.status, story.session.asks, texts(story)) == (status, asks, ["write the report"])
    assert [(one.id, one.text, one.by) for one in story.session.queue] == [(QUEUED_1, "then the appendix", "ada")]


@pytest.mark.parametrize("status", WORKS)
def test_a_message_may_be_a_redirect(status: Status) -> None:
    said = replace(MESSAGE, behaviour="redirect")

    assert decide(in_status(status).session, said) == decide(
        in_status(status).session, cmd.Redirect(id=ID, by="ada", text="then the appendix")
    )


@pytest.mark.parametrize("status", WORKS)
def test_a_message_that_is_not_to_disturb_is_refused_while_the_session_works(status: Status) -> None:
    error = refusal(in_status(status), replace(MESSAGE, behaviour="reject"))

    assert error.code == "busy"
    assert f"it is {status}" in str(error)


@pytest.mark.parametrize("behaviour", ["enqueue", "redirect", "reject"])
@pytest.mark.parametrize("status", sorted(ENDED))
def test_any_message_to_a_session_that_has_ended_opens_a_turn(status: Status, behaviour: cmd.Behaviour) -> None:
    story = in_status(status).want(replace(MESSAGE, behaviour=behaviour))

    assert (story.session.status, story.session.turn) == (S.RUNNING, 2)
    assert (story.session.goal, story.session.messages[-1].by) == ("then the appendix", "ada")


def test_a_damaged_session_takes_no_message() -> None:
    story = in_status(S.RUNNING).happen(finished(), ev.SessionFailed(code="damaged", message="a row was changed"))

    assert refusal(story, MESSAGE).code == "session_damaged"
    assert "message" not in allowed(story.session)


def test_a_session_that_is_being_undone_takes_no_message() -> None:
    story = in_status(S.COMPLETED).want(cmd.Undo(id=ID))

    assert refusal(story, MESSAGE).code == "not_allowed"
    assert "message" not in allowed(story.session)


# ---- the queue


def test_the_queue_is_worked_off_in_its_order() -> None:
    story = in_status(S.RUNNING).want(MESSAGE).want(replace(MESSAGE, text="then print it", by="bob"))

    assert next_turn(story.session) == ev.TurnOpened(text="then the appendix", level="goal", by="ada", queued=QUEUED_1)
    completed(story, next_turn(story.session))
    assert (story.session.goal, [one.id for one in story.session.queue]) == ("then the appendix", [QUEUED_2])
    story.happen(ev.SessionCompleted(), next_turn(story.session))
    assert (story.session.goal, story.session.queue) == ("then print it", ())


def test_a_turn_is_never_opened_out_of_order() -> None:
    story = completed(in_status(S.RUNNING).want(MESSAGE).want(MESSAGE))

    for queued in (QUEUED_2, MessageId("queued_3")):
        with pytest.raises(ImpossibleEvent, match="not the next in the queue"):
            story.happen(ev.TurnOpened(text="x", level="goal", by="ada", queued=queued))


def test_a_queued_message_has_a_name_that_no_other_had() -> None:
    story = in_status(S.RUNNING).want(MESSAGE).want(withdraw(QUEUED_1)).want(MESSAGE)

    assert [one.id for one in story.session.queue] == [QUEUED_2]
    with pytest.raises(ImpossibleEvent, match="the next queued message is 'queued_3'"):
        story.happen(ev.MessageQueued(message=QUEUED_2, text="x", by="ada"))


def test_a_failure_keeps_the_queue_and_a_message_then_waits_behind_it() -> None:
    story = in_status(S.RUNNING).want(MESSAGE).happen(finished(), ev.SessionFailed(code="agent_error", message="no"))

    assert [one.id for one in story.session.queue] == [QUEUED_1]
    story.want(replace(MESSAGE, text="hello?"))
    assert (story.session.status, story.session.goal) == (S.RUNNING, "then the appendix")
    assert [(one.id, one.text) for one in story.session.queue] == [(QUEUED_2, "hello?")]


def test_a_failed_session_that_is_tried_again_still_has_its_queue() -> None:
    story = in_status(S.RUNNING).want(MESSAGE).happen(finished(), ev.SessionFailed(code="agent_error", message="no"))

    assert [one.id for one in story.want(cmd.Resume(id=ID)).session.queue] == [QUEUED_1]


def test_a_redirect_of_a_failed_session_goes_before_the_queue() -> None:
    story = in_status(S.RUNNING).want(MESSAGE).happen(finished(), ev.SessionFailed(code="agent_error", message="no"))

    story.want(REDIRECT)
    assert (texts(story)[-1], [one.id for one in story.session.queue]) == ("in French", [QUEUED_1])


@pytest.mark.parametrize("status", WORKS)
def test_a_cancel_withdraws_the_queue(status: Status) -> None:
    story = in_status(status).want(MESSAGE).want(MESSAGE).want(cmd.Cancel(id=ID, by="eve"))

    assert story.session.queue == ()
    withdrawn = [event for event in story.events if isinstance(event, ev.MessageWithdrawn)]
    assert withdrawn == [ev.MessageWithdrawn(message=one, by="eve") for one in (QUEUED_1, QUEUED_2)]


def test_an_operators_cancel_of_a_halted_session_withdraws_the_queue() -> None:
    story = in_status(S.RUNNING).want(MESSAGE).want(cmd.Halt(id=ID, role="operate"))
    assert story.session.queue

    assert story.want(cmd.Cancel(id=ID, role="operate")).session.queue == ()


# ---- edit and withdraw


@pytest.mark.parametrize("status", sorted(Status))
def test_a_redirect_nobody_has_seen_is_edited_and_withdrawn_in_any_status(status: Status) -> None:
    story = {
        S.QUEUED: lambda: Story().want(REDIRECT),
        S.RUNNING: redirected,
        S.WAITING: lambda: redirected().happen(finished(), asked(), ev.SessionWaiting()),
        S.PAUSING: lambda: redirected().want(cmd.Pause(id=ID)),
        S.PAUSED: lambda: in_status(S.PAUSED).want(REDIRECT),
        S.CANCELLING: lambda: redirected().want(cmd.Cancel(id=ID)),
        S.CANCELLED: lambda: redirected().want(cmd.Cancel(id=ID)).happen(finished(), ev.SessionCancelled()),
        S.HALTED: lambda: redirected().want(cmd.Halt(id=ID, role="operate")),
        S.COMPLETED: lambda: completed(redirected()),
        S.FAILED: lambda: redirected().happen(finished(), ev.SessionFailed(code="agent_error", message="no")),
    }[status]()

    assert story.session.amendable == (MSG_2,)
    assert {"edit", "withdraw"} <= set(allowed(story.session))
    assert decide(story.session, edit(MSG_2)) == (ev.MessageEdited(message=MSG_2, text="in Dutch", by="bob"),)
    story.want(edit(MSG_2))
    assert (story.session.status, texts(story)) == (status, ["write the report", "in Dutch"])
    story.want(withdraw(MSG_2))
    assert (story.session.status, texts(story), story.session.amendable) == (status, ["write the report"], ())
    assert not {"edit", "withdraw"} & set(allowed(story.session))


def test_an_edited_message_is_the_same_message() -> None:
    story = redirected().want(cmd.Redirect(id=ID, by="ada", text="hurry", level="clarify", grace=1.5))
    before = story.session.messages[2]

    assert story.want(edit(MSG_3)).session.messages[2] == replace(before, text="in Dutch")


def test_an_edited_goal_is_the_goal_and_a_withdrawn_one_is_not() -> None:
    story = in_status(S.RUNNING).want(cmd.Redirect(id=ID, text="a poem", level="goal"))
    assert story.session.goal == "a poem"

    assert story.want(edit(MSG_2, "a song")).session.goal == "a song"
    assert story.want(withdraw(MSG_2)).session.goal == "write the report"


@pytest.mark.parametrize("command", [edit(MSG_2), withdraw(MSG_2)], ids=cmd.verb)
def test_what_the_model_has_seen_stands(command: cmd.AnyCommand) -> None:
    story = redirected().happen(ev.MessagesSeen(count=2))

    error = refusal(story, command)
    assert error.code == "message_seen"
    assert "Redirect it to say something else" in str(error)


@pytest.mark.parametrize("command", [edit(MSG_2), withdraw(MSG_2)], ids=cmd.verb)
def test_what_a_closed_step_told_the_agent_stands(command: cmd.AnyCommand) -> None:
    story = redirected(2).happen(ev.StepClosed(step=FETCH, attempt=1, message=1, truth="no effect"))

    assert refusal(story, command).code == "message_seen"
    assert story.session.amendable == (MSG_3,)


@pytest.mark.parametrize("message", ["msg_2", "queued_1"])
def test_what_was_withdrawn_is_not_withdrawn_again_nor_edited(message: str) -> None:
    name = MessageId(message)
    story = redirected().want(MESSAGE).want(withdraw(name))

    assert refusal(story, withdraw(name)).code == "message_seen"
    assert refusal(story, edit(name)).code == "message_seen"


def test_a_queued_message_whose_turn_has_come_stands() -> None:
    story = in_status(S.RUNNING).want(MESSAGE)
    completed(story, next_turn(story.session))

    for name in (QUEUED_1, MSG_2):
        assert refusal(story, edit(name)).code == "message_seen"


@pytest.mark.parametrize("message", ["msg_0", "msg_3", "msg_02", "queued_2", "ask_1", "msg_", "", "{status}"])
def test_a_message_that_never_was_is_message_not_found(message: str) -> None:
    story = redirected().want(MESSAGE)

    assert refusal(story, edit(MessageId(message))).code == "message_not_found"
    assert refusal(story, withdraw(MessageId(message))).code == "message_not_found"


def test_the_goal_a_session_began_with_stands() -> None:
    assert refusal(in_status(S.QUEUED), withdraw(MessageId("msg_1"))).code == "message_seen"


def test_a_queued_message_is_edited_and_withdrawn_where_it_waits() -> None:
    story = in_status(S.RUNNING).want(MESSAGE).want(replace(MESSAGE, text="b")).want(replace(MESSAGE, text="c"))
    story.want(edit(QUEUED_2, "B")).want(withdraw(QUEUED_1))

    assert [(one.id, one.text, one.by) for one in story.session.queue] == [
        (QUEUED_2, "B", "ada"),
        (MessageId("queued_3"), "c", "ada"),
    ]


def test_what_was_said_after_the_agent_had_returned_keeps_its_names() -> None:
    """The turn it opens takes the last one's place: the next redirect is not called what somebody knows another by."""
    story = completed(redirected(3), ev.TurnOpened(text="1 and 2 and 3", level="step", by="ada", repeats=3))

    assert texts(story) == ["write the report", "1 and 2 and 3"]
    assert [one.withdrawn for one in story.session.messages] == [False, True, True, False]
    assert (story.session.seen, story.session.scope_messages, story.session.withdrawn) == (4, 4, 2)
    for name in (MSG_2, MSG_3, MSG_4):
        assert refusal(story, withdraw(name)).code == "message_seen"
    assert story.want(REDIRECT).session.amendable == (MessageId("msg_5"),)


# ---- a call in flight


def test_a_call_that_a_withdrawn_redirect_would_have_closed_goes_on() -> None:
    story = redirected()
    assert story.session.calls[FETCH].redirected == 1

    assert story.want(withdraw(MSG_2)).session.calls[FETCH].redirected is None


@pytest.mark.parametrize(
    ("taken_back", "left"), [([3], 2), ([3, 2], 1), ([2, 3], 1), ([1, 2], 3), ([3, 2, 1], None), ([1, 2, 3], None)]
)
def test_of_several_redirects_the_last_that_stands_counts_for_a_call(taken_back: list[int], left: int | None) -> None:
    story = redirected(3)
    for place in taken_back:
        story.want(withdraw(MessageId(f"msg_{place + 1}")))

    assert story.session.calls[FETCH].redirected == left
    assert story.session.last_said(1) == left


def test_a_redirect_that_came_before_a_call_does_not_count_for_it() -> None:
    story = redirected().happen(begun(WRITE)).want(cmd.Redirect(id=ID, text="redirect 2")).want(withdraw(MSG_3))

    assert (story.session.calls[FETCH].redirected, story.session.calls[WRITE].redirected) == (1, None)


def test_what_an_earlier_attempt_was_closed_by_is_forgotten_too() -> None:
    lost = ev.StepAborted(step=FETCH, attempt=1)
    story = Story().happen(ev.SessionStarted(), begun(effect="idempotent")).want(REDIRECT).happen(lost)
    story.happen(begun(attempt=2, effect="idempotent")).want(withdraw(MSG_2))
    story.happen(ev.StepNotBegun(step=FETCH, attempt=2))

    assert (story.session.calls[FETCH].attempt, story.session.calls[FETCH].redirected) == (1, None)


# ---- seen


def test_messages_are_seen_from_the_first_on_and_never_unseen() -> None:
    story = redirected(2).happen(ev.MessagesSeen(count=2))

    assert (story.session.seen, story.session.amendable) == (2, (MSG_3,))
    for count in (0, 1, 2, 4):
        with pytest.raises(ImpossibleEvent, match="messages had been seen"):
            story.happen(ev.MessagesSeen(count=count))
    assert story.happen(ev.MessagesSeen(count=3)).session.amendable == ()


def test_a_new_turn_has_seen_all_that_was_said_before() -> None:
    story = completed(redirected()).want(REDIRECT)

    assert (story.session.seen, story.session.amendable) == (3, ())


@pytest.mark.parametrize("event", [ev.MessageEdited, ev.MessageWithdrawn])
def test_no_journal_says_that_what_was_seen_was_changed(event: type[ev.MessageEdited | ev.MessageWithdrawn]) -> None:
    story = redirected().happen(ev.MessagesSeen(count=2))
    fields = {"text": "x"} if event is ev.MessageEdited else {}

    with pytest.raises(ImpossibleEvent, match="cannot be changed any more"):
        story.happen(event(message=MSG_2, by="bob", **fields))


def test_a_session_with_messages_of_every_kind_is_the_same_when_it_is_read_again() -> None:
    story = redirected(3).want(MESSAGE).want(withdraw(MSG_3)).want(edit(MSG_4)).want(edit(QUEUED_1))
    story.happen(ev.MessagesSeen(count=4))

    assert fold(SESSION, None, story.rows).session == story.session


# ---- events outside


@pytest.mark.parametrize("status", WORKS)
def test_an_event_outside_is_what_the_model_sees_next(status: Status) -> None:
    story = in_status(status).want(cmd.OutsideEvent(id=ID, by="ci", text="the build broke", source="jenkins"))

    assert story.session.messages[-1].level == "event"
    assert texts(story)[-1] == (
        "An event outside (jenkins): the build broke\nWhat was assumed before may no longer hold."
    )
    assert (story.session.goal, story.session.asks) == ("write the report", ())


def test_an_event_outside_supersedes_every_open_ask_and_resumes_nothing() -> None:
    story = in_status(S.RUNNING).happen(asked(), asked(2, OTHER_QUESTION)).want(cmd.Pause(id=ID))
    story.want(cmd.OutsideEvent(id=ID, text="it broke"))

    assert {one.end for one in story.log.asks.values()} == {"superseded"}
    assert story.session.status is S.PAUSING


def test_an_event_outside_may_be_withdrawn_before_it_is_seen() -> None:
    story = in_status(S.PAUSED).want(cmd.OutsideEvent(id=ID, text="it broke")).want(withdraw(MSG_2))

    assert texts(story) == ["write the report"]


# ---- budgets


def test_a_budget_is_raised_and_the_pause_that_stands_is_lifted() -> None:
    story = in_status(S.PAUSED)

    assert decide(story.session, cmd.Budget(id=ID, by="ada", budget=5.0)) == (
        ev.BudgetRaised(budget=5.0, by="ada"),
        ev.SessionResumed(by="ada", pause=PAUSE_1),
    )
    assert story.want(cmd.Budget(id=ID, budget=5.0)).session.terms.budget == 5.0


@pytest.mark.parametrize("status", [S.QUEUED, S.RUNNING, S.WAITING])
def test_a_budget_resumes_nothing_that_is_not_paused(status: Status) -> None:
    assert decide(in_status(status).session, cmd.Budget(id=ID, budget=5.0)) == (
        ev.BudgetRaised(budget=5.0, by="local"),
    )


def test_a_budget_may_be_raised_without_going_on() -> None:
    story = in_status(S.PAUSED).want(cmd.Budget(id=ID, budget=5.0, resume=False))

    assert (story.session.status, story.session.terms.budget) == (S.PAUSED, 5.0)


def test_a_budget_is_never_lowered_and_the_same_again_changes_nothing() -> None:
    story = in_status(S.RUNNING).want(cmd.Budget(id=ID, budget=1234567.5))

    error = refusal(story, cmd.Budget(id=ID, budget=4.99))
    assert error.code == "not_raised"
    assert "$1234567.5" in str(error)
    assert decide(story.session, cmd.Budget(id=ID, budget=1234567.5)) == ()


def test_the_same_budget_again_still_resumes() -> None:
    story = in_status(S.PAUSED).want(cmd.Budget(id=ID, budget=5.0, resume=False))

    assert decide(story.session, cmd.Budget(id=ID, budget=5.0)) == (ev.SessionResumed(by="local", pause=PAUSE_1),)


# ---- what somebody has decided by


CHANGES: Final[dict[str, cmd.AnyCommand]] = {
    "pause": cmd.Pause(id=ID),
    "redirect": REDIRECT,
    "message": MESSAGE,
    "edit": edit(MSG_2),
    "withdraw": withdraw(MSG_2),
    "edit of what waits": edit(QUEUED_1),
    "withdrawal of what waits": withdraw(QUEUED_1),
    "answer": cmd.Answer(id=ID, ask=ASK_1),
    "event": cmd.OutsideEvent(id=ID, text="it broke"),
    "budget": cmd.Budget(id=ID, budget=5.0),
    "cancel": cmd.Cancel(id=ID),
    "halt": cmd.Halt(id=ID, role="operate"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_mark_is_another_after_each_of_these_and_a_command_made_for_the_old_one_changes_nothing(name: str) -> None:
    story = redirected().want(MESSAGE).happen(asked())
    mark = story.session.mark
    assert decide(story.session, replace(CHANGES[name], expects=mark)) == decide(story.session, CHANGES[name])

    story.want(CHANGES[name])
    assert story.session.mark != mark
    error = refusal(story, cmd.Cancel(id=ID, expects=mark))
    assert error.code == "precondition_failed"
    assert f"'{mark}'" in str(error)
    assert f"'{story.session.mark}'" in str(error)


def test_steps_that_go_on_do_not_change_the_mark() -> None:
    story = redirected()
    mark = story.session.mark

    assert story.happen(finished(), begun(WRITE), ev.MessagesSeen(count=2)).session.mark == mark


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("kind", ["pause", "message", "cancel", "event"])
def test_a_mark_that_never_was_is_refused_before_anything_else(status: Status, kind: str) -> None:
    assert refusal(in_status(status), replace(CHANGES[kind], expects="x")).code == "precondition_failed"


def test_cents_of_a_large_budget_are_seen_in_the_mark_and_a_whole_number_is_one() -> None:
    story = in_status(S.RUNNING).want(cmd.Budget(id=ID, budget=1_000_000))
    mark = story.session.mark

    assert fold(SESSION, None, story.rows).session.mark == mark
    assert story.want(cmd.Budget(id=ID, budget=1_000_000.25)).session.mark != mark


# ---- who may answer


def approval() -> Story:
    opened = ev.AskOpened(ask=ASK_1, step=QUESTION, reason="need_approval", prompt="Delete?")
    return Story().happen(ev.SessionStarted(), opened, ev.SessionWaiting())


@pytest.mark.parametrize("role", ["watch", "steer"])
def test_an_approval_is_for_whoever_may_approve(role: cmd.Role) -> None:
    error = refusal(approval(), cmd.Answer(id=ID, role=role, value=value("true")))

    assert error.code == "approver_only"
    assert f"yours is '{role}'" in str(error)
    assert "answer" not in error.allowed


@pytest.mark.parametrize("role", ["approve", "operate"])
def test_who_may_approve_does(role: cmd.Role) -> None:
    story = approval()
    assert "answer" in allowed(story.session, role)

    assert story.want(cmd.Answer(id=ID, role=role, value=value("true"))).session.status is S.RUNNING


def test_an_approval_beside_a_question_leaves_the_question_to_everybody() -> None:
    story = approval().happen(asked(2, OTHER_QUESTION))

    assert "answer" in allowed(story.session)
    assert story.want(cmd.Answer(id=ID, ask=story.session.asks[1].id)).session.asks[0].id == ASK_1


@pytest.mark.parametrize(
    "who",
    [SESSION, child_id(SESSION, FETCH), child_id(child_id(SESSION, FETCH), WRITE)],
    ids=["itself", "its child", "a grandchild"],
)
@pytest.mark.parametrize("role", ["steer", "approve", "operate"])
def test_no_session_answers_an_ask_of_its_own_tree(who: SessionId, role: cmd.Role) -> None:
    assert root_of(who) == SESSION
    for story in (in_status(S.WAITING), approval()):
        assert refusal(story, cmd.Answer(id=ID, by=f"session:{who}", role=role)).code == "own_ask"


def test_the_agent_of_another_session_answers_nothing_either() -> None:
    assert refusal(in_status(S.WAITING), cmd.Answer(id=ID, by="session:sess_421")).code == "not_for_agents"
