"""A policy steps in on a real server: who is told what and when, the review, labels and ratings over HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

import midcourse
from midcourse.core.policy_decision import Alarm
from midcourse.policy.intervention_shelf import INTERVENTIONS, alarm_items
from tests.promises.harness import NEVER, Place, resumable
from tests.server.live_server import Running
from tests.server.stream_reader import Data, count_of, eventually, refusal, served, until_status

WATCHED = midcourse.Settings(policy="standard", poll=0.05)
GOAL = "Read the twelve reports in the folder and write one page about churn in Q3"


@midcourse.tool(effect="read")
async def fetch(number: int) -> str:
    """The pages are down."""
    raise TimeoutError(f"page {number} does not answer")


_stood: set[str] = set()


@midcourse.tool(effect="read")
async def stand(session: str) -> None:
    """Until somebody stops it; when it is done again, it is over at once."""
    if session not in _stood:
        _stood.add(session)
        await asyncio.sleep(NEVER)


def failing() -> midcourse.Agent[Any]:
    """Fails so often in a row that the standard policy stops it; then does what it was told."""

    async def agent(run: midcourse.Run) -> object:
        for number in range(5):
            with contextlib.suppress(midcourse.StepError):
                await run.step("fetch", fetch, number)
        await run.step("stand", stand, run.session_id)
        return [message.text for message in run.messages]

    return resumable(agent)


@asynccontextmanager
async def stopped(place: Place) -> AsyncGenerator[tuple[Running, httpx2.AsyncClient, str]]:
    """A session that its policy has stopped."""
    with served(place, failing(), settings=WATCHED) as server:
        async with server.client() as client:
            made = await client.post("/sessions", json={"agent": "agent", "goal": GOAL})
            session = made.json()["id"]
            await until_status(client, session, "paused")
            yield server, client, session


async def told(client: httpx2.AsyncClient, path: str, body: Data, **headers: str) -> Data:
    """What must be granted."""
    response = await client.post(path, json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


async def found(client: httpx2.AsyncClient, path: str, **parameters: object) -> Any:
    """A list."""
    response = await client.get(path, params=parameters)  # pyright: ignore[reportArgumentType]
    assert response.status_code == 200, response.text
    return next(iter(response.json().values()))


async def test_signals_stand_beside_the_thresholds_that_the_policy_stopped_it_by(place: Place) -> None:
    async with stopped(place) as (server, client, session):
        stop = await stop_of(client, session)
        reason = stop["reasons"][0]  # the gravest
        answer = await client.get(f"/sessions/{session}/signals")
        assert answer.status_code == 200
        shown = answer.json()
        assert (shown["policy"], shown["position"]) == (
            "standard@1",
            (await client.get(f"/sessions/{session}")).json()["position"],
        )
        streak = next(one for one in shown["signals"] if one["name"] == reason["signal"])
        assert (streak["past"], streak["stop"], streak["title"]) == ("stop", reason["threshold"], "Failures in a row")
        assert streak["value"] >= reason["value"]
        assert streak["since"] <= stop["at"]
        assert [value for _, value in streak["history"]][:5] == [1, 2, 3, 4, 5]
        # Who asks again reads only what is new, and finds the same.
        again = (await client.get(f"/sessions/{session}/signals")).json()
        assert [one["history"] for one in again["signals"] if one["name"] == "errors.streak"] == [streak["history"]]
        async with midcourse.connect(server.url, token=server.token) as remote:
            handle = await remote.get(session)
            assert {one.name: one.past for one in (await handle.signals()).signals}["errors.streak"] == "stop"
        assert (await client.get("/sessions/sess_none/signals")).status_code == 404


async def stop_of(client: httpx2.AsyncClient, session: str) -> Data:
    """The intervention that stopped it."""
    made = await found(client, f"/sessions/{session}/interventions")
    return next(one for one in made if one["level"] == "stop")


async def test_a_stop_says_who_why_and_shows_its_arithmetic(place: Place) -> None:
    """In the session's own list, in the list over all, and as an alarm that comes at once."""
    async with stopped(place) as (_, client, session):
        stop = await stop_of(client, session)
        assert (stop["by"], stop["wanted"], stop["policy"]) == ("policy:standard@1", "stop", "standard@1")
        assert "5 calls in a row failed" in stop["sentence"]
        assert "errors.streak 5 ≥ 5" in stop["arithmetic"]
        [streak] = [one for one in stop["reasons"] if one["signal"] == "errors.streak"]
        assert (streak["value"], streak["threshold"], streak["stage"]) == (5, 5, "stop")
        assert {one["signal"] for one in stop["unseen"]} >= {"calls_left"}
        assert all(one["why"] for one in stop["unseen"])
        assert (stop["label"], stop["held"], stop["question"]) == (None, [], "")
        shown = (await client.get(f"/sessions/{session}")).json()
        assert (shown["pause"]["id"], shown["asks"][0]["id"]) == (stop["pause"], stop["ask"])
        assert shown["asks"][0]["reason"] == "review"

        async def listed() -> Any:
            return await found(client, "/interventions", agent="agent")

        [alarm] = await eventually(listed, lambda items: len(items) == shown["interventions"])
        assert (alarm["session"], alarm["intervention"], alarm["person"]) == (session, stop["id"], "local")
        assert alarm["signals"][0] == "errors.streak"
        [batch] = await found(client, "/alarms", person="local")
        assert batch["since"] == batch["ready_at"] == batch["alarms"][0]["at"]
        assert await found(client, "/alarms", person="nobody") == []
        assert await found(client, "/interventions", agent="another") == []
        assert await found(client, "/interventions", since=alarm["at"] + 1) == []


