"""``report``, ``checklist`` and ``review`` on a file and on a server: tables, JSON, a page, and what is refused."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from midcourse.analysis.reports.report import Report
from midcourse.analysis.reports.review import review
from midcourse.wiring import open_store
from tests.cli.conftest import Command
from tests.reports.recorded_fleet import recorded_fleet
from tests.reports.stores import keep
from tests.reports.test_review import labelled
from tests.server.live_server import TOKEN, serving

LONG = ("--since", "99999d")


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A file with labelled sessions, long ago."""
    url = f"sqlite:///{tmp_path}/runs.db"

    async def fill() -> None:
        opened = await open_store(url)
        await keep(opened, *labelled(20))
        await opened.close()

    asyncio.run(fill())
    return url


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    """A file with the fleet whose answers are known."""
    url = f"sqlite:///{tmp_path}/fleet.db"

    async def fill() -> None:
        opened = await open_store(url)
        await keep(opened, *recorded_fleet())
        await opened.close()

    asyncio.run(fill())
    return url


def test_a_report_shows_classes_signals_and_what_was_missed(midcourse: Command, store: str) -> None:
    done = midcourse("report", "show", "--store", store, *LONG)
    assert done.code == 0
    assert "Sessions: 20, 0 ended." in done.out
    assert "Missed: False positives, scope_drift of worker: 50 % of 20; the target is at most 30 %." in done.out
    for words in ("class", "long", "too few to say", "false positives", "worker"):
        assert words in done.out


def test_the_stories_of_every_status_make_a_report(midcourse: Command) -> None:
    report = midcourse("report", "show", "--json").json()
    assert report["sessions"] > 5
    assert {row["kind"] for row in report["kinds"]} >= {"pause", "cancel"}
    assert "Questions:" in midcourse("report", "show").out


def test_json_and_html_go_to_the_screen_or_to_a_file(midcourse: Command, store: str, tmp_path: Path) -> None:
    shown = midcourse("report", "show", "--store", store, *LONG, "--format", "json")
    report = msgspec.json.decode(shown.out, type=Report)
    assert report.sessions == 20
    page = tmp_path / "report.html"
    done = midcourse("report", "show", "--store", store, *LONG, "-o", str(page))
    assert (done.code, done.out) == (0, f"Written: {page}\n")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    kept = tmp_path / "report.json"
    midcourse("report", "show", "--store", store, *LONG, "--format", "json", "-o", str(kept))
    assert json.loads(kept.read_text(encoding="utf-8"))["sessions"] == 20
    refused = midcourse("report", "show", "--store", store, "-o", str(tmp_path / "no" / "folder.html"))
    assert (refused.code, "cannot be written" in refused.err) == (1, True)


def test_at_80_columns_every_class_has_one_line_in_each_table_and_nothing_is_wider(
    midcourse: Command, fleet: str
) -> None:
    out = midcourse("report", "show", "--store", fleet, *LONG, env={"COLUMNS": "80"}).out
    assert max(map(len, out.splitlines())) <= 80
    for line in (
        "medium 6 66.7 % 5–10 % above 4 by people",
        "medium 25 % of 4 95–98 % below 0 % of 1 50 % of 2",
        "short 3 20 s 40 s up to 30 s too few to say 30 40",
        "very long 7 11 s 14 s – no range – –",
    ):
        assert line in [" ".join(one.split()) for one in out.splitlines()], out


def test_every_figure_is_told_and_with_how_many_it_is_of(midcourse: Command, fleet: str) -> None:
    out = " ".join(midcourse("report", "show", "--store", fleet, *LONG, env={"COLUMNS": "80"}).out.split())
    for words in (
        "estimated within 20 % in 50 % of 2 (target at least 80 %: too few to say); 2 of 13 runs had an estimate",
        "66.7 % of 6 (target 100 %: below); after a stop 75 % of 4, after a lost process 50 % of 2; 1 not known yet",
        "consistent 100 % of 10 (target 100 %: too few to say)",
        "75 % of 4 completed, 90.9 % of 11 of the others: -15.9 pp; 1 cancelled",
        "+2,100 %: $2.20 worth for $0.10 cost, in 2 of 3 automatic interventions",
        "p50 30 tok/s, p99 40 tok/s, of 3 model calls",
    ):
        assert words in out, out


def test_what_nobody_can_know_is_called_unknown(midcourse: Command, store: str) -> None:
    out = " ".join(midcourse("report", "show", "--store", store, *LONG).out.split())
    for words in (
        "calls left unknown: 0 of 0 runs had an estimate",
        "recovered unknown (of 0); after a stop unknown (of 0)",
        "consistent unknown (of 0)",
        "return unknown: worth and cost are known of 0 of 0 automatic interventions",
        "token rate unknown (of 0 model calls)",
    ):
        assert words in out, out


@pytest.mark.parametrize("since", ["", "week", "7", "-3d", "7x"])
def test_a_time_that_is_none_is_refused_before_anything_is_read(midcourse: Command, since: str) -> None:
    done = midcourse("report", "show", "--since", since, "--store", "sqlite:///nowhere.db")
    assert done.code == 2
    assert "is not a duration" in done.err


