"""What a policy did and why, whether that was right, its review, and how content somebody is at the end."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from midcourse.clock import SystemClock
from tests.console.agents import AGENTS, GATES, Ahead, goal
from tests.console.conftest import LIMITS, SETTINGS, Opening
from tests.console.pages import GUARD, PHONE, Api, RunPage, Window, until
from tests.console.test_accessible import AXE, THEMES, grave
from tests.console.test_phone import hit_by_a_finger
from tests.server.live_server import Running, serving

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose clock the agents put forward: no policy interrupts anybody in the first two minutes."""
    store = tmp_path_factory.mktemp("interventions") / "sessions.db"
    now, monotonic = SystemClock.now, SystemClock.monotonic

    def now_ahead(clock: SystemClock) -> float:
        return now(clock) + Ahead.seconds

    def monotonic_ahead(_clock: SystemClock) -> float:
        return monotonic() + Ahead.seconds

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SystemClock, "now", now_ahead)
        patched.setattr(SystemClock, "monotonic", monotonic_ahead)
        with serving(f"sqlite:///{store}", *AGENTS, settings=SETTINGS, limits=LIMITS, durability="process") as running:
            GATES.begin()
            yield running
            GATES.end()


@pytest.fixture(autouse=True)
def _an_hour_later(api: Api) -> Iterator[None]:
    """One person is interrupted only so often in an hour; and nothing goes on that would put the clock forward."""
    Ahead.seconds += 3_700
    yield
    for one in api.get("/sessions", limit=200)["sessions"]:
        if one["status"] not in ("completed", "cancelled", "failed"):
            api.post(f"/sessions/{one['id']}/cancel", grace=0, wait=0)


def step_in(run: RunPage, words: str) -> Locator:
    """What the log says of an intervention."""
    return run.log.locator(".stepin").filter(has_text=words)


def paused(window: Window, api: Api, words: str = "Find the login bug") -> tuple[str, RunPage]:
    """A run that its policy has paused for review."""
    session = api.start("searcher", goal(words))
    run = window.watch(session)
    run.is_at("paused")
    expect(run.tray.get_by_role("button", name="Continue", exact=True)).to_be_visible()
    return session, run


def stopped(window: Window, api: Api) -> tuple[str, RunPage]:
    """A run that its policy has stopped at once."""
    session = api.start("stumbler", goal("Read the pages"))
    run = window.watch(session)
    run.is_at("paused")
    return session, run


def test_what_a_policy_did_is_told_with_its_reason_its_arithmetic_and_what_it_did_not_see(
    window: Window, api: Api
) -> None:
    _, run = paused(window, api)
    expect(window.page.locator(".facts")).to_contain_text(re.compile(r"long\s*policy standard v1"))

    noticed = step_in(run, "Policy noticed")
    expect(noticed).to_contain_text("It goes round: 3 repeats with no progress reported; the limit is 3.")
    expect(noticed).not_to_contain_text("loops 3 ≥ 3")
    expect(noticed.get_by_role("group", name="Was that right?")).to_have_count(0)
    noticed.get_by_role("button", name="why").click()
    expect(noticed).to_contain_text("loops 3 ≥ 3")

    asked = step_in(run, "Policy asked for its plan")
    expect(asked).to_contain_text("standard v1")
    expect(asked).to_contain_text("It goes round: 5 repeats")
    expect(asked.locator(".math")).to_contain_text(re.compile(r"^loops 5 ≥ 5\nworth: .+ against .+ min$"))
    expect(asked.locator(".unseen")).to_contain_text("hypothesis (the agent has stated none)")

    held = step_in(run, "Policy paused it")
    expect(held).to_contain_text("It goes round: ")
    expect(held).to_contain_text("the answer is in the handle below")
    expect(run.sentence).to_contain_text(re.compile(r"Paused \d\d:\d\d by policy standard v1: “It goes round"))
    # Each is told once: neither its words to the agent, nor the pause, nor the ask is a line of its own.
    expect(run.log.locator(".said")).to_have_count(0)
    expect(run.log).not_to_contain_text("Paused by")
    expect(run.log).not_to_contain_text("asks:")
    expect(window.page.locator(".course .mk")).to_have_count(2)
    expect(window.page.locator(".course .mk").last).to_contain_text("policy standard v1, paused")
    expect(run.tray).not_to_contain_text("5 repeats")
    expect(run.slot("Resume")).not_to_have_accessible_name(re.compile("with your change"))
    expect(run.assertive).to_have_text(
        re.compile("^Paused by policy standard v1. Waiting for an answer: It goes round")
    )


