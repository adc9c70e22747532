"""The blocking half of LangGraph's checkpointer, refused: a store is asynchronous, and its loop must not wait."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from midcourse.errors import MidcourseError


class AsyncOnlySaver(BaseCheckpointSaver[int]):
    """Whatever would block says which method to use instead."""

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Refused: use ``aget_tuple``."""
        _refuse("get_tuple", "ainvoke, astream or aget_state")

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Refused: use ``alist``."""
        _refuse("list", "aget_state_history")

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Refused: use ``aput``."""
        _refuse("put", "ainvoke, astream or aupdate_state")

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Refused: use ``aput_writes``."""
        _refuse("put_writes", "ainvoke or astream")

    def delete_thread(self, thread_id: str) -> None:
        """Refused: use ``adelete_thread``."""
        _refuse("delete_thread")

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Refused: use ``adelete_for_runs``."""
        _refuse("delete_for_runs")

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Refused: use ``acopy_thread``."""
        _refuse("copy_thread")

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Refused: use ``aprune``."""
        _refuse("prune")

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Refused: use ``aget_delta_channel_history``."""
        _refuse("get_delta_channel_history", "ainvoke, astream or aget_state")


def _refuse(method: str, verbs: str = "") -> NoReturn:
    graph = f" (call the graph's {verbs})" if verbs else ""
    raise MidcourseError(
        f"MidcourseSaver.{method} would block. Await a{method} instead{graph}.", code="async_only", method=method
    )
