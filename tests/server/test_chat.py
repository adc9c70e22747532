"""The chat contract, exactly: a message in, frames out; what the agent asks is answered once, by whoever was asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

import midcourse
from midcourse.runtime import fanout
from midcourse.runtime.fanout import PREVIEWS_KEPT
from midcourse.server import CallerLimits, stream
from tests.promises.harness import Place, resumable
from tests.server.live_server import TOKEN
from tests.server.stream_reader import (
    Latch,
    answering,
    chatting,
    count_of,
    events_of,
    eventually,
    opened,
    refusal,
    served,
    until_status,
)


async def say(*words: str) -> AsyncIterator[str]:
    """A model that says these words."""
    for word in words:
        yield word
        await asyncio.sleep(0)


def asker(*, prompts: tuple[str, ...] = ("Confirm delete?",), reason: str = "need_approval") -> midcourse.Agent[Any]:
    """Says something, asks, and returns what was answered."""

    async def agent(run: midcourse.Run) -> object:
        await run.stream("think", say, "I look. ", "Then I ask. ")
        answers = [await run.ask(prompt, reason=reason) for prompt in prompts]
        await run.stream("tell", say, "You said ", json.dumps(answers))
        return answers

    return resumable(agent)


async def made_token(client: httpx2.AsyncClient, name: str, role: str = "approve", **more: str) -> str:
    """Another caller's token."""
    response = await client.post("/tokens", json={"name": name, "role": role, **more})
    assert response.status_code == 201, response.text
    return response.json()["token"]


# ---- a turn


async def test_a_turn_is_told_as_deltas_tools_and_done(memory: Place) -> None:
    """The header names the session; each text, each tool's beginning and end, and the result at the end."""

    @midcourse.tool(effect="read")
    async def look(number: int) -> int:
        return number + 1

    async def agent(run: midcourse.Run) -> object:
        text = await run.stream("think", say, "one ", "two ", "three")
        return [text, await run.step("look", look, 41)]

    with served(memory, resumable(agent)) as server:
        async with server.client() as client, chatting(client) as chat:
            seen = await chat.rest()
            assert chat.response.headers["content-type"].startswith("text/event-stream")
            session = (await client.get(f"/sessions/{chat.session}")).json()
    assert chat.text == "one two three"
    kinds = [frame.type for frame in seen]
    assert set(kinds[:-3]) == {"delta"}
    assert kinds[-3:] == ["tool", "tool", "done"]
    begun, finished, done = (frame.data for frame in seen[-3:])
    assert (begun["name"], begun["state"], begun["effect"]) == ("look", "begun", "read")
    assert (finished["name"], finished["state"], finished["step"]) == ("look", "finished", begun["step"])
    assert done == {
        "type": "done",
        "session_id": chat.session,
        "status": "completed",
        "result": ["one two three", 42],
    }
    assert session["id"] == chat.session
    assert session["messages"][0]["text"] == "go"
    assert all(not frame.event for frame in seen), "a chat client reads plain messages"


async def test_a_request_that_is_made_again_is_told_and_its_text_comes_anew(memory: Place) -> None:
    """So that a person who waits knows what for."""
    errors = [ConnectionResetError("gone")]

    async def breaks() -> AsyncIterator[str]:
        yield "one "
        if errors:
            raise errors.pop()
        yield "two"

    async def agent(run: midcourse.Run) -> object:
        return await run.stream("think", breaks, retry=midcourse.Retry(3, first_wait=0.0))

    with served(memory, resumable(agent)) as server:
        async with server.client() as client, chatting(client) as chat:
            seen = [frame.data for frame in await chat.rest()]
    [told] = [one for one in seen if one["type"] == "retrying"]
    assert told == {
        "type": "retrying",
        "step": "1/think#1",
        "attempt": 1,
        "attempts": 3,
        "wait": 0.0,
        "detail": "ConnectionResetError: gone",
    }
    deltas = [one for one in seen if one["type"] == "delta"]
    assert "".join(one["text"] for one in deltas if one["attempt"] == 2) == "one two"
    assert (seen[-1]["type"], seen[-1]["result"]) == ("done", "one two")


