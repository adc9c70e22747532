"""What the tools of a scenario really did, by the lines of its ledger, held against what the receipts claim."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from midcourse.core.events import ReceiptLine
from midcourse.core.receipt import EffectLedger

Lines = Sequence[Sequence[str]]
Kind = Literal["lost", "repeated", "claimed"]
"""Left as it should not be, done as often as it should not be, or told as it is not."""
Finding = tuple[Kind, str]
OPEN: Final = ("unknown", "undo failed", "undo ran with unknown result", "still running")
"""What a receipt says of an effect that nobody took care of to its end."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A line of a receipt. ``key`` is empty where only the name is told, as at the end of a cancel."""

    name: str
    key: str
    effect: str
    outcome: str

    def __str__(self) -> str:
        return f"{self.name} is called '{self.outcome}'"


def claims_of(ledger: EffectLedger, said: Iterable[ReceiptLine]) -> Iterator[Claim]:
    """What a session's journal claims, effect by effect, and what the receipt of its end ``said``."""
    for entry in ledger.entries.values():
        yield Claim(entry.call.name, entry.call.key, entry.line.effect, entry.line.outcome)
    for line in (*ledger.holds.values(), *said):
        yield Claim(line.name, "", line.effect, line.outcome)


@dataclass(slots=True)
class Deeds:
    """The world as the ledger tells it: which things exist, under which keys, and what was done too often."""

    existing: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    effects: dict[str, str] = field(default_factory=dict[str, str])
    held: dict[str, bool] = field(default_factory=dict[str, bool])
    undone: list[str] = field(default_factory=list[str])
    repeated: list[str] = field(default_factory=list[str])
    _last: dict[str, str] = field(default_factory=dict[str, str])
    _taken_back: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def take_in(self, line: Sequence[str]) -> None:
        """Fold one line in."""
        match line:
            case ["tried", name, key]:
                self._try(name, key)
            case ["made", effect, name, key]:
                self.effects[name] = effect
                things = self.existing.setdefault(name, set())
                if things and (effect != "idempotent" or key not in things):
                    self.repeated.append(f"{name} exists twice")
                things.add(key)
            case ["unmade", name, key]:
                self.existing.setdefault(name, set()).discard(key)
                self._taken_back.add((name, key))
                if self.undone[-1:] != [name]:  # an undo may run twice
                    self.undone.append(name)
            case ["held", thing]:
                self.held[thing] = True
            case ["used", thing] if not self.held.get(thing, False):
                self.repeated.append(f"{thing} was used again after it had been let go")
            case ["freed", thing]:
                self.held[thing] = False
            case _:
                pass

    def _try(self, name: str, key: str) -> None:
        if key and (name, key) in self._taken_back:
            self.repeated.append(f"{name} began again under the key that was undone")
        before = self._last.get(name, key)
        if before != key and (name, before) not in self._taken_back:
            self.repeated.append(f"{name} began under a second key, and the first was not undone")
        self._last[name] = key

    def exists(self, claim: Claim) -> bool:
        """Whether what ``claim`` speaks of is in the world."""
        if claim.effect == "hold":
            return self.held.get(claim.name, False)
        things = self.existing.get(claim.name, set())
        return claim.key in things if claim.key else bool(things)


def deeds_of(lines: Lines) -> Deeds:
    """The world after these lines."""
    deeds = Deeds()
    for line in lines:
        deeds.take_in(line)
    return deeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What must be true of the world and of the receipts of a scenario, at every death and at the end.

    ``left`` are the things that exist at the end; None: those that a receipt calls kept. ``unknown`` may be left open.
    ``order`` is the one they are taken back in, if nothing but the end takes them back.
    """

    left: Collection[str] | None
    unknown: Collection[str] = ()
    order: Sequence[str] = ()

    def at_death(self, lines: Lines, claims: Collection[Claim]) -> Iterator[Finding]:
        """A process has just died: the receipt is provisional, and no less true."""
        deeds = deeds_of(lines)
        told = {(claim.name, claim.key) for claim in claims}
        for name, keys in deeds.existing.items():
            for key in keys:
                if (name, key) not in told:
                    yield "claimed", f"{name} exists, and no receipt has a line for it"
        for claim in claims:
            if claim.outcome == "undone" and deeds.exists(claim):
                yield "claimed", f"{claim}, and exists"
            # A hold is let go before that is journaled: nothing false was said if it is gone already.
            if claim.outcome in ("kept", "cannot be undone") and not deeds.exists(claim) and claim.effect != "hold":
                yield "claimed", f"{claim}, and does not exist"

    def at_the_end(self, lines: Lines, claims: Collection[Claim]) -> Iterator[Finding]:
        """All is over: nothing is left that should have been taken back, and nothing is missing."""
        yield from self.at_death(lines, claims)
        deeds = deeds_of(lines)
        for found in deeds.repeated:
            yield "repeated", found
        existing = {name for name, things in deeds.existing.items() if things}
        kept = {claim.name for claim in claims if claim.outcome in ("kept", "cannot be undone")}
        left = (kept if self.left is None else set(self.left)) | (existing & set(self.unknown))
        for name in sorted(existing ^ left):
            yield "lost", f"{name} {'is left, and was to be taken back' if name in existing else 'is gone'}"
        for thing in sorted(thing for thing, is_held in deeds.held.items() if is_held):
            yield "lost", f"{thing} is still held"
        for claim in claims:
            if claim.outcome in OPEN and claim.name not in self.unknown:
                yield "lost", f"{claim} at the end"
        if self.order and deeds.undone[-len(self.order) :] != list(self.order):
            yield "lost", f"taken back in the order {', '.join(deeds.undone)}, not {', '.join(self.order)}"
