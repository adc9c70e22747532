"""``/metrics``: read by real parsers, after real work; and a dashboard that names nothing which is not there."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client import REGISTRY
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

import midcourse
from midcourse.clock import SystemClock
from midcourse.core.events import Recorded, SessionCreated, StepFinished
from midcourse.core.evolution import created
from midcourse.core.ids import Epoch, Position, SessionId, StepId
from midcourse.core.rates import COMPLETED, FALSE_POSITIVES, INTERRUPTED, RESPONSE
from midcourse.server.metrics import rates
from midcourse.telemetry.metrics import MOST_AGENTS, OTHERS, Metrics
from midcourse.wiring import open_store
from tests.promises.harness import Place, resumable
from tests.reports.journals import BEGAN
from tests.reports.recorded_fleet import recorded_fleet
from tests.reports.stores import keep
from tests.server.live_server import Running
from tests.server.server_process import counter
from tests.server.stream_reader import Latch, eventually, opened, served, until_status
from tests.server.test_interventions import GOAL, WATCHED, failing

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "midcourse.json"
SELECTOR = re.compile(r"\b([a-z_:][a-z0-9_:]*)\{([^{}]*)\}")
SUFFIXES = {
    "histogram": ("_bucket", "_count", "_sum"),
    "counter": ("_total",),
    "gauge": ("",),
    "unknown": ("",),
    "info": ("_info",),
}
STREAM = {"Accept": "text/event-stream"}
Samples = dict[str, list[tuple[dict[str, str], float]]]


def families(text: str) -> dict[str, Metric]:
    """What a scrape says, by the names that queries use."""
    found: dict[str, Metric] = {}
    for family in text_string_to_metric_families(text):
        for suffix in SUFFIXES[family.type]:
            found[f"{family.name}{suffix}"] = family
    return found


def samples(text: str) -> Samples:
    """Every number, by name."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            found.setdefault(one.name, []).append((one.labels, one.value))
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    """The sum of what has those labels."""
    return sum(number for has, number in found.get(name, ()) if labels.items() <= has.items())


def refusal(response: httpx2.Response) -> tuple[int, str]:
    """The status and code of what must not be granted."""
    return response.status_code, response.json()["code"]


async def scraped(server: Running, accept: str = "text/plain") -> httpx2.Response:
    """What it tells."""
    async with server.client() as client:
        response = await client.get(f"{server.url}/metrics", headers={"Accept": accept})
        assert response.status_code == 200, response.text
        return response


def agents(begun: Latch, heard: Latch) -> tuple["midcourse.Agent[Any]", ...]:
    """One for each thing that can happen."""

    @midcourse.tool(effect="read")
    async def hang() -> None:
        begun.set()
        await Latch().wait()

    async def hangs(run: midcourse.Run) -> None:
        await run.step("hang", hang)

    async def saves(run: midcourse.Run) -> str:
        run.state = {"text": "x" * 5000}
        await run.checkpoint()
        return str(await run.ask("Go on?"))

    async def words() -> AsyncIterator[str | midcourse.StreamEnd]:
        for _ in range(300):
            yield "word "
        yield midcourse.StreamEnd(cost=0.25, tokens=600)

    async def speaks(run: midcourse.Run) -> str:
        await heard.wait()
        return await run.stream("speak", words)

    return (
        resumable(hangs, name="hangs"),
        resumable(saves, name="saves", mode="state"),
        resumable(speaks, name="speaks"),
        failing(),
        counter,
    )


@asynccontextmanager
async def worked(place: Place) -> AsyncGenerator[Running]:
    """A server at which a bit of everything has happened."""
    unwatched = midcourse.Settings(policy="none", poll=0.05)
    async with place.open(counter, settings=unwatched) as before:  # let go in the middle of its work: it is taken over
        left = await before.start(counter, json.dumps({"steps": 400, "pace": 0.001}), session_id="sess_left")
        await until_running(left)
    ran, heard = Latch(), Latch()
    with served(place, *agents(ran, heard), settings=WATCHED) as server:
        async with server.client() as client:

            async def begun(agent: str, goal: str = GOAL) -> str:
                made = await client.post("/sessions", json={"agent": agent, "goal": goal})
                return str(made.json()["id"])

            hanging = await begun("hangs")
            await ran.wait()
            await client.post(f"/sessions/{hanging}/pause", json={"grace": 0, "until": "stopped", "wait": 20})
            await client.post(f"/sessions/{hanging}/cancel", json={"grace": 0, "until": "stopped", "wait": 20})
            await until_status(client, hanging, "cancelled")
            asking = await begun("saves")
            await until_status(client, asking, "waiting")
            stopped = await begun("agent")
            await until_status(client, stopped, "paused")
            made = (await client.get(f"/sessions/{stopped}/interventions")).json()["interventions"]
            said = await client.post(f"/sessions/{stopped}/label", json={"about": made[-1]["id"], "verdict": "wrong"})
            assert said.status_code == 200, said.text
            speaking = await begun("speaks")
            async with opened(client, "GET", f"/sessions/{speaking}/events", headers=STREAM) as stream:
                await stream.next()
                heard.set()
                await stream.until("session.completed")
            await until_status(client, "sess_left", "completed")
            yield server


