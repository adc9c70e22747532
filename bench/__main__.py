"""``python -m bench [question …]``: ask the questions, print the table, write results.json and the README's table."""

import gc
import importlib
import sys
from typing import Final

from bench import readme
from bench.harness import Result, save, table

QUESTIONS: Final = (
    "stop_latency",
    "durable_step",
    "many_sessions",
    "bytes_per_step",
    "resume",
    "checkpoint_creation",
    "segment_delivery",
    "alive_sessions",
    "kill_recover",
    "idle_cpu",
)
"""The modules, in the order of the table. Each has a docstring that asks, a ``QUESTION``, and ``answers()``."""


def names() -> list[str]:
    """How each question is called in the results."""
    return [importlib.import_module(f"bench.{question}").QUESTION for question in QUESTIONS]


def main(arguments: list[str]) -> None:
    """Every question, or those named; ``--readme`` only writes the README's table again."""
    if arguments == ["--readme"]:
        readme.write()
        return
    unknown = [name for name in arguments if name not in QUESTIONS]
    if unknown:
        sys.exit(f"No question {', '.join(unknown)}. There are: {', '.join(QUESTIONS)}.")
    results: list[Result] = []
    for name in arguments or QUESTIONS:
        print(f"… {name}", flush=True)
        gc.collect()  # what the question before left behind is not this one's
        answers: list[Result] = importlib.import_module(f"bench.{name}").answers()
        save(answers, names())
        results += answers
    readme.write()
    print(table(results))


if __name__ == "__main__":
    main(sys.argv[1:])
