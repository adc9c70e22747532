"""A policy steps in, people answer its review, and say whether it was right: what the core makes of each."""

from typing import Final

import msgspec
import pytest
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.asks import CANCEL, GO_ON
from midcourse.core.decisions import allowed, decide
from midcourse.core.fold import fold
from midcourse.core.ids import InterventionId, StepId
from midcourse.core.interventions import (
    EXPLAIN,
    Interventions,
    LabelledAlarm,
    check_alarms,
    check_interventions,
    interventions_of,
    with_labels,
)
from midcourse.core.policy_decision import Alarm, Decision, Level, Reason
from midcourse.core.session import ENDED, LIVE, Status
from midcourse.core.signals import TITLES
from midcourse.errors import ImpossibleEvent, InvalidInput, Refused
from midcourse.policy.profiles import STANDARD
from tests.unit.core.stories import (
    ASK_1,
    ASK_2,
    ID,
    PAUSE_1,
    PAUSE_2,
    SESSION,
    STOP,
    Story,
    asked,
    begun,
    finished,
    in_status,
    value,
)

S = Status
POLICY: Final = "policy:standard@1"
REVIEW_1: Final = StepId("1/review#1")
INT_1: Final = InterventionId("int_1")
WORKS: Final = (S.QUEUED, S.RUNNING, S.WAITING)
PAUSING: Final[tuple[Level, ...]] = ("ask", "pause", "stop")


def at_level(level: Level, **fields: object) -> Decision:
    return replace(STOP, level=level, wanted=level, **fields)


def steps_in(level: Level = "stop", **fields: object) -> cmd.Intervene:
    return cmd.Intervene(id=ID, by=POLICY, decision=at_level(level, **fields))


def answers(words: object, **fields: object) -> cmd.Answer:
    given = value(msgspec.json.encode(words).decode())
    return replace(cmd.Answer(id=ID, by="ada", value=given), **fields)


def label(about: str, verdict: ev.Verdict = "right") -> cmd.Label:
    return cmd.Label(id=ID, by="ada", about=about, verdict=verdict)


def refusal(story: Story, command: cmd.AnyCommand) -> Refused:
    with pytest.raises(Refused) as caught:
        decide(story.session, command)
    return caught.value


def reviewed(level: Level = "stop") -> Story:
    """Paused by a policy in the middle of a call, which has finished since."""
    return in_status(S.RUNNING).want(steps_in(level)).happen(finished(), ev.SessionPaused())


# ---- stepping in


@pytest.mark.parametrize("status", sorted(LIVE))
def test_to_tell_people_disturbs_nobody_in_any_status(status: Status) -> None:
    story = in_status(status)

    [made] = decide(story.session, steps_in("notify"))
    assert made == ev.InterventionMade(intervention=INT_1, by=POLICY, decision=at_level("notify"))
    story.happen(made)
    assert (story.session.status, story.session.interventions) == (status, 1)


@pytest.mark.parametrize("status", sorted(ENDED))
@pytest.mark.parametrize("level", ["none", "notify", "ask_plan", *PAUSING])
def test_what_has_ended_is_left_alone(status: Status, level: Level) -> None:
    assert decide(in_status(status).session, steps_in(level)) == ()


@pytest.mark.parametrize("status", sorted(Status))
def test_a_decision_to_do_nothing_does_nothing(status: Status) -> None:
    assert decide(in_status(status).session, steps_in("none")) == ()


@pytest.mark.parametrize("status", sorted(LIVE - set(WORKS)))
@pytest.mark.parametrize("level", ["ask_plan", *PAUSING])
def test_what_has_been_stopped_meanwhile_needs_no_second_stop(status: Status, level: Level) -> None:
    assert decide(in_status(status).session, steps_in(level)) == ()


def test_a_stop_opens_a_review_and_pauses_without_grace() -> None:
    assert decide(in_status(S.RUNNING).session, steps_in("stop")) == (
        ev.InterventionMade(intervention=INT_1, by=POLICY, decision=at_level("stop"), pause=PAUSE_1, ask=ASK_1),
        ev.AskOpened(
            ask=ASK_1, step=REVIEW_1, reason="review", prompt="5 calls in a row failed.", options=(GO_ON, CANCEL)
        ),
        ev.PauseRequested(pause=PAUSE_1, by=POLICY, reason="5 calls in a row failed.", grace=0.0),
    )


