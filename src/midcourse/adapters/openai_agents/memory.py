"""A session of the OpenAI Agents SDK as the memory of a held agent: read once, and added to once after each turn."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from agents.memory import Session

from midcourse.adapters.openai_agents.conversation import Item
from midcourse.runtime.run import Run
from midcourse.runtime.tools import Happened, declared_tool, register

READ: Final = "read session"
SAVE: Final = "save session"


class SessionMemory:
    """Read and write an SDK's session in steps. ``run.state["remembered"]`` counts the items that are in it."""

    def __init__(self, run: Run, agent: str, session: Session) -> None:
        self._run = run
        self._session = session
        self._read = declared_tool(self._get, name=READ, origin=f"{agent}:{READ}", effect="read")
        self._save = declared_tool(
            self._add, name=SAVE, origin=f"{agent}:{run.session_id}:{SAVE}", effect="write", probe=self._is_there
        )
        register(self._save)  # for the check, here, whether it happened

    async def before(self, items: list[Item]) -> list[Item]:
        """Return the conversation, begun with the session's memory if this is the first turn."""
        if "remembered" in self._run.state:
            return items
        found = cast("list[Item]", await self._run.call(self._read, {}, body=self._get))
        self._run.state["remembered"] = len(found)
        return [*found, *items]

    def follow(self, kept: Sequence[Item], items: Sequence[Item]) -> None:
        """Follow a conversation from ``kept`` to ``items``: find the remembered part again, if it was changed.

        A handoff's filter may leave out earlier messages. Nothing new is lost: what the filter made of it is new, too.
        """
        remembered: int = self._run.state["remembered"]
        if list(kept[:remembered]) == list(items[:remembered]):
            return
        old, new = Counter(map(_encoded, kept[:remembered])), Counter(map(_encoded, kept[remembered:]))
        at = len(items)
        while at and (new[spelled := _encoded(items[at - 1])] or not old[spelled]):
            new[spelled] -= 1
            at -= 1
        self._run.state["remembered"] = at

    async def after(self, items: Sequence[Item]) -> None:
        """Have the session remember what is new in the conversation."""
        new = list(items[self._run.state["remembered"] :])
        if new:
            await self._run.call(self._save, {"items": new}, body=lambda: self._add(new))
        self._run.state["remembered"] = len(items)

    async def _get(self) -> list[Item]:
        return [dict(cast("Item", item)) for item in await self._session.get_items()]

    async def _add(self, items: list[Item]) -> None:
        await self._session.add_items(cast("Any", items))

    async def _is_there(self, arguments: Mapping[str, Any], key: str) -> object:
        items = arguments["items"]
        found = [dict(cast("Item", item)) for item in await self._session.get_items(limit=len(items))]
        return Happened() if found == items else False


def _encoded(item: Item) -> bytes:
    return msgspec.json.encode(item, order="deterministic")
