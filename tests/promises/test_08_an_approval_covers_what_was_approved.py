"""Promise 8: an approval covers tool, arguments and observed versions; checked just before the call, used once."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as policy_with

import midcourse
from midcourse.clock import SystemClock
from midcourse.core import events as ev
from midcourse.core.session import OpenAsk
from midcourse.policy.document import Environments
from midcourse.policy.profiles import STANDARD
from midcourse.policy.versions import save as save_policy
from midcourse.runtime.supervisor import Supervisor
from midcourse.runtime.tools import declared_tool, register
from midcourse.stores.sqlite.memory import MemoryStore
from tests.promises.harness import Place, history, resumable, until_asks, until_status, until_true


class Deploy:
    """A tool that needs a person, and keeps what it was called with."""

    def __init__(self, *, observes: bool = False, **declared: Any) -> None:
        self.calls: list[tuple[str, str]] = []
        self.undone: list[str] = []
        self.version_now: str | None = "v1"
        self.fails: Exception | None = None
        self.may_end = asyncio.Event()
        self.may_end.set()
        declared = {"effect": "idempotent", "settle": 0, "environment": "prod", **declared}
        if declared["effect"] == "write":
            declared["undo"] = self._undo
        if observes:
            declared["observes"] = self
        self.tool = declared_tool(self._body, name="deploy", origin=f"{__name__}:deploy {id(self)}", **declared)
        register(self.tool)

    async def _body(self, what: str) -> str:
        self.calls.append((what, midcourse.current_call().key))
        await self.may_end.wait()
        return f"deployed {what}"

    async def _undo(self, _arguments: object, _result: object, key: str) -> None:
        self.undone.append(key)

    def resource(self, arguments: Mapping[str, Any]) -> str:
        """As an observer: what is deployed."""
        return f"release:{arguments['what']}"

    async def version(self, _arguments: Mapping[str, Any]) -> str | None:
        """As an observer: its version."""
        if self.fails is not None:
            raise self.fails
        return self.version_now

    @property
    def done(self) -> list[str]:
        """What it was called with."""
        return [what for what, _ in self.calls]

    def agent(self, *whats: str) -> midcourse.Agent[list[str]]:
        """An agent that deploys one thing after the other, and takes a refusal for an answer."""

        async def deploys(run: midcourse.Run) -> list[str]:
            said: list[str] = []
            for what in whats:
                try:
                    said.append(await run.step("deploy", self.tool, what))
                except midcourse.StepError as error:
                    said.append(f"{error.kind}: {error.detail}")
            return said

        return resumable(deploys)


async def _asked(session: midcourse.SessionHandle[Any]) -> OpenAsk:
    """The only question that is open, once the session waits for it."""
    await until_status(session, "waiting")
    (ask,) = (await session.state()).asks
    return ask


async def _asked_next(session: midcourse.SessionHandle[Any], ask: str) -> OpenAsk:
    """Until that ask is the one it waits for."""
    while (found := await _asked(session)).id != ask:
        await asyncio.sleep(0.002)
    return found


async def _logged(mc: midcourse.Midcourse) -> list[tuple[str, str, str]]:
    """The audit log in short. A call that found the gate shut for a moment is told again, in the same words."""
    entries = [audited.entry for audited in await mc.audit()]
    told = ((one.by, one.action, one.detail) for one in entries if one.action != "session.start")
    return list(dict.fromkeys(told))


async def test_nothing_is_done_before_somebody_approves(place: Place) -> None:
    """The question names the tool, what it is called with, and why somebody is asked."""
    deploy = Deploy()
    one = deploy.agent("x")
    async with place.open(one) as mc:
        session = await mc.start(one)
        ask = await _asked(session)
        assert (ask.reason, ask.options) == ("need_approval", ("approve", "refuse"))
        assert ask.prompt == "Allow 'deploy' (deploy) with [\"x\"]? It changes something in prod."
        assert deploy.done == []
        await session.answer("approve")
        assert await session.result() == ["deployed x"]
        assert deploy.done == ["x"]


@pytest.mark.parametrize("answer", ["refuse", "no", "later, perhaps", False, {"approve": True}])
async def test_anything_but_yes_refuses_and_the_agent_is_told(answer: Any, place: Place) -> None:
    """Free text goes to the agent; it never approves."""
    deploy = Deploy()
    one = deploy.agent("x", "y")
    async with place.open(one) as mc:
        session = await mc.start(one)
        await _asked(session)
        await session.answer(answer)
        await _asked_next(session, "ask_2")
        await session.answer("yes")
        refused, deployed = await session.result()
        assert refused.startswith("NotApproved: a person refused it")
        assert ("later, perhaps" in refused) == (answer == "later, perhaps")
        assert deployed == "deployed y"
        assert deploy.done == ["y"]


async def test_an_approval_of_one_call_covers_no_other(place: Place) -> None:
    """Neither other arguments nor the same ones a second time."""
    deploy = Deploy()
    one = deploy.agent("x", "y", "x")
    async with place.open(one) as mc:
        session = await mc.start(one)
        for number, what in ((1, "x"), (2, "y"), (3, "x")):
            ask = await _asked_next(session, f"ask_{number}")
            assert f'with ["{what}"]' in ask.prompt
            assert len(deploy.done) == number - 1
            await session.answer("approve", ask=ask.id)
        assert await session.result() == ["deployed x", "deployed y", "deployed x"]
        covered = [one.event.covers for one in await history(session) if isinstance(one.event, ev.AskOpened)]
        assert covered[0] == covered[2] != covered[1]


async def test_an_approval_is_void_when_what_was_observed_has_changed(place: Place) -> None:
    """Looked at just before the call: another version is another thing, and is asked about anew."""
    deploy = Deploy(observes=True)
    one = deploy.agent("x")
    async with place.open(one) as mc:
        session = await mc.start(one, session_id="s")
        await _asked(session)
        deploy.version_now = "v2"
        await session.answer("approve", by="ann")
        ask = await _asked_next(session, "ask_2")
        assert "what 'ask_1' approved has changed since" in ask.prompt
        assert deploy.done == []
        await session.answer("approve", by="bob")
        assert await session.result() == ["deployed x"]
        assert await _logged(mc) == [
            ("ann", "answer", "ask_1"),
            ("ann", "approval.voided", "ask_1: what it covered has changed"),
            ("bob", "answer", "ask_2"),
            ("bob", "approval.used", 'ask_2: deploy with ["x"]'),
        ]


async def test_what_cannot_be_observed_cannot_be_approved(place: Place) -> None:
    """No approval would cover it: the step fails, and is not done."""
    deploy = Deploy(observes=True)
    deploy.fails = OSError("no connection")
    one = deploy.agent("x")
    async with place.open(one) as mc:
        (said,) = await (await mc.start(one)).result()
        assert said.startswith("CannotObserve: what it observes cannot be checked")
        assert deploy.done == []


async def test_an_approval_stays_with_its_call_through_a_pause(place: Place) -> None:
    """The call is the same, under the same key: nobody is asked twice about it."""
    deploy = Deploy()
    deploy.may_end.clear()
    one = deploy.agent("x")
    async with place.open(one) as mc:
        session = await mc.start(one)
        await _asked(session)
        await session.answer("approve")
        await until_true(lambda: len(deploy.calls) == 1)
        await session.pause(grace=0, until="stopped")
        deploy.may_end.set()
        await session.resume()
        assert await session.result() == ["deployed x"]
        assert len(deploy.calls) == 2
        assert len(set(deploy.calls)) == 1
        assert (await session.state()).asks_opened == 1


async def test_a_call_that_was_undone_needs_another_approval(place: Place) -> None:
    """It is another call, under another key."""
    deploy = Deploy(effect="write")
    deploy.may_end.clear()
    one = deploy.agent("x")
    async with place.open(one) as mc:
        session = await mc.start(one)
        await _asked(session)
        await session.answer("approve")
        await until_true(lambda: len(deploy.calls) == 1)
        await session.pause(grace=0, until="stopped")
        assert deploy.undone == [deploy.calls[0][1]]
        deploy.may_end.set()
        await session.resume()
        await _asked_next(session, "ask_2")
        assert len(deploy.calls) == 1
        await session.answer("approve")
        assert await session.result() == ["deployed x"]
        assert len({key for _, key in deploy.calls}) == 2


async def test_an_approval_given_while_nobody_runs_the_session_is_used_after_the_resume(place: Place) -> None:
    """It lies in the journal, with what it covers."""
    deploy = Deploy()
    one = deploy.agent("x")
    async with place.open(one) as mc:
        session = await mc.start(one, session_id="s")
        await _asked(session)
        await session.pause(until="stopped")
    async with place.open(drive=False) as mc:
        await (await mc.get("s")).answer("approve", by="ann")
    assert deploy.done == []
    async with place.open(one) as mc:
        session = await mc.get("s")
        await session.resume()
        assert await session.result() == ["deployed x"]
        assert await _logged(mc) == [
            ("local", "pause", ""),
            ("ann", "answer", "ask_1"),
            ("local", "resume", "pause_1"),
            ("ann", "approval.used", 'ask_1: deploy with ["x"]'),
        ]


async def test_a_redirect_closes_the_question_and_an_old_answer_approves_nothing(place: Place) -> None:
    """The agent that goes on asks anew; the superseded ask can no longer be answered."""
    deploy = Deploy()
    one = deploy.agent("x")
    async with place.open(one) as mc:
        session = await mc.start(one)
        await _asked(session)
        await session.redirect("mind the weekend")
        ask = await _asked_next(session, "ask_2")
        with pytest.raises(midcourse.Refused) as refused:
            await session.answer("approve", ask="ask_1")
        assert refused.value.code == "already_answered"
        assert deploy.done == []
        await session.answer("approve", ask=ask.id)
        assert await session.result() == ["deployed x"]


async def test_a_cancel_withdraws_the_question_and_nothing_is_done(place: Place) -> None:
    """An answer that comes too late finds the session ended."""
    deploy = Deploy()
    one = deploy.agent("x")
    async with place.open(one) as mc:
        session = await mc.start(one)
        await _asked(session)
        await session.cancel(until="stopped")
        with pytest.raises(midcourse.Refused) as refused:
            await session.answer("approve", ask="ask_1")
        assert refused.value.code == "session_ended"
        assert deploy.done == []
        assert (await session.receipt()).lines == ()


ASKS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"environment": "prod"}, {}, "changes something in prod"),
    ({"environment": "prod"}, {"approve_prod": False}, ""),
    ({"environment": "prdo"}, {}, "changes something in prdo"),
    ({"environment": "staging"}, {}, ""),
    ({"environment": "dev"}, {"require_environment": True}, ""),
    ({"environment": ""}, {}, ""),
    ({"environment": ""}, {"require_environment": True}, "names no environment, which counts as prod here"),
    ({"environment": "prod", "effect": "read"}, {}, ""),
    ({"environment": "", "effect": "read"}, {"require_environment": True}, ""),
    ({"environment": "dev", "cost": 2.5}, {}, "costs about $2.50"),
    ({"environment": "dev", "cost": 2.5, "effect": "read"}, {}, "costs about $2.50"),
    ({"environment": "dev", "cost": 2.5}, {"approve_paid": False}, ""),
    ({"environment": "prod", "effect": "write"}, {}, "changes something in prod"),
]


@pytest.mark.parametrize(("declared", "settings", "why"), ASKS)
async def test_what_needs_a_person_is_prod_and_what_costs(
    declared: dict[str, Any], settings: dict[str, Any], why: str, place: Place
) -> None:
    """Untagged counts as prod where tags are required; a name nobody knows does, too; a read changes nothing."""
    deploy = Deploy(**declared)
    one = deploy.agent("x")
    chosen = midcourse.Settings(poll=0.05, unreachable_after=30.0, **settings)
    async with place.open(one, settings=chosen) as mc:
        session = await mc.start(one)
        if why:
            assert (await _asked(session)).prompt.endswith(f"It {why}.")
            assert deploy.done == []
            await session.answer("yes")
        assert await session.result() == ["deployed x"]
        used = [action for _, action, _ in await _logged(mc) if action == "approval.used"]
        assert len(used) == bool(why)
        assert deploy.done == ["x"]


@pytest.mark.parametrize(
    ("environment", "why"), [("staging", "changes something in staging"), ("prod", ""), ("", ""), ("dev", "")]
)
async def test_a_policy_names_other_places_however_it_spells_them(environment: str, why: str, place: Place) -> None:
    deploy = Deploy(environment=environment)
    one = replace(deploy.agent("x"), terms=midcourse.Terms(policy="careful"))
    store = await place.store()
    careful = policy_with(STANDARD, name="careful", environments=Environments(approve=("Staging",)))
    await save_policy(store, careful, by="ada", why="a test", now=0.0)
    settings = midcourse.Settings(poll=0.05, unreachable_after=30.0, approve_prod=False)
    async with place.open(one, settings=settings, store=store) as mc:
        session = await mc.start(one, "Deploy x")
        if why:
            assert (await _asked(session)).prompt.endswith(f"It {why}.")
            await session.answer("yes")
        assert await session.result() == ["deployed x"]


def test_where_a_policy_cannot_be_read_people_are_asked_about_the_usual_places() -> None:
    loop = asyncio.new_event_loop()
    supervisor = Supervisor(MemoryStore(), SystemClock(), loop, midcourse.Settings())
    loop.close()
    assert supervisor.environments("gone@3") == Environments()
    assert supervisor.environments("") is supervisor.environments("none") is None


async def test_parallel_calls_are_asked_about_one_by_one(place: Place) -> None:
    """Each answer is for the call its question named."""
    deploy = Deploy()

    async def agent(run: midcourse.Run) -> list[str]:
        async def one(what: str) -> str:
            try:
                return await run.step("deploy", deploy.tool, what, key=what)
            except midcourse.StepError as error:
                return error.kind

        return await asyncio.gather(*(one(what) for what in "xyz"))

    one = resumable(agent)
    async with place.open(one) as mc:
        session = await mc.start(one)
        for ask in await until_asks(session, 3):
            await session.answer("refuse" if '["y"]' in ask.prompt else "approve", ask=ask.id)
        assert await session.result() == ["deployed x", "NotApproved", "deployed z"]
        assert sorted(deploy.done) == ["x", "z"]
