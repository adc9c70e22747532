"""How many bytes does a step (a model call and a tool call, 1 KB) take in the store, and do they become more?

What counts is what the store takes beyond the texts the agent was given and, where it keeps them, the states it saved.
The texts are random letters, so that compressing them saves little.
"""

import contextlib
import sqlite3
from pathlib import Path
from typing import Final

import midcourse
from bench import loops
from bench.harness import Result, ask, folder, store_in

QUESTION: Final = "bytes per step beyond the payload"
SHORT: Final = 200
LONG: Final = 2000
PAYLOAD: Final = 2 * len(loops.TEXT)


async def bytes_per_step(agent: midcourse.Agent[None], steps: int) -> float:
    """What the store has grown by, a step, beyond the texts."""
    with folder() as path:
        async with midcourse.open(store_in(path)):
            pass
        empty = _size(path)
        await loops.run_loop(store_in(path), agent, steps)
        return (_size(path) - empty) / steps - PAYLOAD


def _size(path: Path) -> int:
    """What the store takes on the disk once its log is emptied into it."""
    with contextlib.closing(sqlite3.connect(path / "runs.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(file.stat().st_size for file in path.glob("runs.db*") if file.is_file())


async def _floor(steps: int) -> float:
    """Two bare rows a step."""
    with folder() as path, contextlib.closing(sqlite3.connect(path / "runs.db")) as connection:
        connection.execute("CREATE TABLE journal (session INTEGER, position INTEGER, record BLOB)")
        connection.commit()
        empty = _size(path)
        connection.executemany(
            "INSERT INTO journal VALUES (1, ?, ?)",
            ((position, loops.TEXT.encode()) for position in range(2 * steps)),
        )
        connection.commit()
        return (_size(path) - empty) / steps - PAYLOAD


async def _compared(agent: midcourse.Agent[None], kind: str, *, judged: bool = True) -> list[Result]:
    short = await bytes_per_step(agent, SHORT)
    long = await bytes_per_step(agent, LONG)
    floor = await _floor(LONG)
    aim = 2000 if judged else None
    rows = [
        Result(QUESTION, f"{kind}, {steps:,} steps", ours, "B", 1, floor=floor, floor_is="two bare rows", aim=aim)
        for steps, ours in ((SHORT, short), (LONG, long))
    ]
    ratio = (long + PAYLOAD) / (short + PAYLOAD)
    must, aim = (1.2, 1.0) if judged else (None, None)
    if judged:
        whole, bare = ((beyond + PAYLOAD) * LONG / 1e6 for beyond in (long, floor))
        case = f"{kind}, the whole store after {LONG:,} steps"
        rows.append(Result(QUESTION, case, whole, "MB", 1, floor=bare, floor_is="two bare rows", must=3.8))
    rows.append(Result(QUESTION, f"{kind}, whole step at {LONG:,} / at {SHORT}", ratio, "×", 1, must=must, aim=aim))
    return rows


def answers() -> list[Result]:
    """The table's lines."""
    return ask(
        lambda: _compared(loops.loop_checkpointing, "`state`"),
        lambda: _compared(loops.loop_replaying, "`replay`"),
        lambda: _compared(loops.loop_remembering, "`state` with the whole history in it", judged=False),
    )
