"""Replay policies on recorded runs, before one of them is switched on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Literal

import msgspec

from midcourse.analysis.backtest.importers import Progress, read_recordings, recording_of
from midcourse.analysis.backtest.recordings import Notice, Recording
from midcourse.analysis.backtest.replay import Verdict, Watching, replay
from midcourse.analysis.backtest.scores import RESAMPLES, Score, Scores, doing_nothing, scored
from midcourse.core.policy_decision import INTERRUPTS, Unseen
from midcourse.core.to_json import to_json as spelled
from midcourse.errors import InvalidInput
from midcourse.policy.document import Policy
from midcourse.policy.profiles import BUILT_IN
from midcourse.policy.signals.measurements import DriftGauge, RiskGauge
from midcourse.policy.signals.run_monitor import RunMonitor

__all__ = [
    "Backtest",
    "Notice",
    "PolicyResult",
    "Recording",
    "Score",
    "Scores",
    "Verdict",
    "backtest",
    "read_recordings",
    "recording_of",
    "replay",
    "risk_in",
    "scored",
]

DomainBy = Literal["source", "none"]
"""The domain that the risk gets for a run: its source, which it may be calibrated for; or none."""
RiskFor = Callable[[str], RiskGauge]
"""Makes the risk of one run, given its domain."""


class PolicyResult(msgspec.Struct, frozen=True, kw_only=True):
    """One policy on all the runs: what it did to each, and what that comes to."""

    policy: Policy
    verdicts: Sequence[Verdict]
    scores: Scores


class Backtest(msgspec.Struct, frozen=True, kw_only=True):
    """Policies on the same runs. ``baseline`` is doing nothing; ``notices`` what was left out of the files, and why."""

    policies: Mapping[str, PolicyResult]
    baseline: Scores
    notices: Sequence[Notice] = ()
    with_risk: bool = False
    with_drift: bool = False

    @property
    def first(self) -> PolicyResult:
        return next(iter(self.policies.values()))

    @property
    def scores(self) -> Scores:
        return self.first.scores

    @property
    def verdicts(self) -> Sequence[Verdict]:
        return self.first.verdicts

    def to_json(self) -> dict[str, Any]:
        """Return all figures, for programs. ``sources``, ``classes`` and ``all`` are those of the first policy."""
        first = spelled(self.scores)
        return {
            "policy": next(iter(self.policies)),
            "risk": self.with_risk,
            "drift": self.with_drift,
            "sources": first["sources"],
            "classes": first["classes"],
            "all": first["all"],
            "policies": {name: spelled(tried.scores) for name, tried in self.policies.items()},
            "baseline": spelled(self.baseline),
            "left_out": sum(notice.left_out for notice in self.notices),
            "notices": [spelled(notice) for notice in self.notices],
        }


def backtest(
    policies: Policy | str | Sequence[Policy | str],
    runs: Iterable[str | Path | Recording],
    *,
    risk: RiskFor | bool | None = None,
    drift: bool = False,
    domain_by: DomainBy = "source",
    interrupts: AbstractSet[str] = INTERRUPTS,
    resamples: int = RESAMPLES,
    progress: Progress | None = None,
    noticed: Iterable[Notice] = (),
) -> Backtest:
    """Try policies (or the names of built-in ones) on recorded runs: files, folders of files, or recordings.

    ``risk`` adds the combined risk to all of them: True for the model that comes with the package; None leaves it to
    each policy. ``drift`` measures how far actions are from their goal, where an encoder is installed, and takes its
    time. Of the levels of decisions, those in ``interrupts`` end a run. What an agent would have asked by itself is
    left out: recordings do not say why it erred. ``noticed`` is what there was to tell of the recordings before.

    Raises:
        InvalidInput: no such policy or file; or there is no run in them.
    """
    wanted = _policies(policies, with_risk=bool(risk))
    notices = list(noticed)
    if risk is None:
        risk = any(policy.signals.risk.enabled for policy in wanted.values())
    gauges = _Gauges(risk, drift=drift, domain_by=domain_by)
    if gauges.no_drift:
        notices.append(Notice(file="drift", sentence=f"It is not measured: {gauges.no_drift}"))
    verdicts: dict[str, list[Verdict]] = {name: [] for name in wanted}
    for recording in _recordings(runs, progress, notices):
        for name, policy in wanted.items():
            verdicts[name].append(replay(recording, gauges.oversight(policy, recording), interrupts=interrupts))
    first = next(iter(verdicts.values()))
    if not first:
        told = " ".join(str(notice) for notice in notices[:3])
        raise InvalidInput(f"There is no run in what was given. {told}".rstrip(), code="no_recordings")
    return Backtest(
        policies={
            name: PolicyResult(
                policy=policy, verdicts=verdicts[name], scores=scored(verdicts[name], resamples=resamples)
            )
            for name, policy in wanted.items()
        },
        baseline=scored(doing_nothing(first), resamples=0),
        notices=notices,
        with_risk=bool(risk),
        with_drift=drift,
    )


def _policies(given: Policy | str | Sequence[Policy | str], *, with_risk: bool) -> dict[str, Policy]:
    several = [given] if isinstance(given, Policy | str) else given
    found: dict[str, Policy] = {}
    for one in several:
        policy = _built_in(one) if isinstance(one, str) else one
        if with_risk:
            on = msgspec.structs.replace(policy.signals.risk, enabled=True)
            policy = msgspec.structs.replace(policy, signals=msgspec.structs.replace(policy.signals, risk=on))
        if found.setdefault(policy.id, policy) is not policy and found[policy.id] != policy:
            raise InvalidInput(
                f"Two different policies are called {policy.id}. Give one of them another name or version.",
                code="ambiguous_policy",
                policy=policy.id,
            )
    if not found:
        raise InvalidInput("No policy was given. Name one, such as standard.", code="no_policy")
    return found


def _built_in(name: str) -> Policy:
    if name not in BUILT_IN:
        raise InvalidInput(
            f"There is no policy '{name}'. There are: {', '.join(BUILT_IN)}.", code="no_such_policy", policy=name
        )
    return BUILT_IN[name]


def _recordings(
    runs: Iterable[str | Path | Recording], progress: Progress | None, notices: list[Notice]
) -> Iterable[Recording]:
    paths: list[str | Path] = []
    for one in runs:
        if isinstance(one, Recording):
            yield one
        else:
            paths.append(one)
    if paths:
        yield from read_recordings(paths, progress=progress, tell=notices.append)


class _Gauges:
    """Makes an oversight for each run, with the drift and the risk that were asked for."""

    def __init__(self, risk: RiskFor | bool, *, drift: bool, domain_by: DomainBy) -> None:
        self.risk: RiskFor | None = risk_in() if risk is True else risk or None
        self.drift: Callable[[str], DriftGauge] | None = None
        self.no_drift = ""
        self.by_source = domain_by == "source"
        if drift:
            from midcourse.policy.signals.drift import Drift
            from midcourse.policy.signals.encoders import find_encoder, why_none

            encoder = find_encoder()
            if encoder is None:
                self.no_drift = why_none()
            else:
                self.drift = lambda domain: Drift(encoder, domain=domain)

    def oversight(self, policy: Policy, recording: Recording) -> Watching:
        domain = recording.source if self.by_source else ""
        oversight = RunMonitor(
            policy,
            task_class=recording.task_class,
            drift=self.drift(policy.signals.scope_drift.domain) if self.drift is not None else None,
            risk=self.risk(domain) if self.risk is not None else None,
            asks=False,
        )
        if self.no_drift:
            oversight.measure_drift(Unseen("scope_drift", self.no_drift))
        return oversight


def risk_in(path: str | Path | None = None) -> RiskFor:
    """Return the combined risk of a trained model; without a path, of the one in the package.

    Raises:
        InvalidInput: the file is no such model.
    """
    from midcourse.policy.signals.risk import Risk, load, shipped

    model = shipped() if path is None else load(Path(path))
    return lambda domain: Risk(model, domain=domain)