def test_an_intervention_is_called_right_or_wrong_with_one_tap_and_everybody_sees_it(
    opening: Opening, window: Window, api: Api
) -> None:
    session, run = paused(window, api)
    other = opening().watch(session)
    asked = step_in(run, "Policy asked for its plan").get_by_role("group", name="Was that right?")
    asked.get_by_role("button", name="Right").click()

    expect(asked.get_by_role("button", name="Right")).to_have_attribute("aria-pressed", "true")
    expect(asked.get_by_role("status")).to_have_text("You said: right.")
    expect(step_in(other, "Policy asked for its plan").get_by_role("status")).to_have_text("You said: right.")
    asked.get_by_role("button", name="Unsure").click()
    expect(asked.get_by_role("status")).to_have_text("You said: unsure.")
    expect(asked.get_by_role("button", name="Right")).to_have_attribute("aria-pressed", "false")
    said = [(one["data"]["about"], one["data"]["verdict"]) for one in api.events(session, "intervention.labelled")]
    assert said == [("int_2", "right"), ("int_2", "unsure")]

    window.page.reload()
    expect(asked.get_by_role("status")).to_have_text("You said: unsure.")


def test_the_keys_plus_and_minus_mean_the_last_intervention(window: Window, api: Api) -> None:
    session, run = paused(window, api)
    last = step_in(run, "Policy paused it").get_by_role("group", name="Was that right?")
    expect(last.get_by_role("button", name="Right")).to_have_attribute("aria-keyshortcuts", "+")
    window.page.keyboard.press("+")
    expect(last.get_by_role("status")).to_have_text("You said: right.")
    window.page.keyboard.press("-")
    expect(last.get_by_role("status")).to_have_text("You said: wrong.")
    run.tray.get_by_role("textbox", name="An instruction").focus()
    window.page.keyboard.type("+-")
    expect(run.tray.get_by_role("textbox", name="An instruction")).to_have_value("+-")
    said = [(one["data"]["about"], one["data"]["verdict"]) for one in api.events(session, "intervention.labelled")]
    assert said == [("int_3", "right"), ("int_3", "wrong")]


def test_a_label_that_could_not_be_sent_is_not_shown_as_given(opening: Opening, api: Api) -> None:
    window = opening()
    session, run = stopped(window, api)
    judge = step_in(run, "Policy stopped it").get_by_role("group", name="Was that right?")
    window.page.route("**/label", lambda route: route.abort())
    judge.get_by_role("button", name="Wrong").click()
    expect(judge.get_by_role("status")).to_have_text("No reply came: whether it arrived is not known.")
    expect(judge.get_by_role("button", name="Wrong")).to_have_attribute("aria-pressed", "false")
    window.page.unroute("**/label")
    judge.get_by_role("button", name="Wrong").click()
    expect(judge.get_by_role("status")).to_have_text("You said: wrong.")
    assert len(api.events(session, "intervention.labelled")) == 1


def test_who_only_watches_is_shown_labels_and_no_buttons(opening: Opening, api: Api) -> None:
    session, _ = stopped(opening(), api)
    api.post(f"/sessions/{session}/label", about="int_1", verdict="right")
    token = api.post("/tokens", name=f"eyes-{session[-6:]}", role="watch")["token"]
    window = opening(token=token)
    run = window.watch(session)
    expect(step_in(run, "Policy stopped it")).to_contain_text("said: right.")
    expect(run.log.get_by_role("button", name="Right")).to_have_count(0)
    expect(run.tray).to_contain_text("Your token cannot answer this. It needs the role steer.")
    api.post(f"/sessions/{session}/cancel")
    run.is_at("cancelled")
    expect(window.page.get_by_role("group", name="How satisfied")).to_have_count(0)


