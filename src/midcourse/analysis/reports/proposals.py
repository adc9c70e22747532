"""Propose thresholds from labelled interventions, per agent and per person, with evidence. Pure.

A threshold goes up where its signal was wrong too often: to the value that would have kept the right ones. One that was
never right is removed; a stop never is, and at most doubles. A threshold goes down only where people had to step in by
themselves, labelled it so, and quality allows it. Interventions, and those held back, are counted as the false-positive
rate counts them; warnings are counted apart, and are evidence for warnings alone. Nothing here changes anything.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import ceil, floor, log10
from statistics import median
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from midcourse.analysis.reports.facts import Interruption
from midcourse.analysis.reports.fleet import FleetSession
from midcourse.analysis.reports.number_format import percent
from midcourse.core.tenants import MARK, tenant_of
from midcourse.errors import InvalidInput
from midcourse.policy.document import Part, Policy
from midcourse.policy.restraint import HOUR
from midcourse.policy.validation import Setting, check_policy, difference, parameters, read_setting, shown
from midcourse.policy.yaml_writer import from_document, to_document

State = Literal["open", "accepted", "refused", "superseded"]
"""``superseded``: a later review proposed something else for the same agent or person."""
NEAR: Final = 0.5
"""Share of a threshold that a signal must have reached, in the middle, where people stepped in before it did."""
_DIGITS: Final = 3
MANY: Final = 1e9
"""More than anything that is counted one by one."""
_LONGEST: Final = 64
_STAGES: Final = ("warn", "explain", "intervene", "stop")
RAISED: Final = 2.0
"""By how much a stop is raised at most, at once."""


class Changed(msgspec.Struct, frozen=True):
    """One parameter of a policy, as it is and as it would be."""

    path: str
    before: str
    after: str
    tightens: bool | None
    words: str = ""
    """The change in plain words: ``steps in later``, ``no longer steps in``."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another version of a policy, for one agent or one person, and what speaks for it.

    ``policy`` is what it would change, ``name`` what it would be kept as, ``document`` the whole of it.
    """

    id: str
    name: str
    policy: str
    changes: tuple[Changed, ...]
    evidence: tuple[str, ...]
    document: dict[str, Any]
    made_at: float
    agent: str = ""
    person: str = ""
    state: State = "open"
    by: str = ""
    why: str = ""
    settled_at: float | None = None
    kept_as: str = ""

    @property
    def after(self) -> Policy:
        return from_document(self.document)


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a review: proposals, and why there are no others.

    ``labelled`` counts the interventions of the false-positive rate, ``warnings`` those that only notified people.
    """

    proposals: tuple[Proposal, ...]
    remarks: tuple[str, ...]
    sessions: int
    labelled: int
    warnings: int


class _Seen(NamedTuple):
    """A labelled intervention, as one of its reasons tells it."""

    stage: str
    value: float
    is_right: bool
    beside_stop: bool
    """True if a stop fired with it: without this reason it would have come all the same."""


@dataclass
class _OfAgent:
    policy: Policy
    tenant: str
    seen: dict[str, list[_Seen]] = field(default_factory=dict[str, list[_Seen]])
    """Interventions, and those that were held back."""
    warned: dict[str, list[_Seen]] = field(default_factory=dict[str, list[_Seen]])
    """Notices that were only meant to notify."""
    misses: list[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])
    qualities: list[float] = field(default_factory=list[float])


@dataclass
class _OfPerson:
    policy: Policy
    tenant: str
    right: int = 0
    wrong: int = 0
    late: int = 0
    answered: int = 0
    at: list[float] = field(default_factory=list[float])


