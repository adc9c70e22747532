"""One story for an agent of every framework: what its model says, what its tools do, and what people do meanwhile.

What the model is asked is checked at every request, by the rules that providers have. What is against them is a line of
the ledger, ``wrong …``, which ``trial`` reads.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from midcourse import Happened, Recorded, tool
from midcourse.core import events as ev
from midcourse.models.script import Call, Conversation, Piece, Said, Text, Wait
from tests.crash.effects import LOOK, carve_away, site, take_away

if TYPE_CHECKING:
    from tests.crash.scenarios import Client

GOAL, FOX, ONCE_MORE = "survive", "tell me of the fox", "once more"
"""What the person says: at first, while the model speaks, and after the cancel."""
NEVER: Final = 3600.0
BEGINNING: Final = "Once"
"""One word: a segment may end after any."""
CUT_OFF: Final = "it did not end"
"""What the story says of a call that was stopped: how that is told to the model is the framework's."""


# ---- tools. Each is called once; what it makes is named like itself.


async def _behind(door: str) -> None:
    while door not in site.open_doors:
        await asyncio.sleep(LOOK)


async def has_gone(arguments: Mapping[str, Any], key: str) -> object:
    """Whether it is in the world, and then what the call would have returned."""
    sent = site.count("made", "irreversible", arguments["name"], key)
    return Happened(f"{arguments['name']} done") if sent else False


@tool(effect="read")
async def look(name: str) -> str:
    """Read."""
    site.try_it()
    return f"{name} done"


@tool(effect="idempotent", local=True)
def post(name: str) -> str:
    """Idempotent, in a thread."""
    site.try_it()
    site.make("idempotent")
    return f"{name} done"


@tool(undo=take_away, local=True)
async def build(name: str) -> str:
    """Reversible."""
    site.try_it()
    site.make("reversible")
    return f"{name} done"


@tool(probe=has_gone, local=True)
async def send(name: str) -> str:
    """Irreversible; a probe can tell whether it happened."""
    site.try_it()
    site.make("irreversible")
    return f"{name} done"


@tool(effect="read")
async def peek(name: str) -> str:
    """Read, until the client lets it end."""
    site.try_it()
    await _behind("pause")
    return f"{name} done"


@tool(effect="idempotent", local=True)
async def mail(name: str) -> str:
    """Idempotent, until the client lets it end."""
    site.try_it()
    site.make("idempotent")
    await _behind("pause")
    return f"{name} done"


@tool(undo=carve_away, local=True)
async def raise_up(name: str) -> str:
    """Reversible, until the client lets it end."""
    site.try_it()
    site.make("reversible")
    await _behind("pause")
    return f"{name} done"


@tool(effect="idempotent", local=True)
async def file(name: str) -> str:
    """Idempotent."""
    site.try_it()
    site.make("idempotent")
    return f"{name} done"


@tool(undo=take_away, local=True)
async def draft(name: str) -> str:
    """Reversible; ends only by being aborted."""
    site.try_it()
    site.make("reversible")
    await _behind("never")
    return f"{name} done"


@tool(undo=take_away, local=True)
async def carve(name: str) -> str:
    """Reversible."""
    site.try_it()
    site.make("reversible")
    return f"{name} done"


@tool(probe=has_gone, local=True)
async def ship(name: str) -> str:
    """Irreversible; a probe can tell whether it happened."""
    site.try_it()
    site.make("irreversible")
    return f"{name} done"


TOOLS: Final = (look, post, build, send, peek, mail, raise_up, file, draft, carve, ship)


# ---- what the model says


def _calls(*names: str) -> Sequence[Piece]:
    return [Text("I work. "), *(Call(name, {"name": name}, f"id-{name}") for name in names)]


def story(conversation: Conversation, /) -> Sequence[Piece]:
    """Parallel calls of every effect; a text that a redirect cuts; calls that a pause and a cancel abort; the end.

    Which part it is, is told by what the person said last and which calls came after it. The ids are fixed: whether
    there is anything of a cut text is a matter of time, and must not change them.
    """
    for wrong in faults(conversation):
        site.write("wrong", "the model was sent", wrong)
    latest = conversation.latest
    made = {call.name for call in latest.calls}
    match conversation.user:
        case text if text == GOAL:
            return [Text(BEGINNING), Wait(NEVER)] if made else _calls("look", "post", "build", "send")
        case text if text == FOX:
            return _calls("file", "draft") if made else _calls("peek", "mail", "raise_up")
        case text if text == ONCE_MORE:
            return [Text(_told(conversation))] if made else _calls("carve", "ship")
        case text:
            return [Text(f"What is {text!r}?")]


