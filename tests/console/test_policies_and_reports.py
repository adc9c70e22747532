"""The pages for policies and reports: edited and checked, tried, calibrated, accepted; and what the API reports."""

import asyncio
import re
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from midcourse.analysis.reports.number_format import seconds
from midcourse.clock import SystemClock
from midcourse.server.console_files import is_built
from midcourse.wiring import open_store
from tests.console.agents import quick
from tests.console.conftest import LIMITS, SETTINGS, Opening
from tests.console.pages import PHONE, Api, Window, link_for
from tests.console.test_phone import hit_by_a_finger, sheets_fit
from tests.reports.recorded_fleet import recorded_fleet
from tests.reports.recordings import FAILED, SUCCEEDED, fill
from tests.reports.stores import keep
from tests.server.live_server import Running, serving

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server over a store in which sessions ran, were stopped and labelled, and a review has proposed something."""
    assert is_built(), "the console is not built: run `make console`"
    where = f"sqlite:///{tmp_path_factory.mktemp('desk')}/runs.db"

    async def prepare() -> None:
        store = await open_store(where)
        await fill(store, SystemClock().now())
        await store.close()

    # In a thread of its own: in this one Playwright's loop may run.
    preparing = threading.Thread(target=lambda: asyncio.run(prepare()))
    preparing.start()
    preparing.join()
    with serving(where, quick, settings=SETTINGS, limits=LIMITS, durability="process") as running:
        yield running


def text_of(page: Page) -> Locator:
    return page.get_by_label("The policy as YAML")


def difference(page: Page) -> Locator:
    return page.get_by_role("region", name="Difference")


def test_a_typo_is_told_on_its_line_and_what_is_saved_is_the_next_version(opening: Opening, api: Api) -> None:
    window = opening()
    page = window.open("?policies")
    page.get_by_role("link", name="conservative").click()
    page.get_by_role("button", name="Edit as YAML").click()
    text = text_of(page).input_value()
    expect(text_of(page)).to_be_focused()
    text_of(page).fill(text.replace("  loops:", "  lops:"))
    line = text[: text.index("  loops:")].count("\n") + 1
    expect(page.get_by_role("button", name=f"line {line}")).to_be_visible()
    expect(page.locator("#mistakes")).to_contain_text("unknown signal 'lops'. Did you mean 'loops'?")
    expect(page.locator(".gutter .bad")).to_have_text(str(line))
    expect(text_of(page)).to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="Use v2 for new sessions").press("Enter")
    expect(page.get_by_text("The text has mistakes: it cannot be saved.")).to_be_visible()
    assert api.get("/policies/conservative")["version"] == 1

    text_of(page).fill(re.sub(r"(  loops:\n.*\n    intervene: )\S+", r"\g<1>3.5", text))
    expect(difference(page)).to_contain_text("1 parameter differs from v1: 1 to step in earlier.")
    expect(difference(page).locator("ins")).to_have_text("3.5")
    page.get_by_role("button", name="Use v2 for new sessions").click()
    expect(page.get_by_text("Give a reason for the change.")).to_be_visible()
    page.get_by_label("Why it is changed").fill("it went round for too long")
    page.keyboard.press("Enter")

    expect(page.get_by_text("conservative v2 is saved.")).to_be_visible()
    saved = api.get("/policies/conservative")
    assert (saved["version"], saved["why"], saved["by"]) == (2, "it went round for too long", "local")
    history = page.get_by_role("region", name="History")
    expect(history.get_by_role("row")).to_have_count(3)
    history.get_by_role("link", name="v1").click()
    expect(page.get_by_text("This is an old version.")).to_be_visible()
    expect(history).to_contain_text("1 to step in later")
    # The browser itself tells of each answer that was a refusal, and of nothing else.
    assert all("422" in one for one in window.complaints)
    assert window.strangers == []


@pytest.mark.browser_full
def test_somebody_else_s_version_is_not_overwritten(opening: Opening, api: Api) -> None:
    page = opening().open("?policy=permissive")
    page.get_by_role("button", name="Edit as YAML").click()
    text = text_of(page).input_value()
    text_of(page).fill(text.replace("correction: 200", "correction: 250"))
    expect(difference(page)).to_contain_text("none about when it steps in")
    api.put("/policies/permissive", document=text.replace("correction: 200", "correction: 300"), why="first")
    page.get_by_label("Why it is changed").fill("second")
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile("Nothing was saved: check the difference"))).to_be_visible()
    assert api.get("/policies/permissive")["why"] == "first"


def test_a_policy_is_calibrated_from_what_ran_here_tried_and_put_to_use(window: Window, api: Api) -> None:
    page = window.open("?policy=standard")
    tried = page.get_by_role("region", name=re.compile("would have done"))
    # Of the six that were stopped, people said of three that this was right: those count as failing.
    ended = FAILED + SUCCEEDED + 6
    expect(tried).to_contain_text(f"{ended} recorded runs: {FAILED + 3} failed, {SUCCEEDED + 3} succeeded")
    expect(page.get_by_role("region", name="Thresholds")).to_contain_text(f"grey: {ended} recorded runs")
    expect(page.locator(".rail rect").first).to_be_attached()

    page.get_by_role("button", name="Calibrate from recorded runs").click()
    proposal = page.get_by_role("region", name="Calibrated thresholds")
    expect(proposal).to_contain_text("so expect less of others")
    repeats = proposal.get_by_role("listitem").filter(has_text="Repeats without progress")
    expect(repeats).to_contain_text("steps in earlier")
    proposal.get_by_role("button", name="Open as YAML").click()
    expect(page.locator(".rail .th.new").first).to_be_attached()
    page.get_by_role("button", name="Backtest this text").click()
    table = page.get_by_role("table", name="By class and agent")
    expect(table.get_by_role("row").filter(has_text="this text").first).to_be_visible()
    said = api.post("/policies/backtest", document=text_of(page).input_value(), against=["standard@1"], limit=200)
    row = table.get_by_role("row", name="searcher agent this text")
    score = said["policies"][0]["sources"]["searcher"]
    cells = [score["runs"], score["failures"], score["successes"], score["interventions"]]
    assert row.get_by_role("cell").all_inner_texts()[1:5] == [str(one) for one in cells]
    figure = page.get_by_role("img", name=re.compile("^Backtest: caught failing runs"))
    caught = [round(100 * one["all"]["recall"]) for one in said["policies"]]
    assert caught[0] > caught[1]
    words = f"this text catches {caught[0]} % .*; standard v1 catches {caught[1]} % .* The limit is 30 %"
    expect(figure).to_have_accessible_name(re.compile(words))

    expect(page.get_by_label("Why it is changed")).to_have_value(re.compile(f"^Calibrated from {FAILED + 3} failing"))
    page.get_by_role("button", name="Use v2 for new sessions").click()
    expect(page.get_by_text("standard v2 is saved.")).to_be_visible()
    assert api.get("/policies/standard")["document"]["signals"]["loops"]["intervene"] == 4


def test_a_proposal_is_accepted_with_a_reason(window: Window, api: Api) -> None:
    page = window.open("?policies")
    proposal = page.get_by_role("region", name="Proposal for standard--worker")
    expect(proposal).to_contain_text("Of 20 labelled interventions by scope_drift")
    proposal.get_by_role("button", name="Accept…").click()
    expect(proposal.get_by_label("Why it is accepted")).to_be_focused()
    page.keyboard.press("Escape")
    expect(proposal.get_by_role("button", name="Accept…")).to_be_focused()
    proposal.get_by_role("button", name="Accept…").click()
    names_it = 'New sessions use it once the terms of agent worker name it: policy="standard--worker".'
    expect(proposal).to_contain_text(names_it)
    proposal.get_by_role("button", name="Save standard--worker").click()
    expect(proposal).to_contain_text("Give a reason.")
    proposal.get_by_label("Why it is accepted").fill("half of them were wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"standard--worker v1 is saved. {names_it}")).to_be_visible()
    [settled] = api.get("/proposals")["proposals"]
    assert (settled["state"], settled["why"], settled["kept_as"]) == (
        "accepted", "half of them were wrong", "standard--worker@1",
    )  # fmt: skip
    expect(page.get_by_role("row", name="standard--worker")).to_contain_text("half of them were wrong")
    actions = [one["action"] for one in api.get("/audit")["entries"]]
    assert {"policy.save", "proposal.accept"} <= set(actions)


def test_the_report_says_what_the_api_says_and_its_period_is_in_the_address(window: Window, api: Api) -> None:
    page = window.open("?policies")
    expect(page.get_by_role("heading", name="Policies", exact=True)).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Report", exact=True)).to_be_visible()
    page.get_by_role("radio", name="Quarter").check()
    expect(page).to_have_url(re.compile(r"\?reports&period=quarter$"))
    report = api.get("/reports", since=int(SystemClock().now() - 91 * 86_400))
    for alert in report["alerts"]:
        expect(page.get_by_role("region", name="Missed targets")).to_contain_text(alert["sentence"])
    classes = page.get_by_role("table", name="Classes against their targets")
    for row in report["classes"]:
        shown = classes.get_by_role("row").filter(has_text=row["task_class"])
        expect(shown).to_contain_text(row["interrupted"]["verdict"])
        expect(shown.get_by_role("cell").first).to_have_text(str(row["sessions"]))
    signals = page.get_by_role("region", name=re.compile("^Were we right to step in"))
    expect(signals.first).to_contain_text("too few to say: 6 labelled, needs 10")
    words = f"Stops by how long they took: median {seconds(report['stops']['p50'])}, "
    expect(page.get_by_role("img", name=words)).to_be_visible()
    for item in api.get("/checklist", since=int(report["since"]))["items"]:
        expect(page.get_by_role("region", name="Ready for production?")).to_contain_text(item["what"])
    with page.expect_download() as downloading:
        page.get_by_role("button", name="HTML").click()
    assert "Classes against their targets" in downloading.value.path().read_text(encoding="utf-8")
    page.reload()
    expect(page.get_by_role("radio", name="Quarter")).to_be_checked()


@pytest.fixture(scope="module")
def known_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server over the fleet whose figures are worked out by hand."""
    where = f"sqlite:///{tmp_path_factory.mktemp('fleet')}/runs.db"

    async def prepare() -> None:
        store = await open_store(where)
        await keep(store, *recorded_fleet(SystemClock().now() - 2 * 86_400))
        await store.close()

    preparing = threading.Thread(target=lambda: asyncio.run(prepare()))
    preparing.start()
    preparing.join()
    with serving(where, settings=SETTINGS, limits=LIMITS, durability="process") as running:
        yield running


