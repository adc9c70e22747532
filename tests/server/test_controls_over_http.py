"""Every control over HTTP: what is answered is what is known, each wish counts once, and one outcome is told to all."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import httpx2

import midcourse
from midcourse.runtime.tools import declared_tool, register
from midcourse.server import CallerLimits
from tests.promises.harness import Place, resumable
from tests.server.server_process import alone
from tests.server.stream_reader import (
    Data,
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

PLENTY = CallerLimits(rate=10_000, burst=10_000)


class Work:
    """An agent at work in a tool that ends when it may, then in another that can be undone."""

    def __init__(self, **declared: Any) -> None:
        self.entered, self.may_end = Latch(), Latch()
        self.written: list[str] = []
        declared = {"effect": "idempotent", "settle": 0.0, **declared}
        self.hold = declared_tool(self._hold, name="hold", origin=f"{__name__}:hold", **declared)
        self.write = declared_tool(
            self._write, name="write", origin=f"{__name__}:write", effect="write", undo=self._erase, settle=0.0
        )
        register(self.write)

    async def _hold(self) -> str:
        self.entered.set()
        await self.may_end.wait()
        return "held"

    async def _write(self, text: str) -> str:
        self.written.append(text)
        return text

    async def _erase(self, arguments: Any, result: object, key: str) -> None:
        del result, key
        self.written.remove(arguments["text"])

    @property
    def agent(self) -> midcourse.Agent[Any]:
        """Writes, works, tells what it was told."""

        async def agent(run: midcourse.Run) -> object:
            await run.step("write", self.write, run.goal)
            await run.step("hold", self.hold)
            return [message.text for message in run.messages]

        return resumable(agent)


async def started(client: httpx2.AsyncClient, goal: str = "goal", **more: Any) -> str:
    """A new session of the agent ``agent``."""
    response = await client.post("/sessions", json={"agent": "agent", "goal": goal, **more})
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def told(client: httpx2.AsyncClient, session: str, verb: str, body: Data | None = None, **headers: str) -> Data:
    """What a control that must be granted answers."""
    response = await client.post(f"/sessions/{session}/{verb}", json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


async def result(client: httpx2.AsyncClient, session: str) -> Any:
    """What the agent returned."""
    found = (await client.get(f"/sessions/{session}/result", params={"wait": 30})).json()
    assert found["ended"], found
    return found["result"]


# ---- each verb


async def test_a_pause_tells_its_level_and_every_call_that_runs(place: Place) -> None:
    """``stopping`` while a call lives, ``stopped`` when none does; resume goes on where it was."""
    work = Work()
    with served(place, work.agent) as server:
        async with server.client() as client:
            session = await started(client)
            await work.entered.wait()
            pausing = await told(client, session, "pause", {"reason": "let me read"})
            assert (pausing["level"], pausing["status"], pausing["pause"]) == ("stopping", "pausing", "pause_1")
            [call] = pausing["running"]
            assert (call["name"], call["kind"], call["attempt"]) == ("hold", "tool", 1)
            assert "still running: hold" in pausing["sentence"]
            stopped = asyncio.create_task(told(client, session, "pause", {"until": "stopped", "wait": 30}))
            work.may_end.set()
            assert ((await stopped)["level"], (await stopped)["running"]) == ("stopped", [])
            shown = (await client.get(f"/sessions/{session}")).json()
            assert (shown["status"], shown["pause"]["reason"]) == ("paused", "let me read")
            assert "resume" in shown["allowed"]
            resumed = await told(client, session, "resume", {"pause": "pause_1"})
            assert resumed["level"] == "decided"
            assert await result(client, session) == ["goal"]


async def test_wait_bounds_the_waiting_and_the_answer_is_what_is_known(memory: Place) -> None:
    """A pause that waits for the end of a call, for no time at all, is answered as far as it has got."""
    work = Work()
    with served(memory, work.agent) as server:
        async with server.client() as client:
            session = await started(client)
            await work.entered.wait()
            reply = await told(client, session, "pause", {"until": "stopped", "wait": 0.05})
            assert (reply["level"], [call["name"] for call in reply["running"]]) == ("stopping", ["hold"])
            work.may_end.set()


async def test_a_pause_without_grace_aborts_what_may_be_aborted(memory: Place) -> None:
    """Then nothing runs, and resume does the call again."""
    work = Work()
    with served(memory, work.agent) as server:
        async with server.client() as client:
            session = await started(client)
            await work.entered.wait()
            reply = await told(client, session, "pause", {"grace": 0, "until": "stopped", "wait": 30})
            assert (reply["level"], reply["running"]) == ("stopped", [])
            work.may_end.set()
            await told(client, session, "resume")
            assert await result(client, session) == ["goal"]
            begun = [one["data"]["attempt"] for one in await events_of(client, session) if one["type"] == "step.begun"]
            assert begun == [1, 1, 2]


async def test_a_redirect_can_be_edited_and_withdrawn_until_it_was_seen(memory: Place) -> None:
    """The answer names the message; what the agent has seen stands as it is."""
    work = Work()
    with served(memory, work.agent) as server:
        async with server.client() as client:
            session = await started(client)
            await work.entered.wait()
            await told(client, session, "pause")
            first = await told(client, session, "redirect", {"text": "be brif", "level": "step"})
            second = await told(client, session, "redirect", {"text": "no, be long", "level": "clarify"})
            assert (first["message"], second["message"]) == ("msg_2", "msg_3")
            edited = await client.patch(f"/sessions/{session}/messages/msg_2", json={"text": "be brief"})
            assert edited.status_code == 200
            assert (await client.delete(f"/sessions/{session}/messages/msg_3")).status_code == 200
            again = await client.delete(f"/sessions/{session}/messages/msg_3")
            assert (again.status_code, again.json()["code"]) == (409, "message_seen")
            never = await client.delete(f"/sessions/{session}/messages/msg_9")
            assert (never.status_code, never.json()["code"]) == (404, "message_not_found")
            work.may_end.set()
            await told(client, session, "resume")
            assert await result(client, session) == ["goal", "be brief"]
            late = await client.patch(f"/sessions/{session}/messages/msg_2", json={"text": "too late"})
            assert (late.status_code, late.json()["code"]) == (409, "message_seen")


async def test_a_cancel_shows_its_preview_and_leaves_a_receipt(place: Place) -> None:
    """What the preview says of each choice, the receipt says of the one that was made."""
    work = Work()
    with served(place, work.agent) as server:
        async with server.client() as client:
            session = await started(client, "draft")
            await work.entered.wait()
            preview = (await client.get(f"/sessions/{session}/cancel/preview")).json()
            assert set(preview) == {"none", "in-flight", "all"}

            def outcomes(receipt: Data) -> dict[str, str]:
                return {line["name"]: line["outcome"] for line in receipt["lines"]}

            assert outcomes(preview["all"])["write"] == "undone"
            assert outcomes(preview["none"])["write"] == "kept"
            assert work.written == ["draft"], "a preview changes nothing"
            reply = await told(client, session, "cancel", {"undo": "all", "grace": 0, "until": "stopped", "wait": 30})
            assert (reply["level"], reply["status"]) == ("stopped", "cancelled")
            assert {line["name"]: line["outcome"] for line in reply["receipt"]}["write"] == "undone"
            assert work.written == []
            receipt = (await client.get(f"/sessions/{session}/receipt")).json()
            assert receipt["final"] is True
            assert outcomes(receipt)["write"] == "undone"
            again = await told(client, session, "cancel")
            assert (again["level"], again["receipt"]) == ("stopped", reply["receipt"])
            found = (await client.get(f"/sessions/{session}/result")).json()
            assert (found["status"], found["ended"], found["result"]) == ("cancelled", True, None)


async def test_an_ended_session_can_be_undone(place: Place) -> None:
    """The answer carries the receipt, once that is final. Before its end it is refused, with what to do instead."""
    work = Work()
    with served(place, work.agent) as server:
        async with server.client() as client:
            session = await started(client, "draft")
            await work.entered.wait()
            assert await refusal(client, f"/sessions/{session}/undo", {}) == (409, "not_allowed")
            work.may_end.set()
            await result(client, session)
            reply = await told(client, session, "undo", {"reason": "wrong folder"})
            assert [(line["name"], line["outcome"]) for line in reply["receipt"] if line["name"] == "write"] == [
                ("write", "undone")
            ]
            assert work.written == []


async def test_an_ask_is_answered_once(place: Place) -> None:
    """By name or without, and never again."""

    async def agent(run: midcourse.Run) -> object:
        return [await run.ask("First?"), await run.ask("Second?")]

    with served(place, resumable(agent)) as server:
        async with server.client() as client:
            session = await started(client)
            await until_status(client, session, "waiting")
            assert await refusal(client, f"/sessions/{session}/answer", {"value": 1, "ask": "ask_7"}) == (
                404,
                "ask_not_found",
            )
            outsider = {"value": 1, "ask": "sess_other/ask_1"}
            assert await refusal(client, f"/sessions/{session}/answer", outsider) == (422, "invalid_input")
            await told(client, session, "answer", {"value": {"n": 1}, "ask": "ask_1"})
            assert await refusal(client, f"/sessions/{session}/answer", {"value": 2, "ask": "ask_1"}) == (
                409,
                "already_answered",
            )

            async def asks() -> list[Data]:
                return (await client.get(f"/sessions/{session}")).json()["asks"]

            await eventually(asks, lambda found: [one["id"] for one in found] == ["ask_2"])
            await told(client, session, "answer", {"value": "two"})
            assert await result(client, session) == [{"n": 1}, "two"]
            assert await refusal(client, f"/sessions/{session}/answer", {"value": 2}) == (409, "session_ended")


async def test_a_budget_is_raised_and_an_event_is_told(memory: Place) -> None:
    """A session that stands at its budget goes on; an outside event is what the agent reads next."""
    work = Work()
    with served(memory, work.agent) as server:
        async with server.client() as client:
            session = await started(client, budget=1.5, task_class="short")
            await work.entered.wait()
            shown = (await client.get(f"/sessions/{session}")).json()
            assert (shown["terms"]["budget"], shown["terms"]["task_class"]) == (1.5, "short")
            await told(client, session, "pause")
            await told(client, session, "event", {"text": "The price list was replaced", "source": "erp"})
            assert await refusal(client, f"/sessions/{session}/budget", {"budget": 1}) == (409, "not_raised")
            reply = await told(client, session, "budget", {"budget": 20})
            assert reply["status"] == "running"
            work.may_end.set()
            assert "The price list was replaced" in (await result(client, session))[1]


# ---- once


async def test_a_key_makes_a_retry_the_same_command(place: Place) -> None:
    """A double click, a retried POST and fifty at once are one event, and each is told the same."""
    work = Work()
    with served(place, work.agent, limits=PLENTY) as server:
        async with server.client() as client:
            session = await started(client)
            await work.entered.wait()
            body = {"text": "be brief", "level": "step"}
            said = await asyncio.gather(
                *(told(client, session, "redirect", body, **{"Idempotency-Key": "click"}) for _ in range(50))
            )
            said.append(await told(client, session, "redirect", body, **{"Idempotency-Key": "click"}))
            assert {(one["message"], one["position"]) for one in said} == {("msg_2", said[0]["position"])}
            assert await count_of(client, session, "session.redirected") == 1
            for verb, other in (("redirect", {"text": "be long", "level": "step"}), ("pause", {})):
                response = await client.post(
                    f"/sessions/{session}/{verb}", json=other, headers={"Idempotency-Key": "click"}
                )
                assert (response.status_code, response.json()["code"]) == (422, "command_id_taken")
            await told(client, session, "redirect", body, **{"Idempotency-Key": "another"})
            assert await count_of(client, session, "session.redirected") == 2
            work.may_end.set()


async def test_a_key_belongs_to_its_caller(memory: Place) -> None:
    """Two people may use the same words."""
    work = Work()
    with served(memory, work.agent) as server:
        async with server.client() as client:
            made = await client.post("/tokens", json={"name": "ann", "role": "steer"})
            async with server.client(made.json()["token"]) as ann:
                session = await started(client)
                await work.entered.wait()
                await told(client, session, "redirect", {"text": "a", "level": "step"}, **{"Idempotency-Key": "1"})
                await told(ann, session, "redirect", {"text": "b", "level": "step"}, **{"Idempotency-Key": "1"})
                by = [m["by"] for m in (await client.get(f"/sessions/{session}")).json()["messages"]]
                assert by == ["local", "local", "ann"]
            work.may_end.set()
            for key in ("", "x" * 129, "caf\u00e9"):
                response = await client.post(
                    f"/sessions/{session}/pause", headers=[(b"Idempotency-Key", key.encode("latin-1"))]
                )
                assert (response.status_code, response.json()["code"]) == (422, "invalid_input")


async def test_if_match_refuses_what_was_meant_for_an_earlier_state(place: Place) -> None:
    """The ETag that a person saw: still true, weakened by a proxy, ``*``, a list's tail, or stale."""
    work = Work()
    with served(place, work.agent) as server:
        async with server.client() as client:
            session = await started(client)
            await work.entered.wait()
            etag = (await client.get(f"/sessions/{session}")).headers["etag"]
            assert etag.startswith('"')
            assert etag == (await client.get(f"/sessions/{session}")).json()["etag"]
            await told(client, session, "redirect", {"text": "a", "level": "step"}, **{"If-Match": etag})
            for verb, body in (
                ("redirect", {"text": "b", "level": "step"}),
                ("pause", {}),
                ("cancel", {}),
                ("resume", {}),
            ):
                response = await client.post(f"/sessions/{session}/{verb}", json=body, headers={"If-Match": etag})
                assert (response.status_code, response.json()["code"]) == (412, "precondition_failed")
            await told(client, session, "redirect", {"text": "c", "level": "step"}, **{"If-Match": "*"})
            etag = (await client.get(f"/sessions/{session}")).headers["etag"]
            await told(client, session, "pause", None, **{"If-Match": f"W/{etag}"})
            assert await count_of(client, session, "session.redirected") == 2
            work.may_end.set()


