"""The researcher writes long, from what lies in its folder, and follows whoever steers it."""

from pathlib import Path

import pytest

import midcourse
from midcourse.samples import researcher
from midcourse.samples.researcher import GOALS, agent, prepare
from tests.samples.listener import SLOWLY, hesitating, plan_of, until_it_says


def sections(report: str) -> list[str]:
    return [part for part in report.split("## ")[1:] if not part.startswith("Closing")]


async def test_a_report_has_the_sections_that_the_goal_wants(mc: midcourse.Midcourse) -> None:
    session = await mc.start(agent, "Write a report in 12 sections")
    report = await session.result()

    assert [part.partition(".")[0] for part in sections(report)] == [f"{number}" for number in range(1, 13)]
    assert len(report.split()) > 2000
    requests = [seen for seen in [seen async for seen in session.watch()] if seen.type == "step.begun"]
    assert sum(getattr(seen.event, "kind", "") == "model" for seen in requests) == 14  # two before the first section
    assert (await plan_of(session))[1] == ("section 1: costs", "done")


async def test_the_report_is_about_what_lies_in_the_folder(mc: midcourse.Midcourse) -> None:
    documents = prepare() / "documents"
    for path in documents.iterdir():
        path.unlink()
    (documents / "bees.md").write_text("# Bees\n\nThe hive of the school has 7 frames. Nobody was stung in spring.\n")

    report = await (await mc.start(agent, "Write a report in 1 sections")).result()

    assert "## 1. Bees" in report
    assert "“The hive of the school has 7 frames.” The figure to keep in mind here: 7." in report


async def test_a_redirect_in_the_middle_of_a_section_changes_the_rest(
    mc: midcourse.Midcourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await mc.start(agent, "Write a report in 8 sections, focus on people")
    undisturbed = sections(await session.result())

    hesitating(monkeypatch, researcher, lambda text: text.startswith("## 3."))
    session = await mc.start(agent, "Write a report in 8 sections, focus on people")
    await until_it_says(session, "## 3.")
    hesitating(monkeypatch, researcher, lambda _: False)
    await session.redirect("Shorter, in 5 sections, and focus on money")
    redirected = sections(await session.result())

    assert redirected[:2] == undisturbed[:2]
    assert len(redirected) == 5
    assert all("with an eye to money" in part for part in redirected[2:])
    assert all(len(new.split()) < len(old.split()) for new, old in zip(redirected[2:], undisturbed[2:5], strict=True))


async def test_a_pause_in_the_middle_of_a_section_loses_nothing(
    mc: midcourse.Midcourse, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del work
    undisturbed = await (await mc.start(agent, GOALS[2])).result()

    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", SLOWLY)
    session = await mc.start(agent, GOALS[2])
    await until_it_says(session, "## 1. What")
    await session.pause(until="stopped")
    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", "0")
    await session.resume()

    assert await session.result() == undisturbed


async def test_told_to_write_less_than_is_written_it_closes_the_report(
    mc: midcourse.Midcourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    hesitating(monkeypatch, researcher, lambda text: text.startswith("## 3."))
    session = await mc.start(agent, "Write a report in 30 sections")
    await until_it_says(session, "## 3.")
    hesitating(monkeypatch, researcher, lambda _: False)
    await session.redirect("in 1 sections")
    report = await session.result()

    assert len(sections(report)) >= 2
    assert report.endswith(f"This report has {len(sections(report))} sections, from {len(sections(report))} documents.")


async def test_a_new_turn_writes_a_new_report(mc: midcourse.Midcourse) -> None:
    session = await mc.start(agent, "Write a report in 3 sections")
    assert len(sections(await session.result())) == 3

    await session.redirect("Now a report in 2 sections")
    assert len(sections(await session.result())) == 2

    await session.redirect("Make me a sandwich")
    assert "I leave it at that" in await session.result()
