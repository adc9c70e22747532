"""What does one action cost that drift looks at, and what does the encoder cost once?"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.harness import Result, median, p99
from midcourse.policy.run_activity import Called
from midcourse.policy.signals.drift import Drift, text_of
from midcourse.policy.signals.encoders import Encoder, find_encoder, why_none

QUESTION: Final = "drift of an action, p99"
ACTIONS: Final = 5000
GOAL: Final = "Fix the login bug: people are sent back to the login page after they have signed in"
SHORT: Final = Called(kind="tool", name="read_file", arguments='{"path": "src/orm/mapper.py"}', text="LAZY = True")
LONG: Final = Called(
    kind="tool",
    name="bash",
    arguments="cd /shop && grep -rn 'expires_at' src/auth --include='*.py' | sort | head -40; python tests/run.py api",
    text=f"src/auth/session.py:{'18: return session.expires_at < now  # whether it has not expired '.join('1234567')}",
)
_LOADING: Final = """
import time
from midcourse.policy.signals.encoders import find_encoder
start = time.perf_counter()
assert find_encoder()
print((time.perf_counter() - start) * 1000)
"""


def actions(encoder: Encoder, case: str, call: Called) -> Result:
    """One action after the other: text, encoding, window, value. The floor is the encoding alone."""
    drift = Drift(encoder)
    drift.goal(GOAL)
    text = text_of(call)
    whole = _timed([lambda: (drift.act(text_of(call)), drift.value())] * ACTIONS)
    alone = _timed([lambda: encoder.encode(text)] * ACTIONS)
    floor_is = "the encoding alone"
    return Result(
        *(QUESTION, case, p99(whole), "ms", ACTIONS),
        median=median(whole),
        floor=p99(alone),
        floor_is=floor_is,
        must=1.0,
        aim=0.1,
    )


def _timed(calls: Sequence[Callable[[], object]]) -> list[float]:
    taken: list[float] = []
    for call in calls:
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def loading() -> Result:
    """In a process of its own each time, since it is loaded once in each; importing it is most of that."""
    command = [sys.executable, "-c", _LOADING]
    taken = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(5)]
    return Result(QUESTION, "finding the encoder, once a process", max(taken), "ms", len(taken), median=median(taken))


def answers() -> list[Result]:
    """The table's lines."""
    encoder = find_encoder()
    if encoder is None:
        sys.exit(f"Drift cannot be measured: {why_none()}.")
    return [actions(encoder, "a short action", SHORT), actions(encoder, "a long one", LONG), loading()]
