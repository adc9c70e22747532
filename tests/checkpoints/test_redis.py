"""``checkpoint:{session}`` in Redis: what people read there, for how long, and what happens without a Redis."""

import asyncio
import json
import logging
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import midcourse
from midcourse.adapters.yaml_agents import load_agents
from midcourse.projections.checkpoints import GAP
from tests.checkpoints import agents
from tests.checkpoints.agents import READABLE, TTL, asker, look_up
from tests.checkpoints.programs import Skipping, held, opened
from tests.checkpoints.servers import Server, has_status, is_asking
from tests.promises.harness import Place, Tool, until, until_status


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of checkpoints."""
    return [one.getMessage() for one in caplog.records if "checkpoint" in one.getMessage()]


# ---- what it holds


async def test_a_waiting_session_can_be_read(place: Place, redis: Server) -> None:
    """Agent, conversation, calls, why it was interrupted, and where in the journal that was."""
    async with opened(place, asker, redis=redis.url) as mc:
        session = await mc.start(asker, "tidy up", session_id="s")
        shown = await redis.shows("s", is_asking)
        state = await session.state()
        assert (shown["session_id"], shown["agent_name"]) == ("s", "tests.asker")
        assert (shown["status"], shown["interrupt_reason"]) == ("waiting", "need_approval")
        assert shown["journal_position"] == state.position
        assert [(one["role"], one["text"]) for one in shown["conversation_history"]] == [
            ("user", "tidy up"),
            ("assistant", "I look her up."),
            ("assistant", "Delete ada?"),
        ]
        [call] = shown["tool_call_stack"]
        assert (call["name"], call["state"], call["effect"]) == ("look up", "finished", "read")
        assert call["result"]["customer"] == "ada"
        [ask] = shown["asks"]
        assert (ask["ask_id"], ask["reason"], ask["prompt"]) == ("ask_1", "need_approval", "Delete ada?")
        assert ask["options"] == ["approve", "refuse"]
        assert ask["on_expiry"] == "fail"
        assert ask["expires_at"] > ask["opened_at"]
        asked = await until(session, "ask.opened")
        assert ask["checkpoint_id"] == f"s@{asked.position}"
        assert shown["updated_at"] >= ask["opened_at"]
        await session.answer("yes", by="ann")
        assert await session.result() == "ada: yes"
    done = redis.read("s")
    assert done is not None
    assert (done["status"], done["asks"], done["interrupt_reason"]) == ("completed", [], None)
    assert [(one["role"], one["text"]) for one in done["conversation_history"][-2:]] == [
        ("user", "yes"),
        ("assistant", "ada: yes"),
    ]
    assert done["conversation_history"][-2]["by"] == "ann"


async def test_it_reads_well_in_a_terminal(redis: Server) -> None:
    """``redis-cli GET`` shows indented JSON, in the order a person asks."""
    async with midcourse.open("memory://", redis=redis.url) as mc:
        await mc.start(asker, "tidy up", session_id="s")
        await redis.shows("s", is_asking)
        text = redis.client.get("checkpoint:s").decode()
    assert text.startswith('{\n  "session_id": "s",\n  "agent_name": "tests.asker",\n  "status": "waiting",\n')
    assert list(json.loads(text))[:5] == ["session_id", "agent_name", "status", "interrupt_reason", "asks"]


async def test_secrets_are_not_shown(place: Place, redis: Server) -> None:
    """Neither by name, nor in what people or tools have written."""

    async def agent(run: midcourse.Run) -> object:
        await run.call(look_up, {"customer": "ada", "api_key": "hunter2"})
        run.history.append({"role": "system", "password": "hunter3"})
        await run.checkpoint()
        return await run.ask('Send {"password": "hunter4"} to ada?')

    made = held(agent, READABLE, mode="state")
    async with opened(place, made, redis=redis.url) as mc:
        session = await mc.start(made, "use the key sk-1234567890abcdef and password: hunter5", session_id="s")
        await until_status(session, "waiting")
        await redis.shows("s", is_asking)
        await session.answer("the token is tok_87654321 and secret=hunter6", by="ann")
        await session.result()
    text = redis.client.get("checkpoint:s").decode()
    assert "ada" in text
    assert "[redacted]" in text
    for secret in ("hunter", "sk-1234567890abcdef", "tok_12345678"):
        assert secret not in text, text


async def test_what_was_erased_can_be_read_no_more(redis: Server) -> None:
    """While the process still has what it had shown, and after it has forgotten it."""
    async with midcourse.open("memory://", redis=redis.url) as mc:
        session = await mc.start(asker, "tidy up", session_id="s")
        await redis.shows("s", is_asking)
        await session.answer("yes", by="ann")
        assert await session.result() == "ada: yes"
        await session.erase()
    text = redis.client.get("checkpoint:s").decode()
    assert json.loads(text)["status"] == "completed"
    for said in ("ada", "tidy up", "I look her up"):
        assert said not in text, text


async def test_erasing_without_a_redis_says_what_still_stands_there(caplog: pytest.LogCaptureFixture) -> None:
    async with midcourse.open("memory://", redis="") as mc:
        session = await mc.start(asker, "tidy up", session_id="s")
        await until_status(session, "waiting")
        await session.cancel(until="stopped")
        await session.erase()
    assert "its readable checkpoint is still there" in lines(caplog)[-1]


async def test_open_and_failed_calls_are_told_as_they_are(place: Place, redis: Server) -> None:
    tool = Tool(holds=True)

    @midcourse.tool(effect="read")
    def broken() -> None:
        raise ValueError("no such thing")

    async def agent(run: midcourse.Run) -> None:
        try:
            await run.step("broken", broken)
        except midcourse.StepError:
            await run.step("long", tool.run, "x")

    made = held(agent, READABLE)
    async with opened(place, made, redis=redis.url) as mc:
        session = await mc.start(made, "work", session_id="s")
        await tool.entered.wait()
        shown = await redis.shows("s", lambda one: len(one["tool_call_stack"]) == 2)
        assert [(call["name"], call["state"]) for call in shown["tool_call_stack"]] == [
            ("broken", "failed"),
            ("long", "running"),
        ]
        assert shown["tool_call_stack"][0]["detail"] == "ValueError: no such thing"
        await session.pause("let me look", grace=0)
        shown = await redis.shows("s", has_status("paused"))
        assert shown["tool_call_stack"][1]["state"] == "aborted"
        assert shown["pause"] == {"id": "pause_1", "by": "local", "reason": "let me look"}
        await session.redirect("something else")
        shown = await redis.shows("s", lambda one: len(one["conversation_history"]) == 2)
        assert shown["conversation_history"][1]["text"] == "something else"
        tool.may_end.set()
        await session.cancel("enough")
        await redis.shows("s", has_status("cancelled"))


@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_a_call_that_waits_for_approval_is_on_the_stack(place: Place, redis: Server, answer: str) -> None:
    tool = Tool(effect="write", environment="prod")

    async def agent(run: midcourse.Run) -> object:
        return await run.step("deploy", tool.run, "v2")

    made = held(agent, READABLE)
    async with opened(place, made, redis=redis.url) as mc:
        session = await mc.start(made, session_id="s")
        shown = await redis.shows("s", is_asking)
        [call] = shown["tool_call_stack"]
        assert (call["name"], call["state"], call["detail"]) == ("deploy", "waits for approval", "ask_1")
        assert call["arguments"] == '["v2"]'
        assert '"v2"' in shown["asks"][0]["prompt"]
        await session.answer(answer)
        await until_status(session, "completed", "failed")
    shown = redis.read("s")
    assert shown is not None
    [call] = shown["tool_call_stack"]
    assert (call["name"], call["state"]) == ("deploy", "finished" if answer == "yes" else "refused")


async def test_a_yaml_agents_call_that_waits_for_approval_has_its_arguments_and_no_secrets(
    place: Place, redis: Server, tmp_path: Path
) -> None:
    file = tmp_path / "payer.yaml"
    file.write_text(
        """\