def test_a_review_is_answered_with_go_on(window: Window, api: Api) -> None:
    session, run = paused(window, api)
    expect(run.tray).to_contain_text("It goes round: ")
    expect(run.tray.locator(".math")).to_contain_text(re.compile(r"^loops [89] ≥ 5"))
    expect(run.tray).not_to_contain_text("used after the resume")
    run.tray.get_by_role("button", name="Continue", exact=True).click()

    run.is_at("running")
    expect(run.tray).to_have_count(0)
    expect(step_in(run, "Policy paused it")).to_contain_text(
        re.compile(r"you answered “go on” at .*\d\d:\d\d:\d\d, after ")
    )
    GATES.open(session, "end")
    run.is_at("completed")
    expect(run.sentence).to_contain_text("found nothing")


def test_a_review_is_answered_with_an_instruction_of_some_length(window: Window, api: Api) -> None:
    session, run = paused(window, api)
    window.page.keyboard.press("e")
    field = run.tray.get_by_role("textbox", name="An instruction")
    expect(field).to_be_focused()
    field.fill("x" * 212)
    expect(run.tray).to_contain_text("212 / 200, shorten by 12")
    window.page.keyboard.press("Enter")
    field.fill("Look at the session store instead")
    window.page.keyboard.press("Enter")

    run.is_at("running")
    expect(run.log.locator(".said")).to_contain_text("You redirected the step")
    expect(run.log.locator(".said")).to_contain_text("Look at the session store instead")
    GATES.open(session, "end")
    run.is_at("completed")
    expect(run.sentence).to_contain_text("told: Look at the session store instead")


def test_a_review_is_answered_with_cancel_after_its_preview(window: Window, api: Api) -> None:
    session, run = paused(window, api)
    run.tray.get_by_role("button", name="Cancel…").click()
    expect(run.preview.get_by_role("row", name="create_table")).to_be_visible()
    run.press("Keep it")
    run.is_at("paused")
    expect(run.tray.get_by_role("button", name="Continue", exact=True)).to_be_visible()

    window.page.keyboard.press("x")
    expect(run.preview.get_by_role("row", name="create_table")).to_be_visible()
    run.press("Cancel run")
    run.is_at("cancelled")
    (answered,) = api.events(session, "ask.answered")
    assert answered["data"]["value"]["raw"] == "cancel"
    expect(step_in(run, "Policy paused it")).to_contain_text("you answered “cancel”")


def test_another_choice_of_what_to_undo_is_kept_when_a_review_is_cancelled(window: Window, api: Api) -> None:
    session, run = paused(window, api)
    run.tray.get_by_role("button", name="Cancel…").click()
    run.preview.get_by_role("radio", name="Undo everything possible").check()
    run.press("Cancel run")
    run.is_at("cancelled")
    expect(run.receipt).to_contain_text("1 undone")
    (cancelled,) = api.events(session, "session.cancel_requested")
    assert cancelled["data"]["undo"] == "all"
    expect(step_in(run, "Policy paused it")).to_contain_text("withdrawn by the cancel")


def test_the_handles_own_resume_closes_the_review(window: Window, api: Api) -> None:
    _, run = stopped(window, api)
    expect(run.tray).to_contain_text("Policy stopped it")
    expect(step_in(run, "Policy stopped it")).to_contain_text("5 calls in a row failed.")
    run.press("Resume")
    run.is_at("running")
    expect(run.tray).to_have_count(0)
    expect(step_in(run, "Policy stopped it")).to_contain_text("you resumed at")


def test_what_the_agent_asks_of_its_own_accord_is_answered_in_words(window: Window, api: Api) -> None:
    session = api.start("searcher", "fix it")
    run = window.watch(session)
    run.is_at("paused")
    expect(step_in(run, "The agent asks")).to_contain_text("“fix it” does not say what.")
    expect(run.tray).to_contain_text("The agent asks")
    expect(run.sentence).to_contain_text("by the agent")
    run.tray.get_by_role("textbox", name="Your answer").fill("The login bug")
    run.tray.get_by_role("button", name="Answer").click()
    expect(step_in(run, "The agent asked")).to_contain_text("you answered “The login bug”")
    expect(run.log.locator(".said").first).to_contain_text("The login bug")


