"""What the killed processes do: agents, and the client of each, which sends its commands again after every crash.

A client waits for what the journal says and never for a time. In a second life it goes through its whole script again:
what was acknowledged it takes as done, and all the rest it sends with the same command ids as before.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

from midcourse import (
    Agent,
    Interrupt,
    Recorded,
    Refused,
    Reply,
    Retry,
    Run,
    SessionHandle,
    Settings,
    StepError,
    StreamEnd,
    Terms,
    agent,
    current_call,
    tool,
)
from midcourse.core import events as ev
from midcourse.core.commands import AnyCommand, encode_command
from midcourse.core.ids import SessionId
from midcourse.core.switches import Scope
from midcourse.handle.kill_switch import KillSwitch
from midcourse.ports.store import Store
from midcourse.testing.killer import LineLedger
from tests.crash import chat_story, effects, history_agent
from tests.crash.deeds import Judge

SESSION: Final = SessionId("sess_crash")
GOAL: Final = "survive"
CANCEL: Final = "c-cancel"
"""The command after which no later process may run anything."""
TURN: Final = "c-turn"
"""The command that opens another turn: from there on it may."""
SCOPES: Final = "scopes"
"""What varies where a checkpoint does not wait for the disk: it may be there alone, and the next life takes another."""


class World:
    """What the bodies of steps touch: the ledger, a fault that can be mended, and doors that a client opens.

    Ledger and fault are files, which outlive the process; doors are as they were when a process began: closed.
    """

    def __init__(self) -> None:
        self.doors: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.ledger: LineLedger | None = None
        self.mended = Path()
        self.acknowledged: set[str] = set()

    def enter(self, folder: Path) -> None:
        """Live in this folder."""
        self.ledger = LineLedger(ledger_of(folder))
        self.mended = folder / "mended"
        lines = [line.split() for line in ledger_of(folder).read_text().splitlines()]
        self.acknowledged = {line[1] for line in lines if line[0] == "acked" and line[2] != "accepted"}

    def have_run(self, name: str) -> set[str]:
        """The steps of that name that have run, in this life or an earlier one."""
        lines = [line.split() for line in (self.mended.parent / "ledger").read_text().splitlines()]
        return {" ".join(line[1:-1]) for line in lines if line[0] == "ran" and name in " ".join(line)}

    def ran(self) -> None:
        """Tell the ledger that the body of a step runs in this process."""
        assert self.ledger is not None
        self.ledger.write(f"ran {current_call().step} {os.getpid()}")


world = World()


def ledger_of(folder: Path) -> Path:
    """The file outside the store that every life writes to."""
    return folder / "ledger"


class Client:
    """Sends commands and watches, as a person at a terminal would."""

    def __init__(self, sends: SessionHandle[Any], sees: SessionHandle[Any], store: Store, switch: KillSwitch) -> None:
        self.handle = sends
        self.switch = switch
        self._sees = sees
        self.store = store

    async def saw(self, happened: Callable[[ev.AnyEvent], bool], *, times: int = 1, after: int = 0) -> Recorded:
        """Until ``happened`` was true of ``times`` events of the journal; the last of them."""
        async for recorded in self._sees.watch(after=after, follow=True):
            times -= happened(recorded.event)
            if times == 0:
                return recorded
        raise AssertionError("a watch that follows does not end")

    async def ended(self, after: int = 0) -> None:
        """Until the session has ended, later than position ``after``."""
        async for recorded in self._sees.watch(after=after):
            del recorded

    async def parked_since(self, rested: Recorded) -> None:
        """Until nothing of the session is in memory. After a crash one that rests is in nobody's."""
        if (await self.store.head(SESSION)).alive:
            # In a later life it may have gone on long ago, without ever having been parked.
            moved = (ev.SessionParked, ev.SessionResumed, ev.AskAnswered)
            await self.saw(lambda event: isinstance(event, moved), after=rested.position)

    async def send(self, command: str, verb: Callable[..., Awaitable[Reply]], *arguments: Any, **options: Any) -> None:
        """Send a command until its outcome is known, and tell the ledger that it was acknowledged. Not twice."""
        code = "ok" if command in world.acknowledged else "accepted"
        while code == "accepted":
            try:
                reply = await verb(*arguments, command_id=command, **options)
                code = "accepted" if reply.level == "accepted" else "ok"
            except Refused as refused:
                code = refused.code
            assert world.ledger is not None
            world.ledger.write(f"acked {command} {code}")

    async def expect(self, result: object) -> None:
        """The session has completed with this result."""
        found: object = await self.handle.result()
        assert found == result, f"the result is {found!r}, not {result!r}"

    async def leave(self, command: AnyCommand) -> None:
        """Put a command into the inbox and tell nobody, as a client does that dies before it can wake the owner."""
        await self.store.put(SESSION, command.id, encode_command(command), 0.0)
        assert world.ledger is not None
        world.ledger.write(f"put {command.id}")


