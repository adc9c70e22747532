"""Checkpoints as LangGraph would put them, one after the other or on top of an older one."""

from collections.abc import Mapping
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple

_NO: Final = object()


def config(thread: str = "t", checkpoint: str | None = None, *, namespace: str = "") -> RunnableConfig:
    """What names a thread, a namespace, and perhaps a checkpoint."""
    named: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": namespace}
    if checkpoint is not None:
        named["checkpoint_id"] = checkpoint
    return {"configurable": named}


def checkpoint_id(number: int) -> str:
    """Ids in the order of their numbers."""
    return f"checkpoint-{number:08}"


async def put(
    saver: BaseCheckpointSaver[Any],
    number: int,
    values: Mapping[str, Any],
    *,
    parent: int | None = None,
    thread: str = "t",
    namespace: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> RunnableConfig:
    """Put checkpoint ``number`` on top of ``parent``. Versions count up from the parent's, as LangGraph's do."""
    under = config(thread, checkpoint_id(parent) if parent is not None else None, namespace=namespace)
    before = await saver.aget_tuple(under) if parent is not None else None
    old_versions = before.checkpoint["channel_versions"] if before else {}
    old_values = before.checkpoint["channel_values"] if before else {}
    top = max((int(version) for version in old_versions.values()), default=0) + 1
    changed = {name for name in {*values, *old_versions} if values.get(name, _NO) != old_values.get(name, _NO)}
    changed |= {name for name in values if name not in old_versions}
    versions = {name: top if name in changed else old_versions[name] for name in {*values, *old_versions}}
    checkpoint: Checkpoint = {
        "v": 4,
        "id": checkpoint_id(number),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": dict(values),
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": None,
    }
    told: Any = {"source": "loop", "step": number, **(metadata or {})}
    return await saver.aput(under, checkpoint, told, dict.fromkeys(changed, top))


async def load(
    saver: BaseCheckpointSaver[Any], number: int | None = None, *, thread: str = "t", namespace: str = ""
) -> CheckpointTuple | None:
    """Checkpoint ``number``, or the newest."""
    return await saver.aget_tuple(
        config(thread, checkpoint_id(number) if number is not None else None, namespace=namespace)
    )


async def values(saver: BaseCheckpointSaver[Any], number: int, *, thread: str = "t") -> Mapping[str, Any]:
    """The channels of checkpoint ``number``, which is there."""
    found = await load(saver, number, thread=thread)
    assert found is not None
    return found.checkpoint["channel_values"]
