"""Weights from recorded runs: what a monitor would have seen of each, one model, what its stops do, and the choice.

A run is stopped at the first call at which its risk reaches the alarm, and nothing counts after that. So what is
optimised is not how well single steps are told apart but what a stop does: the share of failing runs that are stopped
and of their steps that are saved, while a stated share of succeeding runs is stopped by mistake.

Runs are few, facts are many. So there is a short list of small sets of facts (``SETS``), each weighed by a logistic
regression with a ridge penalty; in proportion to how well they do out of fold they are averaged, into one set of
weights.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from midcourse.analysis.backtest.recordings import Recording
from midcourse.errors import InvalidInput
from midcourse.policy.run_activity import Called, Said
from midcourse.policy.signals.risk import FEATURES, Facts

try:
    import numpy as np
except ImportError as error:
    raise InvalidInput("Training a risk model needs NumPy: pip install numpy", code="no_numpy") from error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Flags: TypeAlias = NDArray[np.bool_]

AFTER: Final = 0.0
"""Seconds in which nothing is stopped, as ``signals.risk.first_after`` in a policy: alarms are calibrated to it."""
SETS: Final[Mapping[str, tuple[str, ...]]] = {
    "effort": (
        "steps", "user_turns", "errors", "repeats", "tokens_in_last", "tokens_in", "tokens_out", "tokens_out_max",
        "cost", "cost_max", "seconds",
    ),
    "basics": (
        "steps", "user_turns", "errors", "error_rate", "error_streak", "repeats", "most_repeats", "resources",
        "tokens_in_last", "tokens_out", "cost", "seconds", "text_length", "write_share", "tests", "tool_entropy",
    ),
    "talk": (
        "steps", "refusals", "recent_refusals", "doubts", "troubles", "numbers", "text_length", "text_full", "lists",
        "user_length", "user_questions", "user_thanks", "user_insists", "user_agrees", "user_troubles", "goal_length",
        "goal_conditions", "goal_numbers", "writes", "write_share", "searches", "tool_entropy", "tool_kinds",
        "transfer",
    ),
    "request": (
        "steps", "goal_length", "goal_conditions", "goal_sentences", "goal_numbers", "refusals", "numbers",
        "text_length", "lists", "user_length", "writes", "searches",
    ),
    "goal": ("steps", "goal_length", "goal_conditions", "goal_sentences"),
    "research": (
        "steps", "questions", "answer_length", "empty_answers", "tool_share", "tokens_out_mean", "tokens_in_last",
        "goal_length", "goal_covered", "goal_quantities", "text_length", "error_rate", "context_resets",
    ),
    "all": tuple(FEATURES),
}  # fmt: skip
"""Sets of facts that belong together: what work took, what anybody would count, how a conversation goes, …"""
PENALTIES: Final = (1.0, 4.0, 16.0)
FOLDS: Final = 10
INNER_FOLDS: Final = 5
INNER_REPEATS: Final = 3
_TEMPERATURE: Final = 0.05
"""The difference of objective between sets that may be chance."""
NEVER: Final = -50.0
"""The score of a step at which nothing may be stopped."""
PLACES: Final = {name: place for place, name in enumerate(FEATURES)}


class RunFacts(NamedTuple):
    """The facts of a run after each of its rows; ``may_stop`` marks the rows at which it can be stopped."""

    task: str
    failed: bool
    rows: "Floats"
    may_stop: "Flags"
    unseen: frozenset[str] = frozenset()


class Linear(NamedTuple):
    """A weighted sum of facts."""

    weights: "Floats"
    offset: float

    def scores(self, run: RunFacts) -> "Floats":
        """Return the sum after each row; never an alarm where nothing may be stopped."""
        return np.where(run.may_stop, run.rows @ self.weights + self.offset, NEVER)


class Candidate(NamedTuple):
    """A set of facts and how strongly it is held back."""

    name: str
    penalty: float


def observe(recording: Recording, after: float = AFTER) -> RunFacts | None:
    """Return the facts a monitor would have seen; None if the outcome is unknown or nothing happened.

    It may be stopped at calls, from the third on, and ``after`` so many seconds where the recording has a clock.
    """
    if recording.outcome == "unknown" or not recording.count:
        return None
    facts = Facts()
    rows: list[tuple[float, ...]] = []
    may_stop: list[bool] = []
    for act in recording.acts:
        facts.feed(act)
        if isinstance(act, Called | Said):
            rows.append(facts.values())
            may_stop.append(isinstance(act, Called) and facts.may_stop(after))
    return RunFacts(
        recording.task_key or recording.run_id,
        recording.outcome == "failure",
        np.array(rows, dtype=np.float64),
        np.array(may_stop),
        frozenset(facts.unseen),
    )


# ---- one model


def fit(runs: Sequence[RunFacts], columns: Sequence[int], penalty: float, *, rows: int = 20) -> Linear:
    """Fit a logistic regression on prefixes of runs. Every run counts the same, and so do failures and successes."""
    counts = [len(run.rows) for run in runs]
    # So many rows of each run, evenly spread, the last among them.
    picked = [np.unique(np.round(np.linspace(0, one - 1, min(rows, one))).astype(np.intp)) for one in counts]
    facts = np.vstack([run.rows[at][:, columns] for run, at in zip(runs, picked, strict=True)])
    failed = np.concatenate([np.full(len(at), float(run.failed)) for run, at in zip(runs, picked, strict=True)])
    weight = np.concatenate([np.full(len(at), 1 / len(at)) for at in picked])
    share = float(weight @ failed), float(weight @ (1 - failed))
    weight = np.where(failed == 1, weight / max(share[0], 1e-9), weight / max(share[1], 1e-9)) * len(runs) / 2
    mean = np.average(facts, axis=0, weights=weight)
    spread = np.sqrt(np.average((facts - mean) ** 2, axis=0, weights=weight))
    spread = np.where(spread < 1e-9, 1e9, spread)
    found = ridge((facts - mean) / spread, failed, weight, penalty)
    weights = np.zeros(len(FEATURES))
    weights[list(columns)] = found[:-1] / spread
    return Linear(weights, float(found[-1] - (found[:-1] / spread) @ mean))


def ridge(facts: "Floats", failed: "Floats", weight: "Floats", penalty: float) -> "Floats":
    """Newton's method; the last coefficient is the offset, which is not held back."""
    inputs = np.hstack([facts, np.ones((len(facts), 1))])
    held = np.full(inputs.shape[1], penalty)
    held[-1] = 1e-8
    found = np.zeros(inputs.shape[1])
    for _ in range(12):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ found, -15, 15)))
        slope = inputs.T @ (weight * (chance - failed)) + held * found
        curve = (inputs * (weight * chance * (1 - chance))[:, None]).T @ inputs
        curve[np.diag_indices(len(found))] += held
        step = np.linalg.solve(curve, slope)
        found = found - step
        if np.abs(step).max() < 1e-4:
            break
    return found