@pytest.mark.parametrize("phone", [False, True], ids=["desk", "phone"])
def test_every_figure_of_the_known_fleet_is_on_the_report_and_is_drawn(
    opening: Opening, known_fleet: Running, phone: bool
) -> None:
    width, height = PHONE
    window = opening(viewport={"width": width, "height": height}) if phone else opening()
    page = window.page
    page.goto(link_for(known_fleet.url))
    page.wait_for_url(f"{known_fleet.url}/")
    page.goto(f"{known_fleet.url}/?reports&period=week")

    def row(table: str, name: str) -> Locator:
        rows = page.get_by_role("table", name=table).get_by_role("row")
        return rows.filter(has=page.get_by_role("rowheader", name=name, exact=True))

    for table, name, cells in (
        (
            "How long runs took",
            "short",
            ["3", "20 s", "40 s", "up to 30 s", "66.7 % of 3", "too few to say"],
        ),
        ("How long runs took", "very long", ["7", "11 s", "14 s", "no range", "unknown", "–", "–"]),
        ("Did they complete?", "all", ["75 % of 4", "–", "–", "90.9 % of 11", "-15.9 pp", "1"]),
        ("Did they complete?", "very long", ["unknown", "85–90 %", "–", "100 % of 7", "–", "0"]),
        ("Did stopped runs continue?", "Recovered", ["66.7 %", "100 %", "below", "6", "1 not known yet"]),
        ("Did stopped runs continue?", "after its process was lost", ["50 %", "100 %", "below", "2"]),
        ("Did stopped runs continue?", "Journal and store agree", ["100 %", "100 %", "too few to say", "10"]),
    ):
        found = row(table, name).get_by_role("cell")
        for place, words in enumerate(cells):
            expect(found.nth(place)).to_have_text(words)
    estimate = row("Did stopped runs continue?", "Calls left estimated within 20 %")
    expect(estimate).to_contain_text("2 of 13 runs had an estimate; middle error 16.7 %")
    returned = page.locator(".figures div").filter(has_text="return")
    expect(returned).to_contain_text("+2,100 %")
    expect(returned).to_contain_text("$2.20 worth for $0.10 cost; known of 2 of 3 automatic")
    expect(page.get_by_role("img", name=re.compile(r"^Time worked\. short: p50 20 s, p99 40 s; "))).to_be_visible()
    expect(page.get_by_role("img", name="Token rate. short: p50 30 tok/s, p99 40 tok/s.")).to_be_visible()
    expect(page.locator(".quantiles canvas")).to_have_count(2)
    window.is_narrow()
    assert not window.complaints