class Tuning:
    """Takes in one session after the other, and proposes. Keeps what people labelled, and little else."""

    def __init__(self) -> None:
        self._agents: dict[tuple[str, str, str], _OfAgent] = {}
        self._people: dict[tuple[str, str, str], _OfPerson] = {}
        self._sessions = self._labelled = self._warnings = 0

    def add(self, one: FleetSession) -> None:
        facts, policy = one.facts, one.policy
        self._sessions += 1
        if not facts.policy:
            return  # it had no policy: its labels are about none
        tenant = tenant_of(facts.id)
        agent = self._agents.setdefault((facts.agent, policy.name, tenant), _OfAgent(policy, tenant))
        person = self._people.setdefault((facts.person, policy.name, tenant), _OfPerson(policy, tenant))
        for kept in (agent, person):
            if policy.version > kept.policy.version:
                kept.policy = policy
        for made in facts.judged:
            self._intervention(made, agent, person)
        for made in facts.warnings:
            self._warnings += made.is_labelled
            _note(made, agent.warned)
        agent.misses += one.values.values()
        agent.qualities += [made.quality for made in facts.interruptions if made.quality is not None]

    def _intervention(self, made: Interruption, agent: _OfAgent, person: _OfPerson) -> None:
        self._labelled += made.is_labelled
        _note(made, agent.seen)
        if made.kind == "notify":  # no person was interrupted
            return
        person.at.append(made.at)
        if made.answer is not None:
            person.answered += 1
            person.late += made.answer > person.policy.response_target
        person.right += made.label == "right"
        person.wrong += made.label == "wrong"

    def proposals(self, now: float) -> Tuned:
        found: list[Proposal] = []
        remarks: list[str] = []
        for (agent, *_), of in sorted(self._agents.items()):
            made = _for_agent(agent, of, now, remarks)
            found += [made] if made else []
        for (person, *_), of in sorted(self._people.items()):
            made = _for_person(person, of, now)
            found += [made] if made else []
        return Tuned(
            proposals=tuple(found),
            remarks=tuple(remarks),
            sessions=self._sessions,
            labelled=self._labelled,
            warnings=self._warnings,
        )


def _note(made: Interruption, seen: dict[str, list[_Seen]]) -> None:
    has_stop = any(reason.stage == "stop" for reason in made.reasons)
    for reason in made.reasons if made.is_labelled else ():
        told = _Seen(reason.stage, reason.value, made.label == "right", has_stop and reason.stage != "stop")
        seen.setdefault(reason.signal, []).append(told)


# ---- for an agent


def _for_agent(agent: str, of: _OfAgent, now: float, remarks: list[str]) -> Proposal | None:
    policy, evidence = of.policy, list[str]()
    for what, several in (("interventions", of.seen), ("warnings", of.warned)):
        for signal, seen in sorted(several.items()):
            whose = f"labelled {what} by {signal} ({agent})"
            policy = _loosened(whose, signal, seen, policy, evidence, remarks)
    policy = _tightened(agent, of, policy, evidence, remarks)
    return _proposal(of.policy, policy, evidence, now, of.tenant, agent=agent)


def _loosened(
    what: str, signal: str, seen: Sequence[_Seen], policy: Policy, evidence: list[str], remarks: list[str]
) -> Policy:
    limit, needed = policy.restraint.false_positives, max(1, policy.restraint.labels)
    wrong = sum(not one.is_right for one in seen)
    told = f"Of {len(seen)} {what} {len(seen) - wrong} were right"
    if wrong / len(seen) <= limit:
        return policy
    if len(seen) < needed:
        remarks.append(f"{told}; {needed} labels are needed to say more.")
        return policy
    told += f" and {wrong} wrong: {percent(wrong / len(seen))}, and the limit is {percent(limit)}."
    changed, said = policy, len(remarks)
    for stage in _STAGES:
        path = path_of(signal, stage)
        at_stage = [one for one in seen if one.stage == stage and not one.beside_stop]
        if path is None or all(one.is_right for one in at_stage):
            continue
        now = _setting(changed, path)
        if now is None and signal != "risk":  # it was removed since; a risk has the one it was calibrated to
            continue
        found = _better(at_stage, limit, now, is_below=signal == "token_rate", is_stop=stage == "stop")
        if found is None:
            if stage == "stop":
                remarks.append(f"{told} {path} stays {shown(now)}: {_why_it_stays(at_stage)}")
            continue
        value, words = found
        value = _in_order(changed, signal, stage, value)
        try:
            after = check_policy(with_setting(changed, path, value))
        except (InvalidInput, ValueError) as error:
            remarks.append(f"{told} {path} = {shown(value)} cannot be proposed: {error}")
            continue
        if difference(changed, after):
            how = f"Without {path}" if value is None else f"With {path} = {shown(_setting(after, path))}"
            evidence.append(f"{told} {how} {words}")
            changed = after
    if changed is policy and len(remarks) == said:
        is_idle = all(one.beside_stop for one in seen if not one.is_right)
        why = "A stop came with each wrong one" if is_idle else "No threshold tells the right ones from the wrong ones"
        remarks.append(f"{told} {why}: nothing is proposed for it.")
    return changed


def _why_it_stays(stops: Sequence[_Seen]) -> str:
    has_right = any(one.is_right for one in stops)
    none = "no value up to twice that tells the right ones from the wrong ones"
    return f"{none if has_right else 'a stop is never proposed away'}. If such runs should continue, save a higher one."


