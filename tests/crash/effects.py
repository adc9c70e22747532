"""Agents whose tools change something, and clients that stop them: what is undone, settled and let go across crashes.

The world of these tools is the ledger: each writes what it did when it did it, so that whether a thing exists is never
a matter of what a journal says. ``deeds`` reads those lines.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from midcourse import Happened, Run, agent, current_call, tool
from midcourse.core import commands as cmd
from midcourse.core import events as ev
from midcourse.core.ids import CommandId
from midcourse.testing.killer import LineLedger

if TYPE_CHECKING:
    from tests.crash.scenarios import Client

CANCEL: Final = "c-cancel"
"""As in ``scenarios``: the command after which no later process may run anything."""
LOOK: Final = 0.005
"""Seconds between two looks at the ledger, or at a door."""


class Site:
    """The lines of the ledger, which outlive the process, and doors, which are closed when a process begins."""

    def __init__(self) -> None:
        self.open_doors: set[str] = set()
        self._file = Path()

    def enter(self, folder: Path) -> None:
        """Work in this folder."""
        self._file = folder / "ledger"
        self._ledger = LineLedger(self._file)

    def write(self, *words: str) -> None:
        """Something happened in the world."""
        self._ledger.write(" ".join(words))

    def lines(self) -> list[list[str]]:
        """Everything that ever happened."""
        return [line.split() for line in self._file.read_text().splitlines()]

    def count(self, *words: str) -> int:
        """How many lines begin with these words."""
        return sum(tuple(line[: len(words)]) == words for line in self.lines())

    async def until(self, *words: str, times: int = 1) -> None:
        """Until so many lines begin with these words, from this life or an earlier one."""
        while self.count(*words) < times:
            await asyncio.sleep(LOOK)

    def try_it(self) -> None:
        """The body of a step runs."""
        call = current_call()
        self.write("ran", call.step, str(os.getpid()))
        self.write("tried", call.name, call.key)

    def make(self, effect: str) -> None:
        """The thing exists from here on."""
        call = current_call()
        self.write("made", effect, call.name, call.key)


site = Site()


# ---- tools. What is made is named like the step that makes it.


async def take_away(arguments: Mapping[str, Any], result: object, key: str) -> None:
    """The undo of what is made; without a result it works from the key alone."""
    del result
    site.write("unmade", arguments["name"], key)


def carve_away(arguments: Mapping[str, Any], result: object, key: str) -> None:
    """The same, in a thread, and later than whoever does not wait for it would like."""
    del result
    time.sleep(LOOK)
    site.write("unmade", arguments["name"], key)


async def was_sent(arguments: Mapping[str, Any], key: str) -> object:
    """Whether it is in the world."""
    return Happened(arguments["name"]) if site.count("made", "irreversible", arguments["name"], key) else False


@tool(undo=take_away, local=True)
async def build(name: str) -> str:
    """Reversible, a task."""
    site.try_it()
    site.make("reversible")
    return name


@tool(undo=carve_away, local=True)
def carve(name: str) -> str:
    """Reversible, in a thread."""
    site.try_it()
    site.make("reversible")
    return name


@tool(undo=take_away, settle=0.03)
async def build_behind(name: str, door: str) -> str:
    """Reversible; it is there long before the call ends, which a door decides."""
    site.try_it()
    site.make("reversible")
    while door not in site.open_doors:
        await asyncio.sleep(LOOK)
    return name


@tool(undo=carve_away, local=True)
def carve_behind(name: str, door: str) -> str:
    """The same, in a thread that can be asked to end."""
    site.try_it()
    site.make("reversible")
    while door not in site.open_doors:
        current_call().raise_if_cancelled()
        time.sleep(LOOK)
    return name


@tool(undo=take_away, local=True)
async def build_late(name: str, door: str) -> str:
    """Reversible; it is there only at the end of the call."""
    site.try_it()
    while door not in site.open_doors:
        await asyncio.sleep(LOOK)
    site.make("reversible")
    return name


@tool(effect="idempotent", local=True)
async def post(name: str) -> str:
    """Idempotent; nothing takes it back."""
    site.try_it()
    site.make("idempotent")
    return name


@tool(effect="idempotent", local=True)
async def post_behind(name: str, door: str) -> str:
    """The same, and a door decides when the call ends."""
    site.try_it()
    site.make("idempotent")
    while door not in site.open_doors:
        await asyncio.sleep(LOOK)
    return name


@tool(effect="idempotent", undo=take_away, local=True)
async def post_retractable(name: str, door: str) -> str:
    """The same, and it can be taken back."""
    site.try_it()
    site.make("idempotent")
    while door not in site.open_doors:
        await asyncio.sleep(LOOK)
    return name


@tool(effect="read")
async def look_behind(name: str, door: str) -> str:
    """Changes nothing."""
    site.try_it()
    while door not in site.open_doors:
        await asyncio.sleep(LOOK)
    return name


@tool(probe=was_sent, local=True)
async def send(name: str) -> str:
    """Irreversible; a probe can tell whether it happened."""
    site.try_it()
    site.make("irreversible")
    return name


@tool(effect="idempotent", local=True)
async def lock(thing: str) -> str:
    """Takes a lock, which the same holder may take again."""
    site.try_it()
    site.make("idempotent")
    site.write("held", thing)
    return thing


@tool(effect="idempotent", local=True)
async def use(thing: str) -> str:
    """Does something with what must be locked meanwhile."""
    site.try_it()
    site.write("used", thing)
    site.make("idempotent")
    return thing


async def let_go(thing: str) -> None:
    """Gives the lock back."""
    site.write("freed", thing)


def let_go_in_thread(thing: str) -> None:
    """The same, in a thread."""
    site.write("freed", thing)


# ---- undo: everything is rolled back by a cancel


@agent
async def mason(run: Run) -> list[str]:
    """A child that makes one thing."""
    return [await run.step(run.goal, build, run.goal)]


@agent
async def builder(run: Run) -> list[object]:
    """Six things that can be taken back, one of them a child's, a letter that cannot, and one never finished."""
    await run.step("wall", build, "wall")
    await run.step("window", carve, "window")
    await run.spawn(mason, "cellar")
    await run.step("letter", send, "letter")
    await asyncio.gather(run.step("roof", build, "roof"), run.step("floor", carve, "floor"))
    await run.step("fence", carve, "fence")
    return list(await asyncio.gather(run.ask("Is it good?"), run.step("tower", build_behind, "tower", "never")))