async def test_a_review_is_answered_in_words_and_the_session_goes_on_with_them(memory: Place) -> None:
    """Whoever steers may answer; the answer is what the agent reads next."""
    async with stopped(memory) as (_, client, session):
        stop = await stop_of(client, session)
        slip = {"value": "cancle", "ask": stop["ask"]}
        assert await refusal(client, f"/sessions/{session}/answer", slip) == (409, "unclear_answer")
        await told(client, f"/sessions/{session}/answer", {"value": "skip the broken pages", "ask": stop["ask"]})
        result = (await client.get(f"/sessions/{session}/result", params={"wait": 30})).json()
        assert result["result"][-1] == "skip the broken pages"
        assert await count_of(client, session, "session.resumed") == 1


async def test_a_label_counts_once_for_each_key_and_the_last_word_counts(place: Place) -> None:
    """The lists show it; a list of what nobody has labelled leaves it out."""
    async with stopped(place) as (_, client, session):
        stop = await stop_of(client, session)
        body = {"about": stop["id"], "verdict": "wrong"}
        for _ in range(2):
            await told(client, f"/sessions/{session}/label", body, **{"Idempotency-Key": "tap"})
        other = {**body, "verdict": "unsure"}
        key = {"Idempotency-Key": "tap"}
        assert await refusal(client, f"/sessions/{session}/label", other, **key) == (422, "command_id_taken")
        await told(client, f"/sessions/{session}/label", {**body, "verdict": "right", "note": "it was down"})
        assert await count_of(client, session, "intervention.labelled") == 2
        stop = await stop_of(client, session)
        assert (stop["label"], stop["note"]) == ("right", "it was down")

        async def labelled() -> Any:
            return await found(client, "/interventions", label="right")

        [alarm] = await eventually(labelled, bool)
        assert (alarm["session"], alarm["label"]) == (session, "right")
        for label in ("wrong", "unsure", "none"):
            assert await found(client, "/interventions", label=label) == []


async def test_what_a_person_did_is_labelled_too_and_what_never_was_is_not(memory: Place) -> None:
    async with stopped(memory) as (_, client, session):
        await told(client, f"/sessions/{session}/label", {"about": "pause_1", "verdict": "right"})
        await told(client, f"/sessions/{session}/label", {"about": "msg_1", "verdict": "unsure"})
        shown = (await client.get(f"/sessions/{session}")).json()
        assert shown["labels"] == {"pause_1": "right", "msg_1": "unsure"}
        for about in ("int_99", "pause_7", "nonsense"):
            body = {"about": about, "verdict": "right"}
            assert await refusal(client, f"/sessions/{session}/label", body) == (404, "intervention_not_found")


async def test_a_session_is_rated_once_it_has_ended(memory: Place) -> None:
    """The last word counts, and a stale ETag is refused."""
    async with stopped(memory) as (_, client, session):
        assert await refusal(client, f"/sessions/{session}/rate", {"score": 4}) == (409, "not_allowed")
        before = (await client.get(f"/sessions/{session}")).headers["etag"]
        await told(client, f"/sessions/{session}/cancel", {"until": "stopped", "wait": 30})
        stale = {"If-Match": before}
        assert await refusal(client, f"/sessions/{session}/rate", {"score": 4}, **stale) == (412, "precondition_failed")
        await told(client, f"/sessions/{session}/rate", {"score": 2})
        await told(client, f"/sessions/{session}/rate", {"score": 4, "note": "in the end"})
        shown = await client.get(f"/sessions/{session}")
        assert (shown.json()["score"], shown.json()["status"]) == (4, "cancelled")
        for score in (0, 6, 4.5, "many", None):
            assert await refusal(client, f"/sessions/{session}/rate", {"score": score}) == (422, "invalid_input")