async def test_a_resume_lifts_the_pause_it_names_and_no_other(place: Place) -> None:
    """In the body, or in If-Match; a late one is ``already_resumed``, a pause that never was is not found."""
    work = Work()
    with served(place, work.agent) as server:
        async with server.client() as client:
            session = await started(client)
            await work.entered.wait()
            assert (await told(client, session, "pause"))["pause"] == "pause_1"
            await told(client, session, "resume", None, **{"If-Match": '"pause_1"'})
            assert (await told(client, session, "pause"))["pause"] == "pause_2"
            late = await client.post(f"/sessions/{session}/resume", headers={"If-Match": "pause_1"})
            assert (late.status_code, late.json()["code"]) == (409, "already_resumed")
            assert await refusal(client, f"/sessions/{session}/resume", {"pause": "pause_1"}) == (
                409,
                "already_resumed",
            )
            assert await refusal(client, f"/sessions/{session}/resume", {"pause": "pause_9"}) == (
                404,
                "checkpoint_not_found",
            )
            await told(client, session, "resume", {"pause": "pause_2"})
            assert await refusal(client, f"/sessions/{session}/resume", {}) == (409, "already_resumed")
            work.may_end.set()


async def test_of_a_hundred_resumes_one_wins(place: Place) -> None:
    """Promise 3, over HTTP: the others are told ``already_resumed``, and it is resumed once."""
    work = Work()
    with served(place, work.agent, limits=PLENTY) as server:
        async with server.client() as client:
            session = await started(client)
            await work.entered.wait()
            await told(client, session, "pause")
            said = await asyncio.gather(*(client.post(f"/sessions/{session}/resume") for _ in range(100)))
            assert sorted(response.status_code for response in said) == [200] + [409] * 99
            assert {response.json().get("code") for response in said} == {None, "already_resumed"}
            assert await count_of(client, session, "session.resumed") == 1
            work.may_end.set()
            assert await result(client, session) == ["goal"]