async def test_json_is_read_whatever_the_content_type_says(memory: Place) -> None:
    """curl -d sends a form's type, others none at all."""
    with served(memory, asker()) as server:
        async with server.client() as client:
            for content_type in (None, "text/plain", "application/x-www-form-urlencoded", "nonsense"):
                headers = {} if content_type is None else {"Content-Type": content_type}
                body = json.dumps({"agent": "agent", "message": "go"}).encode()
                async with opened(client, "POST", "/chat", content=body, headers=headers) as chat:
                    await chat.until("interrupt")
                    body = json.dumps({"session_id": chat.session, "answer": "yes"}).encode()
                    async with opened(client, "POST", "/chat/resume", content=body, headers=headers) as resumed:
                        assert (await resumed.rest())[-1].data["result"] == ["yes"]


async def test_a_body_that_is_no_message_is_refused_with_its_field(memory: Place) -> None:
    """No session is made of it."""
    with served(memory, asker()) as server:
        async with server.client() as client:
            no_messages = (b"", b"[]", b'{"agent": "agent"}', b'{"agent": "agent", "message": ""}')
            for body in (*no_messages, b"{", b"\xff"):
                response = await client.post("/chat", content=body)
                told = (422, "invalid_input") if body in no_messages else (400, "unreadable_body")
                assert (response.status_code, response.json()["code"]) == told
                assert response.json()["field"]
            assert (await client.get("/sessions")).json()["sessions"] == []


async def test_an_ask_is_an_interrupt_and_no_done_follows(memory: Place) -> None:
    """The stream stays open, and waits with the client."""
    with served(memory, asker()) as server:
        async with server.client() as client, chatting(client) as chat:
            told = (await chat.until("interrupt")).data
            assert (told["reason"], told["prompt"]) == ("need_approval", "Confirm delete?")
            assert told["ask_id"] == "ask_1"
            assert told["checkpoint_id"].startswith(f"{chat.session}@")
            await until_status(client, chat.session, "waiting")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(chat.next(), 0.3)


async def test_the_answer_goes_on_with_the_same_kind_of_stream_and_the_waiting_one_closes(place: Place) -> None:
    """The waiting stream gets ``resumed`` as its last frame; what follows is on the new one alone."""
    with served(place, asker()) as server:
        async with server.client() as client, chatting(client) as chat:
            await chat.until("interrupt")
            async with answering(client, chat.session, "yes") as resumed:
                assert resumed.session == chat.session
                after = await resumed.rest()
            before = await chat.rest()
    assert before[-1].data == {"type": "resumed", "session_id": chat.session, "ask_id": "ask_1"}
    assert chat.text == "I look. Then I ask. "
    assert resumed.text == 'You said ["yes"]'
    assert after[-1].type == "done"
    assert after[-1].data["result"] == ["yes"]
    assert {frame.type for frame in after} == {"delta", "done"}


async def test_a_failed_agent_ends_the_stream_with_an_error(memory: Place) -> None:
    """Its code and its sentence are the session's."""

    async def agent(run: midcourse.Run) -> None:
        await run.stream("think", say, "hm ")
        raise RuntimeError("the table is gone")

    with served(memory, resumable(agent)) as server:
        async with server.client() as client, chatting(client) as chat:
            last = (await chat.rest())[-1].data
            failure = (await client.get(f"/sessions/{chat.session}")).json()["failure"]
    assert last["type"] == "error"
    assert last["code"] == failure["code"]
    assert "the table is gone" in last["message"]


async def test_a_cancelled_session_ends_the_stream_with_its_receipt(memory: Place) -> None:
    """That is the end of the turn, too."""
    with served(memory, asker()) as server:
        async with server.client() as client, chatting(client) as chat:
            await chat.until("interrupt")
            await client.post(f"/sessions/{chat.session}/cancel", json={"until": "stopped"})
            last = (await chat.rest())[-1].data
    assert (last["type"], last["status"], last["receipt"]) == ("done", "cancelled", [])


# ---- whose answer, and to what


async def test_with_several_asks_open_the_answer_must_name_one(place: Place) -> None:
    """The refusal lists them; naming them answers each, and each stream gives way to the next."""

    async def agent(run: midcourse.Run) -> object:
        return await asyncio.gather(*(run.ask(f"{name}?", reason="need_input", key=name) for name in ("red", "blue")))

    with served(place, resumable(agent)) as server:
        async with server.client() as client, chatting(client) as chat:
            asks = {}
            for _ in range(2):
                told = (await chat.until("interrupt")).data
                asks[told["prompt"]] = told["ask_id"]
            response = await client.post("/chat/resume", json={"session_id": chat.session, "answer": "x"})
            assert (response.status_code, response.json()["code"]) == (409, "ask_id_required")
            listed = {one["prompt"]: one["ask_id"] for one in response.json()["asks"]}
            assert listed == asks
            async with answering(client, chat.session, "r", ask_id=asks["red?"]) as first:
                assert (await chat.rest())[-1].type == "resumed"
                # One is left, and it was delivered to this caller: it needs no name.
                async with answering(client, chat.session, "b") as second:
                    assert (await second.rest())[-1].data["result"] == ["r", "b"]
                assert [frame.type for frame in await first.rest()] == ["resumed"]


