"""What must never be true, and when nothing more has to happen."""

from tests.model.rules import Bounds
from tests.model.state import BODY, ENDED, State, undecided


def broken(s: State, b: Bounds) -> list[str]:
    """What is wrong with this state, whatever led to it."""
    bad: list[str] = []
    for i, (call, eff) in enumerate(zip(s.js, s.eff, strict=True)):
        cls = b.steps[i]
        if cls in ("read", "ask"):
            continue
        present, execs = eff[0] + eff[1], eff[2] + eff[3]
        if call.claim == "undone" and present:
            bad.append("I6 the journal says undone, the effect exists")
        if (call.claim == "no" or call.st == "N") and execs and not (s.silent[i] and s.ask[i] == "no"):
            bad.append("I6 the journal says it did not happen, it did")
        if call.claim == "cannot" and not execs:
            bad.append("I6 the receipt says it happened (cannot be undone), nothing was observed")
        if call.st == "D" and not eff[call.key]:
            bad.append("I6 the journal says done, the world has no such effect")
        if cls == "irrev" and execs > 1 and s.ask[i] == "":
            bad.append("I5 irreversible executed twice, nobody was asked")
        if cls == "idem" and eff[2] and eff[3]:
            bad.append("I5 idempotent executed under two keys")
        if cls == "rev" and present > 1:
            bad.append("I5 a reversible effect exists twice")
        if lives_unlisted(s, i):
            bad.append("I1 shown as stopped while a call of it lives, unlisted")
    won = [row.kind for row in s.inbox if row.outcome == "ok"]
    if "cancel" in won and s.status in ("run", "pausing", "paused"):
        bad.append(f"I8 cancelled session is {s.status} again")
    if won.count("resume") > won.count("pause"):
        bad.append("I3 two resumes won")
    if won.count("answer") > b.steps.count("ask"):
        bad.append("I3 two answers won")
    return bad


def lives_unlisted(s: State, i: int) -> bool:
    """The session is shown as stopped, a body of call i lives, and the journal lists it as neither open nor unknown.

    A body on a worker whose lease has run out is what I6 is about: its effect must not contradict the journal.
    """
    call = s.js[i]
    if s.status not in ("paused", "cancelled") or call.st not in "-NDVC" or call.claim in ("?", "undo?"):
        return False
    return any(w.up != "D" and w.lease in "FL" and w.pcs[i] in BODY for w in s.w)


def resting(s: State, b: Bounds) -> bool:
    """Nothing more has to happen: every command decided, nothing half stopped, nothing half run."""
    waits = s.status == "run" and any(c == "ask" and call.st == "S" for c, call in zip(b.steps, s.js, strict=True))
    return not undecided(s) and (waits or s.status in ("paused", "halted", "bound", *ENDED))