async def test_different_buttons_at_once_have_one_outcome_that_all_are_told(place: Place) -> None:
    """Pause, resume, an event and a cancel in the same moment, many times: each answer agrees with the journal."""

    @midcourse.tool(effect="idempotent", settle=0.0)
    async def turn(number: int) -> int:
        await asyncio.sleep(0.002)
        return number

    async def agent(run: midcourse.Run) -> None:
        for number in range(10_000):
            await run.step("turn", turn, number)

    with served(place, resumable(agent), limits=PLENTY) as server:
        async with server.client() as client, server.client() as other:
            for _ in range(8):
                session = await started(client)
                await until_status(client, session, "running")
                verbs = ("pause", "resume", "cancel", "pause", "event", "resume")
                said = await asyncio.gather(
                    *(
                        (client, other)[number % 2].post(
                            f"/sessions/{session}/{verb}",
                            json={"text": "left"} if verb == "event" else {"grace": 0} if verb == "cancel" else {},
                        )
                        for number, verb in enumerate(verbs)
                    )
                )
                await until_status(client, session, "cancelled")
                events = await events_of(client, session)
                granted = [verb for verb, response in zip(verbs, said, strict=True) if response.status_code == 200]
                assert "cancel" in granted
                kinds = [one["type"] for one in events]
                # Whoever was told yes finds it in the journal; whoever was told no, or nothing new, does not.
                assert granted.count("resume") == kinds.count("session.resumed")
                assert granted.count("event") == kinds.count("session.redirected")
                assert kinds.count("session.pause_requested") <= granted.count("pause")
                assert kinds.count("session.cancel_requested") == kinds.count("session.cancelled") == 1
                # It may be taken once more, to refuse who came too late.
                assert set(kinds[kinds.index("session.cancelled") + 1 :]) <= {"session.taken"}
                for response in said:
                    if response.status_code == 409:
                        assert response.json()["code"] in ("already_resumed", "not_allowed", "session_ended")
                        assert response.json()["session_id"] == session
                    else:
                        assert response.json()["position"] <= len(events)
                        assert response.json()["durable"] is True