def test_a_run_is_rated_at_its_end_with_one_tap(window: Window, api: Api) -> None:
    session = api.start("quick", goal("Be quick"))
    run = window.watch(session)
    run.is_at("completed")
    rating = window.page.get_by_role("group", name="How satisfied are you with this run?")
    rating.get_by_role("button", name="4 of 5").click()
    expect(rating.get_by_role("status")).to_have_text("Rated 4 of 5.")
    expect(rating.get_by_role("button", name="4 of 5")).to_have_attribute("aria-pressed", "true")
    rating.get_by_role("button", name="2 of 5").click()
    expect(rating.get_by_role("status")).to_have_text("Rated 2 of 5.")
    expect(window.page.locator(".facts")).to_contain_text("rated 2 of 5")
    assert [one["data"]["score"] for one in api.events(session, "session.rated")] == [4, 2]

    window.open(f"?run={session}&at=2")
    expect(window.page.get_by_role("region", name="Inspect")).to_be_visible()
    expect(rating).to_have_count(0)
    running = window.watch(api.start("memo", goal("Write the memo")))
    running.is_at("running")
    expect(rating).to_have_count(0)


def test_a_run_that_waits_for_its_review_is_among_those_that_need_somebody(window: Window, api: Api) -> None:
    wanted = goal("Find what needs somebody")
    session, _ = paused(window, api, wanted)
    name = api.get(f"/sessions/{session}")["goal"]
    other = api.start("memo", goal("Only paused"))
    api.post(f"/sessions/{other}/pause")
    until(window.page, lambda: api.status(other) == "paused")
    window.open("?inbox")
    queue = window.page.get_by_role("navigation", name="Asks by deadline")
    expect(queue).to_contain_text(name)
    expect(queue).to_contain_text("review")
    expect(queue).not_to_contain_text("Only paused")
    expect(window.top.get_by_role("link", name="Inbox").locator(".count")).to_have_text("1")


def gauge(run: RunPage, title: str) -> Locator:
    """A signal, by its title."""
    return run.page.get_by_role("meter", name=title, exact=True)


def test_gauges_and_their_histories_show_what_the_server_measured(window: Window, api: Api) -> None:
    session, run = paused(window, api)
    found = {one["name"]: one for one in api.get(f"/sessions/{session}/signals")["signals"]}
    loops = found["loops"]
    assert (loops["past"], loops["intervene"]) == ("intervene", 5)
    repeats = gauge(run, "Repeats without progress")
    expect(repeats).to_have_attribute("aria-valuetext", re.compile(rf"^{loops['value']:.0f}, steps in at 5, since "))
    expect(repeats.locator(".state")).to_contain_text("steps in at 5, since ")
    expect(repeats.locator(".tape u")).to_have_count(2)
    # Nothing is said of what is well, and what was not measured says why.
    expect(gauge(run, "Turn duration").locator(".state")).to_have_count(0)
    expect(gauge(run, "Turn duration")).to_have_attribute("aria-valuemax", "2700")
    unseen = [one for one in found.values() if one["value"] is None]
    window.page.get_by_text(f"{len(unseen)} signals not measured").click()
    for one in unseen:
        expect(window.page.locator(".notseen")).to_contain_text(f"{one['title']}{one['unseen']}")

    window.page.get_by_role("button", name="history", exact=True).click()
    history = window.page.get_by_role("slider", name="History of Repeats without progress")
    # Warned of, asked for its plan, paused: a disc for each, and they are read with the points.
    expect(history.locator(".disc")).to_have_count(3)
    expect(history).to_have_attribute("aria-valuemax", str(len(loops["history"]) + 3))
    history.focus()
    window.page.keyboard.press("Home")
    expect(history).to_have_attribute("aria-valuetext", re.compile(rf": {loops['history'][0][1]:.0f}$"))
    said: set[str] = set()
    for _ in range(len(loops["history"]) + 2):
        window.page.keyboard.press("ArrowRight")
        said.add(re.sub(r"^.*\d, ?|^.*\d$", "", str(history.get_attribute("aria-valuetext"))))
    assert said == {"", "policy noticed", "policy asked for its plan", "policy paused it"}


