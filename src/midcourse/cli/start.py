"""``midcourse agent list`` and ``midcourse start``: what a server's agents do, and a goal for one of them."""

import shlex
import sys
from typing import Annotated, Final

import midcourse
from midcourse.cli.command import Call, command
from midcourse.cli.events import print_events
from midcourse.cli.printer import print_json, print_lines, tell
from midcourse.cli.target import DEFAULT_STORE, Target, argument, flag, opened, option, others, server_folder, token_for
from midcourse.core.terms import TaskClass, Terms
from midcourse.errors import MidcourseError
from midcourse.handle.http.server_record import whereabouts

_FOLLOWING: Final = 3600.0
"""Seconds to wait for a server that went away, with --follow."""


@command("agent list", "List the agents of a server.")
async def agents(call: Call) -> None:
    """List the agents of a server: what each does, and example goals.

    The server is the one of --url, or the one that runs for the store here.

    \b
    Examples:
      midcourse agent list
      midcourse agent list --json | jq -r '.agents[].name'
    """

    there = _server(call)
    assert there.server is not None
    async with midcourse.connect(there.server, token=token_for(there, there.server)) as sessions:
        known = await sessions.agents()
    if call.as_json:
        print_json({"agents": known})
    elif not known:
        print_lines("No agent is registered there. Start the server with one: midcourse serve --agents FILE.")
    for one in known if not call.as_json else ():
        print_lines(f"{one.name}  {one.description}".rstrip())
        for goal in one.goals:
            print_lines(f"  midcourse start {one.name} {shlex.quote(goal)}")


@command("start", "Start an agent of a server with a goal.")
async def start(
    call: Call,
    agent: Annotated[str, argument("AGENT", "An agent of the server.")],
    goal: Annotated[str, argument("GOAL", "What the agent should do.")] = "",
    label: Annotated[
        list[str] | None, option("--label", "LABEL", "A label to find and stop the session by; may be repeated.")
    ] = None,
    task_class: Annotated[
        TaskClass | None, flag("--class", "How long such a task takes. Default: the agent's.")
    ] = None,
    budget: Annotated[
        float | None, option("--budget", "DOLLARS", "What the session may cost. Default: the agent's.")
    ] = None,
    session: Annotated[str | None, option("--session", "ID", "An id of your own. Default: a new one.")] = None,
    follow: Annotated[bool, flag("--follow/-f", "Print its events until it ends. Ctrl-C leaves it running.")] = False,
) -> None:
    """Start an agent of a server with a goal. Prints the new session's id and nothing else.

    The server is the one of --url, or the one that runs for the store here. The policy is the agent's, or the server's.

    \b
    Examples:
      midcourse start churn-memo "Write the churn memo for the north region"
      midcourse start researcher "What is known of tides" --label night --budget 2 --follow
      id=$(midcourse start churn-memo "The same for the south")
    """
    terms = Terms(task_class=task_class, budget=budget, labels=tuple(label or ()))

    async with opened(_server(call), patience=_FOLLOWING if follow else 10.0) as sessions:
        handle = await sessions.start(agent, goal, session_id=session, terms=terms)
        if call.as_json and not follow:
            print_json({"id": handle.id, "agent": agent})
        elif not call.as_json:
            print_lines(handle.id)
            if not follow and sys.stderr.isatty():
                tell(f"Follow it with: midcourse events {handle.id} --follow")
        if follow:
            await print_events(handle, 0, None, follow=False, as_json=call.as_json)


def _server(target: Target) -> Target:
    """Return the server that was named, or the one that runs for the store: a file runs no agent."""
    if target.server is not None:
        return target
    store = target.store or DEFAULT_STORE
    here = whereabouts(server_folder(store), store)
    if here is None:
        raise MidcourseError(
            f"No server runs for {store}, and a file runs no agents.{others(store)} Start a server with 'midcourse "
            "serve --agents FILE', or give the --url of one; or start the session from Python: mc.start(agent, goal).",
            code="server_not_running",
        )
    return Target(url=here.url, token=token_for(target, here.url))
