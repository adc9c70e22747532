"""A model's answer as a step: its text comes through, and a stop closes the stream at the provider's end."""

import json
from pathlib import Path

import pytest

import midcourse
from midcourse.adapters.plain import Api
from midcourse.adapters.prices import TokenUsage, dollars, tokens_in
from midcourse.core.events import StepCut, StepFinished
from midcourse.models.script import Text, Wait, replies
from tests.adapters.plain.desk import APIS, desk, priced_desk
from tests.promises.harness import Place, history, resumable, types, until

LONG = Text("word " * 3_000, every=0.002)
each_api = pytest.mark.parametrize("api", APIS)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place("memory", tmp_path)


@each_api
async def test_the_text_is_what_the_step_returns_and_its_tokens_are_counted(api: Api, place: Place) -> None:
    async with desk(api, replies(Text("It is a fine day."))) as at:
        agent = resumable(lambda run: run.stream("draft", lambda: at.ask(run.goal)))
        async with place.open(agent) as mc:
            session = await mc.start(agent, goal="How is the weather?")
            assert await session.result() == "It is a fine day."
            (finished,) = [event.event for event in await history(session) if isinstance(event.event, StepFinished)]
            assert finished.tokens == 5
            assert finished.streamed, "the text is in the journal a second time"
        (request,) = at.provider.requests
        assert request.conversation.user == "How is the weather?"
        sent = json.loads(request.body)
        assert sent["stream"] is True
        assert sent.get("stream_options") == ({"include_usage": True} if api == "chat.completions" else None)


@each_api
async def test_a_request_costs_what_the_price_list_says(api: Api, place: Place) -> None:
    async with priced_desk(api, replies(Text("It is a fine day."))) as at:
        agent = resumable(lambda run: run.stream("draft", lambda: at.ask("How is the weather?")))
        async with place.open(agent) as mc:
            session = await mc.start(agent)
            await session.result()
            (finished,) = [event.event for event in await history(session) if isinstance(event.event, StepFinished)]
    assert finished.cost == pytest.approx(dollars(at.model, TokenUsage(4, 5)))
    assert finished.cost > 0


@each_api
async def test_a_pause_closes_the_stream_at_the_provider_and_a_resume_goes_on(api: Api, place: Place) -> None:
    async with desk(api, replies(LONG)) as at:
        agent = resumable(lambda run: run.stream("draft", lambda: at.ask("Tell me everything.")))
        async with place.open(agent) as mc:
            session = await mc.start(agent)
            await at.provider.wait_for_request(0, pieces=5)
            await until(session, "segment.written")
            paused = await session.pause(until="stopped")
            assert (paused.level, paused.status) == ("stopped", "paused")
            closed = await at.provider.wait_for_close(0)
            assert closed.pieces < 2_000
            assert len(at.provider.requests) == 1

            at.provider.script = replies(Text("All of it."))
            await session.resume()
            said = await session.result()
            assert said.startswith("word word ")
            assert said.endswith(" All of it.")
            events = [event.event for event in await history(session)]
            (cut,) = [event for event in events if isinstance(event, StepCut)]
            assert 0 < cut.tokens <= closed.pieces
        assert len(at.provider.requests) == 2


ABOUT = tokens_in([{"role": "user", "content": "Tell me everything."}])


@pytest.mark.parametrize(("api", "heard"), [("chat.completions", ABOUT), ("responses", ABOUT), ("messages", 3)])
async def test_a_cut_is_charged_with_what_is_known_by_then(api: Api, heard: int, place: Place) -> None:
    """Anthropic tells the input at the beginning, OpenAI at the end: until then it is a guess. Pieces are counted."""
    async with priced_desk(api, replies(LONG)) as at:
        agent = resumable(lambda run: run.stream("draft", lambda: at.ask("Tell me everything.")))
        async with place.open(agent) as mc:
            session = await mc.start(agent)
            await until(session, "segment.written")
            await session.pause(until="stopped")
            (cut,) = [event.event for event in await history(session) if isinstance(event.event, StepCut)]
    assert cut.tokens > 0
    assert cut.cost == pytest.approx(dollars(at.model, TokenUsage(heard, cut.tokens)))


@each_api
async def test_a_pause_before_the_first_word_closes_the_request(api: Api, place: Place) -> None:
    async with desk(api, replies((Wait(3_600), Text("Too late.")))) as at:
        agent = resumable(lambda run: run.stream("draft", lambda: at.ask("Well?")))
        async with place.open(agent) as mc:
            session = await mc.start(agent)
            await at.provider.wait_for_request(0)
            assert (await session.pause(until="stopped")).level == "stopped"
            assert (await at.provider.wait_for_close(0)).pieces == 0
            at.provider.script = replies(Text("In time."))
            await session.resume()
            assert await session.result() == "In time."


@each_api
async def test_a_redirect_closes_the_stream_and_the_next_request_has_the_instruction(api: Api, place: Place) -> None:
    async with desk(api, replies(LONG)) as at:
        agent = resumable(lambda run: run.stream("draft", lambda: at.ask(*(message.text for message in run.messages))))
        async with place.open(agent) as mc:
            session = await mc.start(agent, goal="An essay.")
            await at.provider.wait_for_request(0, pieces=5)
            at.provider.script = replies(Text("A poem."))
            await session.redirect("No: a poem.")
            assert await session.result() == "A poem."
        assert (await at.provider.wait_for_close(0)).pieces < 2_000
        first, second = at.provider.requests
        assert "a poem" not in first.body.decode()
        assert "No: a poem." in second.body.decode()


@each_api
async def test_a_cancel_closes_the_stream_and_nothing_is_asked_any_more(api: Api, place: Place) -> None:
    async with desk(api, replies(LONG)) as at:
        agent = resumable(lambda run: run.stream("draft", lambda: at.ask("Tell me everything.")))
        async with place.open(agent) as mc:
            session = await mc.start(agent)
            await at.provider.wait_for_request(0, pieces=5)
            assert (await session.cancel(until="stopped")).status == "cancelled"
            assert (await at.provider.wait_for_close(0)).pieces < 2_000
            assert types(await history(session))[-1] == "session.cancelled"
        assert len(at.provider.requests) == 1


@each_api
async def test_the_client_is_left_as_it_was_and_used_by_several_steps(api: Api, place: Place) -> None:
    async with desk(api, replies(Text("Yes."))) as at:

        async def function(run: midcourse.Run) -> list[str]:
            return [await run.stream("ask", lambda: at.ask("Well?")) for _ in range(3)]

        agent = resumable(function)
        async with place.open(agent) as mc:
            session = await mc.start(agent)
            assert await session.result() == ["Yes."] * 3
            await until(session, "session.completed")
        assert at.client.max_retries == 2
        assert not at.client.is_closed()