def began(name: str) -> Callable[[ev.AnyEvent], bool]:
    """A step of that name began."""
    return lambda event: isinstance(event, ev.StepBegun) and event.name == name


def finished(step: str) -> Callable[[ev.AnyEvent], bool]:
    """That step finished."""
    return lambda event: isinstance(event, ev.StepFinished) and event.step == step


def is_a(kind: type[ev.Event]) -> Callable[[ev.AnyEvent], bool]:
    """An event of that kind."""
    return lambda event: isinstance(event, kind)


# ---- tools. They say that they may be done again; the ledger counts how often they were.


@tool(effect="idempotent", local=True)
async def work(value: str) -> str:
    """Ends at once."""
    world.ran()
    return f"{value} done"


@tool(effect="idempotent", local=True)
def work_in_thread(value: str) -> str:
    """Ends at once, in a thread."""
    world.ran()
    return value.upper()


@tool(effect="idempotent", local=True)
async def big_work(seed: float, size: int) -> str:
    """A result of ``size`` characters: some are large enough for a snapshot, or for a blob."""
    world.ran()
    assert 0 <= seed < 1
    return "x" * size


@tool(effect="idempotent", local=True)
async def behind(door: str) -> str:
    """Ends once the client has opened the door."""
    world.ran()
    await world.doors[door].wait()
    return f"through {door}"


@tool(effect="idempotent", local=True)
async def forever(door: str) -> None:
    """Ends only by being aborted, and not before the client has opened the door."""
    world.ran()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await world.doors[door].wait()


@tool(effect="idempotent", local=True)
async def stumble() -> None:
    """Fails, in a way that every agent knows. It has no result that could be lost."""
    raise ValueError("not today")


@tool(effect="idempotent", local=True)
async def break_down() -> str:
    """Fails until the client has mended it."""
    world.ran()
    if not world.mended.exists():
        raise ValueError("not yet")
    return "mended"


@tool(effect="idempotent", local=True)
async def needs_approval() -> str:
    """Asks a person from inside."""
    world.ran()
    answer = current_call().answer
    if answer is None:
        raise Interrupt("need_approval", "Really?")
    return f"approved: {answer}"


WORDS: Final = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", ""]


async def recite() -> AsyncIterator[str | StreamEnd]:
    """Always the same text, and after a crash only what is missing of it."""
    world.ran()
    text, said = " ".join(WORDS), len(current_call().prefix)
    while said < len(text):
        yield text[said : said + 4]
        said += 4
        await asyncio.sleep(0)
    yield StreamEnd(cost=0.25, tokens=9)


# ---- scenarios


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """An agent, the client's script, and whether the commands come from a second, outside opening of the store.

    ``judge`` holds what the tools did against the receipts; ``varies`` is what of the end the moment of death decides.
    ``aborted`` are steps that a cancel ends, in a session that has another turn. ``stops`` is when a cancel must have
    stopped everything in every later life: as soon as it is in the inbox, or, where it has to be passed on to children
    whom a new process may take before their parent, once it has been answered.
    An agent of a framework is named by its module, so that no other scenario has to wait for the framework's import.
    """

    agent: Agent[Any] | str
    play: Callable[[Client], Awaitable[None]]
    settings: Settings = field(default_factory=Settings)
    outside: bool = False
    judge: Judge | None = None
    varies: frozenset[str] = frozenset()
    aborted: frozenset[str] = frozenset()
    stops: Literal["put", "acked"] = "put"

    def made(self) -> Agent[Any]:
        """The agent, its framework imported if it has one."""
        return import_module(self.agent).agent if isinstance(self.agent, str) else self.agent