async def test_a_session_may_not_judge_itself_nor_answer_its_own_review(memory: Place) -> None:
    """Else an agent could call every alarm wrong until nobody hears them."""
    async with stopped(memory) as (server, client, session):
        made = await client.post("/tokens", json={"name": "own", "role": "operate", "session": session})
        async with server.client(made.json()["token"]) as own:
            body = {"about": "pause_1", "verdict": "wrong"}
            assert await refusal(own, f"/sessions/{session}/label", body) == (403, "not_for_agents")
            assert await refusal(own, f"/sessions/{session}/rate", {"score": 5}) == (403, "not_for_agents")
            assert await refusal(own, f"/sessions/{session}/answer", {"value": "go on"}) == (403, "own_ask")
            assert (await own.get(f"/sessions/{session}/interventions")).status_code == 200
        assert (await client.get(f"/sessions/{session}")).json()["labels"] == {}


async def test_twenty_cheap_alarms_in_an_hour_are_one_batch_and_the_stop_among_them_comes_at_once(
    memory: Place,
) -> None:
    with served(memory, failing()) as server:
        assert server.server.control is not None
        store = server.server.control.worker.store
        alarms = [
            Alarm(at=1000.0 + 60 * number, session=f"s{number}", intervention="int_1", person="ada", sentence="Slow.")
            for number in range(20)
        ]
        hard = Alarm(at=1500.0, session="hard", intervention="int_1", person="ada", level="stop", sentence="$50.")
        bob = Alarm(at=1600.0, session="other", intervention="int_1", person="bob", sentence="Slow.")
        await store.shelve(INTERVENTIONS, alarm_items([*alarms, hard, bob]))
        async with server.client() as client:
            gathered, stop = await found(client, "/alarms", person="ada")
            assert (len(gathered["alarms"]), gathered["since"], gathered["ready_at"]) == (20, 1000.0, 4600.0)
            assert (stop["ready_at"], [one["session"] for one in stop["alarms"]]) == (1500.0, ["hard"])
            assert len(await found(client, "/alarms")) == 3
            assert len(await found(client, "/alarms", limit=1)) == 1
            halves = await found(client, "/alarms", person="ada", gather=600)
            assert [len(one["alarms"]) for one in halves] == [10, 10, 1]
            newest = await found(client, "/interventions", limit=2)
            assert [one["session"] for one in newest] == ["s19", "s18"]
            assert len(await found(client, "/interventions", since=2000)) == 3


@pytest.mark.parametrize(
    "query",
    ["since=-1", "since=nan", "since=soon", "label=maybe", "limit=0", "limit=1001", "person=ada", "sicne=1"],
)
async def test_a_filter_that_nobody_knows_is_refused(memory: Place, query: str) -> None:
    with served(memory, failing()) as server:
        async with server.client() as client:
            response = await client.get(f"/interventions?{query}")
            assert (response.status_code, response.json()["code"]) == (422, "invalid_input")
            assert response.json()["field"] == query.partition("=")[0]


async def test_a_redirect_says_what_it_is_and_a_correction_is_short(memory: Place) -> None:
    """There is no default: whoever changes a course chooses between a step, a goal and an explanation."""
    async with stopped(memory) as (_, client, session):
        path = f"/sessions/{session}/redirect"
        response = await client.post(path, json={"text": "shorter"})
        assert (response.status_code, response.json()["field"]) == (422, "level")
        assert (await client.post(path, json={"text": "shorter", "level": "louder"})).status_code == 422
        for level in ("step", "clarify"):
            response = await client.post(path, json={"text": "x" * 201, "level": level})
            assert (response.status_code, response.json()["field"]) == (422, "text"), response.text
            assert "at most 200" in response.json()["detail"]
        await told(client, path, {"text": "x" * 200, "level": "step"})
        await told(client, path, {"text": "x" * 1000, "level": "goal"})


async def test_who_is_not_watched_may_be_corrected_at_length(memory: Place) -> None:
    with served(memory, failing()) as server:
        async with server.client() as client:
            session = (await client.post("/sessions", json={"agent": "agent", "goal": "x"})).json()["id"]
            await told(client, f"/sessions/{session}/redirect", {"text": "x" * 1000, "level": "step"})
            assert await found(client, f"/sessions/{session}/interventions") == []


async def test_a_retry_finds_the_session_whose_policy_was_settled_when_it_began(memory: Place) -> None:
    """What a server's default or an agent's terms call ``standard`` is ``standard@1`` in the journal."""
    with served(memory, failing(), settings=WATCHED) as server:
        async with server.client() as client:
            made = [
                await client.post(
                    "/sessions", json={"agent": "agent", "goal": GOAL}, headers={"Idempotency-Key": "one"}
                )
                for _ in range(2)
            ]
            assert [one.status_code for one in made] == [201, 200], made[1].text
            assert made[0].json()["id"] == made[1].json()["id"]
            assert made[0].json()["terms"]["policy"] == "standard@1"
