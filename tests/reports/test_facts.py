"""What is read out of one journal: who interrupted it, how soon it stopped, what that cost, how it ended."""

import pytest

from midcourse.analysis.reports.facts import Interruption, Money, SessionFacts
from midcourse.analysis.reports.reader import facts_of
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.budget import Outlay
from midcourse.core.caps import at_cap
from midcourse.core.codec import inline
from midcourse.core.ids import Position, StepId
from midcourse.core.terms import Terms
from midcourse.policy.profiles import STANDARD
from midcourse.policy.signals.calls_left import CallHistory
from tests.reports.journals import WORTH, Journal


def only(facts: SessionFacts) -> Interruption:
    """The one interruption there is."""
    [found] = facts.interruptions
    return found


def test_a_session_that_nobody_touched_has_its_outcome_its_cost_and_nothing_else() -> None:
    journal = Journal(terms=Terms(policy="standard@1", budget=5.0)).started()
    journal.planned("done", "queued").called(2.0, cost=0.25, kind="model").called(4.0)
    facts = journal.happens(ev.SessionCompleted(), at=10.0).facts()
    assert (facts.outcome, facts.ended, facts.cost) == ("completed", journal.began + 10.0, 0.25)
    assert (facts.calls, facts.budget, facts.person) == (2, 5.0, "ada")
    assert facts.worked == pytest.approx(9.0)  # queued for a second
    assert not facts.was_stopped
    assert (facts.interruptions, facts.notices, facts.asked, facts.outlived) == ((), (), (), ())


def test_a_person_s_pause_is_timed_from_its_wish_to_the_first_new_step() -> None:
    journal = Journal().started().planned("done", "queued", "queued", "queued")
    journal.wished(cmd.Pause, 10.0, by="bob", put=9.96, reason="wait").happens(ev.SessionPaused(), at=10.02)
    journal.wished(cmd.Resume, 70.02).called(70.5)
    journal.planned("done", "done", "done", "queued").happens(ev.SessionCompleted(), at=80.0)
    found = only(journal.labelled("pause_1", "right").facts())
    assert (found.kind, found.by, found.id, found.is_by_policy, found.label) == (
        "pause",
        "bob",
        "pause_1",
        False,
        "right",
    )
    assert (found.response, found.stop) == (pytest.approx(0.04), pytest.approx(0.06))
    assert (found.save, found.wait) == (pytest.approx(0.02), pytest.approx(60.0))
    assert (found.recovery, found.resolution) == (pytest.approx(0.48), pytest.approx(60.02))
    assert (found.before, found.after, found.quality, found.outcome) == (0.25, 0.75, 0.75, "completed")
    assert (found.money.dollars, found.money.is_estimate) == (0.0, False)  # nothing was made again


def test_a_policy_s_stop_has_its_reasons_its_worth_and_the_time_until_somebody_answered() -> None:
    journal = Journal().started().called(2.0)
    journal.stepped_in("stop", 20.0, late=0.05).happens(ev.SessionPaused(), at=20.15)
    journal.answered("ask_1", "go on", 50.05).called(51.0).happens(ev.SessionCompleted(), at=60.0)
    facts = journal.facts()
    found = only(facts)
    assert (found.kind, found.by, found.signals) == ("stop", "policy:standard@1", ("loops",))
    assert (found.response, found.save) == (pytest.approx(0.05), pytest.approx(0.1))
    assert (found.answer, found.wait) == (pytest.approx(30.0), pytest.approx(29.9))
    assert found.expected == WORTH
    assert found.still is not None
    assert found.cost == pytest.approx(found.still / 60 * WORTH.minute)
    assert [(one.reason, one.seconds, one.end) for one in facts.asked] == [("review", pytest.approx(30.0), "answered")]
    assert facts.was_stopped


def test_lifting_the_pause_is_an_answer_to_its_review_too() -> None:
    journal = Journal().started().stepped_in("pause", 20.0).happens(ev.SessionPaused(), at=20.1)
    facts = journal.wished(cmd.Resume, 30.05).facts()
    assert only(facts).answer == pytest.approx(10.0)
    assert facts.asked[0].end == "answered"


def test_to_raise_the_budget_is_an_answer_to_the_review_of_its_cap() -> None:
    journal = Journal(terms=Terms(budget=0.30)).started()
    journal.happens(*at_cap(journal.session, Outlay(0.24), 0.12), ev.SessionPaused(), at=5.0)
    facts = journal.wished(cmd.Budget, 9.0, budget=1.0, resume=True).facts()
    assert (only(facts).kind, only(facts).answer) == ("pause", pytest.approx(4.0))
    assert [(one.seconds, one.end) for one in facts.asked] == [(pytest.approx(4.0), "answered")]