@pytest.mark.browser_full
def test_an_alarm_that_could_wait_is_labelled_in_the_inbox_by_key(window: Window, api: Api) -> None:
    session, _ = paused(window, api)
    page = window.open("?inbox")
    queue = page.get_by_role("navigation", name="Asks by deadline")
    group = queue.get_by_role("button", name=re.compile("Repeats without progress in"))
    group.click()
    alarms = page.get_by_role("article", name="Alarms")
    newest = alarms.get_by_role("listitem").filter(has_text=session).first
    expect(newest).to_contain_text("It goes round: 5 repeats")
    newest.get_by_role("link").focus()
    page.wait_for_timeout(GUARD)
    page.keyboard.press("-")
    expect(newest.get_by_role("status")).to_have_text("Labelled wrong.")
    page.keyboard.press("+")
    expect(newest.get_by_role("status")).to_have_text("Labelled right.")
    said = [(one["data"]["about"], one["data"]["verdict"]) for one in api.events(session, "intervention.labelled")]
    assert said == [("int_2", "wrong"), ("int_2", "right")]
    page.reload()
    group.click()
    expect(newest.get_by_role("status")).to_have_text("Labelled right.")


def test_a_review_is_answered_from_the_inbox_and_its_cancel_shows_the_preview(window: Window, api: Api) -> None:
    session, _ = paused(window, api)
    page = window.open("?inbox")
    detail = page.get_by_role("article", name="Ask")
    expect(detail).to_contain_text("Policy paused it")
    expect(detail.get_by_role("button", name="Continue", exact=True)).to_be_visible()
    page.keyboard.press("x")
    run = RunPage(page)
    expect(run.preview.get_by_role("row", name="create_table")).to_be_visible()
    run.press("Keep it")
    window.open("?inbox")
    detail.get_by_role("button", name="Continue", exact=True).click()
    until(page, lambda: [one["data"]["value"]["raw"] for one in api.events(session, "ask.answered")] == ["go on"])


def test_a_policys_work_fits_a_phone_and_can_be_hit(opening: Opening, api: Api) -> None:
    width, height = PHONE
    window = opening(viewport={"width": width, "height": height}, has_touch=True, is_mobile=True)
    session, run = paused(window, api)
    step_in(run, "Policy noticed").get_by_role("button", name="why").click()
    window.is_narrow()
    hit_by_a_finger(window, "body")
    run.tray.get_by_role("button", name="Continue", exact=True).click()
    GATES.open(session, "end")
    run.is_at("completed")
    expect(window.page.get_by_role("group", name="How satisfied")).to_be_visible()
    window.is_narrow()
    hit_by_a_finger(window, "body")


def test_axe_finds_nothing_grave_in_a_policys_work(opening: Opening, api: Api) -> None:
    window = opening(bypass_csp=True)
    session, run = paused(window, api)
    api.post(f"/sessions/{session}/label", about="int_2", verdict="wrong")
    step_in(run, "Policy noticed").get_by_role("button", name="why").click()
    window.page.get_by_role("button", name="history", exact=True).click()
    window.page.get_by_text("signals not measured").click()
    window.page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[str] = []
    for state in ("review", "rating"):
        if state == "rating":
            run.tray.get_by_role("button", name="Continue", exact=True).click()
            GATES.open(session, "end")
            run.is_at("completed")
            window.page.get_by_role("button", name="4 of 5").click()
            expect(window.page.get_by_text("Rated 4 of 5.")).to_be_visible()
        for theme, (width, height) in THEMES:
            window.page.emulate_media(color_scheme=theme)
            window.page.set_viewport_size({"width": width, "height": height})
            expect(window.page.locator("html")).to_have_attribute("data-theme", theme)
            window.is_narrow()
            found += [f"{state} {theme} {width}: {one}" for one in grave(window)]
    assert found == []
