"""Sessions of agents from files: their models, their tools, their asks and their terms."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import midcourse
from midcourse.adapters.yaml_agents import load_agents
from midcourse.adapters.yaml_agents.model_choice import stop_local_models
from midcourse.models.script import Text, replies
from midcourse.testing.provider import Provider
from tests.adapters.yaml_agents import shop
from tests.adapters.yaml_agents.conftest import Write
from tests.promises.harness import Place, history, types, until, until_status

MAILER = """\
spec:
  type: chat_model_agent
  model: scripted:shop:talk
  tools:
    - use: shop:send_mail
      effect: write
      undo: shop:unsend
"""
CONFIRMER = """\
spec:
  type: chat_model_agent
  model: {script: "shop:delete"}
  tools: ["shop:confirm"]
"""
SILENT = "  interrupt: {enabled: false}\n"


def one(path: Path) -> midcourse.Agent[Any]:
    (agent,) = load_agents(path)
    return agent


async def test_a_scripted_agent_calls_its_tool_once(write: Write, place: Place) -> None:
    agent = one(write(MAILER))
    async with place.open(agent) as mc:
        assert await (await mc.start(agent, "write to ada")).result(20) == "It was: sent"
    assert shop.done == ["sent hi to ada"]


async def test_the_file_declares_over_the_function_and_a_cancel_undoes(write: Write, place: Place) -> None:
    """The function declares nothing; the file makes it a write with an undo."""
    agent = one(write(MAILER.replace("shop:talk", "shop:sends_and_talks")))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "write to ada")
        await until(session, "step.begun", times=3)
        await session.cancel("not to her", undo="all", until="stopped")
        receipt = await session.receipt()
    assert [(line.name, line.effect, line.outcome) for line in receipt.lines] == [("send_mail", "reversible", "undone")]
    assert shop.done == ["sent hi to ada", "took hi back from ada"]


async def test_an_ended_session_is_rolled_back_as_the_file_says(write: Write, place: Place) -> None:
    agent = one(write(MAILER))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "write to ada")
        await session.result(20)
        receipt = await session.undo("not to her")
    assert [(line.name, line.outcome) for line in receipt.lines] == [("send_mail", "undone")]
    assert shop.done == ["sent hi to ada", "took hi back from ada"]


async def test_a_call_that_requires_approval_asks_first(write: Write, place: Place) -> None:
    agent = one(write(MAILER + "      requires_approval: true\n"))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "write to ada")
        await until_status(session, "waiting")
        (ask,) = (await session.state()).asks
        assert ask.reason == "need_approval"
        assert "send_mail" in ask.prompt
        assert not shop.done
        await session.answer("yes")
        assert await session.result(20) == "It was: sent"


async def test_a_refusal_goes_to_the_model_in_words(write: Write, place: Place) -> None:
    agent = one(write(MAILER + "      requires_approval: true\n"))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "write to ada")
        await until_status(session, "waiting")
        await session.answer("rather not today")
        result = await session.result(20)
    assert "The call was not made" in result
    assert "rather not today" in result
    assert not shop.done


async def test_a_tool_that_declares_itself_keeps_what_the_file_does_not_say(write: Write, place: Place) -> None:
    """The file adds a cost; that it is a read, the function has said."""
    text = "spec:\n  type: chat_model_agent\n  model: scripted:shop:looks\n  tools: [{use: 'shop:look', local: true}]\n"
    agent = one(write(text))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        assert await session.result(20) == "Seen."
        assert not (await session.receipt()).lines
    assert shop.look.timeout == 7


async def test_a_set_of_tools_is_made_with_what_the_file_gives(write: Write, place: Place, tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk" / "note.txt").write_text("buy tea")
    agent = one(
        write(f"""\
spec:
  type: chat_model_agent
  model: scripted:shop:files
  tools:
    - use: midcourse.tools:files_in
      with: {{root: {tmp_path / "desk"}}}
