"""Handoffs: a session goes on with the agent it was handed to."""

import asyncio
from collections.abc import Sequence

from agents import handoff

from midcourse.core.session import Status
from midcourse.models.script import Call, Conversation, Piece, Text, replies
from tests.adapters.openai_agents.desk import PATIENCE, Desk, finding, says, searching, until, until_begun


async def test_the_agents_hand_off_in_a_circle_and_stay_as_they_were(at: Desk) -> None:
    clerk = at.agent(finding, name="clerk")
    porter = at.agent(finding, name="porter", handoffs=[handoff(clerk)])
    clerk.handoffs.append(porter)
    tools, model = list(clerk.tools), clerk.model
    script = replies(Call("transfer_to_porter"), Call("transfer_to_clerk"), Call("find", {"what": "it"}), Text("Done."))
    session = await at.start(clerk, script)
    assert await session.result(PATIENCE) == "Done."
    assert at.provider.requests[1].conversation.system == "porter"
    assert at.provider.requests[2].conversation.system == "clerk"
    at.assert_that_all_requests_were_valid()
    assert (clerk.tools, clerk.model, clerk.handoffs) == (tools, model, [porter])


async def test_a_redirect_after_a_handoff_speaks_to_the_new_agent(at: Desk) -> None:
    porter = at.agent(searching, name="porter")
    clerk = at.agent(finding, name="clerk", handoffs=[porter])

    def script(heard: Conversation, /) -> Sequence[Piece]:
        if heard.user == "Stop it.":
            return [Text(f"Here is the {heard.system}.")]
        return [Call("search", {"what": "it"})] if heard.system == "porter" else [Call("transfer_to_porter")]

    session = await at.start(clerk, script)
    await until_begun(session, "search")
    await session.redirect("Stop it.", grace=0)
    assert await session.result(PATIENCE) == "Here is the porter."
    assert at.heard[-2:] == [
        "tool: Interrupted by the user. What is known of this call: interrupted by a redirect; no effect.",
        "user: Stop it.",
    ]
    at.assert_that_all_requests_were_valid()


async def test_a_later_turn_goes_on_with_the_agent_that_had_the_last_word(at_responses: Desk) -> None:
    at = at_responses
    clerk = at.agent(name="clerk", handoffs=[at.agent(name="porter")])
    session = await at.start(clerk, replies(Call("transfer_to_porter"), Text("What is it?")))
    assert await session.result(PATIENCE) == "What is it?"
    at.provider.script = says(lambda heard: [Text(f"The {heard.system} has {heard.user}")])
    await session.redirect("A parcel.")
    assert await session.result(PATIENCE) == "The porter has A parcel."


async def test_agents_of_one_name_are_told_apart(at_responses: Desk) -> None:
    at = at_responses
    other = at.agent(searching, name="clerk")
    other.instructions = "the other"
    clerk = at.agent(name="clerk", handoffs=[handoff(other, tool_name_override="pass_on")])
    session = await at.start(
        clerk, lambda heard: [Call("pass_on") if heard.system == "clerk" else Call("search", {"what": "it"})]
    )
    await until_begun(session, "search")
    await session.cancel(grace=0)
    await asyncio.wait_for(until(session, Status.CANCELLED), PATIENCE)
    at.provider.script = says(lambda heard: [Text(heard.system)])
    await session.redirect("Who is there?")
    assert await session.result(PATIENCE) == "the other"