# ---- an owner that is silent


async def test_a_command_to_a_silent_owner_is_accepted_and_kept(memory: Place) -> None:
    """202: durable, with since when the owner was not heard. Once it lives again the command is carried out."""
    with alone(memory.path) as owner:
        async with owner.client() as client:
            session = (await client.post("/sessions", json={"agent": "asker", "goal": "Well?"})).json()["id"]
            await until_status(client, session, "waiting")
        at_sqlite = Place("sqlite", memory.path.parent)
        impatient = midcourse.Settings(poll=0.05, unreachable_after=0.3)
        with served(at_sqlite, settings=impatient, drive=False) as server:
            async with server.client() as client:
                owner.send(signal.SIGSTOP)
                keyed = {"Idempotency-Key": "stop"}
                response = await client.post(f"/sessions/{session}/pause", json={}, headers=keyed)
                reply = response.json()
                assert (response.status_code, reply["level"]) == (202, "accepted")
                assert reply["unreachable_since"] is not None
                assert "owner not reachable since" in reply["sentence"]
                short = (await client.post(f"/sessions/{session}/pause", json={"wait": 0}, headers=keyed)).json()
                assert (short["level"], short["unreachable_since"]) == ("accepted", None)
                contact = (await client.get(f"/sessions/{session}/contact")).json()
                [stored] = contact["pending"]
                assert (stored["command"], stored["by"]) == ("pause", "local")
                assert contact["unreachable_since"] == stored["at"] == reply["unreachable_since"]
                assert (contact["unattended"], contact["unwritten"]) == (False, False)
                [head] = (await client.get("/sessions")).json()["sessions"]
                assert (head["pending"], head["unreachable_since"]) == ([stored], stored["at"])
                owner.send(signal.SIGCONT)
                await until_status(client, session, "paused")
                told_now = (await client.get(f"/sessions/{session}/contact")).json()
                assert (told_now["pending"], told_now["unreachable_since"]) == ([], None)
                assert (await told(client, session, "pause", {}, **keyed))["level"] == "stopped"
                assert await count_of(client, session, "session.pause_requested") == 1


