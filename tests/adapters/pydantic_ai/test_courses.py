"""Courses that a review had found wrong: redirects at bad moments, bad turns in a row, ids that a model repeats."""

import asyncio
from typing import Any

import midcourse
from midcourse.models.script import Call, Conversation, Piece, Script, Text
from tests.adapters.pydantic_ai.desk import PATIENCE, Desk
from tests.promises.harness import Place, until_status


class Till(Desk):
    """A desk with a tool that waits, one that pays, and what was paid."""

    def __init__(self, script: Script, **made: Any) -> None:
        super().__init__(script, **made)
        self.waits = asyncio.Event()
        self.go = asyncio.Event()

        @self.agent.tool_plain(sequential=True)
        @midcourse.tool(effect="read")
        async def wait() -> str:
            """Waits until it may go on."""
            self.waits.set()
            await self.go.wait()
            return "waited"

        @self.agent.tool_plain(sequential=True)
        @midcourse.tool(effect="write", local=True, undo=lambda arguments, result, key: self.done.append("repaid"))
        async def pay() -> str:
            """Pays."""
            self.done.append("paid")
            return "paid"


def tells_or_pays(heard: Conversation) -> list[Piece]:
    """Pays, and is asked about it later."""
    return [Text("|".join(heard.results("pay")))] if "so?" in heard.user else [Call("pay"), Call("wait")]


async def test_a_redirect_while_paused_is_heard_before_anything_else_begins(place: Place) -> None:
    def script(heard: Conversation) -> list[Piece]:
        if "instead" in heard.user:
            return [Text("did the other")]
        return [Call("pay") if heard.results("wait") else Call("wait")]

    till = Till(script)
    agent = till.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "pay")
        await till.waits.wait()
        pausing = asyncio.create_task(session.pause(until="stopped"))
        await until_status(session, "pausing")
        till.go.set()
        await pausing
        await session.redirect("the other instead")
        await session.resume()
        assert await session.result(PATIENCE) == "did the other"
    assert till.done == []
    assert [said.role for said in till.heard[-1]] == ["user", "assistant", "tool", "user"]


async def test_a_call_that_has_not_begun_when_the_course_is_changed_does_not_begin(place: Place) -> None:
    till = Till(lambda heard: [Text("left it")] if "do not" in heard.user else [Call("wait"), Call("pay")])
    agent = till.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "pay")
        await till.waits.wait()
        await session.redirect("do not pay", grace=0)
        assert await session.result(PATIENCE) == "left it"
    assert till.done == []
    assert "did not happen" in till.results[1]


async def test_steps_of_the_deps_are_no_reason_to_do_finished_calls_again(place: Place) -> None:
    till = Till(lambda heard: [Text("end")] if heard.results("wait") else [Call("pay"), Call("wait")])

    async def deps(run: midcourse.Run) -> str:
        return await run.step("connect", connected)

    agent = till.held(deps=deps)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "pay")
        await till.waits.wait()
        await session.pause(grace=0, until="stopped")
    till.go.set()
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.resume()
        assert await session.result(PATIENCE) == "end"
    assert (till.done, len(till.heard)) == (["paid"], 2)


@midcourse.tool(effect="read")
def connected() -> str:
    """Something that deps need."""
    return "connected"


async def test_what_was_done_two_bad_turns_ago_is_known(place: Place) -> None:
    till = Till(tells_or_pays)
    broken: list[bool] = []

    def deps(run: midcourse.Run) -> None:
        if broken:
            raise ConnectionError("the database is down")

    agent = till.held(deps=deps)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "pay")
        await till.waits.wait()
        await session.cancel(grace=0, until="stopped")
        broken.append(True)
        await session.redirect("so?")
        try:
            await session.result(PATIENCE)
        except midcourse.SessionEnded as error:
            assert "the database is down" in str(error)
        broken.clear()
        await session.redirect("so? again")
        assert await session.result(PATIENCE) == "paid"


async def test_what_a_cancel_has_undone_is_told_as_undone(place: Place) -> None:
    till = Till(tells_or_pays)
    agent = till.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "pay")
        await till.waits.wait()
        await session.cancel(grace=0, undo="all", until="stopped")
        await session.redirect("so?")
        assert await session.result(PATIENCE) == "It was undone."
    assert till.done == ["paid", "repaid"]


async def test_a_tool_may_have_the_name_that_model_steps_have(place: Place) -> None:
    till = Till(lambda heard: [Text("fine")] if "so?" in heard.user else [Call("model", {"car": "x"}), Call("wait")])

    @till.agent.tool_plain
    @midcourse.tool(effect="read")
    async def model(car: str) -> str:
        """Which model a car is."""
        return "T"

    agent = till.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await till.waits.wait()
        await session.cancel(grace=0, until="stopped")
        for said in ("so?", "so? again"):
            await session.redirect(said)
            assert await session.result(PATIENCE) == "fine"


async def test_a_message_after_another_version_was_agreed_to_is_heard(place: Place) -> None:
    desk = Desk(lambda heard: [Text(f"answer to {heard.user}")])
    before = desk.held(version="1", on_new_version="ask")
    async with place.open(before) as mc:
        session = await mc.start(before, "one")
        assert await session.result(PATIENCE) == "answer to one"
    now = desk.held(version="2", on_new_version="ask")
    async with place.open(now) as mc:
        session = await mc.get(session.id)
        await session.redirect("two")
        await session.answer("approve", ask=(await session.next_ask(PATIENCE)).id)
        assert await session.result(PATIENCE) == "answer to two"