spec:
  type: chat_model_agent
  model: scripted:tests.checkpoints.agents:transfers
  tools:
    - use: tests.checkpoints.agents:transfer
      effect: write
      requires_approval: true
  interrupt:
    checkpoint: {backend: redis, ttl_seconds: 3600}
"""
    )
    [payer] = load_agents(file)
    async with opened(place, payer, redis=redis.url) as mc:
        session = await mc.start(payer, "pay them", session_id="s")
        shown = await redis.shows("s", is_asking)
        [call] = [one for one in shown["tool_call_stack"] if one["state"] == "waits for approval"]
        assert call["name"] == "transfer"
        told = json.loads(call["arguments"])
        assert (told["iban"], told["amount"], told["note"]) == ("DE02", 12, "[redacted] stays here")
        for secret in ("hunter2", "tok_12345678"):
            assert secret not in redis.client.get("checkpoint:s").decode()
        await session.answer("yes")
        assert await session.result() == "Paid."
    done = redis.read("s")
    assert done is not None
    [call] = done["tool_call_stack"]
    assert (call["name"], call["state"], json.loads(call["arguments"])["iban"]) == ("transfer", "finished", "DE02")


async def test_what_an_agent_has_gathered_is_shown(place: Place, redis: Server) -> None:
    """``run.history``, also where it is so long that it lies outside the journal; what is too long is cut."""

    async def agent(run: midcourse.Run) -> None:
        run.history.extend([{"number": number} for number in range(300)])
        await run.checkpoint()
        run.history.append("x" * 50_000)

    made = held(agent, READABLE, mode="state")
    async with opened(place, made, redis=redis.url) as mc:
        await (await mc.start(made, session_id="s")).result()
    shown = redis.read("s")
    assert shown is not None
    assert len(shown["history"]) == 200
    assert shown["history"][0] == {"number": 101}
    assert shown["history"][-1].endswith("… (50,000 characters in all)")
    assert shown["left_out"] == {"history": 101}


async def test_later_turns_have_the_conversation_of_the_earlier_ones(place: Place, redis: Server) -> None:
    async def agent(run: midcourse.Run) -> str:
        await run.step("look up", look_up, run.messages[-1].text)
        return f"about {run.messages[-1].text}"

    made = held(agent, READABLE)
    async with opened(place, made, redis=redis.url) as mc:
        session = await mc.start(made, "ada", session_id="s")
        await session.result()
        await session.redirect("bob", level="goal")
        await session.result()
    shown = redis.read("s")
    assert shown is not None
    assert [one["text"] for one in shown["conversation_history"]] == ["ada", "about ada", "bob", "about bob"]
    assert [one["step"] for one in shown["tool_call_stack"]] == ["2/look up#1"]


# ---- for how long


async def test_it_is_kept_as_long_as_it_can_be_answered(redis: Server) -> None:
    """And for the TTL after the last write, once nothing is asked."""
    clock = Skipping()
    async with midcourse.open("memory://", redis=redis.url, clock=clock) as mc:
        session = await mc.start(asker, session_id="s")
        await redis.shows("s", is_asking)
        assert TTL - 60 < redis.ttl("s") <= TTL
        clock.skipped = TTL / 2
        await session.pause()
        await redis.shows("s", has_status("paused"))
        assert TTL / 2 - 60 < redis.ttl("s") <= TTL / 2
        await session.resume()
        await session.answer("yes")
        await session.result()
        await redis.shows("s", has_status("completed"))
        assert TTL - 60 < redis.ttl("s") <= TTL


async def test_without_a_ttl_it_is_kept_for_good(redis: Server) -> None:
    async def agent(run: midcourse.Run) -> object:
        return await run.ask("Go?")

    made = held(agent, midcourse.Terms(backend="redis"))
    async with midcourse.open("memory://", redis=redis.url) as mc:
        await mc.start(made, session_id="s")
        await redis.shows("s", is_asking)
        assert redis.ttl("s") == -1


async def test_an_expiry_is_shown_as_what_happened(place: Place, redis: Server) -> None:
    async def agent(run: midcourse.Run) -> object:
        return await run.ask("Go?")

    made = held(agent, midcourse.Terms(backend="redis", ttl_seconds=TTL, on_expiry="cancel"))
    clock = Skipping()
    async with opened(place, made, redis=redis.url, clock=clock) as mc:
        session = await mc.start(made, session_id="t")
        await until_status(session, "waiting")
    clock.skipped = TTL + 1
    async with opened(place, made, redis=redis.url, clock=clock):
        shown = await redis.shows("t", has_status("cancelled"))
    assert shown["conversation_history"][-1]["state"] == "expired"


# ---- who is shown, and where


async def test_only_sessions_whose_terms_say_so_are_shown(place: Place, redis: Server) -> None:
    async def agent(run: midcourse.Run) -> str:
        return "done"

    quiet = held(agent, midcourse.Terms(ttl_seconds=TTL), name="quiet")
    loud = held(agent, READABLE, name="loud")
    async with opened(place, quiet, loud, redis=redis.url) as mc:
        await (await mc.start(quiet, session_id="quiet")).result()
        await (await mc.start(loud, session_id="loud")).result()
    assert [key.decode() for key in redis.client.keys("*")] == ["checkpoint:loud"]


async def test_the_address_may_stand_in_the_environment(redis: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDCOURSE_REDIS_URL", redis.url)
    async with midcourse.open("memory://") as mc:
        await mc.start(asker, session_id="s")
        await redis.shows("s", is_asking)
    redis.client.flushall()
    async with midcourse.open("memory://", redis="") as mc:  # and may be switched off
        await (await mc.start(asker, session_id="s")).next_ask()
    assert redis.read("s") is None


async def test_without_a_redis_that_is_said_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(place, asker) as mc:
        for name in ("first", "second"):
            session = await mc.start(asker, session_id=name)
            await session.next_ask()
            await session.answer("yes")
            assert await session.result() == "ada: yes"
    [line] = lines(caplog)
    assert "session first" in line
    assert "MIDCOURSE_REDIS_URL" in line


async def test_of_many_moves_the_latest_is_written(redis: Server) -> None:
    async def agent(run: midcourse.Run) -> str:
        for number in range(300):
            await run.step(f"look {number}", look_up, "ada")
        return "done"

    made = held(agent, READABLE)
    began = time.monotonic()
    before = redis.client.info("commandstats").get("cmdstat_set", {"calls": 0})["calls"]
    async with midcourse.open("memory://", redis=redis.url) as mc:
        session = await mc.start(made, session_id="s")
        await session.result()
        position = (await session.state()).position
    written = redis.client.info("commandstats")["cmdstat_set"]["calls"] - before
    shown = redis.read("s")
    assert shown is not None
    assert shown["journal_position"] == position > 600
    assert len(shown["tool_call_stack"]) == 200
    assert shown["left_out"] == {"tool_call_stack": 100}
    # However slow the machine is: one at first, one for each gap, and one at the end.
    assert 0 < written <= (time.monotonic() - began) / GAP + 2


@pytest.mark.parametrize("url", ["localhost", "http://localhost:1", "redis://:secret@[half", "redis://h:port"])
async def test_an_address_that_is_none_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(midcourse.InvalidInput, match="is no address of a Redis") as refused:
        async with midcourse.open("memory://", redis=url):
            raise AssertionError("it was opened")
    assert refused.value.fields["field"] == "redis"
    assert "secret" not in str(refused.value)


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(midcourse.InvalidInput, match=r"pip install 'midcourse\[redis\]'"):
        async with midcourse.open("memory://", redis="redis://localhost"):
            raise AssertionError("it was opened")


# ---- when Redis is down


async def test_redis_is_down_at_first(place: Place, frail: Server, caplog: pytest.LogCaptureFixture) -> None:
    """One line says so; the session works; the state of now is written when Redis is there."""
    async with opened(place, asker, redis=frail.url) as mc:
        session = await mc.start(asker, "tidy up", session_id="s")
        other = await mc.start(asker, session_id="other")
        for one in (session, other):
            await one.next_ask()
            await one.pause()
            await one.resume()
        await session.answer("yes")
        assert await session.result() == "ada: yes"
        while not lines(caplog):
            await asyncio.sleep(0.01)
        frail.start()
        await frail.shows("s", has_status("completed"))
        await frail.shows("other", is_asking)
    [line] = [one for one in lines(caplog) if "cannot be written" in one]
    assert "session s" in line or "session other" in line
    assert all("session" in one for one in lines(caplog))


async def test_redis_dies_in_the_middle_and_comes_back(
    place: Place, frail: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    frail.start()
    async with opened(place, asker, redis=frail.url) as mc:
        session = await mc.start(asker, session_id="s")
        await frail.shows("s", is_asking)
        for outages in (1, 2):
            frail.die()
            await session.pause()
            while sum("cannot be written" in line for line in lines(caplog)) < outages:
                await asyncio.sleep(0.01)
            frail.start()
            await frail.shows("s", has_status("paused"))
            await session.resume()
            await frail.shows("s", is_asking)
        await session.answer("yes")
        await session.result()
    told = lines(caplog)
    assert sum("cannot be written" in line for line in told) == 2
    assert sum("again." in line and "tried" not in line for line in told) == 2
    assert all("checkpoint" in line and "session s" in line for line in told)
    assert frail.read("s") is not None


async def test_a_redis_that_never_answers_holds_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It takes connections and says nothing: sessions end and the program closes all the same."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://user:hunter2@127.0.0.1:{silent.getsockname()[1]}"
        async with midcourse.open(f"sqlite:///{tmp_path}/s.db", durability="process", redis=url) as mc:
            session = await mc.start(asker, session_id="s")
            await session.next_ask()
            await session.answer("yes")
            assert await session.result() == "ada: yes"
    assert "session s: its last state was not written" in lines(caplog)[-1]
    assert not any("hunter2" in line for line in lines(caplog))


async def test_what_could_not_be_written_is_written_by_the_next_process(
    place: Place, frail: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(place, asker, redis=frail.url) as mc:
        await until_status(await mc.start(asker, session_id="s"), "waiting")
    assert "not written" in lines(caplog)[-1]
    frail.start()
    async with opened(place, asker, redis=frail.url) as mc:
        await (await mc.get("s")).pause()
        await frail.shows("s", has_status("paused"))


# ---- when the process dies


class Child:
    """Another program on the same file and the same Redis."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, *arguments: str) -> "Child":
        """Returns once it is up."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.checkpoints.child", *arguments),
            cwd=Path(__file__).parents[2],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == f"ready {agents.__name__}\n".encode()
        return cls(process)

    async def kill(self) -> None:
        """SIGKILL, and wait until it is dead."""
        self._process.kill()
        await self._process.wait()


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A store that several processes open."""
    return f"sqlite:///{tmp_path}/sessions.db"