""")
    )
    async with place.open(agent) as mc:
        assert await (await mc.start(agent, "go")).result(20) == "buy tea"


async def test_terms_are_recorded_in_the_session(write: Write, place: Place) -> None:
    """And stay what they were, although the file says something else by the time it goes on."""
    agent = one(write(MAILER + "  task_class: protected\n  policy: conservative\n  budget: 2\n"))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "write")
        await session.result(20)
    other = one(write(MAILER))
    async with place.open(other) as mc:
        state = await (await mc.get(session.id)).state()
        assert state.terms == midcourse.Terms(task_class="protected", policy="conservative@1", budget=2.0)


# ---- interrupt.enabled: false


async def test_where_asks_are_off_an_interrupt_fails_the_step(write: Write, place: Place) -> None:
    """Nobody is asked; the failure says why."""
    agent = one(write(CONFIRMER + SILENT))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        with pytest.raises(midcourse.SessionEnded) as ended:
            await session.result(20)
        assert "Confirm delete?" in str(ended.value)
        assert "ask.opened" not in types(await history(session))


async def test_where_asks_are_on_an_interrupt_asks(write: Write, place: Place) -> None:
    agent = one(write(CONFIRMER))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        await until_status(session, "waiting")
        (ask,) = (await session.state()).asks
        assert (ask.reason, ask.prompt) == ("need_approval", "Confirm delete?")
        await session.answer("only the old ones")
        assert await session.result(20) == "It was: they said only the old ones"


async def test_where_asks_are_off_what_requires_approval_is_refused_in_words(write: Write, place: Place) -> None:
    agent = one(write(MAILER + "      requires_approval: true\n" + SILENT))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "write to ada")
        result = await session.result(20)
        assert "ask.opened" not in types(await history(session))
    assert "The call was not made" in result
    assert not shop.done


async def test_where_asks_are_off_people_can_pause_redirect_and_cancel(write: Write, place: Place) -> None:
    text = "spec:\n  type: chat_model_agent\n  model: scripted:shop:slowly\n" + SILENT
    agent = one(write(text))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "talk")
        await until(session, "step.begun")
        assert (await session.pause(until="stopped")).status == "paused"
        await session.redirect("be brief", resume=True)
        assert await session.result(20) == "Yes."
        session = await mc.start(agent, "talk")
        await until(session, "step.begun")
        assert (await session.cancel(until="stopped")).status == "cancelled"


# ---- limits


async def test_a_limit_ends_the_turn_and_a_resume_goes_on(write: Write, place: Place) -> None:
    text = "spec:\n  type: chat_model_agent\n  model: scripted:shop:looks\n  tools: ['shop:look']\n"
    agent = one(write(text + "  limits: {requests: 2}\n"))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "go")
        with pytest.raises(midcourse.SessionEnded, match="request_limit"):
            await session.result(20)
    assert shop.done == ["looked at 0", "looked at 1"]


# ---- models


async def test_a_missing_key_fails_the_session_and_a_resume_mends_it(
    write: Write, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the file: who loads it may only want to look."""
    async with Provider(replies(Text("Here I am."))) as provider:
        agent = one(
            write(f"""\
spec:
  type: chat_model_agent
  model: {{name: some-model, base_url: "{provider.base_url}", api_key_env: SHOP_KEY}}
""")
        )
        monkeypatch.delenv("SHOP_KEY", raising=False)
        async with place.open(agent) as mc:
            session = await mc.start(agent, "hello")
            with pytest.raises(midcourse.SessionEnded, match="SHOP_KEY is not set"):
                await session.result(20)
            failure = (await session.state()).failure
            assert failure is not None
            assert failure.code == "model_unavailable"
            assert not provider.requests
            monkeypatch.setenv("SHOP_KEY", "secret-of-the-shop")
            await session.resume()
            assert await session.result(20) == "Here I am."
            assert provider.requests[0].headers["authorization"] == "Bearer secret-of-the-shop"
            journal = str([event.event for event in await history(session)])
        assert "secret-of-the-shop" not in journal


async def test_the_key_of_a_known_provider_may_be_missing_until_a_run_needs_it(write: Write, place: Place) -> None:
    agent = one(write("spec: {type: chat_model_agent, model: 'openai:gpt-5-mini'}"))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "hello")
        with pytest.raises(midcourse.SessionEnded, match="OPENAI_API_KEY"):
            await session.result(20)
        failure = (await session.state()).failure
        assert failure is not None
        assert failure.code == "model_unavailable"


async def test_a_server_that_speaks_openai_is_asked_for_its_model(write: Write, place: Place) -> None:
    """Without a key, as servers on one's own machine have none."""
    async with Provider(replies(Text("Here I am."))) as provider:
        agent = one(
            write(f"""\
spec:
  type: chat_model_agent
  instructions: Be kind.
  model: {{name: some-model, base_url: "{provider.base_url}"}}
  settings: {{temperature: 0.5, max_tokens: 7}}
""")
        )
        async with place.open(agent) as mc:
            assert await (await mc.start(agent, "hello")).result(20) == "Here I am."
        (received,) = provider.requests
        assert b'"model":"some-model"' in received.body.replace(b": ", b":")
        assert b'"temperature":0.5' in received.body.replace(b": ", b":")
        assert (received.conversation.system, received.conversation.user) == ("Be kind.", "hello")


async def test_the_model_of_all_agents_may_be_a_script(
    write: Write, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCOURSE_MODEL", f"scripted:{shop.__name__}:slowly")
    agent = one(write("spec: {type: chat_model_agent}"))
    async with place.open(agent) as mc:
        assert await (await mc.start(agent, "be brief")).result(20) == "Yes."


@pytest.mark.thorough
async def test_a_model_that_runs_here_answers(write: Write, place: Place) -> None:
    """A small one, and for real."""
    agent = one(write("spec: {type: chat_model_agent, model: local, settings: {max_tokens: 8, temperature: 0}}"))
    try:
        async with place.open(agent) as mc:
            session = await mc.start(agent, "Say hello.")
            async with asyncio.timeout(50):
                assert await session.result()
            assert (await session.state()).tokens
    finally:
        await stop_local_models()
