"""How long does an order take from start to confirmation, at 100 orders a second?

The sample agent ``order-desk``, on its script without delays, started on a fixed schedule that waits for nobody: what
a slow answer holds up counts as latency of those behind it. Afterwards the desk's own table is asked whether every
order is in it, once.

    python -m bench.order_desk --seconds 60 --rate 100 --processes 2
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
from bench.harness import Result, folder, median, p99, store_in

QUESTION: Final = "an order at 100 a second, p99"
SECONDS: Final = 10.0
RATE: Final = 100.0
PROCESSES: Final = 2
PATIENCE: Final = 60.0
"""Seconds after the last start in which an order may still be confirmed."""


async def drive(place: Path, first: int, every: float, count: int, begin_at: float) -> list[float | None]:
    """Seconds that each order took; None for one that was not confirmed. Each is for a quantity of its own."""
    from midcourse.samples import order_desk

    async def one(mc: midcourse.Midcourse, number: int) -> float | None:
        due = begin_at + (number - first) * every
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
        gc.set_threshold(50_000, 50, 50)
        return list(await asyncio.gather(*(one(mc, number) for number in range(first, first + count))))


def ask_for_orders(place: Path, *, seconds: float, rate: float, processes: int) -> tuple[list[float | None], str]:
    """The latencies, and what is wrong with the orders table; empty if nothing is."""
    begin_at, each = time.time() + 3.0, round(seconds * rate / processes)
    environment = {**os.environ, "MIDCOURSE_SAMPLES_DIR": str(place), "MIDCOURSE_SAMPLE_PACE": "0"}
    environment.pop("MIDCOURSE_MODEL", None)
    children = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "bench.order_desk", "--drive", str(place)),
                *(str(1 + number * each), str(processes / rate), str(each), str(begin_at + number / rate)),
            ],
            env=environment,
            stdout=subprocess.PIPE,
        )
        for number in range(processes)
    ]
    took: list[float | None] = []
    for child in children:
        said, _ = child.communicate()
        if child.returncode:
            raise RuntimeError(f"A process of the bench ended with {child.returncode}.")
        took += json.loads(said)
    return took, wrong_in(place / "order-desk" / "desk.db", len(took))


def wrong_in(database: Path, count: int) -> str:
    """What is wrong: orders that are missing, and orders that are there twice."""
    with closing(sqlite3.connect(database)) as desk:
        rows, different, least, most = desk.execute(
            "select count(*), count(distinct quantity), min(quantity), max(quantity) from orders"
        ).fetchone()
    if (rows, different, least, most) == (count, count, 1, count):
        return ""
    return f"{rows} rows for {different} of {count} orders, numbered {least} to {most}"


def answers() -> list[Result]:
    """The 99th percentile, and the median beside it."""
    with folder() as place:
        took, wrong = ask_for_orders(place, seconds=SECONDS, rate=RATE, processes=PROCESSES)
    assert not wrong, wrong
    confirmed = [seconds * 1000 for seconds in took if seconds is not None]
    assert len(confirmed) == len(took), f"{len(took) - len(confirmed)} of {len(took)} orders were not confirmed"
    case = f"{PROCESSES} processes: start → confirmation"
    return [Result(QUESTION, case, p99(confirmed), "ms", len(confirmed), median=median(confirmed), must=200)]


def main() -> None:
    """Drive it and print what was found; exit with 1 if an order is missing or there twice."""
    if sys.argv[1:2] == ["--drive"]:
        place, first, every, count, begin_at = sys.argv[2:]
        took = asyncio.run(drive(Path(place), int(first), float(every), int(count), float(begin_at)))
        print(json.dumps(took))
        return
    parser = argparse.ArgumentParser(prog="python -m bench.order_desk", description=f"{__doc__}".partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--rate", type=float, default=RATE, help="orders a second, all processes together (100)")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="that share the store (2)")
    given: Any = parser.parse_args()
    with folder() as place:
        before = os.getloadavg()
        took, wrong = ask_for_orders(place, seconds=given.seconds, rate=given.rate, processes=given.processes)
    done = sorted(seconds * 1000 for seconds in took if seconds is not None)
    print(f"{len(took)} orders in {given.seconds:g} s, {given.processes} processes on {os.cpu_count()} cores")
    print(f"confirmed: {len(done)} ({len(done) / len(took):.2%})")
    if done:
        print(f"p50 {median(done):.1f} ms, p99 {p99(done):.1f} ms, max {done[-1]:.1f} ms")
    print(f"in the orders table: {wrong or 'every order, exactly once'}")
    print(f"load of the machine: {before[0]:.2f} before, {os.getloadavg()[0]:.2f} after")
    raise SystemExit(1 if wrong or len(done) < len(took) else 0)


if __name__ == "__main__":
    main()
