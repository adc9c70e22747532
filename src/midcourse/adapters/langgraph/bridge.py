"""The blocking half of LangGraph's checkpointer: other threads wait for the store's event loop, which never waits."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from midcourse.adapters.langgraph.threads import is_on, wait_for
from midcourse.errors import MidcourseError

T = TypeVar("T")


class BridgedSaver(BaseCheckpointSaver[Any]):
    """Each blocking method waits, in its own thread, for the one that is awaited; on the event loop it is refused."""

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._wait_for("get_tuple", self.aget_tuple(config), "ainvoke, astream or aget_state")

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        async def listed() -> Sequence[CheckpointTuple]:
            return [one async for one in self.alist(config, filter=filter, before=before, limit=limit)]

        return iter(self._wait_for("list", listed(), "aget_state_history"))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        put = self.aput(config, checkpoint, metadata, new_versions)
        return self._wait_for("put", put, "ainvoke, astream or aupdate_state")

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._wait_for("put_writes", self.aput_writes(config, writes, task_id, task_path), "ainvoke or astream")

    def delete_thread(self, thread_id: str) -> None:
        self._wait_for("delete_thread", self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._wait_for("delete_for_runs", self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._wait_for("copy_thread", self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._wait_for("prune", self.aprune(thread_ids, strategy=strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        history = self.aget_delta_channel_history(config=config, channels=channels)
        return self._wait_for("get_delta_channel_history", history, "ainvoke, astream or aget_state")

    def _wait_for(self, method: str, awaited: Coroutine[Any, Any, T], verbs: str = "") -> T:
        loop = self._loop
        if loop is not None and loop.is_running() and not is_on(loop):
            return wait_for(awaited, loop)
        awaited.close()
        graph = f" (call the graph's {verbs})" if verbs else ""
        why = "would block the event loop" if loop is not None and is_on(loop) else "has no event loop to wait for"
        raise MidcourseError(
            f"MidcourseSaver.{method} {why}. Await a{method} instead{graph}, or call it from another thread than that "
            "of the loop the saver was made on.",
            code="async_only",
            method=method,
        )
