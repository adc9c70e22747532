"""The combined risk: the chance that a run fails, from everything a monitor can see of it, and what moved it.

``Facts`` counts, act by act, with constant work and bounded memory. A model weighs the facts: it is a logistic
regression, so that each fact's part in the sum can be said. A domain (where a run is from) has weights and an alarm of
its own, set so that a stated share of succeeding runs is stopped by mistake; a run from anywhere else is read by the
``general`` model, and its reading says so. What a record does not hold (tokens, cost, clock) adds nothing and is named.

Models are made by :mod:`midcourse.analysis.backtest.risk_model`; the one that comes with the package by
``bench/risk_study.py``.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from math import exp, log, log1p
from pathlib import Path
from typing import Final

import msgspec

from midcourse.errors import InvalidInput
from midcourse.policy.run_activity import AnyAct, Begun, Called, Said
from midcourse.policy.signals.working_time import Stopwatch

VERSION: Final = 1
GENERAL: Final = "general"
FIRST_CALLS: Final = 3
"""Calls before which nothing is an alarm."""
_GOAL, _TEXT, _ARGUMENTS = 2000, 500, 200
"""Characters that are read, as many as the recordings hold that the shipped model was made from."""
_MOST = 10_000
"""Calls, resources and names that are remembered; what comes later counts as new each time."""
_MOVED = 3
"""Facts that a reading names."""

_FACTS: Final[Mapping[str, tuple[str, Callable[["Facts"], float]]]] = {
    "steps": ("how long it has been going", lambda f: log1p(f.steps)),
    "user_turns": ("how often the user spoke", lambda f: log1p(f.users)),
    "tool_share": ("the share of tool calls", lambda f: f.tools / (f.steps or 1)),
    "errors": ("errors", lambda f: log1p(f.errors)),
    "error_rate": ("the error rate", lambda f: f.errors / (f.tools or 1)),
    "error_streak": ("errors in a row", lambda f: f.streak if f.streak < 6 else 6),
    "repeats": ("calls made again", lambda f: log1p(f.repeats)),
    "most_repeats": ("one call made again and again", lambda f: log1p(f.most)),
    "resources": ("resources touched", lambda f: log1p(len(f.resources))),
    "tokens_in_last": ("tokens of the last prompt", lambda f: log1p(f.tokens_in_last)),
    "tokens_in": ("tokens read", lambda f: log1p(f.tokens_in)),
    "tokens_out": ("tokens written", lambda f: log1p(f.tokens_out)),
    "tokens_out_mean": ("tokens written per call", lambda f: log1p(f.tokens_out / (f.counted or 1))),
    "tokens_out_max": ("its longest answer", lambda f: log1p(f.tokens_out_max)),
    "context_resets": ("prompts that became shorter", lambda f: log1p(f.resets)),
    "cost": ("cost", lambda f: log1p(100 * f.cost)),
    "cost_max": ("its dearest call", lambda f: log1p(1000 * f.dearest)),
    "seconds": ("time", lambda f: log1p(f.clock.seconds or 0.0)),
    "text_length": ("how much it says at a time", lambda f: f.said / (f.models or 1) / 100),
    "text_full": ("long messages", lambda f: f.said_at_length / (f.models or 1)),
    "answer_length": ("how much tools answer", lambda f: f.answers / (f.tools or 1) / 100),
    "empty_answers": ("tools that answer little", lambda f: f.empty / (f.tools or 1)),
    "questions": ("messages with a question", lambda f: f.questions / (f.models or 1)),
    "numbers": ("numbers in its messages", lambda f: f.numbers / (f.models or 1)),
    "lists": ("lists and emphasis in its messages", lambda f: f.lists / (f.models or 1)),
    "writes": ("calls that change something", lambda f: log1p(f.writes)),
    "write_share": ("the share of calls that change something", lambda f: f.writes / (f.tools or 1)),
    "tests": ("tests run", lambda f: log1p(f.tests)),
    "searches": ("searches and look-ups", lambda f: log1p(f.searches)),
    "tool_kinds": ("different tools", lambda f: log1p(len(f.named))),
    "tool_entropy": ("how mixed its tools are", lambda f: log(f.tools or 1) - f.named_sum / (f.tools or 1)),
    "transfer": ("a transfer to a person", lambda f: 1.0 if f.transfer else 0.0),
    "refusals": ("words of refusal", lambda f: f.kinds[0] * (20 / (f.words or 1))),
    "recent_refusals": ("words of refusal, lately", lambda f: f.recent),
    "doubts": ("words of doubt", lambda f: f.kinds[1] * (20 / (f.words or 1))),
    "troubles": ("words of trouble", lambda f: f.kinds[2] * (20 / (f.words or 1))),
    "user_length": ("how much the user says at a time", lambda f: f.user_said / (f.users or 1) / 100),
    "user_questions": ("questions of the user", lambda f: f.user_questions / (f.users or 1)),
    "user_thanks": ("thanks of the user", lambda f: log1p(f.user_kinds[0])),
    "user_insists": ("a user who insists", lambda f: log1p(f.user_kinds[1])),
    "user_agrees": ("a user who agrees", lambda f: log1p(f.user_kinds[2])),
    "user_troubles": ("words of trouble from the user", lambda f: log1p(f.user_kinds[3])),
    "goal_length": ("the length of the goal", lambda f: f.of_goal[0]),
    "goal_conditions": ("conditions in the goal", lambda f: f.of_goal[1]),
    "goal_numbers": ("numbers in the goal", lambda f: f.of_goal[2]),
    "goal_sentences": ("sentences of the goal", lambda f: f.of_goal[3]),
    "goal_quantities": ("a goal that asks how many", lambda f: f.of_goal[4]),
    "goal_covered": ("words of the goal taken up", lambda f: len(f.covered) / (len(f.goal) or 1)),
}
"""Every fact that a model may weigh, with words for people, and how it is counted. Amounts that grow are logarithms."""
FEATURES: Final[Mapping[str, str]] = {name: words for name, (words, _) in _FACTS.items()}
MEASURED: Final[Mapping[str, frozenset[str]]] = {
    "tokens": frozenset(
        {"tokens_in_last", "tokens_in", "tokens_out", "tokens_out_mean", "tokens_out_max", "context_resets"}
    ),
    "cost": frozenset({"cost", "cost_max"}),
    "clock": frozenset({"seconds"}),
    "goal": frozenset(name for name in FEATURES if name.startswith("goal_")),
}
"""The facts that are unknown where a record lacks something."""
_WHY: Final = tuple(next((why for why, names in MEASURED.items() if name in names), "") for name in FEATURES)

# ---- words

_KINDS: Final = {
    "refusals": "unfortunately cannot can't unable sorry policy however not although impossible",
    "doubts": (
        "wait hmm maybe perhaps might seems seem appears unclear unsure probably assume assuming guess suspect "
        "possibly likely however but although weird strange odd surprisingly unexpected confusing"
    ),
    "troubles": (
        "unfortunately cannot can't unable couldn't fail fails failed failing failure error errors exception "
        "traceback issue invalid missing impossible denied refused not doesn't didn't isn't won't nothing none"
    ),
    "thanks": "thank thanks appreciate great perfect helpful wonderful",
    "insists": (
        "really please urgent need want must sure check exception understand insist double believe option options "
        "possible alternatively policy"
    ),
    "agrees": "yes proceed ahead okay ok sure option book go looks good correct",
}


def _places(*kinds: str) -> dict[str, tuple[int, ...]]:
    """Return for each word the kinds, by their place, that it counts for."""
    words: dict[str, tuple[int, ...]] = {}
    for place, kind in enumerate(kinds):
        for word in _KINDS[kind].split():
            words[word] = (*words.get(word, ()), place)
    return words


_OF_AGENT: Final = _places("refusals", "doubts", "troubles")
_OF_USER: Final = _places("thanks", "insists", "agrees", "troubles")
_CONDITIONS: Final = frozenset({"if", "unless", "only", "but", "otherwise", "don", "not"})
_QUANTITIES: Final = frozenset({"many", "number", "count", "total", "sum", "average", "calculate", "percentage", "how"})
_WORD: Final = re.compile(r"[a-z][a-z']+")
_NUMBER: Final = re.compile(r"\d+")
_CHANGES: Final = re.compile(
    r"sed -i|<<|(?<![-=0-9&])>{1,2} ?[\w./]|\btee\b|\bgit (?:apply|checkout|stash|revert)|\bmv |\bcp |\brm |\.write\("
    r"|patch\b|str_replace|apply_edit"
)
_CHANGER: Final = re.compile(
    r"edit|write|create|update|modify|cancel|book|exchange|return|send|delete|apply|insert|patch|submit", re.IGNORECASE
)
_TEST: Final = re.compile(
    r"pytest|run_?tests?|runtests|unittest|\btox\b|bin/test|manage\.py test|\btest_|_test\b|reproduce|repro",
    re.IGNORECASE,
)
_SEARCH: Final = re.compile(r"search|find|list|get_|grep|lookup", re.IGNORECASE)
_TRANSFER: Final = re.compile(r"transfer|handoff|escalate", re.IGNORECASE)


@lru_cache(maxsize=4096)
def _traits(name: str) -> tuple[bool, bool, bool]:
    """Return if a tool of this name changes something, searches, transfers to a person."""
    return bool(_CHANGER.search(name)), bool(_SEARCH.search(name)), bool(_TRANSFER.search(name))


class Facts:
    """The facts of one turn so far. A new turn begins anew."""

    def __init__(self) -> None:
        self._begin("")

    def _begin(self, goal: str) -> None:
        self.steps = self.calls = self.models = self.tools = self.users = 0
        self.errors = self.streak = self.repeats = self.most = 0
        self.seen: dict[tuple[str, str], int] = {}
        self.resources: set[str] = set()
        self.named: dict[str, int] = {}
        self.named_sum = 0.0
        self.counted = self.tokens_in_last = self.tokens_in = self.tokens_out = self.tokens_out_max = self.resets = 0
        self.has_cost = False
        self.cost = self.dearest = 0.0
        self.has_clock = False
        self.clock = Stopwatch()
        self.said = self.said_at_length = self.questions = self.numbers = self.lists = self.words = 0
        self.answers = self.empty = self.writes = self.tests = self.searches = 0
        self.transfer = False
        self.kinds = [0, 0, 0]
        self.recent = 0.0
        self.user_said = self.user_questions = 0
        self.user_kinds = [0, 0, 0, 0]
        self._aim(goal[:_GOAL])

    def _aim(self, goal: str) -> None:
        words = _WORD.findall(goal.lower())
        self.has_goal = bool(goal)
        self.goal = frozenset(word for word in words if len(word) > 3)
        self.covered: set[str] = set()
        self.of_goal = (
            log1p(len(goal)),
            log1p(sum(word in _CONDITIONS for word in words)),
            log1p(len(_NUMBER.findall(goal))),
            log1p(goal.count(". ")),
            log1p(sum(word in _QUANTITIES for word in words)),
        )

    def feed(self, act: AnyAct) -> None:
        if isinstance(act, Begun):
            self._begin(act.goal)
        else:
            self.has_clock = self.has_clock or act.at is not None
        self.clock.feed(act)
        if isinstance(act, Called):
            self._call(act)
        elif isinstance(act, Said):
            self._say(act)

    def _say(self, said: Said) -> None:
        self.steps += 1
        self.users += 1
        text = said.text[:_TEXT]
        self.user_said += len(text)
        self.user_questions += "?" in text
        for word in _WORD.findall(text.lower()):
            for place in _OF_USER.get(word, ()):
                self.user_kinds[place] += 1
        if said.is_goal:
            self._aim(said.text[:_GOAL])

    def _call(self, call: Called) -> None:
        self.steps += 1
        self.calls += 1
        text = call.text[:_TEXT]
        if call.kind == "model":
            self.models += 1
            self._listen(text)
            self._count(call)
        else:
            self.tools += 1
            self.answers += len(text)
            self.empty += len(text) < 40
            self._act(call)
        if call.error:
            self.errors += 1
            self.streak += 1
        elif call.kind == "tool":
            self.streak = 0

    def _listen(self, text: str) -> None:
        """Count the agent's text."""
        words = _WORD.findall(text.lower())
        self.said += len(text)
        self.said_at_length += len(text) >= _TEXT - 1
        self.questions += "?" in text
        self.numbers += len(_NUMBER.findall(text))
        self.lists += text.count("\n-") + text.count("\n  ") + text.count("**")
        self.words += len(words)
        before = self.kinds[0]
        for word in words:
            for place in _OF_AGENT.get(word, ()):
                self.kinds[place] += 1
        self.recent = 0.8 * self.recent + 0.2 * min(self.kinds[0] - before, 4)
        self.covered.update(self.goal.intersection(words))

    def _count(self, call: Called) -> None:
        """Count the tokens and the cost of a model's call."""
        if call.tokens_in is not None:
            self.counted += 1
            self.resets += call.tokens_in < 0.7 * self.tokens_in_last
            self.tokens_in_last = call.tokens_in
            self.tokens_in += call.tokens_in
            written = call.tokens_out or 0
            self.tokens_out += written
            self.tokens_out_max = max(self.tokens_out_max, written)
        if call.cost is not None:
            self.has_cost = True
            self.cost += call.cost
            self.dearest = max(self.dearest, call.cost)

    def _act(self, call: Called) -> None:
        """Count the call of a tool."""
        arguments = call.arguments[:_ARGUMENTS]
        again = self.seen.get(call.same, 0)
        if again or len(self.seen) < _MOST:
            self.seen[call.same] = again + 1
        self.repeats += again > 0
        self.most = max(self.most, again)
        if len(self.resources) < _MOST:
            self.resources.update(call.resources[:8])
        times = self.named.get(call.name, 0)
        if times or len(self.named) < _MOST:
            self.named[call.name] = times + 1
            self.named_sum += (times + 1) * log(times + 1) - (times * log(times) if times else 0.0)
        changes, searches, transfers = _traits(call.name)
        if changes or call.effect not in ("", "read") or _CHANGES.search(arguments):
            self.writes += 1
        elif _TEST.search(f"{call.name} {arguments}"):
            self.tests += 1
        self.searches += searches
        self.transfer = self.transfer or transfers

    def may_stop(self, after: float) -> bool:
        """Return True after enough calls, and enough seconds where there is a clock, to be judged."""
        return self.calls >= FIRST_CALLS and (not self.has_clock or (self.clock.seconds or 0.0) >= after)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The parts missing in the record: of tokens, cost, clock and goal."""
        seen = (self.counted, self.has_cost, self.has_clock, self.has_goal)
        return tuple(what for what, is_seen in zip(MEASURED, seen, strict=True) if not is_seen)

    def values(self) -> tuple[float, ...]:
        """Return the facts, in the order of ``FEATURES``."""
        return tuple(value(self) for _, value in _FACTS.values())


# ---- the model


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of stops on runs of new tasks, at that share of false ones; 95 % over tasks."""

    false_stops: float
    recall: float
    steps_saved: float
    recall_interval: tuple[float, float] = (0.0, 1.0)
    steps_saved_interval: tuple[float, float] = (0.0, 1.0)


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """The weights for runs of one kind.

    ``weights`` says for each fact where it usually is and how much, in log-odds, one more of it adds. ``alarms`` are
    the risks at which so large a share of succeeding runs is stopped; ``target`` is the default share; nothing is an
    alarm in the first ``after`` seconds. ``looks_at`` are the facts that make most of the difference between runs;
    ``made_from`` are the weights of the sets of facts.
    """

    offset: float
    weights: dict[str, tuple[float, float]]
    target: float
    alarms: dict[float, float]
    after: float = 0.0
    runs: int
    failures: int
    stated: Stated
    looks_at: tuple[str, ...] = ()
    made_from: dict[str, float] = {}


