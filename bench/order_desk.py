"""How long does an order take from start to confirmation, at 100 orders a second?

The sample agent ``order-desk``, on its script without delays, started on a fixed schedule that waits for nobody: what
a slow answer holds up counts as latency of those behind it. Afterwards the desk's own table is asked whether every
order is in it, once.

    python -m bench.order_desk --seconds 60 --rate 100 --processes 1
"""

import argparse
import asyncio
import gc
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import midcourse
from bench import floors
from bench.harness import Result, folder, median, p99, store_in

QUESTION: Final = "an order at 100 a second, p99"
SECONDS: Final = 10.0
RATE: Final = 100.0
PROCESSES: Final = 1
COMMITS: Final = 4
"""That an order waits for: its start, the start of the call that places it, the order itself, its end."""
PATIENCE: Final = 60.0
"""Seconds after the last start in which an order may still be confirmed."""


async def drive(place: Path, first: int, every: float, count: int) -> list[float | None]:
    """Seconds that each order took; None for one that was not confirmed. Each is for a quantity of its own."""
    from midcourse.samples import order_desk

    async def one(mc: midcourse.Midcourse, number: int, due: float) -> float | None:
        await asyncio.sleep(max(0.0, due - time.time()))
        try:
            session = await mc.start(order_desk.agent, f"Order {number} bolts for umbrella")
            answer = f"{await session.result(PATIENCE)}"
        except (midcourse.MidcourseError, TimeoutError):
            return None
        return time.time() - due if answer.startswith("Order ") else None

    async with midcourse.open(store_in(place)) as mc:
        await (await mc.start(order_desk.agent, "Order 0 bolts for nobody")).result()  # imports, tables
        # As a server would: what was imported is not looked at again, and small garbage is collected less often.
        gc.collect()
        gc.freeze()
        gc.set_threshold(5_000, 50, 50)
        print("ready", flush=True)
        begin_at = float(sys.stdin.readline())
        orders = (one(mc, first + at, begin_at + at * every) for at in range(count))
        return list(await asyncio.gather(*orders))


def ask_for_orders(place: Path, *, seconds: float, rate: float, processes: int) -> tuple[list[float | None], int]:
    """The latencies, and how many orders are missing in the desk's table or are there twice."""
    each = round(seconds * rate / processes)
    environment = {**os.environ, "MIDCOURSE_SAMPLES_DIR": str(place), "MIDCOURSE_SAMPLE_PACE": "0"}
    environment.pop("MIDCOURSE_MODEL", None)
    children = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "bench.order_desk", "--drive", str(place)),
                *(str(1 + number * each), str(processes / rate), str(each)),
            ],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    for child in children:
        assert child.stdout is not None
        if child.stdout.readline() != "ready\n":
            raise RuntimeError("A process of the bench ended before it was ready.")
    begin_at = time.time() + 0.5
    for number, child in enumerate(children):
        assert child.stdin is not None
        child.stdin.write(f"{begin_at + number / rate}\n")
        child.stdin.flush()
    took: list[float | None] = []
    for child in children:
        said, _ = child.communicate()
        if child.returncode:
            raise RuntimeError(f"A process of the bench ended with {child.returncode}.")
        took += json.loads(said)
    return took, wrong_in(place / "order-desk" / "desk.db", len(took))


def wrong_in(database: Path, count: int) -> int:
    """How many orders are missing, and how many rows are there that nobody ordered."""
    with closing(sqlite3.connect(database)) as desk:
        rows = [quantity for (quantity,) in desk.execute("select quantity from orders")]
    found = set(rows) & set(range(1, count + 1))
    return count - len(found) + len(rows) - len(found)


def answers() -> list[Result]:
    """The 99th percentile with the median beside it; what was not confirmed; what is not in the table, once."""
    with folder() as place:
        commits = floors.commits_ms(place / "floor.db", repeats=100 * COMMITS)
        took, wrong = ask_for_orders(place, seconds=SECONDS, rate=RATE, processes=PROCESSES)
    confirmed = [seconds * 1000 for seconds in took if seconds is not None]
    return [
        Result(
            QUESTION,
            "one process: start → confirmation",
            p99(confirmed),
            "ms",
            len(confirmed),
            median=median(confirmed),
            floor=p99([sum(commits[at : at + COMMITS]) for at in range(0, len(commits), COMMITS)]),
            floor_is="four bare commits: the start, the start of the call, the order, the end",
            must=200,
        ),
        Result(QUESTION, "not confirmed", 100 * (1 - len(confirmed) / len(took)), "%", len(took), must=0.1),
        Result(QUESTION, "lost, or placed twice", wrong, "orders", len(took), must=0),
    ]


def main() -> None:
    """Drive it and print what was found; exit with 1 if an order is missing or there twice."""
    if sys.argv[1:2] == ["--drive"]:
        place, first, every, count = sys.argv[2:]
        took = asyncio.run(drive(Path(place), int(first), float(every), int(count)))
        print(json.dumps(took))
        return
    parser = argparse.ArgumentParser(prog="python -m bench.order_desk", description=f"{__doc__}".partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--rate", type=float, default=RATE, help="orders a second, all processes together (100)")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="that share the store (1)")
    given: Any = parser.parse_args()
    with folder() as place:
        before = os.getloadavg()
        took, wrong = ask_for_orders(place, seconds=given.seconds, rate=given.rate, processes=given.processes)
    done = sorted(seconds * 1000 for seconds in took if seconds is not None)
    print(f"{len(took)} orders in {given.seconds:g} s, {given.processes} processes on {os.cpu_count()} cores")
    print(f"confirmed: {len(done)} ({len(done) / len(took):.2%})")
    if done:
        print(f"p50 {median(done):.1f} ms, p99 {p99(done):.1f} ms, max {done[-1]:.1f} ms")
    print(f"in the orders table: {f'{wrong} lost or there twice' if wrong else 'every order, exactly once'}")
    print(f"load of the machine: {before[0]:.2f} before, {os.getloadavg()[0]:.2f} after")
    raise SystemExit(1 if wrong or len(done) < len(took) else 0)


if __name__ == "__main__":
    main()