@pytest.mark.parametrize("level", ["pause", "ask"])
def test_a_pause_lets_calls_in_flight_finish(level: Level) -> None:
    requested = decide(in_status(S.RUNNING).session, steps_in(level))[-1]

    assert isinstance(requested, ev.PauseRequested)
    assert requested.grace is None


@pytest.mark.parametrize("status", [S.QUEUED, S.WAITING])
def test_where_nothing_runs_the_pause_is_complete_at_once(status: Status) -> None:
    story = in_status(status).want(steps_in("pause"))

    assert story.session.status is S.PAUSED
    assert any(ask.step == REVIEW_1 for ask in story.session.asks)


def test_an_agents_own_question_says_why_it_asks() -> None:
    command = steps_in("ask", question="missing_credentials", words="Which key may I use?")
    [_, opened, _] = decide(in_status(S.RUNNING).session, command)

    assert isinstance(opened, ev.AskOpened)
    assert (opened.reason, opened.prompt) == ("missing_credentials", "Which key may I use?")


@pytest.mark.parametrize("status", [S.QUEUED, S.RUNNING])
def test_an_agent_is_asked_for_its_plan_by_a_redirect_that_explains(status: Status) -> None:
    made, redirected = decide(in_status(status).session, steps_in("ask_plan"))

    assert isinstance(made, ev.InterventionMade)
    assert (made.pause, made.ask) == (None, None)
    assert redirected == ev.SessionRedirected(text=f"5 calls in a row failed. {EXPLAIN}", level="clarify", by=POLICY)


@pytest.mark.parametrize("status", [S.RUNNING, S.WAITING])
def test_nobody_is_asked_for_a_plan_while_people_are_being_asked(status: Status) -> None:
    story = in_status(status) if status is S.WAITING else in_status(status).happen(asked())

    assert decide(story.session, steps_in("ask_plan")) == ()


def test_interventions_are_counted_and_an_event_that_counts_wrong_is_impossible() -> None:
    story = in_status(S.RUNNING).want(steps_in("notify")).want(steps_in("notify"))
    assert story.session.interventions == 2
    with pytest.raises(ImpossibleEvent, match="int_3"):
        story.happen(ev.InterventionMade(intervention=INT_1, by=POLICY, decision=STOP))


def test_the_journal_gives_back_every_reason() -> None:
    story = in_status(S.RUNNING).want(steps_in())

    assert fold(SESSION, None, story.rows).session == story.session
    [made] = interventions_of(story.records)
    assert (made.reasons, made.unseen, made.worth) == (STOP.reasons, STOP.unseen, STOP.worth)


# ---- the review


@pytest.mark.parametrize("words", ["go on", " Go On ", "resume", "continue", "yes", True])
def test_to_go_on_lifts_the_pause(words: object) -> None:
    story = reviewed()

    assert decide(story.session, answers(words))[1:] == (ev.SessionResumed(by="ada", pause=PAUSE_1),)
    story.want(answers(words))
    assert (story.session.status, story.session.asks, story.session.pause) == (S.RUNNING, (), None)


@pytest.mark.parametrize("words", [False, 0, 1, None, "", "no", "Wait", ["go on"], {"go": "on"}])
def test_what_is_neither_yes_nor_words_lifts_nothing(words: object) -> None:
    story = reviewed()

    assert len(decide(story.session, answers(words))) == 1
    story.want(answers(words))
    assert (story.session.status, story.session.asks) == (S.PAUSED, ())


@pytest.mark.parametrize(
    "wish",
    [
        cmd.Redirect(id=ID, text="skip the broken ones", level="step"),
        cmd.OutsideEvent(id=ID, text="the table has moved", source="crm"),
        cmd.Message(id=ID, text="skip the broken ones", behaviour="redirect"),
    ],
)
def test_a_review_stays_open_as_long_as_the_pause_stands(wish: cmd.AnyCommand) -> None:
    """Or nobody would be asked any more; and its agent could lift the pause."""
    own = f"{cmd.BY_SESSION}{SESSION}"
    story = reviewed().want(replace(wish, by="bob"))

    assert (story.session.status, [ask.step for ask in story.session.asks]) == (S.PAUSED, [REVIEW_1])
    with pytest.raises(Refused, match="own_ask"):
        story.want(cmd.Resume(id=ID, by=own))
    story.want(cmd.Resume(id=ID, by="ada"))
    assert (story.session.status, story.session.asks) == (S.RUNNING, ())