@agent
async def plain(run: Run) -> list[object]:
    """Parallel steps with keys, a stream, drawn values, a plan, a report, results of several sizes."""
    run.plan.set("look", "think", "tell")
    token, moment, dice = run.uuid(), run.now(), run.random()
    run.plan.start("look")
    seen = await asyncio.gather(*(run.step("look", work, place, key=place) for place in ("north", "south")))
    run.plan.done("look")
    large = "".join([await run.step("large", big_work, dice, size) for size in (20_000, 20_001)])
    huge = await run.step("huge", big_work, dice, 50_000)
    run.plan.start("think")
    text = await run.stream("think", recite, on_cut="continue")
    run.report("nearly there", progress=0.9)
    loud = await run.step("tell", work_in_thread, f"{text} {token} {moment:%Y}")
    run.plan.done("think")
    return [seen, len(large), len(huge), text, len(loud)]


async def play_plain(client: Client) -> None:
    """Only watches."""
    await client.ended()


@agent
async def pausing(run: Run) -> list[str]:
    """A step that may finish under a pause, and one that is aborted by the next."""
    first = await run.step("first", work, "first")
    slow = await run.step("slow", behind, "slow")
    torn = await run.step("torn", behind, "torn")
    return [first, slow, torn, await run.step("last", work, "last")]


async def play_pausing(client: Client) -> None:
    """Pauses mid-step, twice: once with all the time in the world, once with none. A late resume is refused."""
    handle = client.handle
    await client.saw(began("slow"))
    await client.send("c-pause", handle.pause, "let me read")
    world.doors["slow"].set()
    await client.saw(is_a(ev.SessionPaused))
    await client.send("c-resume", handle.resume, "pause_1")
    await client.send("c-late", handle.resume, "pause_1")
    await client.saw(began("torn"))
    await client.send("c-abort", handle.pause, grace=0.0)
    world.doors["torn"].set()
    await client.saw(is_a(ev.SessionPaused), times=2)
    await client.send("c-again", handle.resume, "pause_2")
    await client.ended()


@agent
async def asking(run: Run) -> list[object]:
    """Asks from the agent, and from inside a step."""
    draft = await run.step("draft", work, "draft")
    answer = await run.ask("Send it?", options=("yes", "no"))
    sent = await run.step("send", behind, "asked")
    return [draft, answer, sent, await run.step("risk", needs_approval)]


async def play_asking(client: Client) -> None:
    """Answers both, and one of them twice."""
    handle = client.handle
    await client.saw(is_a(ev.AskOpened))
    await client.send("c-yes", handle.answer, "yes", ask="ask_1")
    await client.send("c-no", handle.answer, "no", ask="ask_1")
    world.doors["asked"].set()
    await client.saw(is_a(ev.AskOpened), times=2)
    await client.send("c-approve", handle.answer, "approve", ask="ask_2")
    await client.ended()


@agent
async def redirected(run: Run) -> list[str]:
    """Streams until somebody says what to write."""

    async def write() -> AsyncIterator[str]:
        world.ran()
        said = [message.text for message in run.messages if message.level == "step"]
        yield "Once upon a time"
        if not said:
            await asyncio.get_running_loop().create_future()
        yield f", {said[-1]}"

    outline = await run.step("outline", work, "outline")
    text = await run.stream("write", write)
    return [outline, text, await run.step("print", work, text)]


async def play_redirected(client: Client) -> None:
    """Redirects once some of the text is there to be read."""
    await client.saw(is_a(ev.SegmentWritten))
    await client.send("c-redirect", client.handle.redirect, "there was a fox")
    await client.ended()


@agent
async def cancelled(run: Run) -> list[object]:
    """Has something finished and something in flight when the cancel comes."""
    await run.step("before", work, "before")
    return list(await asyncio.gather(run.step("kept", work, "kept"), run.step("stuck", forever, "stuck")))


async def play_cancelled(client: Client) -> None:
    """Cancels, and the call in flight takes its time to end."""
    await client.saw(finished("1/kept#1"))
    await client.saw(began("stuck"))
    await client.send(CANCEL, client.handle.cancel, "enough", grace=0.0)
    world.doors["stuck"].set()
    await client.ended()


@agent(terms=Terms(task_class="protected"))
async def protected(run: Run) -> object:
    """Finishes first, unless it is forced to end half-way; begun anew, it has nothing to do."""
    if run.session_id != SESSION:
        return "anew"
    await run.step("before", work, "before")
    return await run.step("stuck", forever, "stuck")


