"""What an agent may do: each limit of its list, and what a person makes of what it has stopped."""

import pytest
from msgspec.structs import replace

from midcourse.core import commands as cmd
from midcourse.core.agent_rights import check_no_agent, signed
from midcourse.core.decisions import allowed, decide
from midcourse.core.ids import MessageId
from midcourse.core.session import Status
from midcourse.core.terms import Terms
from midcourse.errors import AccessDenied, Refused
from tests.unit.core.stories import ID, PAUSE_1, SESSION, Story, in_status

S = Status
ITSELF = f"session:{SESSION}"
PARENT = "session:sess_0"


def refusal(story: Story, command: cmd.AnyCommand) -> str:
    """The code with which an agent's command is refused."""
    with pytest.raises(Refused) as caught:
        decide(story.session, command)
    return caught.value.code


def protected() -> Story:
    """A session whose stops wait for the end of its turn."""
    story = in_status(S.RUNNING)
    story.fold.session = replace(story.session, terms=Terms(task_class="protected"))
    return story


def child(story: Story) -> Story:
    """The same session, as a child of ``sess_0``."""
    story.fold.session = replace(story.session, id=f"sess_0.{SESSION}")
    return story


@pytest.mark.parametrize("status", [S.FAILED, S.COMPLETED, S.CANCELLED])
@pytest.mark.parametrize(
    "wish",
    [
        cmd.Resume(id=ID, by=PARENT),
        cmd.Message(id=ID, by=PARENT, text="again"),
        cmd.Redirect(id=ID, by=PARENT, text="again"),
    ],
)
def test_it_opens_nothing_that_has_ended(status: Status, wish: cmd.AnyCommand) -> None:
    assert refusal(child(in_status(status)), wish) == "not_for_agents"


def test_it_changes_and_withdraws_its_own_messages_alone() -> None:
    story = in_status(S.PAUSED).want(cmd.Message(id=ID, by="ada", text="hers"))
    story.want(cmd.Redirect(id=ID, by="ada", text="in French"))
    story.want(cmd.Message(id=ID, by=ITSELF, text="mine"))
    for message in ("queued_1", "msg_2"):
        assert refusal(story, cmd.Edit(id=ID, by=ITSELF, message=MessageId(message), text="x")) == "not_for_agents"
        assert refusal(story, cmd.Withdraw(id=ID, by=ITSELF, message=MessageId(message))) == "not_for_agents"
    story.want(cmd.Edit(id=ID, by=ITSELF, message=MessageId("queued_2"), text="x"))
    assert [one.text for one in story.session.queue] == ["hers", "x"]


def test_a_parents_agent_redirects_its_child_but_sets_no_goal_where_a_person_has_spoken() -> None:
    story = child(in_status(S.RUNNING))
    assert refusal(story, cmd.Redirect(id=ID, by=PARENT, text="else", level="goal")) == "not_for_agents"
    story.want(cmd.Redirect(id=ID, by=PARENT, text="shorter"))
    assert [one.text for one in story.session.messages] == ["write the report", "shorter"]
    assert refusal(in_status(S.RUNNING), cmd.Redirect(id=ID, by=ITSELF, text="shorter")) == "not_for_agents"


def test_it_closes_no_ask() -> None:
    story = child(in_status(S.WAITING))
    assert refusal(story, cmd.OutsideEvent(id=ID, by=PARENT, text="it was approved")) == "own_ask"
    assert refusal(story, cmd.Redirect(id=ID, by=PARENT, text="go on")) == "own_ask"
    assert refusal(story, cmd.Message(id=ID, by=PARENT, text="go on", behaviour="redirect")) == "own_ask"