async def test_after_a_kill_the_next_process_shows_the_session_again(file: str, redis: Server) -> None:
    first = await Child.start(file, redis.url, "tests.asker", "s")
    try:
        before = await redis.shows("s", is_asking)
    finally:
        await first.kill()
    redis.client.flushall()  # as if Redis had been emptied, too
    async with midcourse.open(file, durability="process", redis=redis.url) as mc:
        session = await mc.get("s")
        await session.pause()
        after = await redis.shows("s", has_status("paused"))
        assert after["journal_position"] > before["journal_position"]
        assert after["asks"] == before["asks"]
        assert after["conversation_history"] == before["conversation_history"]
        assert after["tool_call_stack"] == before["tool_call_stack"]
        await session.resume()
        await session.answer("yes")
        assert await session.result() == "ada: yes"
    await redis.shows("s", has_status("completed"))


async def test_a_session_that_ran_is_taken_and_shown_without_anybody_asking(file: str, redis: Server) -> None:
    """What the dead process had begun is shown as lost; whether it happened is asked, and that does not expire."""
    first = await Child.start(file, redis.url, "tests.payer", "s")
    try:
        running: Any = await redis.shows("s", lambda one: bool(one["tool_call_stack"]))
        assert running["tool_call_stack"][0]["state"] == "running"
    finally:
        await first.kill()
    second = await Child.start(file, redis.url)
    try:
        shown = await redis.shows("s", is_asking)
        assert shown["tool_call_stack"][0]["state"] == "lost"
        [ask] = shown["asks"]
        assert ask["reason"] == shown["interrupt_reason"] == "did_it_happen"
        assert "expires_at" not in ask
        assert redis.ttl("s") == -1
    finally:
        await second.kill()