def _told(conversation: Conversation) -> str:
    """Every call the conversation has, and its result."""
    results = {said.call_id: said.text for said in conversation if said.role == "tool"}
    parts: list[str] = []
    for call in conversation.calls:
        result = results.get(call.id or "", "nothing")
        stopped = call.name == "draft" and any(word in result for word in ("undone", "did not end"))
        parts.append(f"{call.name}: {CUT_OFF if stopped else result}")
    return "; ".join(parts)


EXPECTED: Final = "; ".join(f"{one.name}: {CUT_OFF if one.name == 'draft' else f'{one.name} done'}" for one in TOOLS)
"""The model's last words: every call in its order, with the result that it had."""


def faults(conversation: Conversation) -> Iterator[str]:
    """What a provider would refuse, or a person would not understand, in a conversation."""
    calls = [call.id for call in conversation.calls]
    for call_id in sorted({str(one) for one in calls if calls.count(one) > 1}):
        yield f"the call id {call_id} twice"
    waiting: list[str] = []
    for said in conversation:
        if said.role == "tool":
            if said.call_id not in waiting:
                yield f"a result of {said.call_id or 'no call'} that nothing waits for"
            else:
                waiting.remove(said.call_id)
            continue
        if waiting:
            yield f"no result of {', '.join(waiting)} right after the call"
        waiting = [call.id or "" for call in said.calls]
    if waiting:
        yield f"no result of {', '.join(waiting)}"
    told = [said.text for said in conversation if said.role == "user"]
    if told != [GOAL, FOX, ONCE_MORE][: len(told)] or not told:
        yield f"what the person said as {told}"


def said_by(role: str, text: str) -> Said:
    """A message without calls, of a framework's word for a role."""
    known: Final = {"user": "user", "human": "user", "system": "system", "developer": "system"}
    match known.get(role, "assistant"):
        case "user":
            return Said("user", text)
        case "system":
            return Said("system", text)
        case _:
            return Said("assistant", text)


# ---- what people do


async def play(client: "Client") -> None:
    """Redirects while the model speaks, pauses and resumes while calls run, cancels, and says what to do then."""
    opened = await _to_the_second_turn(client)
    await client.ended(after=opened.position)
    await client.expect(EXPECTED)


async def play_and_answer(client: "Client") -> None:
    """The same, with a question at the end. A graph's checkpoints are looked at in every life, and at the end."""
    from tests.crash.with_langgraph import read_all_checkpoints

    await read_all_checkpoints(client.store)
    opened = await _to_the_second_turn(client)
    asked = await client.saw(lambda event: isinstance(event, ev.AskOpened))
    assert isinstance(asked.event, ev.AskOpened)
    await client.send("c-yes", client.handle.answer, "yes", ask=asked.event.ask)
    await client.ended(after=opened.position)
    await client.expect(f"{EXPECTED} (yes)")
    await read_all_checkpoints(client.store)


async def _to_the_second_turn(client: "Client") -> Recorded:
    handle = client.handle
    await client.saw(lambda event: isinstance(event, ev.SegmentWritten) and BEGINNING in event.text)
    await client.send("c-redirect", handle.redirect, FOX)
    for name in ("peek", "mail", "raise_up"):
        await site.until("tried", name)
    await client.send("c-pause", handle.pause, grace=0.0)
    await client.saw(lambda event: isinstance(event, ev.SessionPaused))
    site.open_doors.add("pause")
    await client.send("c-resume", handle.resume, "pause_1")
    await site.until("tried", "draft")
    await client.saw(lambda event: isinstance(event, ev.StepFinished) and "/file#=id-file" in event.step)
    await client.send("c-cancel", handle.cancel, "enough", grace=0.0)
    await client.saw(lambda event: isinstance(event, ev.SessionCancelled))
    await client.send("c-turn", handle.redirect, ONCE_MORE)
    return await client.saw(lambda event: isinstance(event, ev.TurnOpened))


MADE: Final = ("post", "build", "send", "mail", "raise_up", "file", "carve", "ship")