async def test_a_chat_waits_for_a_silent_owner_and_shows_its_own_turn(memory: Place) -> None:
    """Neither a message nor an answer that is only accepted shows what belongs to another stream."""
    with alone(memory.path) as owner:
        async with owner.client() as client:
            async with chatting(client, "Well?", agent="asker") as chat:
                await chat.until("interrupt")
            session = chat.session
        at_sqlite = Place("sqlite", memory.path.parent)
        impatient = midcourse.Settings(poll=0.05, unreachable_after=0.3)
        with served(at_sqlite, settings=impatient, drive=False) as server:
            async with server.client() as client:
                owner.send(signal.SIGSTOP)
                async with (
                    chatting(client, "next", agent="asker", session_id=session) as queued,
                    answering(client, session, "fine") as answered,
                ):
                    owner.send(signal.SIGCONT)
                    assert (await answered.rest())[-1].data["result"] == "fine"
                    assert answered.text == ""
                    assert (await queued.rest())[-1].data["result"] == "next"
                    assert queued.text == "0 1 2 "


# ---- sessions


async def test_a_session_is_created_once_per_key(place: Place) -> None:
    """The retry is 200 and the same; another body with the same key is refused; an id that is taken is 409."""
    work = Work()
    work.may_end.set()
    with served(place, work.agent, limits=PLENTY) as server:
        async with server.client() as client:
            body = {"agent": "agent", "goal": "once", "budget": 2}
            keyed = {"Idempotency-Key": "new"}
            said = await asyncio.gather(*(client.post("/sessions", json=body, headers=keyed) for _ in range(20)))
            assert sorted(response.status_code for response in said) == [200] * 19 + [201]
            [session] = {response.json()["id"] for response in said}
            [first] = [response for response in said if response.status_code == 201]
            assert first.headers["location"] == f"/api/v1/sessions/{session}"
            assert first.headers["etag"] == first.json()["etag"]
            await result(client, session)
            again = await client.post("/sessions", json=body, headers=keyed)
            assert (again.status_code, again.json()["id"], again.json()["status"]) == (200, session, "completed")
            for other in ({"goal": "twice"}, {"budget": 3}, {"task_class": "long"}):
                response = await client.post("/sessions", json={**body, **other}, headers=keyed)
                assert (response.status_code, response.json()["code"]) == (422, "idempotency_key_reused")
            taken = await client.post("/sessions", json={**body, "session_id": session})
            assert (taken.status_code, taken.json()["code"]) == (409, "session_exists")
            assert len((await client.get("/sessions")).json()["sessions"]) == 1