@pytest.mark.parametrize("words", ["cancel", " CANCEL "])
def test_to_cancel_cancels_for_the_reason_that_was_asked_about(words: str) -> None:
    story = reviewed().want(answers(words))

    assert story.session.status is S.CANCELLING
    assert story.session.cancel is not None
    assert (story.session.cancel.by, story.session.cancel.reason) == ("ada", "5 calls in a row failed.")


def test_an_instruction_is_a_redirect_and_lifts_the_pause() -> None:
    story = reviewed()

    assert decide(story.session, answers("skip the broken ones"))[1:] == (
        ev.SessionRedirected(text="skip the broken ones", level="step", by="ada"),
        ev.SessionResumed(by="ada", pause=PAUSE_1),
    )
    story.want(answers("skip the broken ones"))
    assert (story.session.status, story.session.messages[-1].text) == (S.RUNNING, "skip the broken ones")


@pytest.mark.parametrize(("slip", "meant"), [("cancle", "cancel"), ("stopp", "stop"), ("Go onn", "go on")])
def test_a_slip_does_not_lift_the_stop_with_a_word_that_nobody_meant(slip: str, meant: str) -> None:
    refused = refusal(reviewed(), answers(slip))

    assert refused.code == "unclear_answer"
    assert f"Did you mean '{meant}'?" in str(refused)
    assert reviewed().want(answers("shop elsewhere")).session.status is S.RUNNING


def test_an_answer_to_the_agents_own_question_explains() -> None:
    story = in_status(S.RUNNING).want(steps_in("ask", question="missing_credentials", words="Which key?"))

    redirected = decide(story.session, answers("the one of staging"))[1]
    assert isinstance(redirected, ev.SessionRedirected)
    assert redirected.level == "clarify"


def test_a_review_is_answered_while_calls_still_run() -> None:
    story = in_status(S.RUNNING).want(steps_in("pause"))
    assert story.session.status is S.PAUSING

    assert story.want(answers("go on")).session.status is S.RUNNING


def test_whoever_steers_may_answer_a_review_and_the_session_itself_may_not() -> None:
    story = reviewed()

    assert "answer" in allowed(story.session, "steer")
    assert refusal(story, answers("go on", by=f"session:{SESSION}")).code == "own_ask"


def test_of_a_review_and_an_ask_of_the_agent_one_must_be_named_and_each_is_its_own() -> None:
    story = in_status(S.RUNNING).happen(asked()).want(steps_in()).happen(finished(), ev.SessionPaused())

    assert refusal(story, answers("go on")).code == "ask_id_required"
    assert story.want(answers("yes", ask=ASK_1)).session.status is S.PAUSED
    assert story.want(answers("go on", ask=ASK_2)).session.status is S.RUNNING


@pytest.mark.parametrize(
    "command",
    [cmd.Resume(id=ID), cmd.Budget(id=ID, budget=5.0), cmd.Redirect(id=ID, text="in French", resume=True)],
    ids=cmd.verb,
)
def test_whatever_lifts_the_pause_closes_the_review(command: cmd.AnyCommand) -> None:
    story = reviewed().want(command)

    assert (story.session.status, story.session.asks) == (S.RUNNING, ())
    assert refusal(story, answers("go on", ask=ASK_1)).code == "already_answered"


def test_a_budget_that_does_not_resume_leaves_the_review_open() -> None:
    story = reviewed().want(cmd.Budget(id=ID, budget=5.0, resume=False))

    assert (story.session.status, [ask.id for ask in story.session.asks]) == (S.PAUSED, [ASK_1])


def test_the_agents_own_ask_stays_open_when_the_review_is_closed() -> None:
    story = in_status(S.RUNNING).happen(asked()).want(steps_in()).happen(finished(), ev.SessionPaused())

    assert [ask.id for ask in story.want(cmd.Resume(id=ID)).session.asks] == [ASK_1]


