"""Does the combined risk beat a plain one, on tasks it has not seen? And: makes the model that comes with the package.

    python -m bench.risk_study RUNS...            prints the table
    python -m bench.risk_study RUNS... --ship     also writes src/midcourse/policy/signals/risk_model.json

``RUNS`` are files of recorded runs, the five with both outcomes from ``data/trajectories``. All is cross-validated by
task, but for the profiles as they are, which have learned nothing. Calibrated thresholds are made from four fifths of
the tasks. ``plain`` is one logistic regression on what anybody would count. ``combined`` chooses, inside each fold,
among the sets of facts that are named below for its source; ``automatic`` among all sets, as for a user's own runs. The
sets, and which of them a source gets, were named after looking at these very runs: ``combined`` flatters itself, and
``automatic`` a little. Where the ``alarm`` is ``set beforehand``, false stops are measured and not set to be equal.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final

from midcourse.analysis.backtest import Score, Verdict, backtest, scored
from midcourse.analysis.backtest.calibration import calibrate, course_of
from midcourse.analysis.backtest.importers import read_recordings
from midcourse.analysis.backtest.recordings import Recording
from midcourse.analysis.backtest.risk_model import (
    AFTER,
    SETS,
    TARGET,
    Linear,
    ModelScore,
    RunFacts,
    assign_folds,
    fit,
    judge,
    learn,
    learn_general,
    observe,
    out_of_fold,
    spread_out,
    summary,
    thresholds,
    train,
)
from midcourse.errors import InvalidInput
from midcourse.policy.profiles import PROFILES, STANDARD
from midcourse.policy.signals.risk import FEATURES, save

TARGETS: Final = {
    "mini_swe": 0.13,
    "aider_swe": 0.19,
    "tau_bench": 0.10,
    "agentrx_tau_retail": 0.10,
    "trail": 0.24,
}
"""The false stops at which others were measured, so that all are compared at the same."""
NARROWED: Final = {
    "mini_swe": ("effort",),
    "aider_swe": ("effort", "basics"),
    "tau_bench": ("talk", "request", "all"),
    "agentrx_tau_retail": ("goal", "request"),
    "trail": ("research", "basics"),
}
"""Coding is told by what it takes, a talk by how it goes, an order by what is asked for, research by its answers."""
LEAST: Final = 10
"""Two of the sources have fewer than the 20 failures or successes that users' own runs need."""
SHIPPED: Final = Path(__file__).parents[1] / "src/midcourse/policy/signals/risk_model.json"


def plain(runs: Sequence[RunFacts]) -> Linear:
    """What anybody would try first."""
    return fit(runs, [list(FEATURES).index(name) for name in SETS["basics"]], 1.0)


def row(name: str, how: str, judged: ModelScore, target: float) -> str:
    """A row of the table."""
    found = zip(judged.effect, judged.intervals, strict=True)
    cells = [f"{value:.2f} ({low:.2f}–{high:.2f})" for value, (low, high) in found]
    return f"| {name} | {how} | {target:.2f} | {' | '.join(cells)} |"


def as_they_are(recordings: Sequence[Recording]) -> None:
    """The profiles with their own thresholds, on these runs: nothing was learned, so nothing is cross-validated."""
    for tried in backtest(tuple(PROFILES), recordings).policies.values():
        _print(recordings[0].source, f"{tried.policy.name} as it is", tried.scores.all)


def calibrated(recordings: Sequence[Recording], target: float) -> None:
    """Thresholds that are calibrated on four fifths of the tasks, on the others: as `policy calibrate` makes them."""
    tasks = sorted({recording.task_key for recording in recordings}, key=lambda task: blake2b(task.encode()).digest())
    fold_of = {task: place % 5 for place, task in enumerate(tasks)}
    courses = [course_of(recording, STANDARD) for recording in recordings]
    verdicts: list[Verdict] = []
    try:
        for fold in range(5):
            known = [of for run, of in zip(recordings, courses, strict=True) if fold_of[run.task_key] != fold]
            policy = calibrate(known, STANDARD, target).policy
            others = [run for run in recordings if fold_of[run.task_key] == fold]
            verdicts += backtest(policy, others, resamples=0).verdicts
    except InvalidInput as error:
        print(
            f"| {recordings[0].source} | thresholds, calibrated | | {error.message.partition(':')[0]} | | |", flush=True
        )
        return
    _print(recordings[0].source, "thresholds, calibrated", scored(verdicts).all)


def _print(source: str, how: str, score: Score) -> None:
    figures = ("false_positive_rate", "recall", "steps_saved")
    cells = [
        f"{getattr(score, one):.2f} ({score.intervals[one][0]:.2f}–{score.intervals[one][1]:.2f})" for one in figures
    ]
    print(f"| {source} | {how} | {' | '.join(cells)} | |", flush=True)