def test_a_question_for_the_plan_interrupts_and_does_not_stop() -> None:
    journal = Journal().started().stepped_in("ask_plan", 20.0).called(25.05)
    facts = journal.happens(ev.SessionFailed(code="x", message="y"), at=30.0).facts()
    found = only(facts)
    assert (found.kind, found.save, found.wait) == ("ask_plan", None, None)
    assert (found.recovery, found.quality) == (pytest.approx(5.0), 0.0)
    assert not facts.was_stopped


def test_a_notice_is_listed_apart_and_can_be_labelled() -> None:
    facts = Journal().started().stepped_in("notify", 20.0).labelled("int_1", "wrong").facts()
    assert facts.interruptions == ()
    [notice] = facts.notices
    assert (notice.kind, notice.label, notice.signals) == ("notify", "wrong", ("loops",))


def test_a_redirect_costs_what_the_cut_request_cost() -> None:
    journal = Journal().started()
    step = journal.begun(5.0, kind="model")
    journal.wished(cmd.Redirect, 6.0, text="left")
    journal.happens(ev.StepCut(step=step, attempt=1, length=10, cost=0.04), at=6.01)
    journal.happens(ev.StepClosed(step=step, attempt=1, message=2, truth="cut"))
    found = only(journal.called(6.5).facts())
    assert (found.kind, found.id, found.recovery) == ("redirect", "msg_2", pytest.approx(0.5))
    assert (found.money.dollars, found.money.requests, found.money.is_estimate) == (0.04, 1, False)


def test_a_request_made_again_is_counted_with_what_it_cost_and_is_an_estimate_until_then() -> None:
    journal = Journal().started()
    step = journal.begun(5.0, kind="model")
    journal.wished(cmd.Pause, 6.0)
    journal.happens(ev.StepCut(step=step, attempt=1, length=3), ev.SessionPaused(), at=6.1)
    default = STANDARD.restraint.worth.per_request
    money = only(journal.facts()).money
    assert (money.dollars, money.requests, money.is_estimate) == (default, 1, True)
    journal.wished(cmd.Resume, 9.0)
    journal.begun(9.1, kind="model", again=step)
    money = only(journal.finished(step, 12.0, attempt=2, cost=0.07).facts()).money
    assert (money.dollars, money.requests, money.is_estimate) == (0.07, 1, False)


def test_a_call_that_was_never_asked_costs_nothing_whoever_is_asked_in_its_place() -> None:
    """A cap stops a call before anything of it is sent: made later, it costs no more than it would have."""
    journal = Journal(terms=Terms(budget=0.30)).started().called(2.0, kind="model", cost=0.24)
    step = journal.begun(5.0, kind="model")
    journal.happens(*at_cap(journal.session, Outlay(0.24), 0.12))
    journal.happens(ev.StepCut(step=step, attempt=1, length=0, free=True), ev.SessionPaused())
    facts = journal.facts()
    assert only(facts).money == Money()
    journal.wished(cmd.Budget, 9.0, budget=1.0, resume=True)
    journal.begun(9.1, kind="model", again=step)
    facts = journal.finished(step, 12.0, attempt=2, cost=0.12).facts()
    assert (only(facts).money, facts.cost) == (Money(), 0.36)


@pytest.mark.parametrize(
    "unasked",
    [
        ev.StepNotBegun(step=StepId("1/call#1"), attempt=2),
        ev.StepCut(step=StepId("1/call#1"), attempt=2, length=3, free=True),
    ],
)
def test_a_torn_request_is_priced_by_the_attempt_that_was_asked_in_its_place(unasked: ev.AnyEvent) -> None:
    journal = Journal().started()
    step = journal.begun(5.0, kind="model")
    journal.wished(cmd.Pause, 6.0)
    journal.happens(ev.StepCut(step=step, attempt=1, length=3), ev.SessionPaused(), at=6.1).wished(cmd.Resume, 9.0)
    journal.begun(9.1, kind="model", again=step)
    journal.wished(cmd.Pause, 9.2).happens(unasked, ev.SessionPaused(), at=9.3)
    journal.wished(cmd.Resume, 12.0).begun(12.1, kind="model", again=step, attempt=3)
    first, second = journal.finished(step, 15.0, attempt=3, cost=0.07).facts().interruptions
    assert (first.money, second.money) == (Money(0.07, 1), Money())