def test_a_review_that_is_answered_under_a_halt_lifts_nothing() -> None:
    story = reviewed().want(cmd.Halt(id=ID, role="operate"))

    assert [type(event) for event in decide(story.session, answers("go on"))] == [ev.AskAnswered]
    story.want(answers("go on"))
    assert (story.session.status, story.session.asks) == (S.HALTED, ())
    assert story.want(cmd.Lift(id=ID, role="operate")).session.status is S.PAUSED


def test_a_cancel_withdraws_the_review() -> None:
    story = reviewed().want(cmd.Cancel(id=ID))

    assert (story.session.status, story.session.asks) == (S.CANCELLING, ())


def test_a_session_that_was_reviewed_can_be_stopped_again() -> None:
    story = reviewed().want(answers("go on")).happen(begun(StepId("1/fetch#1"))).want(steps_in())

    [_, second] = interventions_of(story.records)
    assert (second.id, second.pause, second.ask) == ("int_2", PAUSE_2, ASK_2)
    assert story.session.asks[0].step == "1/review#2"


# ---- what people say of it


@pytest.mark.parametrize("status", sorted(Status))
def test_a_label_is_taken_in_any_status_and_changes_none(status: Status) -> None:
    story = in_status(status).want(label("msg_1", "wrong"))

    assert (story.session.status, story.session.labels) == (status, {"msg_1": "wrong"})


def test_an_intervention_a_pause_and_a_message_can_be_labelled_and_the_last_word_counts() -> None:
    story = reviewed().want(cmd.Redirect(id=ID, text="in French"))
    for about in ("int_1", "pause_1", "msg_2"):
        story.want(label(about, "wrong")).want(label(about, "unsure"))

    assert story.session.labels == dict.fromkeys(("int_1", "pause_1", "msg_2"), "unsure")


@pytest.mark.parametrize("about", ["int_2", "int_0", "int_01", "int_", "", "pause_2", "msg_9", "ask_1", "INT_1", "{x}"])
def test_what_never_was_is_not_labelled(about: str) -> None:
    error = refusal(reviewed(), label(about))

    assert error.code == "intervention_not_found"
    assert "there were 1" in str(error)


@pytest.mark.parametrize("status", sorted(ENDED))
def test_what_has_ended_is_rated_and_the_last_word_counts(status: Status) -> None:
    story = in_status(status).want(cmd.Rate(id=ID, score=1)).want(cmd.Rate(id=ID, by="ada", score=5, note="good"))

    assert (story.session.status, story.session.score) == (status, 5)
    assert story.events[-1] == ev.SessionRated(score=5, by="ada", note="good")


@pytest.mark.parametrize("status", sorted(LIVE))
def test_what_has_not_ended_is_rated_later(status: Status) -> None:
    error = refusal(in_status(status), cmd.Rate(id=ID, score=5))

    assert error.code == "not_allowed"
    assert "rate it once it has ended" in str(error)


# ---- words


def test_what_two_reasons_have_to_add_is_said_once() -> None:
    last = "The last: down: TimeoutError."
    streak = Reason("errors.streak", "stop", 5.0, 5.0, f"5 calls in a row failed. {last}")
    rate = Reason("errors", "intervene", 1.0, 0.4, f"100 % of the last calls failed. {last}")
    loops = Reason("loops", "warn", 3.0, 3.0, "It goes round: the same call 3 times. The last: read.")
    both = Decision(level="stop", wanted="stop", policy="standard@1", reasons=(streak, rate, loops))
    assert both.sentence == (
        f"5 calls in a row failed. {last} 100 % of the last calls failed. "
        "It goes round: the same call 3 times. The last: read."
    )
    assert replace(both, reasons=(rate,)).sentence == rate.sentence


# ---- lists