async def test_a_fork_goes_on_from_a_point_and_is_made_once_per_key(place: Place) -> None:
    """What had finished by then is not done again; ``paused`` waits for a redirect."""
    work = Work()
    work.may_end.set()
    with served(place, work.agent) as server:
        async with server.client() as client:
            session = await started(client, "original")
            await result(client, session)
            events = await events_of(client, session)
            at = next(one["position"] for one in events if one["type"] == "step.finished")
            keyed = {"Idempotency-Key": "fork"}
            body = {"at": at, "paused": True}
            first = await client.post(f"/sessions/{session}/fork", json=body, headers=keyed)
            assert first.status_code == 201, first.text
            fork = first.json()
            assert (fork["status"], fork["forked_from"]) == ("paused", f"{session}@{at}")
            again = await client.post(f"/sessions/{session}/fork", json=body, headers=keyed)
            assert (again.status_code, again.json()["id"]) == (200, fork["id"])
            other = await client.post(f"/sessions/{session}/fork", json={"at": at + 1}, headers=keyed)
            assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
            elsewhere = await started(client, "another", session_id=session[:-1])
            await result(client, elsewhere)
            other = await client.post(f"/sessions/{elsewhere}/fork", json=body, headers=keyed)
            assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
            await told(client, fork["id"], "redirect", {"text": "another course", "level": "step", "resume": True})
            assert await result(client, fork["id"]) == ["original", "another course"]
            assert work.written.count("original") == 1