class RiskModel(msgspec.Struct, frozen=True, kw_only=True):
    """The weights of every domain. ``data`` is the hash of the runs it was made from."""

    version: int = VERSION
    data: str = ""
    domains: dict[str, Domain]


def save(model: RiskModel, path: Path) -> None:
    """Write a model down, for people to read, too."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(model), indent=1) + b"\n")


def load(path: Path) -> RiskModel:
    """Return the model in a file.

    Raises:
        InvalidInput: the file is no such model.
    """
    try:
        return _decoded(path.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise InvalidInput(
            f"{path} is no risk model ({error}). Make one with: midcourse risk train RUNS -o {path.name}",
            code="no_risk_model",
            file=str(path),
        ) from error


@cache
def shipped() -> RiskModel:
    """Return the model that comes with the package."""
    return _decoded((files("midcourse.policy.signals") / "risk_model.json").read_bytes())


def _decoded(content: bytes) -> RiskModel:
    model = msgspec.json.decode(content, type=RiskModel)
    if model.version != VERSION:
        raise ValueError(f"its version is {model.version}, this one reads {VERSION}")
    unknown = {name for domain in model.domains.values() for name in domain.weights} - set(FEATURES)
    if unknown:
        raise ValueError(f"the fact {min(unknown)!r} is unknown here")
    if not model.domains or not all(domain.alarms for domain in model.domains.values()):
        raise ValueError("it has no domain, or a domain without an alarm")
    return model


def alarm_at(domain: Domain, target: float | None = None) -> float:
    """Return the risk from which on there is an alarm, if ``target`` of the succeeding runs may be stopped."""
    wanted = domain.target if target is None else target
    marks = sorted(domain.alarms.items())
    if wanted <= marks[0][0]:
        return marks[0][1]
    for (low, at_low), (high, at_high) in pairwise(marks):
        if wanted <= high:
            return at_low + (at_high - at_low) * (wanted - low) / (high - low)
    return marks[-1][1]


class RiskReading(msgspec.Struct, frozen=True, gc=False):
    """The chance that a run fails, as it looks now.

    ``because`` names the facts that moved it most, with what each adds to the log-odds. ``calibrated_for`` is the
    domain whose runs it was made from, ``general`` for a run of no known domain. ``unseen`` was never measured.
    """

    value: float
    threshold: float
    alarm: bool
    because: tuple[tuple[str, float], ...]
    calibrated_for: str
    unseen: tuple[str, ...] = ()

    @property
    def is_calibrated(self) -> bool:
        """True if its alarm was set on runs of this domain. On others it may be wrong much more often."""
        return self.calibrated_for != GENERAL

    @property
    def words(self) -> str:
        """The facts that moved it."""
        moved = ", ".join(f"{what} ({part:+.1f})" for what, part in self.because)
        where = "for no domain in particular" if self.calibrated_for == GENERAL else f"for {self.calibrated_for}"
        lacking = f" Not measured: {', '.join(self.unseen)}." if self.unseen else ""
        return f"Moved most by {moved or 'nothing yet'}; calibrated {where}.{lacking}"


class Risk:
    """The risk of one run."""

    def __init__(self, model: RiskModel | None = None, *, domain: str = "", target: float | None = None) -> None:
        known = (model or shipped()).domains
        self.domain = domain if domain in known else GENERAL if GENERAL in known else next(iter(known))
        of = known[self.domain]
        self.threshold = alarm_at(of, target)
        self.facts = Facts()
        self._offset = of.offset
        self._after = of.after
        places = {name: place for place, name in enumerate(FEATURES)}
        self._all = tuple((places[name], mean, weight) for name, (mean, weight) in of.weights.items())
        self._matters = frozenset(_WHY[place] for place, _, _ in self._all)
        self._facts_unseen: tuple[str, ...] = ()
        self._unseen: tuple[str, ...] = ()
        self._weighed = self._all

    def feed(self, act: AnyAct) -> None:
        """Add an act. Constant work, bounded memory."""
        self.facts.feed(act)

    def read(self) -> RiskReading:
        """Return the present value."""
        facts = self.facts
        if facts.unseen != self._facts_unseen:
            self._facts_unseen = facts.unseen
            self._unseen = tuple(what for what in facts.unseen if what in self._matters)
            self._weighed = tuple(one for one in self._all if _WHY[one[0]] not in self._unseen)
        values = facts.values()
        parts = [((values[place] - mean) * weight, place) for place, mean, weight in self._weighed]
        odds = self._offset
        for part, _ in parts:
            odds += part
        value = 1.0 / (1.0 + exp(-odds)) if odds > -700 else 0.0
        parts.sort(key=_size)
        return RiskReading(
            value,
            self.threshold,
            value >= self.threshold and facts.may_stop(self._after),
            tuple((_SAID[place], part) for part, place in parts[: -_MOVED - 1 : -1]),
            self.domain,
            self._unseen,
        )


_SAID: Final = tuple(FEATURES.values())


def _size(part: tuple[float, int]) -> float:
    return abs(part[0])