def _better(
    seen: Sequence[_Seen], limit: float, now: Setting, *, is_below: bool, is_stop: bool
) -> tuple[float | None, str] | None:
    """Return a later threshold with fewer wrong ones, its gain and its loss; None if there is none."""
    sign = -1.0 if is_below else 1.0
    right = sorted(sign * one.value for one in seen if one.is_right)
    wrong = sorted(sign * one.value for one in seen if not one.is_right)
    if not right and is_stop:
        return None
    if not right:
        return None, f"the {len(wrong)} wrong ones at this stage would not have happened; none there was right."
    mark = sign * float(now) if isinstance(now, int | float) else float("-inf")
    most = RAISED * mark if is_stop else float("inf")
    for first in right:  # the first keeps all of them, each next one loses one more
        value = min(most, sign * _rounded(sign * first, down=not is_below))
        kept = sum(one >= value for one in wrong)
        lost = sum(one < value for one in right)
        if value <= mark or kept == len(wrong) or lost > len(right) / 2:
            continue
        if kept / (kept + len(right) - lost) <= limit:
            avoided = len(wrong) - kept
            losses = f"{lost} of the {len(right)} right ones would have come later, or not at all"
            return sign * value, (
                f"{avoided} of the {len(wrong)} wrong ones would not have happened there, and "
                f"{losses if lost else f'all {len(right)} right ones would'}."
            )
    return None


def _rounded(value: float, *, down: bool) -> float:
    """Round to three digits, to the side on which the value itself is still past it."""
    if value == 0:
        return 0.0
    unit = 10.0 ** (floor(log10(abs(value))) - _DIGITS + 1)
    return round((floor if down else ceil)(value / unit + (1e-9 if down else -1e-9)) * unit, 12)


def _in_order(policy: Policy, signal: str, stage: str, value: float | None) -> float | None:
    """Keep a value before the graver threshold: beyond that, it would never come first."""
    if value is None or signal == "token_rate" or "." in signal:
        return value
    graver = (path_of(signal, one) for one in _STAGES[_STAGES.index(stage) + 1 :])
    marks = [_setting(policy, path) for path in graver if path is not None]
    return min([value, *(float(mark) for mark in marks if isinstance(mark, int | float))])


def _tightened(agent: str, of: _OfAgent, policy: Policy, evidence: list[str], remarks: list[str]) -> Policy:
    """Lower one threshold: the one nearest to people's own, rightful interventions."""
    needed = max(1, policy.restraint.labels)
    if not of.misses:
        return policy
    told = f"In {len(of.misses)} sessions of {agent} a person stepped in, rightly, before the policy did"
    if len(of.misses) < needed:
        remarks.append(f"{told}; {needed} such labels are needed to say more.")
        return policy
    quality = sum(of.qualities) / len(of.qualities) if len(of.qualities) >= needed else None
    if quality is None or quality < policy.restraint.quality:
        known = "is not known yet" if quality is None else f"is {percent(quality)}"
        remarks.append(
            f"{told}. Nothing is tightened: the quality of interrupted runs {known}, and must be "
            f"{percent(policy.restraint.quality)}."
        )
        return policy
    nearest = max(_reached(of, policy, needed), default=None)
    if nearest is None or nearest[0] < NEAR:
        remarks.append(f"{told}. No signal was near its threshold then, so that no threshold is proposed.")
        return policy
    _, signal, path, value = nearest
    try:
        after = check_policy(with_setting(policy, path, _rounded(value, down=True)))
    except (InvalidInput, ValueError) as error:
        remarks.append(f"{told}. {path} = {shown(value)} cannot be proposed: {error}")
        return policy
    evidence.append(
        f"{told}. With {path} = {shown(_setting(after, path))} it would have in half of them, by {signal}; the quality "
        f"of interrupted runs is {percent(quality)}. How often it would be wrong is not known: try it on recorded runs "
        "first (midcourse policy backtest)."
    )
    return after


def _reached(of: _OfAgent, policy: Policy, needed: int) -> Iterator[tuple[float, str, str, float]]:
    for signal in sorted({name for values in of.misses for name in values} - {"token_rate"}):
        values = [values[signal] for values in of.misses if signal in values]
        is_noisy = any(
            sum(not one.is_right for one in seen) / len(seen) > policy.restraint.false_positives
            for several in (of.seen, of.warned)
            if (seen := several.get(signal))
        )
        if len(values) < needed or is_noisy:
            continue
        path = path_of(signal, "intervene")
        mark = _setting(policy, path) if path is not None else None
        if path is not None and isinstance(mark, int | float) and 0 < median(values) < mark:
            yield median(values) / mark, signal, path, median(values)