async def test_who_was_not_shown_the_ask_must_name_it(place: Place) -> None:
    """Another caller's answer is not a guess: it says which ask it means, or watches first."""
    with served(place, asker()) as server:
        async with server.client() as client, AsyncExitStack() as stack:
            token = await made_token(client, "ann")
            ann = await stack.enter_async_context(server.client(token))
            chat = await stack.enter_async_context(chatting(client))
            await chat.until("interrupt")
            response = await ann.post("/chat/resume", json={"session_id": chat.session, "answer": "yes"})
            assert (response.status_code, response.json()["code"]) == (409, "ask_id_required")
            assert [one["ask_id"] for one in response.json()["asks"]] == ["ask_1"]
            async with opened(ann, "GET", f"/chat/{chat.session}") as watching:
                await watching.until("interrupt")
            async with answering(ann, chat.session, "yes") as resumed:
                assert (await resumed.rest())[-1].type == "done"


async def test_only_yes_approve_and_true_approve(memory: Place) -> None:
    """Everything else refuses, and what was said reaches the agent as it was said."""
    approve = ("yes", "YES", "approve", "Approve", "true", True)
    refuse = ("no", False, "yes, but only the old ones", 1, None, {"approved": True}, "")
    done: list[str] = []

    @midcourse.tool(effect="write", environment="prod")
    async def delete(what: str) -> str:
        done.append(what)
        return "deleted"

    async def agent(run: midcourse.Run) -> object:
        try:
            return await run.step("delete", delete, run.goal)
        except midcourse.StepError as error:
            return str(error)

    with served(memory, resumable(agent)) as server:
        async with server.client() as client:
            for answer in (*approve, *refuse):
                async with chatting(client, json.dumps(answer)) as chat:
                    told = (await chat.until("interrupt")).data
                    assert told["reason"] == "need_approval"
                    assert told["options"] == ["approve", "refuse"]
                    async with answering(client, chat.session, answer) as resumed:
                        result = (await resumed.rest())[-1].data["result"]
                if answer == "yes, but only the old ones":
                    assert answer in result
    assert done == [json.dumps(answer) for answer in approve]


async def test_an_answered_ask_is_already_resumed_for_everybody_else(place: Place) -> None:
    """Whether it is named or not, while the session goes on and after its end."""
    with served(place, asker()) as server:
        async with server.client() as client, AsyncExitStack() as stack:
            ann = await stack.enter_async_context(server.client(await made_token(client, "ann")))
            chat = await stack.enter_async_context(chatting(client))
            await chat.until("interrupt")
            async with answering(client, chat.session, "yes") as resumed:
                await resumed.rest()
            for body in ({"answer": "no"}, {"answer": "no", "ask_id": "ask_1"}, {"answer": "yes", "ask_id": "ask_1"}):
                assert await refusal(ann, "/chat/resume", {"session_id": chat.session, **body}) == (
                    409,
                    "already_resumed",
                )
            assert await refusal(client, "/chat/resume", {"session_id": chat.session, "answer": "no"}) == (
                409,
                "already_resumed",
            )
            assert await count_of(client, chat.session, "ask.answered") == 1


