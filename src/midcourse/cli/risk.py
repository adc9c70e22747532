"""``midcourse risk``: the combined risk, and one made from runs of your own."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from midcourse.cli.opening import JsonOption
from midcourse.cli.printing import carry_out, print_json, say

app = typer.Typer(help="The chance that a run fails, by all signals together.", no_args_is_help=True)


def add_to(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="risk", short_help="The combined risk, and one of your own runs.")


@app.command("show", short_help="What to expect of a model.")
def show(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="A file that `risk train` wrote.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a model was made from and what to expect of it. Without MODEL, the one that comes with Midcourse.

    Changes nothing.

    \b
    Examples:
      midcourse risk show
      midcourse risk show my-risk.json
    """

    async def work() -> None:
        from midcourse.backtest.training import summary
        from midcourse.monitors.risk import load, shipped

        found = shipped() if model is None else load(model)
        if as_json:
            print_json(found)
        else:
            say(*summary(found).split("\n"))

    carry_out(work(), as_json=as_json)


@app.command("train", short_help="Make one from your own runs.")
def train(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES", help="Recorded runs with their outcomes, or a store.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="Where the model is written.")],
    false_stops: Annotated[
        float,
        typer.Option("--false-stops", metavar="SHARE", help="How many of the succeeding runs may be stopped.", min=0.0),
    ] = 0.1,
    as_json: JsonOption = False,
) -> None:
    """Make a combined risk from runs of your own, and say what to expect of it on others like them.

    Takes some minutes. Needs at least 20 runs that failed and 20 that succeeded. What is stated was measured on tasks
    that the model had not seen. Use it with `midcourse backtest --risk-model MODEL` and `midcourse serve --risk-model
    MODEL`.

    \b
    Examples:
      midcourse risk train runs.jsonl.gz -o my-risk.json
      midcourse risk train runs/ -o my-risk.json --false-stops 0.05
    """

    async def work() -> None:
        from midcourse.backtest.training import summary
        from midcourse.backtest.training import train as make
        from midcourse.cli.backtest import recordings_in
        from midcourse.monitors.risk import save

        model = make(await recordings_in(files), target=false_stops, progress=None if as_json else _say_so)
        save(model, out)
        if as_json:
            print_json(model)
        else:
            say(*summary(model).split("\n"), f"Written to {out}.")

    carry_out(work(), as_json=as_json)


def _say_so(said: str) -> None:
    print(said, file=sys.stderr, flush=True)