async def play_undo(client: "Client") -> None:
    """Cancels once the last thing stands and its call is still in flight."""
    await site.until("made", "reversible", "tower")
    await client.send(CANCEL, client.handle.cancel, "enough", grace=0.0, undo="all")
    await client.ended()


# ---- undo-tree: a cancel finds a child at work


@agent
async def digger(run: Run) -> list[str]:
    """A child that has made one thing and never finishes the next."""
    moat = await run.step("moat", carve, "moat")
    return [moat, await run.step("bridge", build_behind, "bridge", "never")]


@agent
async def lord(run: Run) -> list[object]:
    """The same, and a child beside it."""
    wall = await run.step("wall", build, "wall")
    return [wall, *await asyncio.gather(run.spawn(digger, ""), run.step("tower", carve_behind, "tower", "never"))]


async def play_undo_tree(client: "Client") -> None:
    """Cancels once both have a call in flight."""
    await site.until("made", "reversible", "bridge")
    await site.until("made", "reversible", "tower")
    await client.send(CANCEL, client.handle.cancel, "enough", grace=0.0, undo="all")
    await client.ended()


# ---- undo-ended: everything is rolled back after the session had completed


@agent
async def finisher(run: Run) -> list[object]:
    """The same things, one after the other, to the end."""
    wall = await run.step("wall", build, "wall")
    cellar = await run.spawn(mason, "cellar")
    window = await run.step("window", carve, "window")
    letter = await run.step("letter", send, "letter")
    return [wall, cellar, window, letter, await run.step("roof", build, "roof")]


async def play_undo_ended(client: "Client") -> None:
    """Undoes it when it has ended; says so again in every life, which is the same command."""
    await client.ended()
    await client.handle.undo("the wrong house", command_id="c-undo")
    await client.saw(lambda event: isinstance(event, ev.UndoFinished))
    site.write("acked", "c-undo", "ok")