def _columns(name: str) -> list[int]:
    return [PLACES[one] for one in SETS[name]]


# ---- what a stop does


class Effect(NamedTuple):
    """The effect of stops at one share of false stops."""

    recall: float
    steps_saved: float
    saved_per_run: float


def effects(scores: Sequence["Floats"], runs: Sequence[RunFacts], shares: Sequence[float]) -> list[Effect]:
    """Return the effect of stops at exactly these shares of false stops: between two thresholds, in proportion."""
    tops = np.sort([one.max() for one, run in zip(scores, runs, strict=True) if not run.failed])[::-1]
    courses = [np.maximum.accumulate(one) for one, run in zip(scores, runs, strict=True) if run.failed]
    places = [(int(share * len(tops) + 1e-9), share * len(tops)) for share in shares]
    wanted = sorted({min(place + more, len(tops) - 1) for place, _ in places for more in (0, 1)})
    marks = tops[wanted]
    found = np.zeros((3, len(wanted)))
    for course in courses:
        at = np.searchsorted(course, marks, side="right")
        saved = np.where(at < len(course), len(course) - at - 1, 0)
        found += np.stack([at < len(course), saved, saved / len(course)])
    found /= np.array([[len(courses)], [sum(map(len, courses))], [len(courses)]])
    by_place = dict(zip(wanted, found.T, strict=True))
    result: list[Effect] = []
    for place, exact in places:
        low, high = by_place[min(place, len(tops) - 1)], by_place[min(place + 1, len(tops) - 1)]
        result.append(Effect(*(float(one) for one in low + (high - low) * (exact - place))))
    return result