def table(by_source: dict[str, list[RunFacts]], recordings: Sequence[Recording]) -> None:
    """The profiles, calibrated thresholds, plain, combined and automatic, source by source."""
    print("| source | risk | false stops | recall | steps saved (of all) | steps saved (mean of runs) |")
    print("|---|---|---|---|---|---|")
    for name, runs in by_source.items():
        target = TARGETS.get(name, TARGET)
        known = [one for one in recordings if one.source == name and one.outcome != "unknown"]
        as_they_are(known)
        calibrated(known, target)
        ways: dict[str, tuple[Callable[[Sequence[RunFacts]], Linear], int]] = {
            "plain": (plain, 3),
            "combined": (lambda of, n=name, t=target: learn(of, t, NARROWED.get(n, tuple(SETS))), 3),
            "automatic": (lambda of, t=target: learn(of, t), 1),
        }
        for how, (make, repeats) in ways.items():
            print(row(name, how, judge(runs, make, target, repeats=repeats), target), flush=True)
        false, recall, saved = alarmed(runs, target, NARROWED.get(name, tuple(SETS)))
        print(f"| {name} | combined, alarm set beforehand | {false:.2f} | {recall:.2f} | {saved:.2f} | |", flush=True)


def alarmed(runs: Sequence[RunFacts], target: float, sets: Sequence[str]) -> tuple[float, float, float]:
    """False stops, recall and steps saved where the alarm, too, is set before a task is seen: as for new runs."""
    dealt = assign_folds(runs, 5, 0)
    stopped = {False: [0, 0], True: [0, 0]}
    steps = [0, 0]
    make = partial(learn, target=target, sets=sets)
    for fold in range(5):
        known = [run for run, of in zip(runs, dealt, strict=True) if of != fold]
        model, alarm = make(known), thresholds(out_of_fold(known, make, seed=1, folds=5), known, [target])[0]
        for run, of in zip(runs, dealt, strict=True):
            if of == fold:
                above = [place for place, score in enumerate(model.scores(run)) if score >= alarm]
                stopped[run.failed][0] += bool(above)
                stopped[run.failed][1] += 1
                steps[0] += len(run.rows) - above[0] - 1 if above and run.failed else 0
                steps[1] += len(run.rows) if run.failed else 0
    false, true = ((part / whole) for part, whole in stopped.values())
    return false, true, steps[0] / steps[1]


def elsewhere(by_source: dict[str, list[RunFacts]]) -> None:
    """The general model on each source, made, with its alarm, from the others."""
    filled = iter(spread_out(by_source))
    parts = {name: [next(filled) for _ in runs] for name, runs in by_source.items()}
    print("\nGeneral model, made from the other sources, its alarm set there to stop 10 %:\n")
    print("| source | false stops | recall |\n|---|---|---|")
    for name, runs in parts.items():
        others = {other: of for other, of in parts.items() if other != name}
        model = learn_general(others)
        apart = [
            (learn_general({third: of for third, of in others.items() if third != other}), run)
            for other, of in others.items()
            for run in of
        ]
        alarm = thresholds([one.scores(run) for one, run in apart], [run for _, run in apart], [TARGET])[0]
        stopped = {run.failed: [0, 0] for run in runs}
        for run in runs:
            stopped[run.failed][0] += bool(model.scores(run).max() >= alarm)
            stopped[run.failed][1] += 1
        shares = {failed: part / whole for failed, (part, whole) in stopped.items()}
        print(f"| {name} | {shares.get(False, 0):.2f} | {shares.get(True, 0):.2f} |")


def main() -> None:
    """The table; with ``--ship`` the model, too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--ship", action="store_true", help="write the model that comes with the package")
    parser.add_argument("--after", type=float, default=AFTER, help="seconds in which nothing is stopped")
    parser.add_argument("--no-table", action="store_true", help="only the model")
    given = parser.parse_args()
    recordings: list[Recording] = list(read_recordings(given.runs))
    by_source: dict[str, list[RunFacts]] = {}
    for recording in recordings:
        run = observe(recording, given.after)
        if run is not None:
            by_source.setdefault(recording.source, []).append(run)
    both = {name: runs for name, runs in by_source.items() if 0 < sum(run.failed for run in runs) < len(runs)}
    if not given.no_table:
        table(both, recordings)
        elsewhere(both)
    if given.ship:
        model = train(recordings, target=TARGETS, sets=NARROWED, least=LEAST, after=given.after, progress=print)
        save(model, SHIPPED)
        print(summary(model))


if __name__ == "__main__":
    main()
