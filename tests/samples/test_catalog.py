"""The catalog names the samples, and the model that they use is the one the environment names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel

import midcourse
from midcourse.models.script import Text, replies
from midcourse.runtime.agents import registered
from midcourse.samples.catalog import SAMPLES, sample
from midcourse.samples.models import model_for, pace
from midcourse.testing.provider import Provider
from tests.examples.expected import assert_prints

HELLO = replies(Text("Hello from the script."))


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MIDCOURSE_MODEL", "MIDCOURSE_BASE_URL", "MIDCOURSE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_five_samples_are_registered_under_their_names() -> None:
    assert [one.name for one in SAMPLES] == [
        *("churn-memo", "repo-fixer", "records-cleaner", "order-desk", "researcher"),
    ]
    for one in SAMPLES:
        assert registered()[one.name] is one.agent
        assert one.agent.resumable
        assert one.goals
        assert one.description.endswith(".")


def test_a_name_that_nobody_has_is_answered_with_those_there_are() -> None:
    with pytest.raises(midcourse.AgentUnavailable, match="There are: churn-memo, repo-fixer"):
        sample("churn")


@pytest.mark.parametrize("one", SAMPLES, ids=lambda one: one.name)
def test_preparing_twice_leaves_what_was_made(one: "type[object]", work: Path) -> None:
    prepare = sample(f"{getattr(one, 'name', '')}").prepare
    folder = prepare(None)
    assert folder == work / folder.name
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert prepare(None) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before


def test_without_a_model_the_script_is_played() -> None:
    assert isinstance(model_for(HELLO), FunctionModel)


async def test_a_server_that_speaks_openai_is_used_if_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Provider(replies(Text("Hello from a server."))) as server:
        monkeypatch.setenv("MIDCOURSE_MODEL", "openai:anything")
        monkeypatch.setenv("MIDCOURSE_BASE_URL", server.base_url)
        model = model_for(HELLO)
        assert isinstance(model, OpenAIChatModel)
        result = await Agent(model).run("Hello?")
        await model.client.close()

    assert result.output == "Hello from a server."


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("openai:gpt-5-mini", "MIDCOURSE_MODEL=openai:gpt-5-mini: Set the `OPENAI_API_KEY`"),
        ("nobody-knows-it", "MIDCOURSE_MODEL=nobody-knows-it: Unknown model"),
        ("groq:fast", "MIDCOURSE_MODEL=groq:fast: Please install the `groq` package"),
    ],
)
def test_a_model_that_cannot_be_had_is_said_in_a_sentence(
    model: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDCOURSE_MODEL", model)
    with pytest.raises(midcourse.InvalidInput) as raised:
        model_for(HELLO)
    assert complaint in raised.value.message
    assert raised.value.message.endswith("or unset MIDCOURSE_MODEL to play the scripts.")


def test_a_server_without_a_model_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDCOURSE_BASE_URL", "http://localhost:1/v1")
    with pytest.raises(midcourse.InvalidInput, match="Set MIDCOURSE_MODEL to the name of a model"):
        model_for(HELLO)


@pytest.mark.parametrize("given", ["quick", "-1", "nan", "11"])
def test_a_pace_that_is_none_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", given)
    with pytest.raises(midcourse.InvalidInput, match="MIDCOURSE_SAMPLE_PACE"):
        pace()


def terminal(work: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "midcourse.samples", *arguments],
        cwd=work.parent,
        env={**os.environ, "MIDCOURSE_SAMPLES_DIR": str(work), "MIDCOURSE_SAMPLE_PACE": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def printed(process: "subprocess.Popen[str]", status: int = 0) -> str:
    """All it prints when nobody types anything more."""
    said, _ = process.communicate(timeout=50)
    assert process.returncode == status, said
    return said


def test_a_sample_runs_in_a_terminal_takes_an_answer_and_is_undone(work: Path) -> None:
    store = str(work.parent / "runs.db")
    process = terminal(work, "records-cleaner", "--store", store)
    assert process.stdin is not None
    assert process.stdout is not None
    session = process.stdout.readline().split()[0]
    for line in process.stdout:
        if line.strip() == "? Confirm delete?  (need_approval)":
            break
    process.stdin.write("yes\n")
    process.stdin.flush()
    assert_prints(
        printed(process),
        ["Deleted … records; … are left. They can be put back.", "completed: …", "delete_records …kept"],
    )
    assert_prints(printed(terminal(work, "--session", session, "--store", store, "--undo")), ["delete_records …undone"])


def test_what_is_left_waiting_where_nobody_types_is_answered_in_another_process(work: Path) -> None:
    store = str(work.parent / "runs.db")
    said = printed(terminal(work, "records-cleaner", "--store", store), status=3)
    assert_prints(said, ["→ find_candidates …  [read]", "? Confirm delete?  (need_approval)", "waiting: …"])

    process = terminal(work, "--session", said.split()[0], "--store", store)
    answered, _ = process.communicate("yes\n", timeout=50)
    assert_prints(answered, ["Deleted … records; … are left. They can be put back.", "completed: …"])
    assert answered.count("? Confirm delete?") == 1


def test_its_help_teaches_and_a_wrong_name_is_explained(work: Path) -> None:
    assert_prints(printed(terminal(work, "--help")), ["churn-memo …", "cancel all …", "anything else …"])
    assert "No sample agent is called 'chrun'" in printed(terminal(work, "chrun"), status=2)
