"""Sessions of the SDK as an agent's memory."""

from pathlib import Path
from typing import Any

import pytest
from agents import HandoffInputData, handoff
from agents.memory import SQLiteSession

from midcourse.models.script import Call, Conversation, Text, replies
from tests.adapters.openai_agents.desk import PATIENCE, Desk, failure_of, finding, says


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the memory lies."""
    return tmp_path / "memory.db"


async def remembered(path: Path) -> list[Any]:
    """What is in the memory."""
    session = SQLiteSession("it", path)
    try:
        return list(await session.get_items())
    finally:
        session.close()


async def test_it_is_read_before_the_first_turn_and_added_to_after_each(at: Desk, path: Path) -> None:
    before = SQLiteSession("it", path)
    await before.add_items([{"role": "user", "content": "I am Ada."}, {"role": "assistant", "content": "Hello."}])
    before.close()
    memories: list[SQLiteSession] = []

    def memory(run: Any) -> SQLiteSession:
        memories.append(SQLiteSession("it", path))
        return memories[-1]

    script = replies(Text("-"), Call("find", {"what": "it"}), Text("Here."), Text("Bye."))
    session = await at.start(at.agent(finding), script, session=memory)
    assert await session.result(PATIENCE) == "Here."
    assert at.heard == [
        *("user: I am Ada.", "assistant: Hello."),
        *("user: Go.", "assistant: [find]", "tool: found it"),
    ]
    assert len(await remembered(path)) == 6
    await session.redirect("Thanks.")
    assert await session.result(PATIENCE) == "Bye."
    kinds = [item.get("type", item.get("role")) for item in await remembered(path)]
    assert kinds[2:] == ["user", "function_call", "function_call_output", "message", "user", "message"]
    for one in memories:
        one.close()


async def test_a_turn_that_failed_is_remembered_with_the_next(at_responses: Desk, path: Path) -> None:
    at = at_responses
    memories: list[SQLiteSession] = []

    def memory(run: Any) -> SQLiteSession:
        memories.append(SQLiteSession("it", path))
        return memories[-1]

    def script(heard: Conversation, /) -> Any:
        return [Text("Yes.")] if heard.user == "And now?" else [Call("nothing")]

    session = await at.start(at.agent(finding), script, session=memory)
    await failure_of(session)
    assert await remembered(path) == []
    await session.redirect("And now?")
    assert await session.result(PATIENCE) == "Yes."
    assert [item.get("role") for item in await remembered(path)] == ["user", "user", "assistant"]
    for one in memories:
        one.close()


async def test_a_handoff_that_leaves_out_what_was_said_before_loses_nothing_new(at_responses: Desk, path: Path) -> None:
    at = at_responses
    before = SQLiteSession("it", path)
    await before.add_items([{"role": "user", "content": f"Yes {n % 2}."} for n in range(6)])
    before.close()
    memories: list[SQLiteSession] = []

    def memory(run: Any) -> SQLiteSession:
        memories.append(SQLiteSession("it", path))
        return memories[-1]

    def shortened(given: HandoffInputData) -> HandoffInputData:
        assert isinstance(given.input_history, tuple)
        return given.clone(input_history=given.input_history[-2:], pre_handoff_items=(), new_items=())

    clerk = at.agent(name="clerk", handoffs=[handoff(at.agent(name="porter"), input_filter=shortened)])
    script = says(lambda heard: [Call("transfer_to_porter") if heard.system == "clerk" else Text("What is it?")])
    session = await at.start(clerk, script, "Yes 0.", session=memory)
    assert await session.result(PATIENCE) == "What is it?"
    assert at.heard == ["user: Yes 1.", "user: Yes 0."]
    assert [item.get("role") for item in (await remembered(path))[6:]] == ["user", "assistant"]
    await session.redirect("A parcel.")
    assert await session.result(PATIENCE) == "What is it?"
    added = (await remembered(path))[6:]
    assert [item.get("role") for item in added] == ["user", "assistant", "user", "assistant"]
    assert (added[0]["content"], added[2]["content"]) == ("Yes 0.", "A parcel.")
    for one in memories:
        one.close()