async def test_what_cannot_be_answered_any_more_is_checkpoint_not_found(place: Place) -> None:
    """No such session; one that never asked; asks that are unknown, expired, superseded or withdrawn."""
    latch = Latch()

    async def agent(run: midcourse.Run) -> object:
        if run.goal == "expire":
            try:
                await run.ask("Now?", expires=0.01)
            except midcourse.AskExpired:
                return "nobody"
        if run.goal == "ask":
            return await run.ask("Well?", on_redirect="raise")
        await run.step("wait", latch.wait)
        return None

    async def gone(client: httpx2.AsyncClient, session: str, **more: str) -> None:
        body = {"session_id": session, "answer": "yes", **more}
        assert await refusal(client, "/chat/resume", body) == (404, "checkpoint_not_found")

    with served(place, resumable(agent)) as server:
        async with server.client() as client, AsyncExitStack() as stack:
            await gone(client, "sess_unknown")
            silent = await stack.enter_async_context(chatting(client, "work"))
            await gone(client, silent.session)
            await gone(client, silent.session, ask_id="ask_1")
            await gone(client, silent.session, ask_id="nonsense")
            await gone(client, silent.session, ask_id="sess_other/ask_1")
            await gone(client, silent.session, ask_id=f"{silent.session}.child/ask_1")
            latch.set()
            await silent.rest()
            expired = await stack.enter_async_context(chatting(client, "expire"))
            await expired.rest()
            await gone(client, expired.session)
            await gone(client, expired.session, ask_id="ask_1")
            withdrawn = await stack.enter_async_context(chatting(client, "ask"))
            await withdrawn.until("interrupt")
            await gone(client, withdrawn.session, ask_id="ask_2")
            await client.post(f"/sessions/{withdrawn.session}/cancel", json={"until": "stopped"})
            await gone(client, withdrawn.session)
            await gone(client, withdrawn.session, ask_id="ask_1")
            superseded = await stack.enter_async_context(chatting(client, "ask"))
            await superseded.until("interrupt")
            await client.post(f"/sessions/{superseded.session}/redirect", json={"text": "never mind", "level": "step"})
            await gone(client, superseded.session, ask_id="ask_1")


async def test_the_same_body_again_counts_once_also_after_a_restart(place: Place) -> None:
    """The retry gets the stream from the answer on; who was shown the ask is durable."""
    with served(place, asker()) as server:
        async with server.client() as client, chatting(client) as chat:
            await chat.until("interrupt")
    session = chat.session
    with served(place, asker()) as server:
        async with server.client() as client:
            for _ in range(2):
                async with answering(client, session, "yes") as resumed:
                    assert (await resumed.rest())[-1].data["result"] == ["yes"]
                assert resumed.text == 'You said ["yes"]'
    with served(place, asker()) as server:
        async with server.client() as client:
            async with answering(client, session, "yes") as resumed:
                await resumed.rest()
            assert resumed.text == 'You said ["yes"]'
            assert await count_of(client, session, "ask.answered") == 1


async def test_a_retry_with_its_key_means_the_ask_it_meant(place: Place) -> None:
    """Although the next ask is open by then, and was delivered to the same caller."""
    with served(place, asker(prompts=("first?", "second?"), reason="need_input")) as server:
        async with server.client() as client, AsyncExitStack() as stack:
            chat = await stack.enter_async_context(chatting(client))
            await chat.until("interrupt")
            for _ in range(3):
                async with answering(client, chat.session, "yes", headers={"Idempotency-Key": "k1"}) as resumed:
                    assert (await resumed.until("interrupt")).data["prompt"] == "second?"
            assert await count_of(client, chat.session, "ask.answered") == 1
            async with answering(client, chat.session, "yes", headers={"Idempotency-Key": "k2"}) as resumed:
                assert (await resumed.rest())[-1].data["result"] == ["yes", "yes"]


async def test_of_different_answers_at_once_one_wins_and_all_are_told(place: Place) -> None:
    """Each of two callers, many times: one stream with that answer, and ``already_resumed`` for the other."""
    with served(place, asker(reason="need_input")) as server:
        async with server.client() as client, AsyncExitStack() as stack:
            others = [
                await stack.enter_async_context(server.client(await made_token(client, name)))
                for name in ("ann", "bob")
            ]
            for _ in range(8):
                async with chatting(client) as chat:
                    await chat.until("interrupt")
                    said = await asyncio.gather(
                        *(
                            other.post(
                                "/chat/resume", json={"session_id": chat.session, "answer": n, "ask_id": "ask_1"}
                            )
                            for n, other in enumerate(others)
                        )
                    )
                    codes = [response.status_code for response in said]
                    assert sorted(codes) == [200, 409]
                    winner = codes.index(200)
                    assert said[1 - winner].json()["code"] == "already_resumed"
                    assert f'"result":[{winner}]' in said[winner].text
                    [answered] = [one for one in await events_of(client, chat.session) if one["type"] == "ask.answered"]
                    assert answered["data"]["by"] == ("ann", "bob")[winner]