def test_a_request_whose_price_nobody_knows_stays_an_estimate() -> None:
    journal = Journal().started()
    step = journal.begun(5.0, kind="model")
    journal.wished(cmd.Pause, 6.0)
    journal.happens(ev.StepCut(step=step, attempt=1, length=3), ev.SessionPaused(), at=6.1).wished(cmd.Resume, 9.0)
    journal.begun(9.1, kind="model", again=step)
    assert only(journal.finished(step, 12.0, attempt=2).facts()).money.is_estimate


def test_a_stop_that_let_a_call_finish_says_which() -> None:
    journal = Journal().started()
    step = journal.begun(5.0, name="send_mail", effect="irreversible", can_probe=False)
    journal.wished(cmd.Pause, 6.0).finished(step, 15.9).happens(ev.SessionPaused(), at=16.0)
    facts = journal.facts()
    assert only(facts).waited_for == ("send_mail",)
    assert only(facts).save == pytest.approx(10.0)
    assert facts.outlived == ()
    assert [(one.name, one.effect, one.can_probe) for one in facts.tools] == [("send_mail", "irreversible", False)]


def test_a_call_that_a_receipt_calls_still_running_could_not_be_stopped() -> None:
    journal = Journal().started()
    step = journal.begun(5.0, name="send_mail", effect="irreversible")
    journal.wished(cmd.Cancel, 6.0, by="bob")
    line = ev.ReceiptLine(step, "send_mail", "still running")
    facts = journal.happens(ev.SessionCancelled(receipt=(line,)), at=8.0).facts()
    assert facts.outlived == ("send_mail",)
    assert (facts.outcome, only(facts).kind, only(facts).save, only(facts).quality) == (
        "cancelled",
        "cancel",
        2.0,
        None,
    )


def test_a_call_that_ends_after_the_kill_switch_outlived_it() -> None:
    journal = Journal().started()
    step = journal.begun(5.0, name="send_mail", effect="irreversible")
    journal.wished(cmd.Halt, 6.0, by="op", role="operate").finished(step, 7.0)
    facts = journal.wished(cmd.Lift, 20.0, by="op", role="operate").facts()
    assert facts.outlived == ("send_mail",)
    assert (only(facts).kind, only(facts).wait) == ("halt", pytest.approx(14.0))
    assert (only(facts).save, only(facts).waited_for) == (pytest.approx(1.0), ("send_mail",))
    assert (only(facts).stopper, only(facts).is_by_person) == ("kill_switch", False)


def test_a_pause_lasts_through_a_halt_and_is_over_when_it_is_resumed() -> None:
    journal = Journal().started(0.0).wished(cmd.Pause, 10.0).happens(ev.SessionPaused())
    journal.wished(cmd.Halt, 20.0, by="op", role="operate").wished(cmd.Lift, 30.0, by="op", role="operate")
    facts = journal.wished(cmd.Resume, 100.0).happens(ev.SessionCompleted(), at=110.0).facts()
    assert facts.worked == journal.session.worked == 20.0
    assert [(one.kind, one.wait) for one in facts.interruptions] == [("pause", 90.0), ("halt", 10.0)]


def test_a_halt_is_over_when_the_last_call_was_aborted_and_one_that_was_lifted_before_has_no_time() -> None:
    journal = Journal().started()
    step = journal.begun(5.0)
    journal.wished(cmd.Halt, 6.0, by="op", role="operate", put=5.9)
    assert only(journal.facts()).stop is None
    found = only(journal.happens(ev.StepAborted(step=step, attempt=1), at=6.3).facts())
    assert (found.response, found.stop, found.waited_for) == (pytest.approx(0.1), pytest.approx(0.4), ())
    journal = Journal().started()
    journal.begun(5.0)
    journal.wished(cmd.Halt, 6.0, by="op", role="operate").wished(cmd.Lift, 7.0, by="op", role="operate")
    assert only(journal.facts()).stop is None
    assert only(Journal().started().wished(cmd.Halt, 6.0, by="op", role="operate").facts()).stop == 0.0


def test_a_cancel_ends_the_pause_it_finds_and_a_second_one_is_the_same() -> None:
    journal = Journal().started().wished(cmd.Pause, 5.0).happens(ev.SessionPaused(), at=5.1)
    journal.wished(cmd.Cancel, 9.1, grace=5.0).wished(cmd.Cancel, 9.2, grace=0.0)
    facts = journal.happens(ev.SessionCancelled(), at=9.5).facts()
    pause, cancel = facts.interruptions
    assert (pause.kind, pause.wait, pause.recovery) == ("pause", pytest.approx(4.0), None)
    assert (cancel.kind, cancel.save) == ("cancel", pytest.approx(0.4))


