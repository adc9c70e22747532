"""``python -m bench [question …]``: ask the questions, print the table, write results.json."""

import importlib
import pkgutil
import sys

import bench
from bench.harness import Result, save, show

PARTS = {"__main__", "harness", "children", "floors"}


def main() -> None:
    """Every question, or those named."""
    questions = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name not in PARTS)
    wanted = sys.argv[1:] or questions
    unknown = [name for name in wanted if name not in questions]
    if unknown:
        sys.exit(f"No question {', '.join(unknown)}. There are: {', '.join(questions)}.")
    results: list[Result] = []
    for name in wanted:
        sys.stdout.write(f"… {name}\n")
        sys.stdout.flush()
        answers: list[Result] = importlib.import_module(f"bench.{name}").answers()
        show(answers)
        save(answers)
        results += answers
    sys.stdout.write("\n")
    show(results)


if __name__ == "__main__":
    main()
