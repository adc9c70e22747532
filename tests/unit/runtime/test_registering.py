"""A session finds its agent by its name, so that two agents of one name are refused."""

import inspect

import pytest

import midcourse
from midcourse.runtime import agents
from tests.promises.harness import resumable


@pytest.fixture(autouse=True)
def _none_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "_registered", {})
    monkeypatch.setattr(agents, "refuse_namesake", inspect.unwrap(agents.refuse_namesake))


async def _work(run: midcourse.Run) -> None: ...


def test_two_agents_of_one_name_are_refused() -> None:
    first = resumable(_work, name="writer")
    agents.register_agent(first)
    agents.register_agent(first)  # its module was loaded again
    other = midcourse.Agent(
        name="writer", function=_work, version="1", mode="replay", origin="elsewhere:writer", resumable=True
    )
    with pytest.raises(midcourse.InvalidInput, match="Two agents are named 'writer'.*elsewhere:writer.*another name"):
        agents.register_agent(other)
    assert agents.registered()["writer"] is first


def test_a_closure_may_be_made_anew() -> None:
    def made() -> midcourse.Agent[None]:
        @midcourse.agent(name="closure")
        async def closure(run: midcourse.Run) -> None: ...

        return closure

    def made_elsewhere() -> midcourse.Agent[None]:
        @midcourse.agent(name="closure")
        async def another(run: midcourse.Run) -> None: ...

        return another

    made()
    made_elsewhere()
    assert agents.registered()["closure"].origin.endswith("another")
