"""``python -m bench [question …]``: ask the questions, print the table, write results.json and the README's table."""

import asyncio
import faulthandler
import gc
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from bench import readme
from bench.harness import Result, save, table

QUESTIONS: Final = (
    "stop_latency",
    "stop_by_kind",
    "http_stop",
    "http_latency",
    "http_watchers",
    "console",
    "durable_step",
    "tool_overhead",
    "many_sessions",
    "order_desk",
    "bytes_per_step",
    "resume",
    "framework_resume",
    "framework_growth",
    "checkpoint_creation",
    "segment_delivery",
    "alive_sessions",
    "kill_recover",
    "idle_cpu",
    "policy_evaluation",
    "drift_speed",
    "backtest_speed",
)
"""The modules, in the order of the table. Each has a docstring that asks, a ``QUESTION``, and ``answers()``."""

LIMIT: Final = 180.0
"""Seconds after which a question counts as hanging."""


def names() -> list[str]:
    """How each question is called in the results."""
    return [importlib.import_module(f"bench.{question}").QUESTION for question in QUESTIONS]


@contextmanager
def limited(question: str) -> Generator[None]:
    """End this process if the question is not answered in time, and show where everybody stands."""

    def give_up() -> None:
        print(f"{question} has not been answered in {LIMIT:g} s. Its threads and tasks:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(all_threads=True)
        for one in gc.get_objects():
            if isinstance(one, asyncio.Task) and not one.done():
                one.print_stack()
        os._exit(1)

    timer = threading.Timer(LIMIT, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def main(arguments: list[str]) -> None:
    """Every question, or those named; ``--readme`` only writes the README's table again."""
    if arguments == ["--readme"]:
        readme.write()
        return
    unknown = [name for name in arguments if name not in QUESTIONS]
    if unknown:
        sys.exit(f"No question {', '.join(unknown)}. There are: {', '.join(QUESTIONS)}.")
    wanted = arguments or list(QUESTIONS)
    if len(wanted) > 1:
        for name in wanted:
            # Each in a process of its own: what one leaves behind in memory is not the next one's.
            subprocess.run([sys.executable, "-m", "bench", name], check=True)
        return
    (name,) = wanted
    with limited(name):
        answers: list[Result] = importlib.import_module(f"bench.{name}").answers()
    save(answers, names())
    readme.write()
    print(f"{table(answers)}\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