def objective(scores: Sequence["Floats"], runs: Sequence[RunFacts], target: float) -> float:
    """Rate the stops around the wanted share of false stops: which runs are stopped, and how much is saved."""
    around = [min(0.4, max(0.04, target * times)) for times in (0.5, 0.75, 1, 1.25, 1.5, 2)]
    found = effects(scores, runs, around)
    return sum(one.recall + 0.35 * one.steps_saved + 0.35 * one.saved_per_run for one in found) / len(found)


# ---- choosing


def assign_folds(runs: Sequence[RunFacts], folds: int, seed: int) -> "NDArray[np.intp]":
    """Return a fold for each run: all runs of a task in one, tasks that fail as often in all of them."""
    chance = np.random.default_rng(seed)
    of_task: dict[str, list[bool]] = {}
    for run in runs:
        of_task.setdefault(run.task, []).append(run.failed)
    rates = {task: sum(failed) / len(failed) for task, failed in of_task.items()}
    ordered = sorted(sorted(rates), key=lambda task: (rates[task], chance.random()))
    dealt: dict[str, int] = {}
    for start in range(0, len(ordered), folds):
        order = chance.permutation(folds)
        for place, task in enumerate(ordered[start : start + folds]):
            dealt[task] = int(order[place])
    return np.array([dealt[run.task] for run in runs], dtype=np.intp)


def out_of_fold(
    runs: Sequence[RunFacts], make: Callable[[Sequence[RunFacts]], Linear], *, seed: int, folds: int = FOLDS
) -> list["Floats"]:
    """Return the scores of each run by a model that has not seen its task."""
    dealt = assign_folds(runs, folds, seed)
    scores: list[Floats] = [np.zeros(0)] * len(runs)
    for fold in range(folds):
        model = make([run for run, of in zip(runs, dealt, strict=True) if of != fold])
        for place, of in enumerate(dealt):
            if of == fold:
                scores[place] = model.scores(runs[place])
    return scores


def choose(runs: Sequence[RunFacts], target: float, sets: Sequence[str]) -> dict[Candidate, float]:
    """Return the weight of each candidate, by its quality out of fold on these runs."""
    candidates = [Candidate(name, penalty) for name in sets for penalty in PENALTIES]
    merits: list[float] = []
    for one in candidates:
        make = partial(fit, columns=_columns(one.name), penalty=one.penalty, rows=12)
        tries = [
            objective(out_of_fold(runs, make, seed=100 + seed, folds=INNER_FOLDS), runs, target)
            for seed in range(INNER_REPEATS)
        ]
        merits.append(sum(tries) / INNER_REPEATS)
    say = np.exp((np.array(merits) - max(merits)) / _TEMPERATURE)
    say = np.where(say / say.sum() < 0.03, 0.0, say)
    say /= say.sum()
    return {one: float(share) for one, share in zip(candidates, say, strict=True) if share}


def average_models(runs: Sequence[RunFacts], say: Mapping[Candidate, float]) -> Linear:
    """Average the candidates' weights, each on the same scale."""
    weights, offset = np.zeros(len(FEATURES)), 0.0
    for one, share in say.items():
        model = fit(runs, _columns(one.name), one.penalty)
        sums = np.concatenate([run.rows @ model.weights + model.offset for run in runs])
        even = np.concatenate([np.full(len(run.rows), 1 / len(run.rows)) for run in runs])
        middle = np.average(sums, weights=even)
        spread = float(np.sqrt(np.average((sums - middle) ** 2, weights=even))) + 1e-9
        weights += share * model.weights / spread
        offset += share * (model.offset - float(middle)) / spread
    return Linear(weights, offset)


def learn(runs: Sequence[RunFacts], target: float, sets: Sequence[str] = tuple(SETS)) -> Linear:
    """Choose and fit: all that is done with runs before a model is held against others."""
    return average_models(runs, choose(runs, target, sets))