def test_a_sessions_list_tells_who_why_and_what_was_last_said_of_it() -> None:
    story = reviewed().want(label("int_1", "wrong")).want(replace(label("int_1"), note="it was a loop"))
    story.want(label("pause_1", "unsure")).want(cmd.Resume(id=ID)).want(steps_in("notify", held=("5 in an hour",)))

    first, second = interventions_of(story.records)
    assert (first.id, first.by, first.level, first.policy) == ("int_1", POLICY, "stop", "standard@1")
    assert first.sentence == "5 calls in a row failed."
    assert first.arithmetic == (
        "errors.streak 5 ≥ 5; avoids $1.00, costs $0.06; not seen: scope_drift (no encoder is installed)"
    )
    assert (first.pause, first.ask, first.label, first.note) == (PAUSE_1, ASK_1, "right", "it was a loop")
    assert first.at == float(
        story.events.index(next(e for e in story.events if isinstance(e, ev.InterventionMade))) + 1
    )
    assert (second.held, second.label, second.pause) == (("5 in an hour",), None, None)


@pytest.mark.parametrize(
    ("once", "now"),
    [
        ("error_streak", "errors.streak"),
        ("cost_per_action", "cost.per_action"),
        ("cost_acceleration", "cost.acceleration"),
        ("alignment", "scope_drift.alignment"),
        ("scope_expansion", "scope.expansion"),
        ("new_domain", "scope.new_domain"),
        ("loops", "loops"),
    ],
)
def test_a_signal_that_an_older_journal_calls_otherwise_has_its_name_of_today(once: str, now: str) -> None:
    decision = {
        "level": "stop",
        "wanted": "stop",
        "policy": "standard@1",
        "reasons": [{"signal": once, "stage": "stop", "value": 5, "threshold": 5, "sentence": "It is too much."}],
        "unseen": [{"signal": once, "why": "nothing measures it"}],
    }
    read = msgspec.json.decode(msgspec.json.encode(decision), type=Decision)
    assert read.arithmetic == f"{now} 5 ≥ 5; not seen: {now} (nothing measures it)"
    assert now in TITLES
    listed = {"at": 1.0, "session": "s", "intervention": "int_1", "signals": [once, "cost"]}
    assert msgspec.json.decode(msgspec.json.encode(listed), type=Alarm).signals == (now, "cost")


def test_every_signal_is_called_by_where_its_threshold_stands_in_a_policy() -> None:
    signals = msgspec.to_builtins(STANDARD.signals, enc_hook=float)
    for name in TITLES.keys() - {"own_artifacts"}:  # which a policy only switches on
        part, _, field = name.partition(".")
        assert part in signals
        assert not field or field in signals[part]


def test_the_list_of_a_session_that_nobody_watched_is_empty() -> None:
    assert interventions_of(in_status(S.COMPLETED).records) == []
    assert Interventions().all == []


def test_a_list_over_sessions_has_the_label_of_the_intervention_and_of_no_other() -> None:
    alarms = [Alarm(at=1.0, session="a", intervention="int_1"), Alarm(at=2.0, session="b", intervention="int_1")]

    assert with_labels(alarms, {("b", "int_1"): "wrong", ("a", "int_2"): "right"}) == [
        LabelledAlarm(at=1.0, session="a", intervention="int_1"),
        LabelledAlarm(at=2.0, session="b", intervention="int_1", label="wrong"),
    ]


@pytest.mark.parametrize("since", [-1.0, float("nan"), float("inf"), "yesterday", True, 1e12])
def test_since_is_a_time(since: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_interventions(since, None, 100)  # pyright: ignore[reportArgumentType]

    assert caught.value.fields["field"] == "since"


@pytest.mark.parametrize(
    ("label", "limit", "field"),
    [("maybe", 100, "label"), ("", 100, "label"), (None, 0, "limit"), (None, 1001, "limit")],
)
def test_a_list_is_wanted_in_words_that_are_known(label: str | None, limit: int, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_interventions(None, label, limit)

    assert caught.value.fields["field"] == field


@pytest.mark.parametrize(
    ("gather", "limit", "field"), [(-1.0, 100, "gather"), (1e9, 100, "gather"), (60.0, 0, "limit")]
)
def test_alarms_are_gathered_for_a_week_at_most(gather: float, limit: int, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_alarms(gather, limit)

    assert caught.value.fields["field"] == field


def test_what_can_be_meant_is_taken() -> None:
    check_interventions(None, None, 1)
    check_interventions(0, "none", 1000)
    check_alarms(None, 1)
    check_alarms(0, 1000)