@pytest.mark.parametrize(
    "command",
    [("report", "show"), ("report", "checklist"), ("policy", "review"), ("policy", "accept", "x", "--why", "y")],
)
def test_a_store_that_is_not_there_is_not_made(midcourse: Command, tmp_path: Path, command: tuple[str, ...]) -> None:
    done = midcourse(*command, "--store", f"sqlite:///{tmp_path}/nowhere.db")
    assert (done.code, "There is no store at" in done.err) == (1, True)
    assert not (tmp_path / "nowhere.db").exists()


def test_an_unknown_policy_is_refused(midcourse: Command, store: str) -> None:
    done = midcourse("report", "show", "--store", store, "--policy", "standrad")
    assert (done.code, "standrad" in done.err) == (1, True)


def test_the_checklist_says_what_does_not_hold_and_exits_with_it(
    midcourse: Command, store: str, tmp_path: Path
) -> None:
    done = midcourse("report", "checklist", "--store", store, *LONG)
    assert done.code == 1
    assert "✕ does not" in done.out
    assert "? unknown" in done.out
    result = tmp_path / "result.json"
    result.write_text(json.dumps({"policies": {"standard@1": {"all": {"runs": 7}}}}), encoding="utf-8")
    items = midcourse("report", "checklist", "--store", store, *LONG, "--backtest", str(result), "--json").json()[
        "items"
    ]
    assert {one["id"]: one["answer"] for one in items}["backtested"] == "holds"
    result.write_text("nonsense", encoding="utf-8")
    refused = midcourse("report", "checklist", "--store", store, "--backtest", str(result))
    assert (refused.code, "is not the result of a backtest" in refused.err) == (1, True)


def test_a_review_lists_its_proposals_and_a_person_settles_them(midcourse: Command, store: str) -> None:
    done = midcourse("policy", "review", "--store", store, *LONG)
    assert done.code == 0
    assert "signals.scope_drift.intervene: 0.7 → 0.9" in done.out
    assert "Of 20 labelled interventions by scope_drift (worker) 10 were right and 10 wrong" in done.out
    assert "Checked 20 sessions and 20 labelled interventions." in done.out
    [found] = midcourse("policy", "review", "--store", store, *LONG, "--json").json()["proposals"]
    accepted = midcourse("policy", "accept", found["id"], "--why", "too eager", "--store", store)
    assert accepted.out.startswith("Kept as standard--worker@1.")
    assert "Nothing is proposed." in midcourse("policy", "review", "--store", store, *LONG).out
    assert "accepted by" in midcourse("policy", "review", "--store", store, *LONG, "--all").out
    assert "standard--worker@1" in midcourse("policy", "list", "--store", store).out
    again = midcourse("policy", "refuse", found["id"], "--why", "no", "--store", store)
    assert (again.code, "was accepted before" in again.err) == (1, True)


def test_a_refusal_needs_a_reason_and_an_id(midcourse: Command, store: str) -> None:
    midcourse("policy", "review", "--store", store, *LONG)
    [found] = midcourse("policy", "review", "--store", store, *LONG, "--json").json()["proposals"]
    assert midcourse("policy", "refuse", found["id"], "--store", store).code == 2
    assert midcourse("policy", "refuse", found["id"], "--why", " ", "--store", store).code == 1
    unknown = midcourse("policy", "refuse", "prop_none", "--why", "x", "--store", store, "--json")
    assert json.loads(unknown.err)["code"] == "proposal_not_found"
    done = midcourse("policy", "refuse", found["id"], "--why", "a bad week", "--store", store)
    assert done.out == f"{found['id']} is refused.\n"


def test_of_a_server_it_is_the_same(midcourse: Command, store: str, tmp_path: Path) -> None:
    async def reviewed() -> None:
        opened = await open_store(store)
        await review(opened, since=0.0, now=5000.0)
        await opened.close()

    asyncio.run(reviewed())
    here = midcourse("report", "show", "--store", store, *LONG).out
    with serving(store) as running:
        there = ("--url", running.url, "--token", TOKEN)
        assert midcourse("report", "show", *there, *LONG).out == here
        assert midcourse("report", "show", *there, *LONG, "--format", "html").out.startswith("<!doctype html>")
        items = midcourse("report", "checklist", *there, *LONG, "--json").json()["items"]
        assert {one["id"]: one["answer"] for one in items}["false-positives"] == "does not"
        assert midcourse("report", "checklist", *there, "--backtest", "x.json").code == 1
        tried = tmp_path / "tried.json"
        tried.write_text(json.dumps({"policies": {"standard@1": {"all": {"runs": 7}}}}), encoding="utf-8")
        for policy, answer in (("standard", "holds"), ("standard@1", "holds"), ("trading", "does not")):
            wanted = ("report", "checklist", *LONG, "--policy", policy, "--backtest", str(tried), "--json")
            items = midcourse(*wanted, *there).json()["items"]
            assert {one["id"]: one["answer"] for one in items}["backtested"] == answer
            assert items == midcourse(*wanted, "--store", store).json()["items"]
        [found] = midcourse("policy", "review", *there, "--json").json()["proposals"]
        done = midcourse("policy", "accept", found["id"], "--why", "yes", *there, "--json").json()
        assert (done["state"], done["kept_as"]) == ("accepted", "standard--worker@1")