async def test_a_childs_ask_is_an_interrupt_of_the_parent(place: Place) -> None:
    """It is answered there, also by a retry after the end, which gets the same rest."""

    async def child(run: midcourse.Run) -> object:
        return await run.ask("May I?", reason="need_input")

    kid = resumable(child, name="kid")

    async def parent(run: midcourse.Run) -> object:
        said = await run.spawn(kid, "ask")
        await run.stream("tell", say, "The child heard ", str(said))
        return said

    with served(place, resumable(parent), kid) as server:
        async with server.client() as client, chatting(client) as chat:
            told = (await chat.until("interrupt")).data
            assert told["ask_id"].startswith(f"{chat.session}.")
            assert told["ask_id"].endswith("/ask_1")
            async with answering(client, chat.session, "sure") as resumed:
                assert (await resumed.rest())[-1].data["result"] == "sure"
            assert (await chat.rest())[-1].data["type"] == "resumed"
            async with answering(client, chat.session, "sure") as again:
                assert (await again.rest())[-1].data["result"] == "sure"
            assert resumed.text == again.text == "The child heard sure"
            assert await refusal(client, "/chat/resume", {"session_id": chat.session, "answer": "no"}) == (
                409,
                "already_resumed",
            )


# ---- further messages


def talker(latch: Latch | None = None) -> midcourse.Agent[Any]:
    """Repeats the last message of each turn; the first turn waits for ``latch``."""

    async def agent(run: midcourse.Run) -> object:
        last = run.messages[-1].text
        if latch is not None and run.turn == 1:
            await run.step("wait", latch.wait)
        await run.stream("echo", say, f"turn {run.turn}: ", last)
        return last

    return resumable(agent)


async def test_a_message_to_an_ended_session_is_its_next_turn(place: Place) -> None:
    """Its stream shows that turn and no other."""
    with served(place, talker()) as server:
        async with server.client() as client:
            async with chatting(client, "hello") as chat:
                await chat.rest()
            async with chatting(client, "again", session_id=chat.session) as second:
                assert (await second.rest())[-1].data["result"] == "again"
            assert (chat.text, second.text) == ("turn 1: hello", "turn 2: again")
            assert second.session == chat.session


async def test_a_message_while_it_works_waits_and_its_stream_shows_only_its_turn(place: Place) -> None:
    """Two of them wait in a row; each stream ends with its own result."""
    latch = Latch()
    with served(place, talker(latch)) as server:
        async with server.client() as client, AsyncExitStack() as stack:
            first = await stack.enter_async_context(chatting(client, "one"))
            await first.until("tool")
            second = await stack.enter_async_context(chatting(client, "two", session_id=first.session))
            third = await stack.enter_async_context(chatting(client, "three", session_id=first.session))
            assert await count_of(client, first.session, "message.queued") == 2
            latch.set()
            for stream, text in ((first, "one"), (second, "two"), (third, "three")):
                assert (await stream.rest())[-1].data["result"] == text
    assert (second.text, third.text) == ("turn 2: two", "turn 3: three")


async def test_a_queued_message_that_is_withdrawn_or_behind_a_failure_is_told_so(place: Place) -> None:
    """Its stream does not wait for ever."""
    latch = Latch()

    async def agent(run: midcourse.Run) -> None:
        await run.step("wait", latch.wait)
        raise RuntimeError("out of paper")

    with served(place, resumable(agent)) as server:
        async with server.client() as client, AsyncExitStack() as stack:
            first = await stack.enter_async_context(chatting(client, "one"))
            await first.until("tool")
            second = await stack.enter_async_context(chatting(client, "two", session_id=first.session))
            third = await stack.enter_async_context(chatting(client, "three", session_id=first.session))
            response = await client.delete(f"/sessions/{first.session}/messages/queued_1")
            assert response.status_code == 200
            assert (await second.rest())[-1].data["code"] == "message_withdrawn"
            latch.set()
            assert (await first.rest())[-1].type == "error"
            told = (await third.rest())[-1].data
            assert told["type"] == "error"
            assert "out of paper" in told["message"]


