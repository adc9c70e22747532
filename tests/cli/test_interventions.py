"""What a policy did, at a terminal: who, why, the arithmetic; what people say of it; on a file and over a server."""

import asyncio
import contextlib
import json
import re
from pathlib import Path

import pytest

import midcourse as package
from midcourse.core.policy_decision import Alarm
from midcourse.policy.intervention_shelf import INTERVENTIONS, alarm_items
from tests.cli.conftest import Command
from tests.client.live_server import TOKEN

GOAL = "Read the twelve reports in the folder and write one page about churn in Q3"


@package.tool(effect="read")
async def fetch(number: int) -> str:
    """The pages are down."""
    raise TimeoutError(f"page {number} does not \x1b[31manswer")


@package.tool(effect="read")
async def stand() -> None:
    """Until somebody stops it."""
    await asyncio.sleep(3600)


@package.agent(name="told-fetcher")
async def fetcher(run: package.Run) -> str:
    """Fails so often that the standard policy stops it."""
    for number in range(5):
        with contextlib.suppress(package.StepError):
            await run.step("fetch", fetch, number)
    await run.step("stand", stand)
    return "in the end"


async def tell(store: Path) -> None:
    """Make a store with one session that was stopped by its policy, and alarms of others."""
    watched = package.Settings(policy="standard")
    async with package.open(f"sqlite:///{store}", durability="process", settings=watched) as mc:
        session = await mc.start(fetcher, GOAL, session_id="sess_stopped", by="ada")
        while await session.status() != "paused" or not await mc.interventions():
            await asyncio.sleep(0.01)
        alarms = [
            Alarm(at=1000.0 + one, session="sess_slow", intervention=f"int_{one}", person="bob", sentence="Slow.")
            for one in range(1, 4)
        ]
        await mc._worker.store.shelve(INTERVENTIONS, alarm_items(alarms))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("interventions") / "midcourse.db"
    asyncio.run(tell(store))
    return store


def test_a_list_over_all_sessions_says_who_did_what_and_why(midcourse: Command) -> None:
    done = midcourse("intervention", "list", "--agent", "told-fetcher")
    assert done.code == 0
    assert "sess_stopped" in done.out
    assert "stop" in done.out
    assert "policy:standard@1" in done.out
    assert "5 calls in a row failed." in done.out
    assert "Was it right? midcourse intervention label sess_stopped int_1 right|wrong|unsure" in done.out
    assert "sess_slow" not in done.out
    assert [one["session"] for one in midcourse("intervention", "list", "--json").json()["interventions"]] == [
        "sess_stopped",
        *["sess_slow"] * 3,
    ]
    assert len(midcourse("intervention", "list", "--hours", "1", "--json").json()["interventions"]) == 1
    assert "The newest 2." in midcourse("intervention", "list", "--limit", "2").out
    assert midcourse("intervention", "list", "--label", "right").out == "No intervention matches.\n"


def test_a_sessions_list_has_the_arithmetic(midcourse: Command) -> None:
    done = midcourse("intervention", "list", "stopped")
    assert "policy:standard@1 stopped it (pause_1, ask_1): 5 calls in a row failed." in done.out
    assert "errors.streak 5 ≥ 5" in done.out
    assert "not seen: calls_left" in done.out
    [made] = midcourse("intervention", "list", "sess_stopped", "--json").json()["interventions"]
    assert (made["id"], made["level"], made["label"]) == ("int_1", "stop", None)


def test_show_and_events_tell_of_it_readably(midcourse: Command) -> None:
    shown = midcourse("show", "sess_stopped").out
    assert re.search(r"^policy +standard@1$", shown, re.MULTILINE)
    assert "Interventions:\n  int_1  " in shown
    assert "policy:standard@1 stopped it" in shown
    assert "midcourse answer sess_stopped --ask ask_1" in shown
    events = midcourse("events", "sess_stopped").out
    assert "intervention.made         int_1 policy:standard@1 stopped it (pause_1, ask_1): 5 calls" in events
    assert "errors.streak 5 ≥ 5" in events
    assert "\x1b" not in shown + events


def test_a_label_is_kept_and_the_last_word_counts(midcourse: Command) -> None:
    assert midcourse("intervention", "label", "sess_stopped", "int_1", "wrong").code == 0
    done = midcourse("intervention", "label", "sess_stopped", "int_1", "right", "--note", "the pages were down")
    assert done.out == "int_1 of sess_stopped is labelled right: the pages were down\n"
    assert "labelled right: the pages were down" in midcourse("intervention", "list", "sess_stopped").out
    assert "labelled right" in midcourse("show", "sess_stopped").out
    listed = midcourse("intervention", "list", "--label", "right", "--json").json()["interventions"]
    assert [one["session"] for one in listed] == ["sess_stopped"]
    unknown = midcourse("intervention", "label", "sess_stopped", "int_9", "right", "--json")
    assert unknown.code == 1
    assert json.loads(unknown.err)["code"] == "intervention_not_found"
    slip = midcourse("intervention", "label", "sess_stopped", "int_1", "rigt")
    assert slip.code == 2
    assert "'rigt' is not one of 'right', 'wrong', 'unsure'. Did you mean 'right'?" in slip.err