async def until_running(session: midcourse.SessionHandle[Any]) -> None:
    """Until a step of it has ended."""
    async for record in session.watch():
        if isinstance(record.event, StepFinished):
            return


async def test_everything_that_happened_is_counted_and_the_dashboard_names_nothing_that_is_not_there(
    tmp_path: Path,
) -> None:
    """One server and one scrape for all of it: to make the work takes longer than to look at it."""
    async with worked(Place("sqlite", tmp_path)) as server:
        await eventually(_has_rates(server), bool)
        response = await scraped(server)
    assert response.headers["content-type"].startswith("text/plain; version=")
    found, known = samples(response.text), families(response.text)
    # What was done, and how long it took.
    assert value(found, "midcourse_stop_response_seconds_count", verb="pause", by="person") == 1
    assert value(found, "midcourse_stop_seconds_count", verb="pause", by="person") == 1
    assert value(found, "midcourse_stop_seconds_count", verb="cancel", by="person") == 1
    assert value(found, "midcourse_stop_seconds_count", verb="pause", by="policy") == 1
    assert value(found, "midcourse_checkpoint_seconds_count", kind="state") == 1
    assert value(found, "midcourse_checkpoint_bytes_sum", kind="state") > 5000
    assert value(found, "midcourse_checkpoint_seconds_count", kind="snapshot") >= 1
    assert value(found, "midcourse_recovery_seconds_count") == 1
    assert value(found, "midcourse_segment_delivery_seconds_count") >= 1
    assert value(found, "midcourse_store_commit_seconds_count") > 10
    assert value(found, "midcourse_calls_total", effect="read", outcome="aborted") == 2  # by a person, and by a policy
    assert value(found, "midcourse_calls_total", effect="read", outcome="failed") >= 3
    assert value(found, "midcourse_calls_total", effect="idempotent", outcome="finished") >= 300
    assert value(found, "midcourse_tokens_total", agent="speaks") == 600
    assert value(found, "midcourse_cost_dollars_total", agent="speaks") == 0.25
    assert value(found, "midcourse_policy_decisions_total", level="stop") == 1
    assert value(found, "midcourse_interventions_labelled_total", verdict="wrong") == 1
    assert value(found, "midcourse_sessions_ended_total", outcome="completed") == 2
    # How it stands.
    assert value(found, "midcourse_sessions", status="waiting") == 1
    assert value(found, "midcourse_sessions", status="paused") == 1
    assert value(found, "midcourse_open_asks") >= 1
    assert value(found, "midcourse_false_positive_ratio", task_class="long") == 1.0
    assert 0 < value(found, "midcourse_interruption_ratio", task_class="long") < 1
    by_whom = [
        value(found, "midcourse_interruption_by_ratio", task_class="long", by=one) for one in ("person", "policy")
    ]
    assert all(0 < share < 1 for share in by_whom)
    assert 0 < value(found, "midcourse_completion_ratio", task_class="long") < 1
    # In words, which are those of reports, and without anybody's name.
    assert all(family.documentation for family in known.values())
    for name, words in (("interruption", INTERRUPTED), ("completion", COMPLETED), ("false_positive", FALSE_POSITIVES)):
        assert words in known[f"midcourse_{name}_ratio"].documentation
    assert RESPONSE in known["midcourse_stop_response_seconds_count"].documentation
    assert "sess_" not in response.text
    assert GOAL not in response.text
    assert_the_dashboard_fits(found, known)


def _has_rates(server: Running) -> Any:
    async def look() -> bool:
        found = samples((await scraped(server)).text)
        return value(found, "midcourse_rates_timestamp_seconds") > 0 and value(found, "midcourse_open_asks") > 0

    return look