async def test_a_message_may_change_the_course_or_be_refused_while_it_works(memory: Place) -> None:
    """``redirect`` is what the model sees next; ``reject`` is refused as busy and changes nothing."""
    latch = Latch()

    async def agent(run: midcourse.Run) -> str:
        async def write() -> AsyncIterator[str]:
            yield f"about {run.messages[-1].text} "
            await latch.wait()

        return await run.stream("write", write)

    with served(memory, resumable(agent)) as server:
        async with server.client() as client, AsyncExitStack() as stack:
            first = await stack.enter_async_context(chatting(client, "cats"))
            await first.until("delta")
            body = {"agent": "agent", "message": "birds", "session_id": first.session, "behaviour": "reject"}
            assert await refusal(client, "/chat", body) == (409, "busy")
            second = await stack.enter_async_context(
                chatting(client, "dogs", session_id=first.session, behaviour="redirect")
            )
            latch.set()
            assert (await second.rest())[-1].data["result"] == "about dogs "
            await first.rest()
    # What was cut stays, and the new attempt is told apart from it.
    assert [(f.data["attempt"], f.data["text"]) for f in first.seen if f.type == "delta"] == [
        (1, "about cats "),
        (2, "about dogs "),
    ]


async def test_another_agents_session_and_an_unknown_agent_are_refused(memory: Place) -> None:
    """Nothing is started or said."""
    with served(memory, asker()) as server:
        async with server.client() as client, chatting(client) as chat:
            await chat.until("interrupt")
            body = {"agent": "other", "message": "hi", "session_id": chat.session}
            assert await refusal(client, "/chat", body) == (409, "agent_mismatch")
            assert (await refusal(client, "/chat", {"agent": "nobody", "message": "hi"}))[1] == "agent_unavailable"
            assert len((await client.get("/sessions")).json()["sessions"]) == 1


# ---- a stream that is whole


