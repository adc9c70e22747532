"""What the console says at its worst moments, compared with the journal."""

import contextlib
import re
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.agents import goal
from tests.console.conftest import Opening
from tests.console.pages import Api, RunPage, Window, let_in, until
from tests.console.processes import Process, held, process
from tests.console.test_kill_switch import halt, report

pytestmark = pytest.mark.timeout(180)
CLOCK = r"\d\d:\d\d:\d\d"
Place = Callable[..., Process]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Starts servers over one store, each in a process of its own; all are ended at the end."""
    with contextlib.ExitStack() as stack:

        def start(*options: str, port: int = 0) -> Process:
            return stack.enter_context(process(tmp_path / "runs.db", *options, port=port))

        yield start


@contextlib.contextmanager
def seen_by(browser: Browser, server: Process) -> Generator[Window]:
    """A window of its own before a server."""
    context = let_in(browser, server.url)
    yield Window(context, server.url)
    context.close()


def begun(api: Api, page: Page, words: str = "Write the memo", **more: Any) -> str:
    """A run that speaks, and goes on speaking."""
    session = api.start("memo", goal(words), **more)
    until(page, lambda: "score" in str(api.events(session, "step.begun")))
    return session


def told(api: Api, session: str) -> tuple[str, list[str], float | None]:
    """What the server knows: the status of the journal, what is stored, and since when the worker has not answered."""
    contact = api.get(f"/sessions/{session}/contact")
    return api.status(session), [one["command"] for one in contact["pending"]], contact["unreachable_since"]


# ---- the owner is silent


def test_a_pause_that_a_silent_worker_has_not_decided_is_called_stored_also_after_a_reload_and_by_others(
    browser: Browser, place: Place
) -> None:
    owner, server = place(), place("watches")
    with seen_by(browser, server) as window, seen_by(browser, server) as other, Api(server.url) as api:
        session = begun(api, window.page)
        run, second = window.watch(session), other.watch(session)
        run.is_at("running")
        owner.stop()
        run.press("Pause")
        for one in (run, second):
            one.is_at("Pause stored")
            expect(one.sentence).to_have_text(
                re.compile(
                    rf"^Its worker has not answered since {CLOCK}\. Not carried out; what is in flight is unknown\.$"
                )
            )
            expect(one.slot("Pausing")).to_have_accessible_name(re.compile("stored; its worker does not answer"))
            expect(one.handle).to_have_attribute("data-stale", "true")
        window.page.wait_for_timeout(3_000)  # it once fell back after two seconds
        run.is_at("Pause stored")
        status, stored, since = told(api, session)
        assert (status, stored) == ("running", ["pause"])
        assert since is not None
        assert api.events(session, "session.pause_requested") == []
        at = window.page.evaluate(
            "at => { const one = new Date(at * 1000); return one.toTimeString().slice(0, 8); }", since
        )
        expect(run.sentence).to_contain_text(f"since {at}")
        expect(run.polite).to_contain_text("Pause stored. Its worker has not answered since")

        window.page.reload()
        run.is_at("Pause stored")
        window.open()
        expect(window.page.locator(f"tr[data-id='{session}']")).to_contain_text(f"Pause stored, no answer since {at}")

        run = window.watch(session)
        owner.go_on()
        for one in (run, second):
            one.is_at("paused")
            expect(one.sentence).to_contain_text("Nothing runs")
        assert len(api.events(session, "session.pause_requested")) == 1
        assert told(api, session) == ("paused", [], None)
        window.is_calm()


def test_the_preview_of_a_cancel_claims_no_shut_gate_while_the_worker_is_silent(browser: Browser, place: Place) -> None:
    owner, server = place(), place("watches")
    with seen_by(browser, server) as window, Api(server.url) as api:
        session = begun(api, window.page)
        run = window.watch(session)
        run.is_at("running")
        owner.stop()
        run.press("Cancel")
        expect(run.tray).to_contain_text(
            re.compile(rf"Not known to be held: the command is stored\. Its worker has not answered since {CLOCK}\.")
        )
        expect(run.tray).not_to_contain_text("The gate is shut")
        expect(run.preview.get_by_role("row", name="create_table")).to_be_visible()
        run.press("Cancel run")
        run.is_at("Pause and cancel stored")
        assert told(api, session)[:2] == ("running", ["pause", "cancel"])
        owner.go_on()
        run.is_at("cancelled")
        assert len(api.events(session, "session.cancel_requested")) == 1


def test_a_hold_that_a_silent_worker_takes_late_is_lifted_when_the_preview_was_left(
    browser: Browser, place: Place
) -> None:
    owner, server = place(), place("watches")
    with seen_by(browser, server) as window, Api(server.url) as api:
        session = begun(api, window.page)
        run = window.watch(session)
        run.is_at("running")
        owner.stop()
        run.press("Cancel")
        expect(run.tray).to_contain_text("Not known to be held")
        run.press("Keep going")
        expect(run.tray).to_contain_text(
            "The hold for the preview is stored. If its worker takes it, it expires after 30 s."
        )
        owner.go_on()
        until(window.page, lambda: api.events(session, "session.resumed") != [])
        run.is_at("running")
        assert [one["data"]["reason"] for one in api.events(session, "session.pause_requested")] == ["cancel preview"]


@pytest.mark.parametrize(
    ("verb", "lamp"), [("redirect", "Redirect stored"), ("resume", "Resume stored"), ("answer", "Answer stored")]
)
def test_every_press_that_a_silent_worker_has_not_decided_is_called_stored(
    browser: Browser, place: Place, verb: str, lamp: str
) -> None:
    owner, server = place(), place("watches")
    with seen_by(browser, server) as window, Api(server.url) as api:
        if verb == "answer":
            session = api.start("chooser", goal("Choose"))
            until(window.page, lambda: api.status(session) == "waiting")
        else:
            session = begun(api, window.page)
        if verb == "resume":
            api.post(f"/sessions/{session}/pause", until="stopped")
        run = window.watch(session)
        run.is_at({"resume": "paused", "answer": "waiting"}.get(verb, "running"))
        before = api.status(session)
        owner.stop()
        if verb == "redirect":
            run.redirect("Only the large ones", "Step")
        elif verb == "resume":
            run.press("Resume")
        else:
            run.tray.get_by_role("button", name="login bug").click()
        run.is_at(lamp)
        expect(run.sentence).to_contain_text("Its worker has not answered since")
        assert told(api, session)[:2] == (before, [verb])
        if verb == "answer":
            expect(run.tray).to_contain_text("An answer is stored")
            expect(run.tray.get_by_role("button", name="login bug")).to_have_count(0)
        owner.go_on()
        until(window.page, lambda: told(api, session)[1] == [])
        expect(run.lamp).not_to_contain_text("stored", ignore_case=True)


def test_many_that_are_paused_at_once_say_which_of_them_are_only_stored(browser: Browser, place: Place) -> None:
    owner, server = place(), place("watches")
    with seen_by(browser, server) as window, Api(server.url) as api:
        sessions = [begun(api, window.page) for _ in range(2)]
        page = window.open()
        owner.stop()
        for session in sessions:
            page.locator(f"tr[data-id='{session}']").get_by_role("checkbox").check()
        many = page.get_by_role("region", name="Handle for 2 selected sessions")
        many.get_by_role("button", name=re.compile("^Pause 2")).click()
        expect(many.locator(".tray")).to_contain_text("2 not reachable.")
        expect(many.locator(".tray")).to_contain_text(
            "Stored; its worker has not answered. It is carried out as soon as a worker answers."
        )
        for session in sessions:
            expect(page.locator(f"tr[data-id='{session}']")).to_contain_text("Pause stored, no answer since")
            assert told(api, session)[:2] == ("running", ["pause"])


def test_the_handle_in_another_page_says_the_same_of_a_silent_worker(browser: Browser, place: Place) -> None:
    owner, server = place(), place("watches")
    with seen_by(browser, server) as window, Api(server.url) as api:
        session = begun(api, window.page)
        page = window.open("?new")
        page.evaluate(
            """async (session) => {
                await import("/midcourse-handle.js");
                const handle = document.createElement("midcourse-handle");
                handle.setAttribute("session", session);
                document.body.replaceChildren(handle);
            }""",
            session,
        )
        run = RunPage(page)
        run.is_at("running")
        owner.stop()
        run.press("Pause")
        run.is_at("Pause stored")
        expect(run.sentence).to_contain_text("Its worker has not answered since")
        owner.go_on()
        run.is_at("paused")


SIZES = ((1280, 800), (390, 844))


def is_whole(run: RunPage) -> None:
    """The sentence and the lamp of the handle can be read whole, and cover nothing, at a desk and on a phone."""
    for width, height in SIZES:
        run.page.set_viewport_size({"width": width, "height": height})
        wide, room = run.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= room, f"{wide} px in {room}"
        hidden = run.sentence.evaluate("one => one.scrollHeight - one.clientHeight")
        assert hidden <= 1, f"{hidden} px of the sentence are cut at {width} px"
        lamp, dials = run.lamp.bounding_box(), run.handle.locator(".dials").bounding_box()
        assert lamp is not None
        assert dials is not None
        beside = lamp["x"] + lamp["width"] <= dials["x"]
        assert beside or lamp["y"] + lamp["height"] <= dials["y"], f"the lamp covers the figures at {width} px"


def clocks(page: Page) -> list[str]:
    """What the page says of how long the run, its turn and its open step have been at work."""
    places = ".dials time, .log .dur, .nowlab, [data-signal=duration] b"
    found = page.locator(places).all_text_contents()
    assert len(found) >= 4, found
    return found


def test_the_clocks_of_a_run_whose_worker_was_killed_stop_at_its_last_sign_of_life(
    browser: Browser, place: Place
) -> None:
    owner, server = place(), place("watches")
    with seen_by(browser, server) as window, Api(server.url) as api:
        session = api.start("memo", goal("Write the memo and send it"))
        run = window.watch(session)
        expect(run.call("send_report")).to_contain_text("running 00:0")
        window.page.wait_for_timeout(2_000)
        owner.kill()
        expect(run.sentence).to_contain_text("Its worker is gone")
        before = clocks(window.page)
        window.page.wait_for_timeout(2_500)
        assert clocks(window.page) == before
        [begun] = [one for one in api.events(session, "step.begun") if one["data"]["name"] == "send_report"]
        last = api.events(session)[-1]
        ran = last["at"] - begun["at"]
        expect(run.call("send_report")).to_contain_text(f"last seen running {int(ran) // 60:02}:{int(ran) % 60:02}")
        expect(run.sentence).to_contain_text("It continues when a process with agent memo takes it over.")
        expect(run.handle).to_have_attribute("data-stale", "true")
        expect(run.slot("Pause")).to_have_accessible_name(re.compile("stored; done when a worker takes over"))
        is_whole(run)
        assert told(api, session) == ("running", [], None)
        assert api.get(f"/sessions/{session}/contact")["unattended"] is True


def test_a_stopped_worker_is_named_with_the_age_of_its_heartbeat_before_anything_is_pressed(
    browser: Browser, place: Place
) -> None:
    owner, server = place(), place("watches")
    with seen_by(browser, server) as window, Api(server.url) as api:
        session = begun(api, window.page)
        run = window.watch(session)
        run.is_at("running")
        owner.stop()
        run.is_at("Last seen running")
        expect(run.sentence).to_have_text(
            re.compile(rf"^Its worker does not respond: last heartbeat at {CLOCK}, \d\d:\d\d ago\. .+ is unknown\.$")
        )
        expect(run.slot("Pause")).to_have_accessible_name(re.compile("stored; done when its worker answers"))
        is_whole(run)
        contact = api.get(f"/sessions/{session}/contact")
        last = api.events(session)[-1]["at"]
        assert contact["silent_since"] >= last
        assert contact["pending"] == []
        at = window.page.evaluate("at => new Date(at * 1000).toTimeString().slice(0, 8)", contact["silent_since"])
        expect(run.sentence).to_contain_text(f"last heartbeat at {at}")
        before = clocks(window.page)
        window.page.wait_for_timeout(1_500)
        assert clocks(window.page) == before
        row = window.open().locator(f"tr[data-id='{session}']")
        expect(row).to_contain_text(f"its worker does not respond: last heartbeat {at}")
        run = window.watch(session)
        owner.go_on()
        run.is_at("running")
        expect(run.sentence).not_to_contain_text("heartbeat")
        assert api.get(f"/sessions/{session}/contact")["silent_since"] is None


def test_a_lamp_that_names_many_commands_covers_no_figures(browser: Browser, place: Place) -> None:
    owner, server = place(), place("watches")
    with seen_by(browser, server) as window, Api(server.url) as api:
        token = api.post("/tokens", name="a-colleague-with-a-long-name", role="steer")["token"]
        session = begun(api, window.page)
        run = window.watch(session)
        run.is_at("running")
        owner.stop()
        with Api(server.url, token) as colleague:
            for verb, body in (("pause", {}), ("resume", {}), ("redirect", {"text": "EU", "level": "step"})):
                colleague.post(f"/sessions/{session}/{verb}", wait=0, **body)
        run.is_at("Pause, resume and redirect stored by a-colleague-with-a-long-name")
        is_whole(run)
        stored = api.get(f"/sessions/{session}/contact")["pending"]
        assert [one["command"] for one in stored] == ["pause", "resume", "redirect"]


# ---- the store is busy


def test_a_store_that_takes_nothing_is_named_with_its_reason_and_the_press_is_sent_until_it_is_stored_once(
    browser: Browser, place: Place, tmp_path: Path
) -> None:
    place()
    server = place("watches")
    with seen_by(browser, server) as window, Api(server.url) as api:
        session = begun(api, window.page)
        run = window.watch(session)
        run.is_at("running")
        with held(tmp_path / "runs.db"):
            run.redirect("Only the large ones", "Step")
            expect(run.tray).to_contain_text(
                re.compile("Redirect not stored yet: Another program has held .* for 10 s .*counts once")
            )
            expect(run.sentence).to_have_text("Store busy. It is retried until it is stored, and counts once.")
            run.is_at("Redirect not stored")
            expect(window.top).to_contain_text("Store busy")
            expect(window.top).not_to_contain_text("Live")
            assert api.events(session, "session.redirected") == []
        until(window.page, lambda: api.events(session, "session.redirected") != [])
        run.is_at("running")
        expect(window.top).to_contain_text("Live")
        assert len(api.events(session, "session.redirected")) == 1


def test_a_stop_that_could_not_be_stored_is_never_shown_as_running(
    browser: Browser, place: Place, tmp_path: Path
) -> None:
    server = place()
    with seen_by(browser, server) as window, seen_by(browser, server) as other, Api(server.url) as api:
        session = begun(api, window.page)
        run, second = window.watch(session), other.watch(session)
        run.is_at("running")
        with held(tmp_path / "runs.db"):
            run.press("Pause")
            for one in (run, second):
                one.is_at("Stopping, not stored")
                expect(one.sentence).to_contain_text("Nothing new starts. That could not be stored")
            expect(run.tray).to_contain_text(re.compile("Stopp(ed|ing), not stored: the store refused the write"))
            window.page.reload()
            run.is_at("Stopping, not stored")
            assert api.get(f"/sessions/{session}/contact")["unwritten"] is True
            assert api.events(session, "session.pause_requested") == []


def test_a_kill_switch_that_could_not_be_stored_is_on_and_called_not_stored_until_it_is(
    browser: Browser, place: Place, tmp_path: Path
) -> None:
    server = place()
    with seen_by(browser, server) as window, seen_by(browser, server) as other, Api(server.url) as api:
        session = begun(api, window.page)
        page = window.open()
        with held(tmp_path / "runs.db"):
            halt(page, "The release is frozen.", 1)
            expect(report(page)).to_contain_text("Kill switch is on, not stored: all sessions", timeout=60_000)
            expect(report(page)).to_contain_text("do not stop the server")
            other.watch(session)
            expect(other.page.get_by_role("alert").filter(has_text="Kill switch is on, not stored")).to_be_visible()
            assert api.events(session, "session.halted") == []
        expect(report(page)).to_contain_text("Kill switch is on: all sessions")
        expect(report(page)).not_to_contain_text("not stored")
        until(page, lambda: api.status(session) == "halted")
        assert [one["durable"] for one in api.get("/kill-switches")["switches"]] == [True]


# ---- offline


def test_without_a_network_nothing_is_called_live_and_a_press_is_kept_over_a_reload_and_sent_once(
    browser: Browser, place: Place
) -> None:
    server = place()
    with seen_by(browser, server) as window, Api(server.url) as api:
        session = begun(api, window.page)
        run = window.watch(session)
        run.is_at("running")
        expect(window.top).to_contain_text("Live")
        window.page.context.set_offline(True)
        expect(window.top).to_contain_text("Offline")
        run.is_at("Last seen running")
        expect(run.sentence).to_contain_text(re.compile(f"This device has been offline since {CLOCK}"))
        run.press("Pause")
        expect(run.tray).to_contain_text(
            "Pause not sent yet: this device is offline. It is kept, and sent when the device is online again."
        )
        expect(run.sentence).to_contain_text("1 press kept")
        assert api.events(session, "session.pause_requested") == []
        window.page.context.set_offline(False)
        run.is_at("paused")
        expect(window.top).to_contain_text("Live")
        expect(run.tray).not_to_contain_text("not sent")
        assert len(api.events(session, "session.pause_requested")) == 1


def test_a_press_that_was_not_sent_can_be_taken_back(browser: Browser, place: Place) -> None:
    server = place()
    with seen_by(browser, server) as window, Api(server.url) as api:
        session = begun(api, window.page)
        run = window.watch(session)
        run.is_at("running")
        window.page.context.set_offline(True)
        expect(window.top).to_contain_text("Offline")
        run.press("Pause")
        run.tray.get_by_role("button", name="Do not send the pause").click()
        expect(run.tray).to_contain_text("Pause was not sent.")
        window.page.context.set_offline(False)
        expect(window.top).to_contain_text("Live")
        run.is_at("running")
        assert api.events(session, "session.pause_requested") == []


# ---- the server is killed, or answers nobody


def test_a_killed_server_is_said_not_to_answer_and_a_press_outlives_the_page_and_the_server(
    browser: Browser, place: Place
) -> None:
    server = place()
    with seen_by(browser, server) as window, Api(server.url) as api:
        session = begun(api, window.page)
        run = window.watch(session)
        run.is_at("running")
        server.kill()
        expect(window.top).to_contain_text("Server does not answer")
        run.is_at("Last seen running")
        expect(run.sentence).to_contain_text(re.compile(f"The server has not answered since {CLOCK}"))
        run.press("Pause")
        expect(run.tray).to_contain_text("whether it arrived is not known. It is retried, and counts once.")
        again = place(port=server.port)
        window.page.reload()
        assert window.asked_to_stay == 1  # closing the tab would have lost it
        run.is_at("paused")
        expect(window.top).to_contain_text("Live")
        with Api(again.url) as later:
            assert len(later.events(session, "session.pause_requested")) == 1


def test_a_press_that_somebody_else_has_left_in_the_tab_is_not_sent_and_said_to_be_so(window: Window, api: Api) -> None:
    page = window.page
    session = begun(api, page)
    run = window.watch(session)
    run.is_at("running")
    page.route("**/pause", lambda route: route.abort())
    run.press("Pause")
    run.is_at("Pause not answered")
    page.add_init_script(
        """for (const place of Object.keys(sessionStorage)) {
            const kept = sessionStorage.getItem(place);
            if (kept.startsWith("{")) sessionStorage.setItem(place, JSON.stringify({ ...JSON.parse(kept), by: "ben" }));
        }"""
    )
    page.reload()
    expect(run.tray).to_contain_text(
        "Pause is not sent again. It may have arrived before: the log shows whether it did."
    )
    expect(run.tray).to_contain_text("It was pressed by ben.")
    page.unroute("**/pause")
    run.is_at("running")
    page.reload()
    run.is_at("running")
    assert api.events(session, "session.pause_requested") == []
    window.complaints.clear()  # the browser reports that nobody answered


def test_a_server_that_answers_nobody_is_found_out_although_its_connections_stay_open(
    browser: Browser, place: Place
) -> None:
    server = place()
    with seen_by(browser, server) as window, Api(server.url) as api:
        session = begun(api, window.page)
        run = window.watch(session)
        run.is_at("running")
        server.process.send_signal(signal.SIGSTOP)
        expect(window.top).to_contain_text("Server does not answer", timeout=60_000)
        run.is_at("Last seen running")
        run.press("Pause")
        server.go_on()
        run.is_at("paused")
        assert len(api.events(session, "session.pause_requested")) == 1


def test_a_press_that_is_not_sent_is_named_on_every_other_page(browser: Browser, place: Place) -> None:
    server = place()
    with seen_by(browser, server) as window, Api(server.url) as api:
        session = begun(api, window.page)
        run = window.watch(session)
        run.is_at("running")
        window.page.context.set_offline(True)
        expect(window.top).to_contain_text("Offline")
        run.press("Pause")
        expect(run.tray).to_contain_text("Pause not sent yet")
        window.top.get_by_role("link", name="Fleet").click()
        expect(window.top.get_by_role("link", name="1 press not stored")).to_be_visible()
        window.page.context.set_offline(False)
        until(window.page, lambda: api.status(session) == "paused")
        expect(window.top.get_by_role("link", name="1 press not stored")).to_have_count(0)
        assert len(api.events(session, "session.pause_requested")) == 1


def test_a_page_that_was_not_loaded_yet_keeps_the_top_bar_and_comes_once_the_server_is_back(
    browser: Browser, place: Place
) -> None:
    server = place()
    with seen_by(browser, server) as window:
        page = window.open()
        expect(window.top).to_contain_text("Live")
        server.kill()
        expect(window.top).to_contain_text("Server does not answer")
        window.top.get_by_role("link", name="Reports").click()
        expect(page.get_by_role("main")).to_contain_text("It is retried automatically.")
        expect(window.top).to_contain_text("Server does not answer")
        expect(page.get_by_role("main")).to_contain_text(re.compile(rf"not answered since {CLOCK}"))
        place(port=server.port)
        expect(page.get_by_role("heading", level=1)).to_have_text("Report")


# ---- the cap is reached


def test_at_the_cap_the_bar_says_what_the_journal_says(opening: Opening, api: Api) -> None:
    window = opening()
    session = api.start("memo", goal("costly"), budget=2)
    run = window.watch(session)
    run.is_at("paused")
    expect(run.tray).to_contain_text("The cap of $2 is reached.")
    expect(run.tray.locator(".review")).to_contain_text("The cap paused it")
    expect(run.tray.get_by_role("button", name=re.compile("^Continue"))).to_have_count(0)  # it would be refused
    expect(run.slot("Resume")).to_have_accessible_name(re.compile("^Resume… after you raise the cap"))
    expect(run.handle.locator(".dials")).to_contain_text("$2.50 / $2")
    [pause] = api.events(session, "session.pause_requested")
    shown = api.get(f"/sessions/{session}")
    assert (shown["status"], shown["cost"], shown["terms"]["budget"]) == ("paused", 2.5, 2)
    assert pause["data"]["by"] == "budget"
    window.page.reload()
    expect(run.tray).to_contain_text("The cap of $2 is reached.")
    field = run.tray.get_by_label("New cap in dollars")
    [review] = shown["asks"]
    least = re.findall(r"Raise the budget to \$([\d.]+) or more", review["prompt"])[0]
    expect(field).to_have_value(least)
    run.press("Resume")
    expect(field).to_be_focused()
    field.fill("2.4")
    window.page.keyboard.press("Enter")
    expect(run.tray).to_contain_text(f"Enter at least ${least}.")
    assert api.events(session, "budget.raised") == []
    field.fill("12.50")
    run.tray.get_by_role("button", name="Raise the cap to $12.50 and resume").click()
    until(window.page, lambda: api.events(session, "budget.raised") != [])
    run.is_at("running")
    expect(run.tray).to_have_count(0)
    assert api.get(f"/sessions/{session}")["terms"]["budget"] == 12.5