# ---- for a person


def _for_person(person: str, of: _OfPerson, now: float) -> Proposal | None:
    """Propose fewer interruptions an hour for a person who found most of them useless, or who cannot keep up."""
    rule = of.policy.restraint
    most = rule.interventions_per_hour
    labelled, needed = of.right + of.wrong, max(1, rule.labels)
    busiest = _busiest(of.at)
    is_wrong = labelled >= needed and of.wrong / labelled > rule.false_positives
    is_late = of.answered >= needed and of.late > of.answered / 2
    if most <= 1 or busiest < 2 or not (is_wrong or is_late):
        return None
    share = of.right / labelled if is_wrong else 1 - of.late / of.answered
    fewer = max(1, min(most - 1, floor(busiest * share)))
    evidence = [f"{person} was interrupted up to {busiest} times in an hour; at most {most} are allowed."]
    if is_wrong:
        evidence.append(f"Of {labelled} that were labelled, {of.wrong} were wrong ({percent(of.wrong / labelled)}).")
    if is_late:
        evidence.append(
            f"{of.late} of {of.answered} were answered later than {of.policy.response_target} after they came."
        )
    evidence.append(f"At most {fewer} an hour leaves the rest to the next batch. Stops go through all the same.")
    after = with_setting(of.policy, "restraint.interventions_per_hour", fewer)
    return _proposal(of.policy, after, evidence, now, of.tenant, person=person)


def _busiest(times: Iterable[float]) -> int:
    ordered = sorted(times)
    first = most = 0
    for place, at in enumerate(ordered):
        while at - ordered[first] >= HOUR:
            first += 1
        most = max(most, place - first + 1)
    return most


# ---- documents


def path_of(signal: str, stage: str) -> str | None:
    """Return the path of a threshold in a policy; None if that signal has none for that stage."""
    # A signal with a single threshold is named by its place: errors.streak.
    path = f"signals.{signal}" if "." in signal else f"signals.{signal}.{stage}"
    return path if path in _PATHS else None


_PATHS: Final = {one.path: one.kind for one in parameters(Policy(name="any"))}


def _setting(policy: Policy, path: str) -> Setting:
    part: Any = policy
    for name in path.split("."):
        part = getattr(part, name)
    return part


def with_setting(policy: Policy, path: str, value: Setting) -> Policy:
    """Return the same policy with one parameter set.

    Raises:
        ValueError: it cannot hold that.
    """
    kind = _PATHS[path]
    try:
        setting = read_setting(value, kind)
    except ValueError:
        if not isinstance(value, float) or not 1 < value < MANY:
            raise
        setting = read_setting(ceil(value), kind)  # of what is counted there is no half
    return _with(policy, path.split("."), setting)


def _with(part: Any, names: Sequence[str], value: Setting) -> Any:
    first, *rest = names
    inner: Part | Setting = _with(getattr(part, first), rest, value) if rest else value
    return replace(part, **{first: inner})


def _proposal(
    before: Policy,
    after: Policy,
    evidence: Sequence[str],
    now: float,
    tenant: str,
    *,
    agent: str = "",
    person: str = "",
) -> Proposal | None:
    changes = tuple(
        Changed(one.path, shown(one.before), shown(one.after), one.tightens, one.words)
        for one in difference(before, after)
    )
    if not changes:
        return None
    own = f"{tenant}{MARK}" if tenant else ""
    name = own + name_for(before.name.rpartition(MARK)[2], (agent or person).removeprefix(own))
    extends = before.extends if name == before.name else before.id
    whom = f"agent {agent}" if agent else f"person {person}"
    document = to_document(replace(after, name=name, version=1, extends=extends, about=f"Proposed for {whom}."))
    words = "\n".join([before.id, name, *(f"{one.path}={one.after}" for one in changes)])
    return Proposal(
        # Named for what it says: the next review does not make it again.
        id=f"{own}prop_{blake2b(words.encode(), digest_size=6).hexdigest()}",
        name=name,
        policy=before.id,
        changes=changes,
        evidence=tuple(evidence),
        document=document,
        made_at=now,
        agent=agent,
        person=person,
    )


def name_for(policy: str, whom: str) -> str:
    """Return the name of a policy for one agent or person: ``standard--researcher``. Their own keeps its name."""
    plain = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in whom.lower()).strip("-") or "unnamed"
    if policy.endswith(f"--{plain}"):
        return policy
    name = f"{policy}--{plain}"
    if len(name) <= _LONGEST:
        return name
    mark = blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{name[: _LONGEST - len(mark) - 1]}-{mark}"
