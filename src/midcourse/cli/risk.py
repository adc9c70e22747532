"""``midcourse risk``: the combined risk, and one made from runs of your own."""

from pathlib import Path
from typing import Annotated

from midcourse.cli.command import NOWHERE, Call, command
from midcourse.cli.printer import print_json, print_lines, tell
from midcourse.cli.target import argument, option


@command("risk show", "Show what to expect of a model.", where=NOWHERE)
async def show(
    call: Call, model: Annotated[Path | None, argument("MODEL", "A file that `midcourse risk train` wrote.")] = None
) -> None:
    """Show what a model was trained on and what to expect of it. Default: the one that comes with Midcourse.

    Changes nothing.

    \b
    Examples:
      midcourse risk show
      midcourse risk show my-risk.json
    """

    from midcourse.analysis.backtest.risk_model import summary
    from midcourse.policy.signals.risk import load, shipped

    found = shipped() if model is None else load(model)
    if call.as_json:
        print_json(found)
    else:
        print_lines(*summary(found).split("\n"))


@command("risk train", "Train a model on your own runs.", where=NOWHERE)
async def train(
    call: Call,
    files: Annotated[list[str], argument("FILES", "Recorded runs with their outcomes, or a store.")],
    out: Annotated[Path, option("--out/-o", "MODEL", "The file to write.")],
    false_stops: Annotated[
        float, option("--false-stops", "SHARE", "The share of successful runs that may be stopped.", min=0.0)
    ] = 0.1,
) -> None:
    """Train a combined risk model on your own runs, and show what to expect of it on similar ones.

    This takes some minutes, and at least 20 runs that failed and 20 that succeeded. The figures were measured on tasks
    that the model had not seen. Use it with `midcourse policy backtest --risk-model MODEL` and `midcourse serve
    --risk-model MODEL`.

    \b
    Examples:
      midcourse risk train runs.jsonl.gz -o my-risk.json
      midcourse risk train runs/ -o my-risk.json --false-stops 0.05
    """

    from midcourse.analysis.backtest.risk_model import summary
    from midcourse.analysis.backtest.risk_model import train as make
    from midcourse.cli.backtest import recordings_in
    from midcourse.policy.signals.risk import save

    model = make(await recordings_in(files), target=false_stops, progress=None if call.as_json else tell)
    save(model, out)
    if call.as_json:
        print_json(model)
    else:
        print_lines(*summary(model).split("\n"), f"Written to {out}.")