async def play_forced(client: Client) -> None:
    """A pause waits for the end, and an operator does not: what was reached is discarded, and begun anew once."""
    await client.saw(began("stuck"))
    await client.send("c-pause", client.handle.pause, "wait")
    await client.send(CANCEL, client.handle.cancel, "enough", grace=0.0, force=True, restart=True)
    world.doors["stuck"].set()
    await client.ended()
    anew = SessionId(f"{SESSION}-again")
    while (await client.store.head(anew)).head.status != "completed":
        await asyncio.sleep(0.005)
    assert {head.id for head in await client.store.heads()} == {SESSION, anew}
    assert (await client.handle.state()).restarted_as == anew


@agent
async def parked(run: Run) -> list[object]:
    """Is taken out of memory twice: by a pause and while it waits for a person."""
    one = await run.step("one", work, "one")
    two = await run.step("two", behind, "two")
    answer = await run.ask("Go on?")
    return [one, two, answer, run.random() < 1, await run.step("three", work, "three")]


async def play_parked(client: Client) -> None:
    """Resumes it cold, and answers it cold."""
    await client.saw(began("two"))
    await client.send("c-pause", client.handle.pause)
    world.doors["two"].set()
    await client.parked_since(await client.saw(is_a(ev.SessionPaused)))
    await client.send("c-resume", client.handle.resume, "pause_1")
    await client.parked_since(await client.saw(is_a(ev.SessionWaiting)))
    await client.send("c-answer", client.handle.answer, 42, ask="ask_1")
    await client.ended()


@agent(mode="state")
async def stateful(run: Run) -> dict[str, object]:
    """Goes through a list, with a checkpoint after each item."""
    items = ("ash", "beech", "cedar", "dogwood")
    for item in items[run.state.get("count", 0) :]:
        found = await run.step("find", work, item)
        kept = await run.step("keep", behind if item == "beech" else work, item)
        run.state = {"count": run.state.get("count", 0) + 1, "kept": [*run.state.get("kept", ()), found, kept]}
        await run.checkpoint()
    return {**run.state, "goal": run.goal}


async def play_stateful(client: Client) -> None:
    """From outside: aborts a step by a pause, changes the goal while it is paused, and resumes."""
    handle = client.handle
    await client.saw(began("keep"), times=2)
    await client.send("c-pause", handle.pause, grace=0.0)
    await client.saw(is_a(ev.SessionPaused))
    await client.send("c-goal", handle.redirect, "thrive", level="goal")
    world.doors["beech"].set()
    await client.send("c-resume", handle.resume, "pause_1")
    await client.ended()


@agent
async def failing(run: Run) -> list[str]:
    """Fails at its second step, until it is tried again; then has a second turn."""
    first = await run.step("first", work, run.goal)
    return [first, await run.step("broken", break_down)]


async def play_failing(client: Client) -> None:
    """Tries it again, and opens a second turn when it has ended."""
    await client.saw(is_a(ev.SessionFailed))
    world.mended.touch()
    await client.send("c-retry", client.handle.resume)
    await client.saw(is_a(ev.SessionCompleted))
    await client.send("c-turn", client.handle.redirect, "once more", level="goal")
    opened = await client.saw(is_a(ev.TurnOpened))
    await client.ended(after=opened.position)


@agent
async def patient(run: Run) -> list[str]:
    """In every turn: reads what it is to do, does it for as long as the client likes, and reads again."""
    goal = run.goal
    done = await run.step("do it", behind, goal)
    return [goal, done, *(message.text for message in run.messages)]


async def play_queued(client: Client) -> None:
    """Queues, edits and withdraws, redirects and takes it back in the first turn; two more follow by themselves."""
    handle = client.handle
    await client.saw(began("do it"))
    await client.send("c-one", handle.message, "then this")
    await client.send("c-two", handle.message, "then that")
    await client.send("c-three", handle.message, "never")
    await client.send("c-hurry", handle.redirect, "hurry")
    await client.send("c-nowhere", handle.redirect, "nowhere")
    await client.send("c-edit", handle.edit, "queued_2", "then those")
    await client.send("c-withdraw", handle.withdraw, "queued_3")
    await client.send("c-slowly", handle.edit, "msg_2", "slowly")
    await client.send("c-stay", handle.withdraw, "msg_3")
    world.doors[GOAL].set()
    await client.saw(is_a(ev.TurnOpened))
    await client.send("c-late", handle.edit, "msg_2", "too late")
    world.doors["then this"].set()
    last = await client.saw(is_a(ev.TurnOpened), times=2)
    world.doors["then those"].set()
    await client.ended(after=last.position)
    await client.expect(["then those", "through then those", GOAL, "slowly", "then this", "then those"])