async def test_every_session_is_listed_once_while_others_are_made(place: Place) -> None:
    """Page by page; filters and search narrow it, and an unknown status is a sentence."""
    work = Work()
    with served(place, work.agent) as server:
        async with server.client() as client:
            before = [await started(client, f"goal number {n}") for n in range(9)]
            await told(client, before[0], "cancel", {"grace": 0, "until": "stopped", "wait": 30})
            seen: list[str] = []
            cursor: str | None = None
            while True:
                query: dict[str, Any] = {"limit": 2} if cursor is None else {"limit": 2, "cursor": cursor}
                page = (await client.get("/sessions", params=query)).json()
                seen += [head["id"] for head in page["sessions"]]
                await started(client, "later")
                cursor = page["next"]
                if cursor is None:
                    break
            assert seen == before[::-1]
            found = (await client.get("/sessions", params={"search": "NUMBER 3"})).json()["sessions"]
            assert [head["id"] for head in found] == [before[3]]
            assert found[0]["goal"] == "goal number 3"
            for status, count in (("cancelled", 1), ("completed", 0)):
                found = (await client.get("/sessions", params={"status": status})).json()["sessions"]
                assert len(found) == count
            both = await client.get("/sessions", params={"status": ["cancelled", "running"], "search": "goal number"})
            assert len(both.json()["sessions"]) == 9
            assert (await client.get("/sessions", params={"agent": "nobody"})).json()["sessions"] == []
            assert (await client.get("/sessions", params={"status": "sleeping"})).status_code == 422
            work.may_end.set()


async def test_a_session_can_be_inspected_at_each_position(place: Place) -> None:
    """As it was there: before a message was said, before a step had ended."""
    work = Work()
    work.may_end.set()
    with served(place, work.agent) as server:
        async with server.client() as client:
            session = await started(client)
            await result(client, session)
            events = await events_of(client, session)
            for event in events:
                seen = (await client.get(f"/sessions/{session}/inspect", params={"at": event["position"]})).json()
                assert seen["session"]["position"] == event["position"]
                finished = [step for step in seen["steps"] if step["outcome"] == "finished"]
                so_far = [one for one in events[: event["position"]] if one["type"] == "step.finished"]
                assert len(finished) == len(so_far)
            now = (await client.get(f"/sessions/{session}/inspect")).json()
            assert now["session"]["status"] == "completed"
            beyond = await client.get(f"/sessions/{session}/inspect", params={"at": len(events) + 1})
            assert beyond.status_code in (404, 422)
            assert (await client.get(f"/sessions/{session}/inspect", params={"at": 0})).status_code == 422