@pytest.mark.browser_full
def test_who_may_only_watch_tries_a_text_and_cannot_save_it(opening: Opening, server: Running, api: Api) -> None:
    window = opening(token=api.post("/tokens", name="looker", role="watch")["token"])
    page = window.open("?policy=trading")
    page.get_by_role("button", name="Edit as YAML").click()
    text_of(page).fill(text_of(page).input_value().replace("correction: 200", "correction: 201"))
    save = page.get_by_role("button", name="Use v2 for new sessions")
    expect(save).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_text("Only an operator can save policies.")).to_be_visible()
    page.get_by_role("button", name="Backtest this text").click()
    expect(page.get_by_role("heading", name="What this text would have done")).to_be_visible()


@pytest.mark.browser_full
def test_what_a_tenant_saves_is_its_own(opening: Opening, server: Running, api: Api) -> None:
    window = opening(token=api.post("/tokens", name="ann", role="operate", tenant="acme")["token"])
    page = window.open("?policy=code-generation")
    page.get_by_role("button", name="Edit as YAML").click()
    text_of(page).fill(text_of(page).input_value() + "correction: 201\n")
    page.get_by_label("Why it is changed").fill("longer ones")
    page.get_by_role("button", name="Save code-generation as your own").click()
    expect(page.get_by_text("acme~code-generation v1 is saved.")).to_be_visible()
    expect(page.get_by_role("region", name="History")).to_contain_text("longer ones")
    assert api.get("/policies/code-generation")["version"] == 1
    assert api.get("/policies/acme~code-generation")["document"]["correction"] == 201
    window.is_calm()


@pytest.mark.browser_full
def test_on_a_phone_everything_fits_and_can_be_hit(opening: Opening) -> None:
    width, height = PHONE
    window = opening(viewport={"width": width, "height": height}, has_touch=True, is_mobile=True)
    page = window.page
    for query, seen in (("?policies", ".policies"), ("?policy=trading", ".plot"), ("?reports", ".checks")):
        window.open(query)
        expect(page.locator(seen).first).to_be_visible()
        window.is_narrow()
        sheets_fit(window)
        hit_by_a_finger(window, "body")
    page = window.open("?newpolicy")
    text_of(page).fill("policy: mine\nsignals: {lops: {warn: 3}}\n")
    expect(page.get_by_role("button", name="line 2")).to_be_visible()
    window.is_narrow()
    hit_by_a_finger(window, "body")
