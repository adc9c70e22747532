"""Whatever people wish of a protected session that works, and in whatever order: it works on until its end."""

from contextlib import suppress
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.cancels import FIRMNESS
from midcourse.core.decisions import allowed, decide
from midcourse.core.effects import UndoChoice
from midcourse.core.evolution import created, evolve
from midcourse.core.ids import Position
from midcourse.core.session import Session, Status
from midcourse.errors import Refused
from tests.unit.core.stories import ID, in_status

_UNDO: Final = st.sampled_from((None, *FIRMNESS))
_GRACE: Final = st.sampled_from((0.0, 2.0, 60.0))
_ROLE: Final = st.sampled_from(("steer", "approve", "operate"))
WISHES: Final[st.SearchStrategy[list[cmd.AnyCommand]]] = st.lists(
    st.one_of(
        st.builds(cmd.Pause, id=st.just(ID), grace=_GRACE, role=_ROLE),
        st.builds(cmd.Cancel, id=st.just(ID), grace=_GRACE, undo=_UNDO, role=_ROLE),
        st.builds(cmd.Resume, id=st.just(ID), role=_ROLE),
        st.builds(cmd.Redirect, id=st.just(ID), text=st.just("x"), grace=_GRACE),
        st.builds(cmd.Message, id=st.just(ID), text=st.just("x")),
        st.just(cmd.Cancel(id=ID, force=True, role="approve")),
    ),
    max_size=12,
)


def _working(status: Status) -> Session:
    records = in_status(status).records
    first = records[0].event
    assert isinstance(first, ev.SessionCreated)
    begun = replace(first, terms=replace(first.terms, task_class="protected"))
    session = created(in_status(status).session.id, replace(records[0], event=begun))
    for record in records[1:]:
        session = evolve(session, record)
    return session


@given(st.sampled_from((Status.RUNNING, Status.WAITING)), WISHES)
def test_nobody_stops_it_half_way(status: Status, wishes: list[cmd.AnyCommand]) -> None:
    """No stop is requested, only deferred; the firmest that was not taken back stands."""
    session, stands = _working(status), ""
    for wish in wishes:
        may_resume = "resume" in allowed(session)
        with suppress(Refused):
            for event in decide(session, wish):
                assert not isinstance(event, ev.PauseRequested | ev.CancelRequested | ev.SessionPaused)
                if isinstance(event, ev.SessionRedirected):
                    assert event.grace is None
                session = evolve(session, ev.Recorded(Position(session.position + 1), session.at, event))
            match wish:
                case cmd.Resume():
                    assert may_resume
                    stands = ""
                case cmd.Pause():
                    stands = stands or "pause"
                case cmd.Cancel():
                    stands = "cancel"
                case _:
                    pass
        assert session.status in (Status.RUNNING, Status.WAITING)
        assert (session.deferred.stop if session.deferred else "") == stands
        assert ("resume" in allowed(session)) == bool(stands)


@given(WISHES, _GRACE, _UNDO)
def test_an_operators_force_goes_through_whatever_was_wished_before(
    wishes: list[cmd.AnyCommand], grace: float, undo: UndoChoice | None
) -> None:
    """And rolls back what it says, or what the cancel that waited had chosen, if that is more."""
    session = _working(Status.RUNNING)
    chosen: UndoChoice | None = None
    for wish in [*wishes, cmd.Cancel(id=ID, force=True, role="operate", grace=grace, undo=undo)]:
        chosen = session.deferred.undo if session.deferred and session.deferred.stop == "cancel" else None
        with suppress(Refused):
            for event in decide(session, wish):
                session = evolve(session, ev.Recorded(Position(session.position + 1), session.at, event))
    assert session.status is Status.CANCELLING
    assert session.cancel is not None
    assert session.cancel.force
    assert session.cancel.undo == max(undo or chosen or "in-flight", chosen or "none", key=FIRMNESS.index)
    assert session.deferred is None
