"""The repo fixer edits a real work tree, and all of it can be taken back."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

import midcourse
from midcourse.samples import repo_fixer
from midcourse.samples.repo_fixer import GOALS, agent, rename_in_file, tree_of
from tests.promises.harness import resumable
from tests.samples.listener import SLOWLY, hesitating, plan_of, until_it_says

RENAME, LOGIN = GOALS


def git(work: Path, session: midcourse.SessionHandle[Any], *arguments: str) -> list[str]:
    tree = work / "repo-fixer" / "trees" / session.id
    done = subprocess.run(["git", "-C", tree, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def edited(work: Path, session: midcourse.SessionHandle[Any]) -> list[str]:
    return git(work, session, "diff", "--name-only")


async def test_47_reasonable_edits_break_the_whole_and_are_undone(mc: midcourse.Midcourse, work: Path) -> None:
    session = await mc.start(agent, RENAME)
    answer = await session.result()

    assert git(work, session, "diff", "--stat")[-1].strip().startswith("47 files changed")
    assert not any(path.startswith("vendor/") for path in edited(work, session))
    assert "the tests fail: 0 of 6 passed" in answer
    assert "unexpected keyword argument 'deadline'" in answer

    receipt = await session.undo("put it back")
    assert git(work, session, "status", "--porcelain") == []
    assert [line.outcome for line in receipt.lines] == ["undone"] * 47


async def test_a_rename_that_is_cancelled_half_way_is_undone(
    mc: midcourse.Midcourse, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hesitating(monkeypatch, repo_fixer, lambda text: any(f"({n} of 47)" in text for n in range(6, 48)))
    session = await mc.start(agent, RENAME)
    await until_it_says(session, "(5 of 47)")
    await session.cancel("this goes too far", undo="all", until="stopped")

    assert await session.status() is midcourse.Status.CANCELLED
    assert git(work, session, "status", "--porcelain") == []
    assert {line.outcome for line in (await session.receipt()).lines} == {"undone"}


async def test_told_to_stop_editing_tests_it_leaves_them(
    mc: midcourse.Midcourse, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", SLOWLY)
    session = await mc.start(agent, RENAME)
    await until_it_says(session, "(2 of 47)")
    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", "0")
    await session.redirect("stop editing tests")
    await session.result()

    assert len(edited(work, session)) == 41
    assert not any(path.startswith("tests/") for path in edited(work, session))


async def test_looking_for_the_login_bug_it_drifts_from_area_to_area(mc: midcourse.Midcourse, work: Path) -> None:
    session = await mc.start(agent, LOGIN)
    answer = await session.result()

    assert "still fail" in answer
    order = [
        f"{seen.event.arguments}".split("/")[1]
        for seen in [seen async for seen in session.watch()]
        if isinstance(seen.event, midcourse.events.StepBegun) and seen.event.name == "edit_file"
    ]
    assert list(dict.fromkeys(order)) == ["auth", "pool", "orm"]
    assert sorted({path.split("/")[1] for path in edited(work, session)}) == ["auth", "orm", "pool"]
    assert len(edited(work, session)) == len(order) == 21
    assert [title for title, _ in await plan_of(session)] == [
        "reproduce the login bug",
        "fix session check",
        "tune connection pool",
        "rewrite ORM layer",
    ]

    await session.undo("not the ORM")
    assert git(work, session, "status", "--porcelain") == []


async def test_brought_back_to_authentication_it_fixes_the_bug(
    mc: midcourse.Midcourse, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", SLOWLY)
    session = await mc.start(agent, LOGIN)
    await until_it_says(session, "the pool may be too small")
    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", "0")
    await session.redirect("Stay with authentication: look at how the session check compares")

    assert "The login tests pass: 2 of 2 passed" in await session.result()
    assert "+    return now < session.expires_at" in git(work, session, "diff", "src/auth/session.py")
    assert not any(path.startswith("src/orm/") for path in edited(work, session))


async def test_two_sessions_have_trees_of_their_own(mc: midcourse.Midcourse, work: Path) -> None:
    one, other = await mc.start(agent, LOGIN), await mc.start(agent, LOGIN)
    await one.result()
    await other.result()
    await one.undo("only this one")

    assert edited(work, one) == []
    assert len(edited(work, other)) == 21


async def test_the_new_name_stands_in_the_file_as_it_was_given(mc: midcourse.Midcourse, work: Path) -> None:
    tree = tree_of("one")
    (tree / "shop.txt").write_text("a timeout, and timeouts", encoding="utf-8")

    def rename(new: str) -> str:
        repo_fixer._tree.set(tree)  # noqa: SLF001 - as the agent does for its session  # pyright: ignore[reportPrivateUsage]
        return rename_in_file.function("shop.txt", "timeout", new)

    session = await mc.start(resumable(lambda run: run.step("rename", rename, run.goal)), r"dead\1line\n\g<0>")
    await session.result()

    assert (tree / "shop.txt").read_text(encoding="utf-8") == r"a dead\1line\n\g<0>, and timeouts"
