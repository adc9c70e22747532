"""The decision of a policy, with the arithmetic that led to it."""

from typing import Final, Literal

import msgspec

Stage = Literal["warn", "explain", "intervene", "pause", "stop"]
"""The stage that a signal has reached. ``explain`` only asks for the plan.

``pause`` is what people asked for: a milestone, or a hypothesis without which the agent may not act. No restraint holds
it back.
"""
Level = Literal["none", "notify", "ask_plan", "ask", "pause", "stop"]
"""The action: none; notify people; ask the agent to explain its plan; let it ask a person; pause; stop at once.

All but the first two interrupt. ``ask`` is the agent's own question, ``pause`` and ``stop`` open a review.
"""
SEVERITY: Final[dict[str, int]] = {"none": 0, "notify": 1, "ask_plan": 2, "ask": 3, "pause": 4, "stop": 5}
INTERRUPTS: Final = frozenset({"ask_plan", "ask", "pause", "stop"})
COSTS_ATTENTION: Final = INTERRUPTS - {"ask_plan"}
"""The levels that a person has to answer. The agent itself answers a question for its plan."""


_ONCE_CALLED: Final[dict[str, str]] = {
    "error_streak": "errors.streak",
    "cost_per_action": "cost.per_action",
    "cost_acceleration": "cost.acceleration",
    "alignment": "scope_drift.alignment",
    "scope_expansion": "scope.expansion",
    "new_domain": "scope.new_domain",
}
"""Signals that older journals call otherwise. Now each is called by where its threshold stands in a policy."""


def called_now(signal: str) -> str:
    """Return the present name of a signal from any version."""
    return _ONCE_CALLED.get(signal, signal)


class Reason(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """One signal past one of its thresholds. ``sentence`` is for people, ``value`` and ``threshold`` for arithmetic."""

    signal: str
    stage: Stage
    value: float
    threshold: float
    sentence: str
    below: bool = False

    def __post_init__(self) -> None:
        if self.signal in _ONCE_CALLED:
            msgspec.structs.force_setattr(self, "signal", called_now(self.signal))

    @property
    def is_wish(self) -> bool:
        """True if the run's people asked to be interrupted here."""
        return self.stage == "pause"

    @property
    def arithmetic(self) -> str:
        """Such as ``loops 6 ≥ 5``."""
        return f"{self.signal} {self.value:.4g} {'≤' if self.below else '≥'} {self.threshold:.4g}"


class Unseen(msgspec.Struct, gc=False, frozen=True):
    """A signal that could not be measured, and why."""

    signal: str
    why: str

    def __post_init__(self) -> None:
        if self.signal in _ONCE_CALLED:
            msgspec.structs.force_setattr(self, "signal", called_now(self.signal))


class Worth(msgspec.Struct, gc=False, frozen=True):
    """The expected savings and costs of an interruption: dollars and minutes. ``sentence`` shows how."""

    dollars_avoided: float
    minutes_avoided: float
    dollars_cost: float
    minutes_cost: float
    minute: float
    sentence: str

    @property
    def avoided(self) -> float:
        """The savings in dollars, a minute counting as much as the policy sets."""
        return self.dollars_avoided + self.minutes_avoided * self.minute

    @property
    def cost(self) -> float:
        """The cost in dollars, too."""
        return self.dollars_cost + self.minutes_cost * self.minute

    @property
    def is_worth_it(self) -> bool:
        """True if it avoids more than it costs."""
        return self.avoided > self.cost


class Decision(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """The action and its reasons. ``wanted`` is the level of the signals, ``held`` the restraint that lowered it."""

    level: Level
    wanted: Level
    policy: str
    at: float | None = None
    reasons: tuple[Reason, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    held: tuple[str, ...] = ()
    worth: Worth | None = None
    question: str = ""
    """For ``ask``: the cause for which the agent asks (``missing_credentials``, …)."""
    words: str = ""
    """For ``ask``: what it asks."""

    @property
    def interrupts(self) -> bool:
        """True if the agent is disturbed at all."""
        return self.level in INTERRUPTS

    @property
    def is_wish(self) -> bool:
        """True if it pauses where the run's people asked for that, and for no other reason."""
        return self.level == "pause" and any(reason.is_wish for reason in self.reasons)

    @property
    def sentence(self) -> str:
        """The reasons in sentences, the gravest first. An addition that two of them share is there once."""
        if self.words:
            return self.words
        said = ""
        for reason in self.reasons:
            first, ends, more = reason.sentence.partition(". ")
            told = f"{first}." if ends and more in said else reason.sentence
            said = f"{said} {told}" if said else told
        return said

    @property
    def arithmetic(self) -> str:
        """All of it in one line, as the console shows it."""
        parts = [reason.arithmetic for reason in self.reasons]
        if self.worth is not None:
            parts.append(self.worth.sentence)
        parts += [f"held: {rule}" for rule in self.held]
        parts += [f"not seen: {one.signal} ({one.why})" for one in self.unseen]
        return "; ".join(parts)


class Alarm(msgspec.Struct, gc=False, frozen=True, kw_only=True, omit_defaults=True):
    """One intervention, as a list over many sessions has it."""

    at: float
    session: str
    intervention: str
    agent: str = ""
    person: str = ""
    by: str = ""
    level: str = "notify"
    signals: tuple[str, ...] = ()
    sentence: str = ""
    ask: str = ""
    held: bool = False
    """True if a policy wanted to step in, and was held back to a notice."""
    wish: bool = False
    """True if it paused where the run's people had asked for that."""

    def __post_init__(self) -> None:
        now = tuple(map(called_now, self.signals))
        if now != self.signals:
            msgspec.structs.force_setattr(self, "signals", now)

    @property
    def counts(self) -> bool:
        """True if it counts toward a person's limit of interruptions an hour."""
        return self.level in COSTS_ATTENTION and not self.wish

    @property
    def is_judged(self) -> bool:
        """True if the false-positive rate counts it: something stepped in, or was held back."""
        return self.level in INTERRUPTS or self.held
