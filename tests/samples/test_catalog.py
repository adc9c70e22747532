"""The catalog names the samples, and the model that they use is the one the environment names."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel

import midcourse
from midcourse.models.script import Call, Conversation, Said, Script, Text, replies
from midcourse.runtime.agents import registered
from midcourse.samples import churn_memo, order_desk, records_cleaner, repo_fixer, researcher
from midcourse.samples.catalog import SAMPLES, sample
from midcourse.samples.models import model_for, pace
from midcourse.testing.provider import Provider

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
        assert registered()[one.name].goals
        assert registered()[one.name].description.endswith(".")


def test_a_name_that_nobody_has_is_answered_with_those_there_are() -> None:
    with pytest.raises(midcourse.AgentUnavailable, match="There are: churn-memo, repo-fixer"):
        sample("churn")


@pytest.mark.parametrize(
    ("script", "goal", "first"),
    [
        (churn_memo.script, churn_memo.GOALS[0], "fetch_customers"),
        (researcher.script, researcher.GOALS[0], "list_documents"),
    ],
)
def test_a_first_call_that_a_redirect_interrupted_is_made_again(script: Script, goal: str, first: str) -> None:
    """What the model is told of such a call is a sentence, and no result."""
    begun = Call(first, {}, id="call_1")
    interrupted = Conversation(
        (
            Said("user", goal),
            Said("assistant", "I begin. ", calls=(begun,)),
            Said("tool", "Interrupted by the user. What is known of this call: it did nothing.", call_id="call_1"),
            Said("user", "in 4 sections, only customers over $10k"),
        )
    )
    said = [one for one in script(interrupted) if isinstance(one, Call)]
    assert [call.name for call in said] == [first]


@pytest.mark.parametrize(
    "prepare", [one.prepare for one in (churn_memo, repo_fixer, records_cleaner, order_desk, researcher)]
)
def test_preparing_twice_leaves_what_was_made(prepare: Callable[[Path | None], Path], work: Path) -> None:
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
