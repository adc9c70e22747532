"""The guided path of the demo, walked as a person would: it ends with an undo, and a receipt that tells of it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from midcourse.runtime.settings import Settings
from midcourse.samples import churn_memo
from midcourse.samples.folders import FOLDER
from midcourse.samples.models import PACE, PRICES
from tests.console.conftest import LIMITS, Opening
from tests.console.pages import Api, RunPage
from tests.server.live_server import Running, serving

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The sample of the guided path, at the demo's pace, over an empty store."""
    place = tmp_path_factory.mktemp("guided")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(FOLDER, str(place / "samples"))
        environment.setenv(PACE, "0.08")
        settings = Settings(prices=PRICES)
        with serving(f"sqlite:///{place}/s.db", churn_memo.agent, settings=settings, limits=LIMITS) as running:
            yield running


def test_the_guided_path_ends_with_the_memo_undone_and_a_receipt_that_says_so(
    opening: Opening, server: Running, api: Api
) -> None:
    window = opening(server.url)
    page = window.open()
    guide = page.get_by_role("region", name="Guided path, two minutes")
    expect(guide.get_by_role("listitem")).to_have_count(5)
    guide.get_by_role("link", name="Start the churn memo").click()
    expect(page.get_by_label("Goal")).to_have_value(churn_memo.GOALS[0])
    page.get_by_role("button", name="Start churn-memo").click()

    run = RunPage(page)
    run.is_at("running")
    expect(run.log).to_contain_text("I begin with")
    run.slot("Pause").click()
    run.is_at("paused")
    run.tray.get_by_role("button", name="skip").click()
    run.redirect("only customers over $10k", "Step")
    run.press("Resume")
    run.is_at("running")

    expect(run.log).to_contain_text("The memo is written")
    memo = Path(churn_memo.prepare()) / "memos" / churn_memo.MEMO
    assert "$10,000 or more" in memo.read_text(encoding="utf-8")
    run.press("Cancel")
    expect(run.preview.get_by_role("row", name="write_memo").get_by_role("cell")).to_have_text(
        ["kept", "undone", "kept"]
    )
    run.preview.get_by_role("radio", name="Undo everything possible").check()
    run.press("Cancel run")
    run.is_at("cancelled")

    expect(run.receipt).to_contain_text("Cancelled. 1 undone.")
    expect(run.receipt.get_by_role("listitem")).to_contain_text([re.compile("^undone ?write_memo")])
    session = page.url.partition("run=")[2]
    (undone,) = api.events(session, "undo.ended")
    assert (undone["data"]["error"], undone["data"]["lost"]) == ("", False)
    assert not memo.exists()
    window.is_calm()
