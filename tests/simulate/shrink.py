"""Shortens a plan that breaks a promise: deeds are left out, as long as the same promise is still broken."""

from collections.abc import Callable
from dataclasses import replace

from tests.simulate.plan import Plan
from tests.simulate.world import Outcome


def shortened(outcome: Outcome, play: Callable[[Plan], Outcome], *, most: int = 60) -> Outcome:
    """Return the shortest run found within ``most`` tries: halves are left out first, then single deeds."""
    tries = 0
    size = max(1, len(outcome.plan.deeds) // 2)
    while True:
        start, was_shortened = 0, False
        while start < len(outcome.plan.deeds):
            deeds = outcome.plan.deeds
            shorter = replace(outcome.plan, deeds=[*deeds[:start], *deeds[start + size :]])
            tries += 1
            tried = play(shorter)
            if tried.kinds & outcome.kinds:
                outcome, was_shortened = tried, True
            else:
                start += size
            if tries >= most:
                return outcome
        if size == 1 and not was_shortened:
            return outcome
        size = max(1, size // 2)
