"""The checker finds each broken promise in what was seen of a run, and nothing in a run that kept them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from midcourse.core import events as ev
from midcourse.core.effects import Effect
from midcourse.core.events import AnyEvent, Recorded
from midcourse.core.ids import AskId, Epoch, PauseId, Position, SessionId, StepId, child_id
from midcourse.core.replies import Reply
from tests.faults.checker import Answer, Deed, Evidence, answered, excerpt, stuck, violations

PARENT = "sess_p"
CHILD = "sess_p.c"
STEP = StepId("1/pay#1")
CREATED: dict[str, Any] = {
    "agent": "payer",
    "agent_version": "1",
    "mode": "replay",
    "origin": "here:payer",
    "resumable": True,
    "goal": "pay",
}


def journal(*events: AnyEvent, parent: str | None = None, every: float = 1.0) -> list[Recorded]:
    """A started session, and then these events, one a second from 2 on."""
    born = ev.SessionCreated(**CREATED, parent=None if parent is None else SessionId(parent))
    whole = (born, ev.SessionStarted(), *events)
    return [Recorded(Position(place + 1), place * every, event) for place, event in enumerate(whole)]


def begun(attempt: int = 1, effect: Effect = "irreversible", key: str = "k1", **more: Any) -> ev.StepBegun:
    return ev.StepBegun(
        step=STEP, name="pay", kind="tool", attempt=attempt, digest="d", effect=effect, key=key, tool="t:pay", **more
    )


def deed(what: Any, at: float, *, session: str = PARENT, attempt: int = 1, key: str = "k1", **more: Any) -> Deed:
    effect = more.get("effect", "irreversible")
    return Deed(at=at, what=what, session=session, step=STEP, effect=effect, key=key, attempt=attempt)


def stop(session: str, at: float, verb: str = "pause", status: str = "paused", **more: Any) -> Answer:
    return Answer(session=session, verb=verb, sent_at=at - 0.5, answered_at=at, level="stopped", status=status, **more)


def asked(**more: Any) -> list[Answer]:
    return [Answer(session=PARENT, verb="pause", sent_at=2.0, by="ann", **more)]


def test_an_answer_that_comes_later_than_its_caller_waits_is_late_whatever_it_says() -> None:
    for said in ("level", "refused", "failed"):
        late = Evidence(journals={}, answers=asked(wait=2.0, took=2.7, **{said: "x"}), lateness=0.6)
        assert [one.promise for one in violations(late)] == ["an answer is late"]
    for took in (None, 2.5):
        assert not violations(Evidence(journals={}, answers=asked(wait=2.0, took=took), lateness=0.6))
    impatient = asked(wait=0.1, took=1.5)
    assert not violations(Evidence(journals={}, answers=impatient, lateness=0.6))


def test_a_stop_that_fails_in_the_process_that_drives_the_session_is_found() -> None:
    found = violations(Evidence(journals={}, answers=asked(failed="store_full", at_owner=True)))
    assert [one.promise for one in found] == ["a stop fails"]
    assert not violations(Evidence(journals={}, answers=asked(failed="store_full")))


def test_a_call_that_begins_after_its_session_was_reported_as_damaged_is_found() -> None:
    records = journal(begun(), ev.StepFinished(step=STEP, attempt=1))
    deeds = [deed("begun", 2.1), deed("done", 2.2)]
    damaged = Evidence(journals={PARENT: records}, deeds=deeds, named={PARENT: 2.0})
    assert [one.promise for one in violations(damaged)] == ["continues past damage"]
    assert not violations(Evidence(journals={PARENT: records}, deeds=deeds, named={PARENT: 2.15}))
    assert stuck(Evidence(journals={PARENT: records}), now=100.0, patience=5.0)
    assert not stuck(Evidence(journals={PARENT: records}, named={PARENT: 2.15}), now=100.0, patience=5.0)


def test_what_the_power_took_is_held_against_nobody() -> None:
    """A call that began after the last write that survived, and a stop that was answered then, are forgotten."""
    records = journal(begun(), ev.StepFinished(step=STEP, attempt=1))
    deeds = [deed("begun", 2.1), deed("done", 2.2), deed("begun", 4.0), deed("done", 4.1)]
    stops = [stop(PARENT, 2.3)]
    seen = Evidence(journals={PARENT: records}, deeds=deeds, answers=stops, faults=[3.0])
    assert violations(seen)
    assert not violations(replace(seen, lost=[(2.0, 3.0)]))


def resume(session: str, at: float, **more: Any) -> Answer:
    return Answer(session=session, verb="resume", sent_at=at, answered_at=at + 0.1, level="decided", **more)


def taken(epoch: int) -> ev.SessionTaken:
    return ev.SessionTaken(epoch=Epoch(epoch), worker="w")


def paused(by: str = "ann") -> tuple[AnyEvent, AnyEvent]:
    return ev.PauseRequested(pause=PauseId("pause_1"), by=by), ev.SessionPaused()


def resumed(by: str) -> ev.SessionResumed:
    return ev.SessionResumed(by=by, pause=PauseId("pause_1"))


def told(
    records: Sequence[Recorded],
    deeds: Sequence[Deed] = (),
    answers: Sequence[Answer] = (),
    faults: Sequence[float] = (),
    child: Sequence[Recorded] = (),
) -> list[str]:
    journals = {PARENT: records, **({CHILD: child} if child else {})}
    seen = Evidence(journals=journals, deeds=deeds, answers=answers, faults=faults)
    return [one.promise for one in violations(seen)]


def test_a_run_that_kept_its_promises_has_no_violation() -> None:
    records = journal(begun(), ev.StepFinished(step=STEP, attempt=1), *paused(), resumed("ann"), ev.SessionCompleted())
    deeds = [deed("begun", 2.1), deed("done", 2.2)]
    assert told(records, deeds, [stop(PARENT, 5.5, position=6), resume(PARENT, 5.9)]) == []
    assert stuck(Evidence(journals={PARENT: records}), now=100.0, patience=5.0, must_end=True) == []


def test_a_finished_step_that_begins_again_is_found() -> None:
    records = journal(begun(), ev.StepFinished(step=STEP, attempt=1), begun(attempt=2))
    assert "finished step begun again" in told(records, [deed("begun", 2.1), deed("done", 2.2)])


def test_an_irreversible_effect_twice_is_found() -> None:
    records = journal(begun(), ev.SessionTaken(epoch=Epoch(2), worker="w", lost=(STEP,)), begun(attempt=2))
    deeds = [deed("begun", 2.1), deed("done", 2.2), deed("begun", 4.1, attempt=2), deed("done", 4.2, attempt=2)]
    assert "effect twice" in told(records, deeds)


def test_an_irreversible_effect_that_a_person_denied_may_be_done_again() -> None:
    said = ev.StepSettled(step=STEP, attempt=1, by="a person", happened=False)
    records = journal(begun(), ev.SessionTaken(epoch=Epoch(2), worker="w", lost=(STEP,)), said, begun(attempt=2))
    deeds = [deed("begun", 2.1), deed("done", 2.2), deed("begun", 5.1, attempt=2), deed("done", 5.2, attempt=2)]
    assert told(records, deeds) == []


def test_a_probe_that_denied_what_happened_excuses_nothing() -> None:
    said = ev.StepSettled(step=STEP, attempt=1, by="probe", happened=False)
    lost = ev.SessionTaken(epoch=Epoch(2), worker="w", lost=(STEP,))
    records = journal(begun(can_probe=True), lost, said, begun(attempt=2, can_probe=True))
    deeds = [deed("begun", 2.1), deed("done", 2.2), deed("begun", 5.1, attempt=2), deed("done", 5.2, attempt=2)]
    assert told(records, deeds) == ["effect twice"]


def test_an_idempotent_effect_may_be_repeated_under_its_key_and_under_no_other() -> None:
    lost = ev.SessionTaken(epoch=Epoch(2), worker="w", lost=(STEP,))
    kind = "idempotent"
    for key, found in (("k1", []), ("k2", ["effect twice"])):
        records = journal(begun(effect=kind), lost, begun(attempt=2, effect=kind, key=key))
        deeds = [deed("done", 2.2, effect=kind), deed("done", 4.2, attempt=2, effect=kind, key=key)]
        assert told(records, deeds) == found


def test_a_call_that_the_journal_does_not_know_is_found() -> None:
    assert told(journal(), [deed("begun", 3.0)]) == ["call unknown to the journal"]


def test_a_result_without_an_effect_is_found() -> None:
    records = journal(begun(), ev.StepFinished(step=STEP, attempt=1))
    assert told(records, [deed("begun", 2.1)]) == ["finished without an effect"]


def test_a_receipt_that_claims_an_undo_that_the_remote_never_saw_is_found() -> None:
    line = ev.ReceiptLine(step=STEP, name="pay", outcome="undone", effect="reversible")
    kind = "reversible"
    cancel = ev.CancelRequested(by="ann", grace=0.0, undo="all")
    records = journal(
        begun(effect=kind, can_undo=True),
        ev.StepFinished(step=STEP, attempt=1),
        cancel,
        ev.SessionCancelled(receipt=(line,)),
    )
    done = [deed("begun", 2.1, effect=kind), deed("done", 2.2, effect=kind)]
    assert told(records, done) == ["receipt claims too much"]
    assert told(records, [*done, deed("undone", 4.5, effect=kind)]) == []
    assert told(records, [*done, deed("undone", 2.15, effect=kind)]) == ["receipt claims too much"]


def test_a_call_after_stopped_was_answered_is_found() -> None:
    records = journal(*paused())
    assert told(records, [deed("begun", 3.5, effect="read")], [stop(PARENT, 3.2)]) == ["works after a stop"]


def test_a_call_after_the_resume_is_none() -> None:
    records = journal(*paused(), resumed("ann"))
    reads = [deed("begun", 4.5, effect="read")]
    assert told(records, reads, [stop(PARENT, 3.2), resume(PARENT, 3.9)]) == []


def test_a_new_turn_of_what_was_cancelled_while_it_was_paused_needs_no_resume() -> None:
    cancel = ev.CancelRequested(by="bob", grace=0.0)
    turn = ev.TurnOpened(text="and then?", level="goal", by="cem")
    records = journal(*paused(), cancel, ev.SessionCancelled(), turn)
    answers = [stop(PARENT, 3.2), Answer(session=PARENT, verb="message", sent_at=5.5, answered_at=6.5)]
    reads = [deed("begun", 7.0, effect="read")]
    assert told(records, reads, answers) == []
    assert told(records, reads, answers[:1]) == ["works after a stop"]


def test_a_child_that_works_after_its_parent_was_answered_stopped_is_found() -> None:
    # The person's resume of the child came before: it lifted an earlier pause, and not this one.
    child = journal(*paused("parent sess_p"), resumed("bob"), parent=PARENT)
    reads = [deed("begun", 8.0, session=CHILD, effect="read")]
    answers = [stop(PARENT, 3.2), resume(CHILD, 3.9), stop(PARENT, 6.0)]
    assert told(journal(*paused()), reads, answers, child=child) == ["works after a stop"]
    assert told(journal(*paused()), reads, answers[:2], child=child) == []


def test_a_persons_pause_of_a_child_that_the_parents_resume_lifts_is_found() -> None:
    child = journal(*paused("parent sess_p"), resumed("parent sess_p"), parent=PARENT)
    answers = [stop(PARENT, 3.1, by="bob"), stop(CHILD, 3.3, by="ann", position=4), resume(PARENT, 3.8, by="bob")]
    parent = journal(*paused("bob"), resumed("bob"))
    assert told(parent, [], answers, child=child) == ["pause lifted by somebody else"]
    assert told(parent, [], [answers[0], answers[2]], child=child) == []


def test_a_resume_that_leaves_another_pause_standing_lifts_what_it_was_not_named_for() -> None:
    reply = Reply(level="decided", status="paused", session=SessionId(CHILD), durability="power", pause=PauseId("p_2"))
    asked = Answer(session=CHILD, verb="resume", sent_at=3.5)
    child = journal(*paused("parent sess_p"), resumed("parent sess_p"), parent=PARENT)
    answers = [stop(CHILD, 3.3, by="ann", position=4, pause="p_1"), answered(asked, reply, 3.6), resume(PARENT, 3.8)]
    assert told(journal(*paused("bob"), resumed("bob")), [], answers, child=child) == []


def test_takeovers_without_a_new_fact_are_found_unless_processes_died() -> None:
    records = journal(*(taken(epoch) for epoch in range(2, 10)))
    assert told(records) == ["journal grows without a fact"]
    assert told(records, faults=[2.0, 5.0]) == []


def test_a_journal_that_contradicts_itself_is_found() -> None:
    assert told(journal(ev.SessionPaused())) == ["damage"]


def test_a_session_that_stands_still_is_found_and_one_that_waits_for_a_person_is_not() -> None:
    asked = ev.AskOpened(ask=AskId("ask_1"), step=STEP, reason="r", prompt="?")
    for events, found in (
        ([], ["stands still"]),
        ([*paused()], []),
        ([asked, ev.SessionWaiting()], []),
        ([ev.PauseRequested(pause=PauseId("pause_1"), by="ann")], ["stands still"]),
    ):
        seen = Evidence(journals={PARENT: journal(*events)})
        assert [one.promise for one in stuck(seen, now=60.0, patience=10.0)] == found
        assert [one.promise for one in stuck(seen, now=60.0, patience=10.0, must_end=True)] == ["stands still"]
        assert stuck(seen, now=6.0, patience=10.0) == []


def test_a_parent_stands_still_no_longer_than_the_child_that_its_step_waits_for() -> None:
    spawn = StepId("1/spawn payer#1")
    child = child_id(SessionId(PARENT), spawn)
    waits = journal(ev.StepBegun(step=spawn, name="spawn payer", kind="child", attempt=1, digest="d", effect="read"))
    done = (begun(), ev.StepFinished(step=STEP, attempt=1), ev.ReportMade(message="paid"), ev.SessionCompleted())
    works = journal(*done[:3], parent=PARENT, every=10.0)  # its last fact at 40, its end at 50
    seen = Evidence(journals={PARENT: waits, child: works})
    assert stuck(seen, now=45.0, patience=10.0) == []
    assert {one.session for one in stuck(seen, now=60.0, patience=10.0)} == {PARENT, child}
    seen = Evidence(journals={PARENT: waits, child: journal(*done, parent=PARENT, every=10.0)})
    assert stuck(seen, now=55.0, patience=10.0) == []
    assert [one.session for one in stuck(seen, now=65.0, patience=10.0)] == [PARENT]
    finished = journal(waits[-1].event, ev.StepFinished(step=spawn, attempt=1))
    seen = Evidence(journals={PARENT: finished, child: works})
    assert [one.session for one in stuck(seen, now=45.0, patience=10.0)] == [PARENT]


def test_a_session_that_spins_is_found() -> None:
    seen = Evidence(journals={PARENT: journal(*(taken(epoch) for epoch in range(2, 60)))})
    assert [one.promise for one in stuck(seen, now=60.0, patience=10.0)] == ["spins"]


def test_an_excerpt_shows_what_is_near() -> None:
    records = journal(*(taken(epoch) for epoch in range(2, 60)))
    shown = excerpt(records, position=20, around=2).splitlines()
    assert len(shown) == 5
    assert "session.taken" in shown[2]