def test_a_persons_pause_takes_the_place_of_its_own_and_lapses_as_the_person_says() -> None:
    story = in_status(S.RUNNING).want(cmd.Pause(id=ID, by=ITSELF, lapses=5.0))
    story.want(cmd.Pause(id=ID, by="ada", reason="let me look"))
    stop = story.session.pause
    assert stop is not None
    assert (stop.id, stop.by, stop.lapses_at, stop.reason) == (PAUSE_1, "ada", None, "let me look")
    assert refusal(story, cmd.Resume(id=ID, by=ITSELF)) == "not_for_agents"
    assert decide(story.session, cmd.Pause(id=ID, by=ITSELF, grace=0.0, lapses=0.001, reason="mine")) == ()
    assert story.want(cmd.Resume(id=ID, by="ada")).session.status is S.RUNNING


def test_a_parents_agent_stops_over_its_childs_and_the_child_does_not_lift_it() -> None:
    story = child(in_status(S.RUNNING))
    own = f"session:{story.session.id}"
    story.want(cmd.Pause(id=ID, by=own)).want(cmd.Pause(id=ID, by=PARENT))
    assert refusal(story, cmd.Resume(id=ID, by=own)) == "not_for_agents"
    assert story.want(cmd.Resume(id=ID, by=PARENT)).session.status is S.RUNNING


@pytest.mark.parametrize("own", [cmd.Pause(id=ID, by=ITSELF), cmd.Cancel(id=ID, by=ITSELF, undo="all")])
def test_a_persons_deferred_stop_takes_the_place_of_its_own(own: cmd.AnyCommand) -> None:
    """Else it would take its own back, and with it the person's."""
    for theirs in (cmd.Pause(id=ID, by="ada"), cmd.Cancel(id=ID, by="ada")):
        story = protected().want(own).want(theirs)
        assert story.session.deferred is not None
        assert (story.session.deferred.by, story.session.deferred.stop) == ("ada", cmd.verb(theirs))
        assert refusal(story, cmd.Resume(id=ID, by=ITSELF)) == "not_for_agents"
        assert refusal(story, cmd.Cancel(id=ID, by=ITSELF)) == "not_for_agents"
        assert decide(story.session, cmd.Pause(id=ID, by=ITSELF)) == ()
    assert protected().want(own).want(cmd.Resume(id=ID, by=ITSELF)).session.deferred is None


def test_a_cancel_of_others_stays_as_they_sent_it() -> None:
    story = in_status(S.RUNNING).want(cmd.Cancel(id=ID, by="ada", grace=60.0, undo="none"))
    assert decide(story.session, cmd.Cancel(id=ID, by=ITSELF, grace=0.0, undo="all")) == ()


@pytest.mark.parametrize("role", ["steer", "operate", "agent"])
def test_its_role_is_agent_whatever_it_says(role: cmd.Role) -> None:
    """A command that lay in an inbox from before, say."""
    halted = in_status(S.HALTED)
    assert refusal(halted, cmd.Resume(id=ID, by=ITSELF, role=role)) == "operator_only"
    assert refusal(halted, cmd.Cancel(id=ID, by=ITSELF, role=role)) == "operator_only"
    assert refusal(in_status(S.RUNNING), cmd.Cancel(id=ID, by=ITSELF, role=role, force=True)) == "not_for_agents"


def test_hints_name_what_it_may_do_now() -> None:
    assert allowed(in_status(S.RUNNING).session, "agent", ITSELF) == ("pause", "cancel", "message")
    paused = in_status(S.RUNNING).want(cmd.Pause(id=ID, by=ITSELF))
    assert "resume" in allowed(paused.session, "agent", ITSELF)
    assert "resume" not in allowed(in_status(S.PAUSED).session, "agent", ITSELF)


def test_what_its_code_sends_is_signed_as_its_own() -> None:
    wish = cmd.Budget(id=ID, by="ada", role="operate", budget=9.0)
    own = signed(wish, SESSION)
    assert (own.by, own.role) == (ITSELF, "agent")
    assert signed(wish, None) == wish
    with pytest.raises(AccessDenied, match="may not start a session"):
        check_no_agent(SESSION, "start a session")
    check_no_agent(None, "start a session")