def test_a_pause_said_again_and_the_word_that_goes_with_a_resume_are_no_interruptions_of_their_own() -> None:
    journal = Journal().started().wished(cmd.Pause, 5.0).wished(cmd.Pause, 5.5, reason="really")
    journal.happens(ev.SessionPaused(), at=6.0).wished(cmd.Redirect, 8.0, text="left", resume=True)
    assert [one.kind for one in journal.facts().interruptions] == ["pause"]


def test_what_was_written_while_it_stopped_is_counted_in_kilobytes() -> None:
    journal = Journal().started()
    step = journal.begun(5.0, kind="model")
    journal.happens(ev.SegmentWritten(step=step, attempt=1, offset=0, text="x" * 2048), at=6.0)
    assert only(journal.wished(cmd.Pause, 6.0).facts()).kilobytes == 2.0
    journal = Journal().started().wished(cmd.Pause, 5.0)
    journal.happens(ev.CheckpointTaken(scope="1.1", state=inline(b'"' + b"x" * 1022 + b'"')), at=5.1)
    assert only(journal.happens(ev.SessionPaused(), at=5.2).facts()).kilobytes == 1.0
    assert only(Journal().started().wished(cmd.Pause, 5.0).facts()).kilobytes is None


def test_what_a_fork_inherits_is_its_source_s() -> None:
    journal = Journal().started().wished(cmd.Pause, 5.0).happens(ev.SessionPaused(), at=5.1).wished(cmd.Resume, 6.0)
    facts = journal.happens(ev.SessionForked(source="sess_0@9"), at=100.0).facts()
    assert (facts.interruptions, facts.started, facts.was_stopped) == ((), journal.began + 100.0, False)


def test_a_new_turn_has_an_end_of_its_own_and_keeps_the_old_one_s_interruptions() -> None:
    journal = Journal().started().wished(cmd.Pause, 5.0).happens(ev.SessionPaused(), at=5.1).wished(cmd.Resume, 6.0)
    journal.happens(ev.SessionCompleted(), at=8.0).wished(cmd.Redirect, 20.0, text="more")
    assert (journal.facts().outcome, only(journal.facts()).outcome) == ("", "completed")
    journal.wished(cmd.Redirect, 25.0, text="left")
    assert [one.id for one in journal.facts().interruptions] == ["pause_1", "msg_3"]


def test_the_class_is_what_was_declared_or_what_its_last_turn_was_watched_as() -> None:
    assert Journal(terms=Terms(task_class="very_long")).started().facts().task_class == "very_long"
    journal = Journal().started(1.0).wished(cmd.Pause, 11.0).happens(ev.SessionPaused(), at=11.0)
    facts = journal.wished(cmd.Resume, 1011.0).happens(ev.SessionCompleted(), at=1021.0).facts()
    assert (facts.task_class, facts.is_class_declared, facts.worked) == ("long", False, pytest.approx(20.0))
    history = CallHistory(calls=(1,) * 5, seconds=(9.0,) * 5)
    assert facts_of(journal.id, journal.records, STANDARD, history).task_class == "short"
    journal.wished(cmd.Redirect, 2000.0, text="more").happens(ev.SessionCompleted(), at=2040.0)
    assert facts_of(journal.id, journal.records, STANDARD, history).task_class == "medium"


def test_a_rating_and_the_last_label_count() -> None:
    journal = Journal().started().stepped_in("notify", 3.0).happens(ev.SessionCompleted(), at=8.0)
    journal.wished(cmd.Rate, 9.0, score=2).wished(cmd.Rate, 10.0, score=4)
    facts = journal.labelled("int_1", "wrong").labelled("int_1", "right").facts()
    assert (facts.score, facts.notices[0].label) == (4, "right")


def test_reading_is_incremental_and_memory_is_that_of_what_is_open() -> None:
    journal = Journal().started()
    for number in range(3000):
        journal.called(10.0 + number, seconds=0.25)
    facts = journal.facts()
    assert (facts.calls, facts.interruptions) == (3000, ())


def test_a_record_that_stands_alone_is_no_session_yet_and_no_fault() -> None:
    journal = Journal()
    lone = ev.Recorded(Position(2), journal.began, ev.StepFinished(step=StepId("1/x#0"), attempt=1))
    assert facts_after(journal, lone).outcome == ""


def facts_after(journal: Journal, record: ev.Recorded) -> SessionFacts:
    journal.records.append(record)
    return journal.facts()