def queries() -> Iterator[str]:
    """Every query of the dashboard."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def test_the_dashboard_says_what_its_rates_count() -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    said = {panel["title"]: panel.get("description", "") for panel in board["panels"]}
    meant = {
        "Interrupted": INTERRUPTED,
        "Completed": COMPLETED,
        "False positives": FALSE_POSITIVES,
        "Stop response": RESPONSE,
    }
    assert all(said[title].startswith(words) for title, words in meant.items())


def assert_the_dashboard_fits(found: Samples, known: dict[str, Metric]) -> None:
    """Each name is one that was scraped, and each label one that it has; and each of our own is shown somewhere."""
    shown: set[str] = set()
    for query in queries():
        named = SELECTOR.findall(query)
        assert named, query
        for name, matchers in named:
            assert name in known, f"{name} is in no scrape: {query}"
            shown.add(known[name].name)
            labels = {*re.findall(r"(\w+)=", matchers)} - {"job", "instance"}
            labels |= {one for by in re.findall(r"by \(([^)]*)\)", query) for one in by.split(", ")} - {"instance"}
            if name in found:
                assert labels <= {label for has, _ in found[name] for label in has}, (name, query)
    # When a counter was made is told by the library, and nobody looks at it.
    ours = {
        one.name for one in known.values() if one.name.startswith("midcourse_") and not one.name.endswith("_created")
    }
    assert ours <= shown, f"no panel shows {sorted(ours - shown)}"


async def test_openmetrics_is_told_to_whoever_asks_for_it(memory: Place) -> None:
    with served(memory) as server:
        response = await scraped(server, "application/openmetrics-text; version=1.0.0")
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics.text_string_to_metric_families(response.text)}  # pyright: ignore[reportUnknownMemberType]
    assert {"midcourse_stop_seconds", "midcourse_calls", "midcourse_build_info"} <= names


async def test_the_figures_take_a_token_of_the_host(memory: Place) -> None:
    """Any role will do; a session's own token, a tenant's, or none, will not."""
    with served(memory, counter) as server:
        async with server.client() as client:
            made = await client.post("/sessions", json={"agent": "counter", "goal": '{"steps": 1}', "session_id": "s"})
            assert made.status_code == 201
            tokens = {
                name: (await client.post("/tokens", json={"name": name, **more})).json()["token"]
                for name, more in {
                    "watcher": {"role": "watch"},
                    "own": {"role": "steer", "session": "s"},
                    "tenants": {"role": "operate", "tenant": "acme"},
                }.items()
            }
        async with httpx2.AsyncClient(base_url=server.url, timeout=30) as client:

            async def asked(token: str | None) -> httpx2.Response:
                headers = {} if token is None else {"Authorization": f"Bearer {token}"}
                return await client.get("/metrics", headers=headers)

            assert (await asked(tokens["watcher"])).status_code == 200
            assert refusal(await asked(None)) == (401, "unauthorized")
            assert refusal(await asked(tokens["own"])) == (403, "not_for_agents")
            assert refusal(await asked(tokens["tenants"])) == (403, "forbidden")


async def test_a_server_that_was_started_so_tells_them_to_everybody_on_this_machine(memory: Place) -> None:
    with served(memory, metrics_open=True) as server:
        async with httpx2.AsyncClient(timeout=30) as client:
            assert (await client.get(f"{server.url}/metrics")).status_code == 200
        from_elsewhere = httpx2.ASGITransport(server.server.app, client=("192.0.2.7", 4000))
        async with httpx2.AsyncClient(transport=from_elsewhere, base_url=server.url) as client:
            assert refusal(await client.get("/metrics")) == (401, "unauthorized")


def test_agents_beyond_the_first_hundred_are_counted_together() -> None:
    metrics = Metrics(SystemClock())
    event = StepFinished(step=StepId("1/x#1"), attempt=1, cost=1.0)
    for number in range(MOST_AGENTS + 5):
        born = SessionCreated(
            agent=f"agent{number}", agent_version="1", mode="replay", origin="here", resumable=True, goal="x"
        )
        session = created(SessionId(f"s{number}"), Recorded(Position(1), 0.0, born))
        metrics.recorded(session, Epoch(1), Recorded(Position(2), 0.0, event))
    found = samples(metrics.text("")[0].decode())
    assert len(found["midcourse_cost_dollars_total"]) == MOST_AGENTS + 1
    assert value(found, "midcourse_cost_dollars_total", agent=OTHERS) == 5


def test_nothing_is_put_into_the_registry_that_an_application_may_have() -> None:
    Metrics(SystemClock())
    Metrics(SystemClock())  # a second one does not clash with the first
    assert not [name for name in REGISTRY._names_to_collectors if name.startswith("midcourse")]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


async def test_the_figures_of_the_known_fleet_are_told_by_class_and_in_all() -> None:
    clock = SystemClock()
    store = await open_store("memory://")
    await keep(store, *recorded_fleet())
    metrics = Metrics(clock)
    metrics.standing.rates = await rates(store, BEGAN + 50_000.0, "standard", {})
    found = samples(metrics.text("")[0].decode())
    await store.close()

    def told(name: str, **labels: str) -> float | None:
        return value(found, f"midcourse_{name}", **labels) if found.get(f"midcourse_{name}") else None

    assert told("run_seconds", task_class="short", quantile="0.5") == 20.0
    assert told("run_seconds", task_class="short", quantile="0.99") == 40.0
    assert told("tokens_per_second", task_class="short", quantile="0.5") == 30.0
    assert told("recovery_ratio", task_class="medium") == pytest.approx(1 / 3)
    assert told("stopped_completion_ratio", task_class="long") == 1.0
    assert told("unstopped_completion_ratio", task_class="medium") == 0.5
    assert told("intervention_return_ratio", task_class="long") == pytest.approx(21.0)
    assert told("calls_left_accuracy_ratio") == 0.5
    assert told("consistency_ratio") == 1.0
    # What nobody can know is not told, and never 0.
    assert not [one for one, _ in found["midcourse_tokens_per_second"] if one["task_class"] != "short"]
    assert not [one for one, _ in found["midcourse_intervention_return_ratio"] if one["task_class"] != "long"]