async def test_a_large_value_is_a_blob(place: Place) -> None:
    """The event names it by its digest, and the result is whole."""
    large = "x" * 100_000

    async def agent(run: midcourse.Run) -> str:
        del run
        return large

    with served(place, resumable(agent)) as server:
        async with server.client() as client:
            session = await started(client)
            assert await result(client, session) == large
            last = (await events_of(client, session))[-1]
            digest = last["data"]["result"]["blob"]
            blob = await client.get(f"/sessions/{session}/blobs/{digest}")
            assert blob.json() == large
            missing = await client.get(f"/sessions/{session}/blobs/nothing")
            assert (missing.status_code, missing.json()["code"]) == (404, "blob_not_found")


async def test_a_result_says_how_it_stands(memory: Place) -> None:
    """Not ended; failed, with the reason; and never a 500 for a session that did not return."""
    work = Work()

    async def failing(run: midcourse.Run) -> None:
        raise RuntimeError("no ink")

    with served(memory, work.agent, resumable(failing, name="failing")) as server:
        async with server.client() as client:
            session = await started(client)
            found = (await client.get(f"/sessions/{session}/result")).json()
            assert (found["ended"], found["result"], found["failure"]) == (False, None, None)
            response = await client.post("/sessions", json={"agent": "failing"})
            failed = response.json()["id"]
            found = (await client.get(f"/sessions/{failed}/result", params={"wait": 30})).json()
            assert (found["status"], found["ended"]) == ("failed", True)
            assert "no ink" in found["failure"]["message"]
            for path in ("", "/inspect", "/events", "/contact", "/receipt", "/cancel/preview", "/result", "/blobs/x"):
                response = await client.get(f"/sessions/sess_nobody{path}")
                assert (response.status_code, response.json()["code"]) == (404, "session_not_found")
            work.may_end.set()


async def test_a_message_waits_for_its_turn_and_can_be_taken_back(memory: Place) -> None:
    """Over the session's own verb, too: queued, edited, withdrawn, refused."""
    work = Work()
    with served(memory, work.agent) as server:
        async with server.client() as client:
            session = await started(client)
            await work.entered.wait()
            assert (await told(client, session, "message", {"text": "then send it"}))["message"] == "queued_1"
            assert (await told(client, session, "message", {"text": "and print it"}))["message"] == "queued_2"
            assert await refusal(client, f"/sessions/{session}/message", {"text": "x", "behaviour": "reject"}) == (
                409,
                "busy",
            )
            await client.patch(f"/sessions/{session}/messages/queued_1", json={"text": "then mail it"})
            await client.delete(f"/sessions/{session}/messages/queued_2")
            work.may_end.set()

            async def look() -> Data:
                return (await client.get(f"/sessions/{session}")).json()

            shown = await eventually(look, lambda one: one["turn"] == 2 and one["status"] == "completed")
            assert [message["text"] for message in shown["messages"]] == ["goal", "then mail it"]


async def test_a_text_that_is_cut_by_a_pause_is_durable_before_the_answer(place: Place) -> None:
    """What a watcher was shown as a preview is a segment of the journal when ``stopping`` is answered."""
    spoken = Latch()

    async def speak() -> AsyncIterator[str]:
        yield "so far, so good"
        spoken.set()
        await asyncio.sleep(3600)

    async def agent(run: midcourse.Run) -> str:
        return await run.stream("speak", speak)

    with served(place, resumable(agent), settings=midcourse.Settings(segment_seconds=3600)) as server:
        async with server.client() as client:
            session = await started(client)
            await spoken.wait()
            reply = await told(client, session, "pause")
            assert reply["level"] in ("stopping", "stopped")
            texts = [
                one["data"]["text"] for one in await events_of(client, session) if one["type"] == "segment.written"
            ]
            assert texts == ["so far, so good"]
            async with opened(
                client, "GET", f"/sessions/{session}/events", headers={"Accept": "text/event-stream"}
            ) as stream:
                assert (await stream.next()).data["type"] == "session.created"
            await told(client, session, "cancel", {"grace": 0})
