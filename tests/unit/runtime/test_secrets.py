"""No secret with a name or a shape reaches the journal; what was done with it can still be undone where it lives."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

import midcourse
from midcourse.core.codec import encode
from midcourse.runtime.redacted_arguments import RedactedArguments, restored
from midcourse.runtime.tools import Tool, tool_of
from tests.promises.harness import Place, history, resumable

PASSWORD = "correct-horse-battery"
BEARER = "Bearer abcdefghijklmnopqrstuvwx"
TOKEN = "mct_" + "a" * 43

undone: list[Mapping[str, Any]] = []
entered: list[asyncio.Event] = []


def undo_by_name(arguments: Mapping[str, Any], result: object, key: str) -> None:
    undone.append({"user": arguments["user"]})


def undo_with_all(arguments: Mapping[str, Any], result: object, key: str) -> None:
    undone.append({"user": arguments["user"], "password": arguments["password"], "headers": arguments["headers"]})


@midcourse.tool(effect="write", undo=undo_by_name, local=True)
async def add_user(user: str, password: str = "", headers: dict[str, str] | None = None) -> str:
    """Add a user."""
    return user


@midcourse.tool(effect="write", undo=undo_with_all, local=True)
async def sign_up(user: str, password: str = "", headers: dict[str, str] | None = None) -> str:
    """Add a user where one must sign in to remove it."""
    return user


async def _waits(run: midcourse.Run) -> None:
    entered[-1].set()
    await run.ask("go on?")


@midcourse.agent(name="adds a user")
async def adds(run: midcourse.Run) -> None:
    await run.step("add", add_user, "ada", PASSWORD, {"Authorization": BEARER})
    await _waits(run)


@midcourse.agent(name="signs up")
async def signs_up(run: midcourse.Run) -> None:
    await run.step("add", sign_up, "ada", PASSWORD, {"Authorization": BEARER})
    await _waits(run)


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    undone.clear()
    entered[:] = [asyncio.Event()]


async def _journal(session: midcourse.SessionHandle[Any]) -> str:
    return repr([msgspec.json.encode(one.event) for one in await history(session)])


async def test_secret_arguments_are_not_journaled_and_a_live_undo_has_them(place: Place) -> None:
    async with place.open(signs_up) as mc:
        session = await mc.start(signs_up)
        await entered[0].wait()
        await session.cancel(undo="all", until="stopped")
        said = await _journal(session)
        assert PASSWORD not in said
        assert BEARER not in said
        assert '"user":"ada"' in said
    assert undone == [{"user": "ada", "password": PASSWORD, "headers": {"Authorization": BEARER}}]


async def test_another_process_undoes_what_needs_no_secret(place: Place) -> None:
    async with place.open(adds, grace=0) as mc:
        await mc.start(adds, session_id="s")
        await entered[0].wait()
    async with place.open(adds) as mc:
        session = await mc.get("s")
        await session.cancel(undo="all", until="stopped")
    assert undone == [{"user": "ada"}]


async def test_another_process_says_that_it_lacks_the_secret_and_claims_nothing(place: Place) -> None:
    async with place.open(signs_up, grace=0) as mc:
        await mc.start(signs_up, session_id="s")
        await entered[0].wait()
    async with place.open(signs_up) as mc:
        session = await mc.get("s")
        await session.cancel(undo="all", until="stopped", wait=30)
        events = [one.event for one in await history(session)]
        errors = [event.error for event in events if isinstance(event, midcourse.events.UndoEnded)]
        assert errors
        assert all("A journal keeps no secrets: what was given as password" in error for error in errors)
    assert undone == []


async def test_values_in_order_are_shown_by_name_if_one_is_a_secret(place: Place) -> None:
    def login(user: str, password: str) -> None: ...

    async def agent(run: midcourse.Run) -> None:
        await run.step("login", login, "ada", PASSWORD)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        await session.result()
        said = await _journal(session)
        assert PASSWORD not in said
        (begun,) = [one.event for one in await history(session) if isinstance(one.event, midcourse.events.StepBegun)]
        assert begun.arguments == '{"password":"[redacted]","user":"ada"}'


async def test_an_error_that_quotes_a_secret_is_journaled_and_raised_without_it(place: Place) -> None:
    seen: list[str] = []

    def fails() -> None:
        raise ValueError(f"POST https://ada:{PASSWORD}@example.org refused {TOKEN}: password={PASSWORD}")

    async def agent(run: midcourse.Run) -> None:
        try:
            await run.step("post", fails)
        except midcourse.StepError as error:
            seen.append(error.detail)
        raise RuntimeError(f"gave up with Authorization: {BEARER}")

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        with pytest.raises(midcourse.SessionEnded):
            await session.result()
        said = await _journal(session)
    assert seen == ["POST https://[redacted]@example.org refused [redacted]: [redacted]"]
    assert seen[0] in said
    for secret in (PASSWORD, TOKEN, BEARER):
        assert secret not in said


async def test_an_ask_shows_no_credential_and_is_the_same_ask_after_a_resume(place: Place) -> None:
    async def agent(run: midcourse.Run) -> object:
        return await run.ask(f"Use {TOKEN}, or which token: one or two?")

    one = resumable(agent)
    async with place.open(one, grace=0) as mc:
        session = await mc.start(one, session_id="s")
        ask = await session.next_ask()
        assert ask is not None
        assert ask.prompt == "Use [redacted], or which token: one or two?"
    async with place.open(one) as mc:
        session = await mc.get("s")
        await session.answer("two")
        assert await session.result() == "two"


async def test_who_approves_sees_everything_but_secrets(place: Place) -> None:
    @midcourse.tool(environment="prod", effect="write")
    async def deploy(where: str, api_key: str) -> None: ...

    async def agent(run: midcourse.Run) -> None:
        await run.step("deploy", deploy, "the moon", PASSWORD)

    async with place.open(resumable(agent)) as mc:
        session = await mc.start(resumable(agent))
        ask = await session.next_ask()
        assert ask is not None
        assert '{"api_key":"[redacted]","where":"the moon"}' in ask.prompt
        assert PASSWORD not in await _journal(session)


def _given(**arguments: object) -> tuple[dict[str, Any], str]:
    def call(user: str, password: str = "default", headers: Any = None) -> None: ...

    tool: Tool[..., Any] = tool_of(call)
    return restored(tool, encode(arguments, what="x"))


def test_what_is_withheld_is_neither_its_default_nor_none() -> None:
    arguments, sentence = _given(user="ada", password="[redacted]", headers={"Authorization": "[redacted]", "A": "b"})
    assert isinstance(arguments, RedactedArguments)
    assert dict(arguments) == {"user": "ada", "headers": {"A": "b"}}
    for inner, name in ((arguments, "password"), (arguments["headers"], "Authorization")):
        with pytest.raises(midcourse.InvalidInput, match=f"keeps no secrets: what was given as {name} is gone"):
            inner[name]
        with pytest.raises(midcourse.InvalidInput):
            inner.get(name)
    assert arguments.get("never") is None
    assert arguments.get("user") == "ada"
    with pytest.raises(KeyError):
        arguments["never"]
    assert "password, headers" in sentence


def test_nothing_withheld_is_nothing_said() -> None:
    assert _given(user="ada") == ({"user": "ada", "password": "default", "headers": None}, "")
