"""What each adapter's agent says of itself to people who choose one."""

import agents
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from pydantic_ai import Agent as PydanticAgent

from midcourse.adapters import langgraph, openai_agents, pydantic_ai
from midcourse.runtime.agents import registered

SAYS = "Answers letters."
GOALS = ["Answer the letter of Ada"]


def test_an_agent_of_any_framework_says_what_it_does_and_what_to_ask_of_it() -> None:
    pydantic_ai.wrap(PydanticAgent(name="described-pydantic"), description=SAYS, goals=GOALS)
    openai_agents.wrap(agents.Agent(name="described-openai"), description=SAYS, goals=GOALS)
    graph = StateGraph(MessagesState)
    graph.add_node("say", lambda state: state)  # pyright: ignore[reportUnknownMemberType] - LangGraph's own
    graph.add_edge(START, "say")
    langgraph.wrap(graph, name="described-langgraph", description=SAYS, goals=GOALS)
    for framework in ("pydantic", "openai", "langgraph"):
        made = registered()[f"described-{framework}"]
        assert (made.description, made.goals) == (SAYS, tuple(GOALS))