# ---- cancel-lost: a cancel that its owner never heard of


@agent
async def hurried(run: Run) -> list[object]:
    """One call of each effect in flight, while another path goes on."""

    async def goes_on() -> list[str]:
        await run.step("wait", look_behind, "wait", "go")
        note = await run.step("note", post, "note")
        shed = await run.step("shed", build, "shed")
        barn = await run.step("barn", carve, "barn")
        return [note, shed, barn, await run.step("mill", build_behind, "mill", "never")]

    return list(
        await asyncio.gather(
            run.step("watch", look_behind, "watch", "never"),
            run.step("mail", post_behind, "mail", "never"),
            run.step("offer", post_retractable, "offer", "never"),
            run.step("draft", build_behind, "draft", "never"),
            run.step("trench", carve_behind, "trench", "never"),
            goes_on(),
        )
    )


async def play_cancel_lost(client: "Client") -> None:
    """Leaves a cancel in the inbox without a word to anybody, and sends it only after the agent has done some more."""
    if not site.count("put", CANCEL):
        for name in ("watch", "mail", "offer", "draft", "trench", "wait"):
            # Killed when its start was durable and its body had not begun, nobody tries again what is irreversible.
            while not site.count("tried", name) and not await _is_lost(client, name):
                await asyncio.sleep(LOOK)
        cancel = cmd.Cancel(id=CommandId(CANCEL), by="local", role="operate", reason="enough", grace=0.0)
        await client.leave(cancel)
        site.open_doors.add("go")
        # In a later life whoever takes the session may find the cancel in its inbox, and decide it first of all.
        while not site.count("made", "reversible", "mill") and not (await client.handle.state()).cancel:
            await asyncio.sleep(LOOK)
        await client.send(CANCEL, client.handle.cancel, "enough", grace=0.0)
    await client.ended()


async def _is_lost(client: "Client", name: str) -> bool:
    return any(call.lost and call.name == name for call in (await client.handle.state()).calls.values())


# ---- settle: calls that pauses abort


@agent
async def settler(run: Run) -> list[str]:
    """Calls in flight whose things are there early, late, or once for each key."""
    return list(
        await asyncio.gather(
            run.step("hut", build_behind, "hut", "all"),
            run.step("well", carve_behind, "well", "all"),
            run.step("claim", post_behind, "claim", "all"),
            run.step("deed", post_retractable, "deed", "all"),
            run.step("road", build_late, "road", "all"),
        )
    )


async def play_settle(client: "Client") -> None:
    """Aborts all of them by a pause, twice."""
    handle = client.handle
    names = ("hut", "well", "claim", "deed", "road")
    for name in names:
        await site.until("tried", name)
    await client.send("c-pause", handle.pause, grace=0.0)
    await client.saw(lambda event: isinstance(event, ev.SessionPaused))
    await client.send("c-resume", handle.resume, "pause_1")
    for name in names:
        await site.until("tried", name, times=2)
    await client.send("c-again", handle.pause, grace=0.0)
    await client.saw(lambda event: isinstance(event, ev.SessionPaused), times=2)
    site.open_doors.add("all")
    await client.send("c-go", handle.resume, "pause_2")
    await client.ended()


# ---- hold: what is held when a cancel comes


@agent
async def keeper(run: Run) -> str:
    """Holds two things; lets go of one by itself."""
    await run.step("lock-printer", lock, "printer")
    await run.hold("printer", let_go, "printer")
    await run.step("lock-paper", lock, "paper")
    await run.hold("paper", let_go_in_thread, "paper")
    await run.step("print", use, "paper")
    await run.release("paper")
    await run.step("lock-ink", lock, "ink")
    await run.hold("ink", let_go_in_thread, "ink")
    return await run.step("dry", look_behind, "dry", "never")


async def play_hold(client: "Client") -> None:
    """Cancels while two things are held."""
    await site.until("tried", "dry")
    await client.send(CANCEL, client.handle.cancel, "enough", grace=0.0)
    await client.ended()
