"""A risk model from recorded runs whose outcome is known: training, calibration, and what to expect of it.

Every number that is stated comes from runs of tasks that neither weights nor choice had seen, at exactly the share of
false stops that is named; on other runs, an alarm that was set on these stops a few more or fewer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from midcourse.analysis.backtest.recordings import Recording
from midcourse.analysis.backtest.risk_weights import (
    AFTER,
    FOLDS,
    NEVER,
    PLACES,
    SETS,
    Candidate,
    Effect,
    Linear,
    RunFacts,
    average_models,
    choose,
    effects,
    learn,
    observe,
    out_of_fold,
    ridge,
)
from midcourse.errors import InvalidInput
from midcourse.policy.signals.risk import FEATURES, GENERAL, MEASURED, Domain, RiskModel, Stated

# isort: split
import numpy as np  # behind the above, which says what to do where it is missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

LEAST: Final = 20
"""Failures, and successes, below which nothing can be learned of a domain."""
TASKS: Final = 5
"""Different tasks below which no model could be held against tasks that it has not seen."""
TARGET: Final = 0.10
"""The default share of succeeding runs that may be stopped."""
MARKS: Final = (0.02, 0.05, 0.08, 0.10, 0.13, 0.16, 0.19, 0.22, 0.24, 0.27, 0.30, 0.40)
"""Shares of false stops for which a model knows its alarm."""
REPEATS: Final = 4
"""The number of assignments of runs to folds for the reported figures."""
BOOTSTRAPS: Final = 400

Progress: TypeAlias = Callable[[str], None]


# ---- calibrating


def thresholds(scores: Sequence["Floats"], runs: Sequence[RunFacts], shares: Sequence[float] = MARKS) -> list[float]:
    """Scores that so large a share of the succeeding runs reaches: conformal, on the highest score of each.

    Of n succeeding runs, another one is above the k-th highest with a chance of k / (n + 1).
    """
    tops = np.sort([one.max() for one, run in zip(scores, runs, strict=True) if not run.failed])[::-1]
    # Runs that could never be stopped say that fewer are, not from where on.
    tops = np.maximum(tops, tops[tops > NEVER].min(initial=tops[0]))
    at = np.clip(np.array(shares) * (len(tops) + 1) - 1, 0, len(tops) - 1)
    return [float(one) for one in np.interp(at, np.arange(len(tops)), tops)]


def _chance(scores: Sequence["Floats"], runs: Sequence[RunFacts]) -> tuple[float, float]:
    """Platt: from scores to log-odds that a run fails, at the rate at which runs fail here."""
    used = [(one[run.may_stop], run.failed) for one, run in zip(scores, runs, strict=True) if run.may_stop.any()]
    sums = np.concatenate([one for one, _ in used])[:, None]
    failed = np.concatenate([np.full(len(one), float(is_failed)) for one, is_failed in used])
    weight = np.concatenate([np.full(len(one), 1 / len(one)) for one, _ in used])
    slope, offset = ridge(sums, failed, weight, 0.1)
    # A slope below zero would turn the model on its head; it then says next to nothing, and shall say that.
    return max(float(slope), 0.05), float(offset)


class ModelScore(NamedTuple):
    """The quality of a way of making models, on runs it has not seen: scores, and what follows from them."""

    scores: list[list["Floats"]]
    effect: Effect
    intervals: tuple[tuple[float, float], ...]


def judge(
    runs: Sequence[RunFacts], make: Callable[[Sequence[RunFacts]], Linear], target: float, *, repeats: int | None = None
) -> ModelScore:
    """Cross-validation by task, dealt anew a few times; intervals by drawing tasks anew."""
    scores = [out_of_fold(runs, make, seed=seed, folds=FOLDS) for seed in range(repeats or REPEATS)]
    return ModelScore(scores, _mean(scores, runs, target), intervals(scores, runs, target))


def _mean(scores: Sequence[Sequence["Floats"]], runs: Sequence[RunFacts], target: float) -> Effect:
    found = [effects(one, runs, [target])[0] for one in scores]
    return Effect(*(sum(values) / len(found) for values in zip(*found, strict=True)))


def intervals(
    scores: Sequence[Sequence["Floats"]], runs: Sequence[RunFacts], target: float
) -> tuple[tuple[float, float], ...]:
    """95 % of each number in an ``Effect``, if other tasks like these had been recorded."""
    chance = np.random.default_rng(0)
    tasks: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        tasks.setdefault(run.task, []).append(place)
    groups = list(tasks.values())
    found: list[Effect] = []
    for _ in range(BOOTSTRAPS):
        drawn = [place for group in chance.integers(0, len(groups), len(groups)) for place in groups[int(group)]]
        picked = [runs[place] for place in drawn]
        if 0 < sum(run.failed for run in picked) < len(picked) - 1:
            found.append(_mean([[one[place] for place in drawn] for one in scores], picked, target))
    low, high = np.quantile(np.array(found), [0.025, 0.975], axis=0)
    return tuple(zip(map(float, low), map(float, high), strict=True))


def _domain(
    runs: Sequence[RunFacts],
    model: Linear,
    judged: ModelScore,
    target: float,
    made_from: Mapping[Candidate, float],
    after: float,
) -> Domain:
    """Return a model and its calibration in stored form. The slope becomes part of the weights."""
    slopes = [_chance(one, runs) for one in judged.scores]
    slope = sum(one for one, _ in slopes) / len(slopes)
    offset = sum(one for _, one in slopes) / len(slopes)
    marks = np.mean([thresholds(one, runs) for one in judged.scores], axis=0)
    mean = np.average(
        np.vstack([run.rows for run in runs]),
        axis=0,
        weights=np.concatenate([np.full(len(run.rows), 1 / len(run.rows)) for run in runs]),
    )
    weights = {
        name: (round(float(mean[place]), 5), float(f"{slope * model.weights[place]:.5g}"))
        for name, place in PLACES.items()
        if abs(slope * model.weights[place]) > 1e-6
    }
    middle = sum(weight * at for at, weight in weights.values()) + slope * model.offset
    alarms = {share: _logistic(slope * float(mark) + offset) for share, mark in zip(MARKS, marks, strict=True)}
    spread = np.std(np.vstack([run.rows[-1] for run in runs]), axis=0)
    looks_at = sorted(weights, key=lambda name: -abs(weights[name][1]) * float(spread[PLACES[name]]))[:5]
    effect, (recall, steps_saved, _) = judged.effect, judged.intervals
    return Domain(
        offset=round(middle + offset, 5),
        weights=weights,
        target=target,
        alarms=alarms,
        after=after,
        runs=len(runs),
        failures=sum(run.failed for run in runs),
        stated=Stated(
            false_stops=target,
            recall=round(effect.recall, 3),
            steps_saved=round(effect.steps_saved, 3),
            recall_interval=(round(recall[0], 3), round(recall[1], 3)),
            steps_saved_interval=(round(steps_saved[0], 3), round(steps_saved[1], 3)),
        ),
        looks_at=tuple(looks_at),
        made_from={f"{one.name}, penalty {one.penalty:g}": round(share, 2) for one, share in made_from.items()},
    )


def _logistic(odds: float) -> float:
    return float(f"{1 / (1 + np.exp(-odds)):.6g}")


# ---- runs of no known domain


def spread_out(by_domain: Mapping[str, Sequence[RunFacts]]) -> list[RunFacts]:
    """Return all runs; a fact that a domain never measures gets its usual value elsewhere, and so has no weight."""
    every = [run for runs in by_domain.values() for run in runs]
    filled: list[RunFacts] = []
    means: dict[str, Floats] = {}
    for what, names in MEASURED.items():
        seen = [run.rows.mean(axis=0) for run in every if what not in run.unseen]
        middle = np.mean(seen, axis=0) if seen else np.zeros(len(FEATURES))
        means[what] = np.array([middle[place] if name in names else 0.0 for name, place in PLACES.items()])
    for run in every:
        rows = run.rows.copy()
        for what in run.unseen:
            columns = [PLACES[name] for name in MEASURED[what]]
            rows[:, columns] = means[what][columns]
        filled.append(run._replace(rows=rows))
    return filled


GENERAL_SET: Final = Candidate("effort", 16.0)
GENERAL_TARGET: Final = 0.05
"""Less than elsewhere: what is an alarm in one domain is not in another, so that more false stops must be expected."""


def learn_general(by_domain: Mapping[str, Sequence[RunFacts]]) -> Linear:
    """Train one model for runs from anywhere: the same facts in each domain, and their weights averaged."""
    models = [average_models(runs, {GENERAL_SET: 1.0}) for runs in by_domain.values()]
    return Linear(np.mean([one.weights for one in models], axis=0), float(np.mean([one.offset for one in models])))


# ---- all of it


def train(
    recordings: Iterable[Recording],
    *,
    target: float | Mapping[str, float] = TARGET,
    sets: Mapping[str, Sequence[str]] | None = None,
    least: int = LEAST,
    after: float = AFTER,
    progress: Progress | None = None,
) -> RiskModel:
    """Train a model of these runs: one domain for each source with runs enough, and a general one.

    ``target`` is the share of succeeding runs that may be stopped, for all domains or for each. ``sets`` narrows, for a
    domain, the sets of facts to choose from. ``least`` is how many failures, and how many successes, are enough.
    Nothing is stopped in the first ``after`` seconds.

    Raises:
        InvalidInput: there is no domain with failures and successes enough.
    """
    tell = progress or _tell_nobody
    by_domain, seen = _by_domain(recordings, after)
    able = {name: runs for name, runs in by_domain.items() if not _lacking(runs, least)}
    if not able:
        raise _too_few(by_domain, least)
    domains: dict[str, Domain] = {}
    for name, runs in sorted(able.items()):
        wanted = target.get(name, TARGET) if isinstance(target, Mapping) else target
        allowed = tuple((sets or {}).get(name, SETS))
        tell(f"{name}: {len(runs)} runs, choosing and judging")
        judged = judge(runs, partial(learn, target=wanted, sets=allowed), wanted)
        say = choose(runs, wanted, allowed)
        domains[name] = _domain(runs, average_models(runs, say), judged, wanted, say, after)
    tell("runs of no known domain")
    domains[GENERAL] = _general(able, after)
    return RiskModel(data=seen, domains=domains)


def _tell_nobody(_: str) -> None:
    """Ignore the progress."""


def _general(by_domain: Mapping[str, Sequence[RunFacts]], after: float) -> Domain:
    """Return the general model, judged on each domain by a model of the others; of a single domain, by task."""
    filled = spread_out(by_domain)
    names = [name for name, runs in by_domain.items() for _ in runs]
    parts = {name: [run for run, of in zip(filled, names, strict=True) if of == name] for name in by_domain}
    if len(parts) == 1:
        judged = judge(filled, lambda runs: learn_general({"": runs}), GENERAL_TARGET)
    else:
        left_out: dict[str, Linear] = {
            name: learn_general({other: runs for other, runs in parts.items() if other != name}) for name in parts
        }
        scores = [[left_out[name].scores(run) for run, name in zip(filled, names, strict=True)]]
        judged = ModelScore(scores, _mean(scores, filled, GENERAL_TARGET), intervals(scores, filled, GENERAL_TARGET))
    return _domain(filled, learn_general(parts), judged, GENERAL_TARGET, {GENERAL_SET: 1.0}, after)


def _by_domain(recordings: Iterable[Recording], after: float) -> tuple[dict[str, list[RunFacts]], str]:
    """Return the runs of each source with a known outcome, and the hash of them all."""
    found: dict[str, list[RunFacts]] = {}
    digest = sha256()
    for recording in recordings:
        run = observe(recording, after)
        if run is not None:
            found.setdefault(recording.source, []).append(run)
            digest.update(f"{recording.run_id} {recording.outcome} {recording.count}\n".encode())
            digest.update(run.rows.round(6).tobytes())
    return found, digest.hexdigest()


def _lacking(runs: Sequence[RunFacts], least: int) -> bool:
    failures = sum(run.failed for run in runs)
    return failures < least or len(runs) - failures < least or len({run.task for run in runs}) < TASKS


def _too_few(by_domain: Mapping[str, Sequence[RunFacts]], least: int) -> InvalidInput:
    if not by_domain:
        had = "there is no run with a known outcome"
    else:
        failures = {name: sum(run.failed for run in runs) for name, runs in by_domain.items()}
        had = "; ".join(
            f"{name or 'these runs'} has {failures[name]} failures and {len(runs) - failures[name]} successes, of "
            f"{len({run.task for run in runs})} tasks"
            for name, runs in sorted(by_domain.items())
        )
    return InvalidInput(
        f"To learn from runs takes at least {least} failures and {least} successes of one source, and {TASKS} "
        f"different tasks: {had}. "
        'Record more, or say how those without an outcome ended ("outcome": "success" or "failure").',
        code="too_few_runs",
        least=least,
    )


def summary(model: RiskModel) -> str:
    """Describe what to expect of a model, for people."""
    lines: list[str] = []
    for name, domain in model.domains.items():
        stated = domain.stated
        recall, saved = stated.recall_interval, stated.steps_saved_interval
        lines.append(
            f"{name}: {domain.runs} runs, {domain.failures} failed. Where {stated.false_stops:.0%} of the succeeding"
            f" runs are stopped, so are {stated.recall:.0%} of the failing ones ({recall[0]:.0%}–{recall[1]:.0%}), and"
            f" {stated.steps_saved:.0%} of their steps are saved ({saved[0]:.0%}–{saved[1]:.0%})."
        )
        lines.append(f"  It depends most on {', '.join(FEATURES[fact] for fact in domain.looks_at)}.")
    lines.append("Measured on tasks that the model had not seen; in brackets where 95 of 100 such sets of tasks lie.")
    return "\n".join(lines)