@pytest.mark.parametrize("kept", [1, 7, PREVIEWS_KEPT])
async def test_the_text_is_whole_and_without_repeats_for_a_slow_reader(
    place: Place, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """Previews that were dropped meanwhile come as durable text; what was shown is not shown again."""
    monkeypatch.setattr(fanout, "PREVIEWS_KEPT", kept)
    words = [f"{number} " for number in range(2000)]
    spoken = Latch()

    async def speak() -> AsyncIterator[str]:
        for number, word in enumerate(words):
            yield word
            if number % 70 == 0:
                await asyncio.sleep(0.005)

    async def agent(run: midcourse.Run) -> int:
        text = await run.stream("speak", speak)
        spoken.set()
        return len(text)

    with served(place, resumable(agent)) as server:
        async with server.client() as client, chatting(client) as chat:
            await chat.until("delta")
            await spoken.wait()
            await chat.rest()
    assert chat.text == "".join(words)
    offsets = [(frame.data["offset"], len(frame.data["text"])) for frame in chat.seen if frame.type == "delta"]
    assert [offset for offset, _ in offsets] == [sum(size for _, size in offsets[:n]) for n in range(len(offsets))]


@pytest.mark.parametrize("on_cut", ["regenerate", "continue"])
async def test_a_stream_that_was_cut_is_shown_on_in_its_next_attempt(memory: Place, on_cut: Any) -> None:
    """From the start, or from where it was cut: the frames say which text stands."""
    watched, spoken, may_end = Latch(), Latch(), Latch()

    async def speak() -> AsyncIterator[str]:
        call = midcourse.current_call()
        if call.attempt == 1:
            yield "It was a dark "
            spoken.set()
            await asyncio.sleep(3600)
        if not call.prefix:
            yield "It was a dark "
        yield "and stormy night"
        await may_end.wait()

    async def agent(run: midcourse.Run) -> str:
        await run.step("wait", watched.wait)
        return await run.stream("speak", speak, on_cut=on_cut)

    # No segment is written before the stream ends or is cut.
    unhurried = midcourse.Settings(poll=0.05, segment_seconds=3600)
    with served(memory, resumable(agent), settings=unhurried) as server:
        async with server.client() as client, chatting(client) as chat:
            await chat.until("tool")
            watched.set()
            await spoken.wait()
            await chat.until("delta")
            await client.post(f"/sessions/{chat.session}/pause", json={"until": "stopped"})
            await client.post(f"/sessions/{chat.session}/resume")
            # As a preview already: the call has not ended.
            while (await chat.until("delta")).data["text"] != "and stormy night":
                pass
            may_end.set()
            done = (await chat.rest())[-1].data
    assert done["result"] == "It was a dark and stormy night"
    text = ""
    for frame in chat.seen:
        if frame.type == "delta":
            text = text[: frame.data["offset"]] + frame.data["text"]
    assert text == done["result"]
    assert len([f for f in chat.seen if f.type == "delta"]) == (2 if on_cut == "continue" else 3)


async def test_a_client_that_goes_away_cancels_nothing(place: Place) -> None:
    """The session ends by itself, and its frames can be had again from any point."""
    latch = Latch()

    @midcourse.tool(effect="read")
    async def wait() -> str:
        await latch.wait()
        return "waited"

    async def agent(run: midcourse.Run) -> str:
        await run.stream("think", say, "a ", "b ")
        await run.step("wait", wait)
        await run.stream("tell", say, "c ", "d")
        return "end"

    with served(place, resumable(agent)) as server:
        async with server.client() as client:
            async with chatting(client) as chat:
                seen = await chat.until("tool")
            latch.set()
            await until_status(client, chat.session, "completed")
            header = {"Last-Event-ID": seen.id}
            async with opened(client, "GET", f"/chat/{chat.session}", headers=header) as back:
                rest = await back.rest()
            async with opened(client, "GET", f"/chat/{chat.session}") as whole:
                await whole.rest()
    assert back.text == "c d"
    assert whole.text == "a b c d"
    assert [frame.data["state"] for frame in rest if frame.type == "tool"] == ["finished"]
    assert rest[-1].data["result"] == "end"


async def test_a_client_that_comes_back_to_an_open_ask_waits_as_before(place: Place) -> None:
    """The answer closes its stream with ``resumed``, as it would have closed the first."""
    with served(place, asker()) as server:
        async with server.client() as client:
            async with chatting(client) as chat:
                asked = await chat.until("interrupt")
            header = {"Last-Event-ID": asked.id}
            async with opened(client, "GET", f"/chat/{chat.session}", headers=header) as back:
                async with answering(client, chat.session, "yes") as resumed:
                    await resumed.rest()
                rest = await back.rest()
            assert [frame.type for frame in rest] == ["resumed"]
            # And it goes on from there, if it wants to see the rest once more.
            header = {"Last-Event-ID": rest[0].id}
            async with opened(client, "GET", f"/chat/{chat.session}", headers=header) as more:
                assert (await more.rest())[-1].type == "done"
            assert more.text == resumed.text


async def test_a_chat_can_be_followed_frame_by_frame_over_many_connections(place: Place) -> None:
    """Each time one durable frame, then a lost connection: in the end all of it, nothing twice."""

    async def agent(run: midcourse.Run) -> str:
        for number in range(4):
            await run.stream("say", say, f"{number} ")
            await run.step("look", _look, number)
        return "end"

    with served(place, resumable(agent)) as server:
        async with server.client() as client:
            async with chatting(client) as chat:
                whole = await chat.rest()
            seen: list[Any] = []
            last = "0"
            while not seen or seen[-1].type != "done":
                async with opened(client, "GET", f"/chat/{chat.session}", headers={"Last-Event-ID": last}) as one:
                    seen.append(await one.next())
                last = seen[-1].id
    told = [(f.type, f.data.get("state"), f.data.get("step")) for f in whole]
    assert [(f.type, f.data.get("state"), f.data.get("step")) for f in seen] == told


@midcourse.tool(effect="read")
async def _look(number: int) -> int:
    """A look at a number."""
    return number


async def test_the_key_of_a_first_message_starts_one_session(place: Place) -> None:
    """Retried, also at the same time, and whether the client chose the id or not; another message needs another key."""
    with served(place, talker()) as server:
        async with server.client() as client:
            for chosen in ({}, {"session_id": "sess_mine"}):
                header = {"Idempotency-Key": f"k{len(chosen)}"}
                body = {"agent": "agent", "message": "hello", **chosen}
                said = await asyncio.gather(*(client.post("/chat", json=body, headers=header) for _ in range(5)))
                said.append(await client.post("/chat", json=body, headers=header))
                assert {response.status_code for response in said} == {200}
                [session] = {response.headers["x-session-id"] for response in said}
                texts = ["".join(_texts(response.text)) for response in said]
                assert texts == ["turn 1: hello"] * 6
                assert await count_of(client, session, "session.turn_opened") == 0
                other = await client.post("/chat", json={**body, "message": "bye"}, headers=header)
                assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
            assert len((await client.get("/sessions")).json()["sessions"]) == 2
            # A key that made a session elsewhere is used up, too.
            keyed = {"Idempotency-Key": "made"}
            await client.post("/sessions", json={"agent": "agent", "goal": "hello"}, headers=keyed)
            response = await client.post("/chat", json={"agent": "agent", "message": "bye"}, headers=keyed)
            assert (response.status_code, response.json()["code"]) == (422, "idempotency_key_reused")
            # Another key is another message.
            async with chatting(client, "hello", session_id="sess_mine", headers={"Idempotency-Key": "k9"}) as chat:
                await chat.rest()
            assert chat.text == "turn 2: hello"


async def test_a_key_whose_message_was_refused_has_begun_nothing(memory: Place) -> None:
    """Somebody else begins the session meanwhile: what is sent again is said, and not taken for its first message."""
    with served(memory, talker()) as server:
        async with server.client() as client:
            header = {"Idempotency-Key": "k1"}
            body = {"agent": "agent", "message": "hello", "session_id": "sess_ours"}
            refused = await client.post("/chat", json={**body, "agent": "misspelt"}, headers=header)
            assert (refused.status_code, refused.json()["code"]) == (422, "agent_unavailable")
            async with server.client(await made_token(client, "ben")) as ben:
                await ben.post("/chat", json=body)
            said = await client.post("/chat", json=body, headers=header)
            assert "".join(_texts(said.text)) == "turn 2: hello"


def _texts(content: str) -> list[str]:
    frames = [json.loads(line.removeprefix("data: ")) for line in content.splitlines() if line.startswith("data: ")]
    return [frame["text"] for frame in frames if frame["type"] == "delta"]


async def test_the_key_of_a_later_message_says_it_once(place: Place) -> None:
    """The retry's stream shows that turn again."""
    with served(place, talker()) as server:
        async with server.client() as client:
            async with chatting(client, "hello") as chat:
                await chat.rest()
            for _ in range(2):
                async with chatting(
                    client, "again", session_id=chat.session, headers={"Idempotency-Key": "k"}
                ) as second:
                    await second.rest()
                assert second.text == "turn 2: again"
            assert await count_of(client, chat.session, "session.turn_opened") == 1


async def test_silence_is_filled_with_comments(memory: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no proxy takes the stream for dead; they carry no data and no id."""
    monkeypatch.setattr(stream, "KEEP_ALIVE", 0.05)
    with served(memory, asker()) as server:
        async with server.client() as client, chatting(client) as chat:
            await chat.until("interrupt")
            comments = [await anext(chat.frames) for _ in range(3)]
    assert all(one.comment and not one.data and not one.id for one in comments)


async def test_a_page_of_another_site_can_neither_chat_nor_answer(memory: Place) -> None:
    """Whatever its content type; our own page may."""
    with served(memory, asker()) as server:
        async with server.client() as client:
            origin = {"Origin": "https://elsewhere.example"}
            for path in ("/chat", "/chat/resume"):
                response = await client.post(path, content=b"{}", headers=origin)
                assert (response.status_code, response.json()["code"]) == (403, "origin_not_allowed")
            async with chatting(client, headers={"Origin": server.url}) as chat:
                await chat.until("interrupt")
            async with httpx2.AsyncClient(base_url=server.api, timeout=30) as browser:
                entered = await browser.post("/login", json={"credential": TOKEN})
                page = {"Midcourse-Page": entered.json()["page_key"], "Origin": "null"}
                response = await browser.post("/chat", content=b"{}", headers=page)
                assert response.status_code == 403


async def test_without_a_place_for_the_stream_nothing_is_started_or_answered(memory: Place) -> None:
    """429 comes before the effect, so that trying again later is no second message."""
    with served(memory, asker(), limits=CallerLimits(streams_each=1)) as server:
        async with server.client() as client:
            async with chatting(client) as chat:
                await chat.until("interrupt")
                body = {"agent": "agent", "message": "hi"}
                assert await refusal(client, "/chat", body) == (429, "too_many_streams")
                answer = {"session_id": chat.session, "answer": "yes"}
                assert await refusal(client, "/chat/resume", answer) == (429, "too_many_streams")
                assert len((await client.get("/sessions")).json()["sessions"]) == 1
                assert await count_of(client, chat.session, "ask.answered") == 0

            async def look() -> int:
                return len(server.server.app.state.streams)

            await eventually(look, lambda count: count == 0)
            async with answering(client, chat.session, "yes") as resumed:
                assert (await resumed.rest())[-1].type == "done"