@agent
async def kin(run: Run) -> list[str]:
    """A child: one step that ends at once, one that takes as long as the client likes."""
    goal = run.goal
    return [await run.step(f"{goal} looks", work, goal), await run.step(f"{goal} stays", behind, goal)]


@agent
async def family(run: Run) -> list[object]:
    """Two children at once, and a step of its own afterwards."""
    children = await asyncio.gather(*(run.spawn(kin, name, key=name) for name in ("ann", "ben")))
    return [*children, await run.step("gather", work, "all")]


async def play_family(client: Client) -> None:
    """Pauses the parent while its children are at work, twice, and resumes it."""
    handle = client.handle
    await client.saw(is_a(ev.StepBegun), times=2)
    await client.send("c-pause", handle.pause, grace=0.0)
    await client.saw(is_a(ev.SessionPaused))
    world.doors["ann"].set()
    await client.send("c-resume", handle.resume, "pause_1")
    await client.saw(finished("1/spawn kin#=ann"))
    await client.send("c-again", handle.pause, grace=0.0)
    await client.saw(is_a(ev.SessionPaused), times=2)
    world.doors["ben"].set()
    await client.send("c-go", handle.resume, "pause_2")
    await client.ended()


async def play_switch(client: Client) -> None:
    """Throws the kill switch in the middle of a step, lifts it, and lets the session go back to where it was."""
    switch = client.switch
    await client.saw(began("slow"))
    await switch.throw(Scope(), "all stop", switch="ks_crash")
    await client.saw(is_a(ev.SessionHalted))
    for name in ("slow", "torn"):
        world.doors[name].set()
    with suppress(Refused):  # in an earlier life
        await switch.lift("ks_crash", "over")
    await switch.release("ks_crash")
    await client.ended()


@agent
async def restless(run: Run) -> str:
    """A child that never ends by itself."""
    return await run.step(f"{run.goal} stays", behind, run.goal)


@agent
async def orphans(run: Run) -> list[object]:
    """Two children that never end by themselves."""
    return list(await asyncio.gather(*(run.spawn(restless, name, key=name) for name in ("ann", "ben"))))


async def play_orphans(client: Client) -> None:
    """Cancels the parent once both children have been at work: from then on their calls have begun, whatever dies."""
    while len(world.have_run("stays")) < 2:
        await asyncio.sleep(0.005)
    await client.send(CANCEL, client.handle.cancel, "enough", grace=0.0)
    await client.ended()


@agent(terms=Terms(policy="standard"))
async def watched(run: Run) -> list[str]:
    """Fails five times in a row, which a policy stops; then does as it is told."""
    for _ in range(5):
        with suppress(StepError):
            await run.step("stumble", stumble)
    done = await run.step("go on", behind, "review")
    return [done, *(message.text for message in run.messages)]


async def play_watched(client: Client) -> None:
    """Sees the policy stop it, answers its review, labels what it did, and rates the whole."""
    handle = client.handle
    made = await client.saw(lambda event: isinstance(event, ev.InterventionMade) and event.decision.level == "stop")
    assert isinstance(made.event, ev.InterventionMade)
    world.doors["review"].set()
    await client.saw(is_a(ev.SessionPaused))
    await client.send("c-answer", handle.answer, "mind the step", ask=made.event.ask)
    await client.ended()
    await client.send("c-label", handle.label, made.event.intervention, "right")
    await client.send("c-rate", handle.rate, 4)


# ---- what may pass is tried again

SOON: Final = Retry(attempts=3, first_wait=0.001)


def _fail_first() -> None:
    """Raise what may pass, unless this step has run before, in this life or an earlier one."""
    has_run = world.have_run(current_call().step)
    world.ran()
    if not has_run:
        raise ConnectionResetError("gone")


@tool(effect="read", retry=SOON)
async def look_twice() -> str:
    """Answers the second time."""
    _fail_first()
    return "seen"


@tool(effect="idempotent", local=True, retry=SOON)
async def put_twice() -> str:
    """Answers the second time."""
    _fail_first()
    return "put"


async def _take_back(arguments: object, result: object, key: str) -> None:
    del arguments, result, key


@tool(effect="write", undo=_take_back, local=True, retry=SOON)
async def make_twice() -> str:
    """Answers the second time, when what it may have made is taken back."""
    _fail_first()
    return "made"