def test_a_session_is_rated_once_it_has_ended(midcourse: Command) -> None:
    early = midcourse("session", "rate", "sess_stopped", "4")
    assert (early.code, early.out) == (1, "")
    assert "rate it once it has ended" in early.err
    assert midcourse("cancel", "sess_stopped").code == 0
    assert "sess_stopped is rated 3 of 5.\n" in midcourse("session", "rate", "sess_stopped", "3").out
    assert midcourse("session", "rate", "sess_stopped", "4", "--note", "fair", "--json").json()["level"] == "decided"
    assert re.search(r"^rated +4 of 5$", midcourse("show", "sess_stopped").out, re.MULTILINE)
    for wrong, said in (("6", "it must be at most 5, not '6'."), ("good", "it must be a whole number, not 'good'.")):
        refused = midcourse("session", "rate", "sess_stopped", wrong)
        assert (refused.code, said in refused.err) == (2, True)


def test_alarms_come_in_batches(midcourse: Command) -> None:
    done = midcourse("intervention", "alarms").out
    assert "ada: 1 alarm, sent " in done
    assert "bob: 3 alarms, sent " in done
    assert done.index("ada") < done.index("bob")
    assert "stop: 5 calls in a row failed." in done
    batches = midcourse("intervention", "alarms", "--person", "bob", "--gather", "1", "--json").json()["batches"]
    assert [len(one["alarms"]) for one in batches] == [1, 1, 1]
    assert midcourse("intervention", "alarms", "--person", "nobody").out == "There are no alarms.\n"


def test_what_is_not_watched_has_none(midcourse: Command, folder: Path) -> None:
    store = f"sqlite:///{folder}/empty.db"
    asyncio.run(_empty(store))
    assert midcourse("intervention", "list", "--store", store).out == "No policy has stepped in so far.\n"
    assert (
        "No policy has stepped in in sess_quiet."
        in midcourse("intervention", "list", "sess_quiet", "--store", store).out
    )
    chosen = midcourse("intervention", "list", "sess_quiet", "--agent", "x", "--store", store)
    assert chosen.code == 2
    assert "leave SESSION out" in chosen.err


async def _empty(store: str) -> None:
    @package.agent(name="told-quiet")
    async def quiet(run: package.Run) -> str:
        return run.goal

    async with package.open(store, durability="process") as mc:
        await (await mc.start(quiet, "x", session_id="sess_quiet")).result(timeout=10)


def test_a_redirect_says_what_it_is(midcourse: Command) -> None:
    done = midcourse("redirect", "sess_stopped", "skip them")
    assert done.code == 2
    assert "--level" in done.err
    long = midcourse("redirect", "sess_stopped", "--level", "step", "x" * 201)
    assert long.code == 1
    assert "at most 200" in long.err
    assert midcourse("redirect", "sess_stopped", "--level", "goal", "x" * 201).code == 0


def test_every_command_works_over_a_server(midcourse: Command, server: str) -> None:
    there = ("--url", server, "--token", TOKEN)
    assert "5 calls in a row failed." in midcourse("intervention", "list", *there).out
    assert "errors.streak 5 ≥ 5" in midcourse("intervention", "list", "sess_stopped", *there).out
    assert "bob: 3 alarms" in midcourse("intervention", "alarms", *there).out
    assert midcourse("intervention", "label", "sess_stopped", "int_1", "right", *there).code == 0
    assert "labelled right" in midcourse("show", "sess_stopped", *there).out
    assert "stopped it" in midcourse("events", "sess_stopped", *there).out
    assert "at most 200" in midcourse("redirect", "sess_stopped", "--level", "step", "x" * 201, *there).err
    assert midcourse("cancel", "sess_stopped", *there).code == 0
    rated = midcourse("session", "rate", "sess_stopped", "5", *there).out
    assert "sess_stopped is rated 5 of 5.\n" in rated


def test_signals_stand_beside_their_thresholds_and_what_was_not_measured_says_why(midcourse: Command) -> None:
    done = midcourse("session", "signals", "stopped")
    assert done.code == 0
    assert done.out.startswith("policy standard@1, as a ")
    assert re.search(r"Failures in a row +\d +past its stop since .+ +stops at 5", done.out)
    assert "not measured: Cost: nothing in it has a price" in done.out
    found = {one["name"]: one for one in midcourse("session", "signals", "stopped", "--json").json()["signals"]}
    assert found["errors.streak"]["past"] == "stop"
    assert midcourse("session", "signals", "sess_nobody").code == 1


@pytest.mark.parametrize("columns", [66, 80])
@pytest.mark.parametrize(
    "command",
    [
        ("intervention", "list", "sess_stopped"),
        ("intervention", "list"),
        ("intervention", "alarms"),
        ("show", "sess_stopped"),
    ],
    ids=" ".join,
)
def test_all_of_it_fits_a_narrow_terminal(midcourse: Command, command: tuple[str, ...], columns: int) -> None:
    wide, narrow = (midcourse(*command, env={"COLUMNS": str(room)}).out for room in (1000, columns))
    assert [line for line in narrow.splitlines() if len(line) > columns] == []
    assert set(re.findall(r"[a-z_]{4,}", wide)) - {"when", "session", "label"} <= set(re.findall(r"[a-z_]{4,}", narrow))
