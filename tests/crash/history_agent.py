"""An agent that gathers what it finds in ``run.history``: every item once and in its order, whatever dies."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from midcourse import Run, agent, tool
from midcourse.core import events as ev
from tests.crash.deeds import Judge
from tests.crash.effects import LOOK, build, build_behind, site

if TYPE_CHECKING:
    from tests.crash.scenarios import Client

ROUNDS: Final = 4
"""Of each turn."""
REDIRECTED: Final = 1
"""The round that a redirect comes into."""
LARGE: Final = 40_000
"""Characters of every third leaf: more than a journal's record holds."""
GATE: Final = "gate"
ELSEWHERE, ONCE_MORE = "look elsewhere", "once more"


@tool(effect="idempotent", local=True)
async def pick(name: str, size: int, door: str) -> str:
    """Something to keep, of that size. A door, if there is one, decides when the call ends."""
    site.try_it()
    site.make("idempotent")
    while door and door not in site.open_doors:
        await asyncio.sleep(LOOK)
    return name.ljust(size, ".")


@agent(mode="state")
async def gatherer(run: Run) -> list[str]:
    """Two calls in each round, at the same time, and a checkpoint before them that does not wait for the disk."""
    while run.state.get("round", 0) < ROUNDS * run.turn:
        await run.checkpoint(durable=False)
        number: int = run.state.get("round", 0)
        heard: int = run.state.get("heard", 0)
        said = run.messages[heard:]
        run.history.extend({"said": message.text} for message in said)
        run.state["heard"] = heard + len(said)
        leaf, press = f"leaf{number}", f"press{number}"
        door = GATE if number == REDIRECTED else ""
        given: dict[str, object] = {"name": press, "door": door} if door else {"name": press}
        picked, pressed = await asyncio.gather(
            run.call(pick, {"name": leaf, "size": LARGE if number % 3 == 2 else 10, "door": door}, name=leaf),
            run.call(build_behind if door else build, given, name=press),
        )
        run.history.append({"picked": picked})
        run.history.append({"pressed": pressed})
        run.state["round"] = number + 1
    return [_short(item) for item in run.history]


def _short(item: dict[str, Any]) -> str:
    (text,) = item.values()
    return f"{text.rstrip('.')} {len(text)}"


def _expected() -> list[str]:
    """The goal; then round after round, with what people said before the first round that came after it."""
    found: list[str] = []
    for number in range(2 * ROUNDS):
        said = {0: "survive", REDIRECTED + 1: ELSEWHERE, ROUNDS: ONCE_MORE}.get(number)
        found += [f"{said} {len(said)}"] if said else []
        leaf, press = f"leaf{number}", f"press{number}"
        found += [f"{leaf} {LARGE if number % 3 == 2 else 10}", f"{press} {len(press)}"]
    return found


async def play_history(client: "Client") -> None:
    """Redirects it while both calls of a round are in flight, and opens a second turn when it has ended."""
    await site.until("tried", f"leaf{REDIRECTED}")
    await site.until("tried", f"press{REDIRECTED}")
    await client.send("c-redirect", client.handle.redirect, ELSEWHERE, grace=0.0)
    site.open_doors.add(GATE)
    await client.saw(lambda event: isinstance(event, ev.SessionCompleted))
    await client.send("c-turn", client.handle.redirect, ONCE_MORE)
    opened = await client.saw(lambda event: isinstance(event, ev.TurnOpened))
    await client.ended(after=opened.position)
    await client.expect(_expected())


LEFT: Final = Judge(left={f"{kind}{number}" for kind in ("leaf", "press") for number in range(2 * ROUNDS)})