async def speak_twice() -> AsyncIterator[str]:
    """A model whose first answer breaks off."""
    yield "one "
    _fail_first()
    yield "two"


@agent
async def persistent(run: Run) -> list[str]:
    """Tries each of them again."""
    looked, put = await run.step("look", look_twice), await run.step("put", put_twice)
    return [looked, put, await run.step("make", make_twice), await run.stream("speak", speak_twice, retry=SOON)]


async def play_persistent(client: Client) -> None:
    """Waits for the end."""
    await client.expect(["seen", "put", "made", "one two"])


SCENARIOS: Final = {
    "watched": Scenario(agent=watched, play=play_watched),
    "plain": Scenario(agent=plain, play=play_plain, settings=Settings(segment_tokens=4)),
    "pause": Scenario(agent=pausing, play=play_pausing),
    "ask": Scenario(agent=asking, play=play_asking),
    "redirect": Scenario(agent=redirected, play=play_redirected, settings=Settings(segment_seconds=0.01)),
    "cancel": Scenario(agent=cancelled, play=play_cancelled),
    "forced": Scenario(agent=protected, play=play_forced, settings=Settings(poll=0.05)),
    "parking": Scenario(agent=parked, play=play_parked, settings=Settings(park_after=0.0)),
    "state": Scenario(agent=stateful, play=play_stateful, settings=Settings(poll=0.05), outside=True),
    "retry": Scenario(agent=failing, play=play_failing),
    "again": Scenario(agent=persistent, play=play_persistent),
    "queued": Scenario(agent=patient, play=play_queued),
    "switch": Scenario(agent=pausing, play=play_switch, settings=Settings(poll=0.05)),
    "children": Scenario(agent=family, play=play_family, settings=Settings(poll=0.05)),
    "orphans": Scenario(agent=orphans, play=play_orphans, settings=Settings(poll=0.05)),
    "undo": Scenario(
        agent=effects.builder,
        play=effects.play_undo,
        judge=Judge(left={"letter"}, order=("tower", "cellar", "fence", "floor", "roof", "window", "wall")),
    ),
    "undo-tree": Scenario(
        agent=effects.lord,
        play=effects.play_undo_tree,
        settings=Settings(poll=0.05),
        judge=Judge(left=(), order=("wall",)),
    ),
    "undo-ended": Scenario(
        agent=effects.finisher,
        play=effects.play_undo_ended,
        judge=Judge(left={"letter"}, order=("cellar", "roof", "window", "wall")),
    ),
    "cancel-lost": Scenario(
        agent=effects.hurried,
        play=effects.play_cancel_lost,
        # No poll tells the owner, and it does not wait for one before it begins a call.
        settings=Settings(poll=20.0, unreachable_after=40.0),
        judge=Judge(left=None, unknown={"mail", "note"}),
        varies=frozenset({"finished", "receipt"}),
    ),
    "settle": Scenario(
        agent=effects.settler, play=effects.play_settle, judge=Judge(left={"hut", "well", "claim", "deed", "road"})
    ),
    "hold": Scenario(
        agent=effects.keeper,
        play=effects.play_hold,
        judge=Judge(left={"lock-printer", "lock-paper", "print", "lock-ink"}),
    ),
    "history": Scenario(
        agent=history_agent.gatherer,
        play=history_agent.play_history,
        judge=history_agent.LEFT,
        varies=frozenset({SCOPES}),
    ),
    "held-pydantic": Scenario(
        agent="tests.crash.with_pydantic_ai",
        play=chat_story.play,
        settings=Settings(segment_seconds=0.01),
        judge=Judge(left=chat_story.MADE),
        varies=frozenset({SCOPES}),
        aborted=frozenset({"draft"}),
    ),
    "held-openai": Scenario(
        agent="tests.crash.with_openai_agents",
        play=chat_story.play,
        settings=Settings(segment_seconds=0.01),
        judge=Judge(left=chat_story.MADE),
        varies=frozenset({SCOPES}),
        aborted=frozenset({"draft"}),
    ),
    "held-langgraph": Scenario(
        agent="tests.crash.with_langgraph",
        play=chat_story.play_and_answer,
        settings=Settings(segment_seconds=0.01),
        judge=Judge(left=(*chat_story.MADE, "open_up")),
        varies=frozenset({SCOPES, "state"}),  # it names messages by their ids
        aborted=frozenset({"draft"}),
    ),
}
