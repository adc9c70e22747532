"""Deciding one inbox row: pure, the same for a worker and for the API process."""

from typing import NamedTuple

from tests.model.rules import Bounds, Rules
from tests.model.state import BODY, ENDED, Call, State, put


class Decision(NamedTuple):
    """What came of a row."""

    state: State
    text: str
    bad: tuple[str, ...]


def decide(t: State, r: Rules, b: Bounds, n: int, k: int | None = None) -> Decision:
    """Row n is decided, by worker k or by the API process."""
    row = t.inbox[n]
    kind, status, halt, pby, stands = row.kind, t.status, t.halt, t.pby, t.stands
    redir, prom, js = t.redir, t.prom, t.js
    asks = [i for i, c in enumerate(b.steps) if c == "ask" and js[i].st == "S"]
    bad: list[str] = []
    result = "ok"
    if any(x.id == row.id and x.outcome for x in t.inbox):
        bad.append("I2 one command was decided twice")
    if status in ENDED:
        result = "refused"
    elif kind == "pause":
        if status in ("run", "pausing", "paused"):
            if status == "run" or r.second_pause_counts:
                stands = n
            status, pby = ("pausing" if status == "run" else status), n
        else:
            result = "refused"
    elif kind == "resume":
        if status not in ("paused", "pausing"):
            result = "already" if status == "run" else "refused"
        elif r.resume_names_pause and row.names != stands:
            result = "stale"
        else:
            if pby > n:
                bad.append("I3 a resume lifted a pause that was put after it")
            if pby != row.names:
                bad.append("I3 a resume lifted a pause that its sender had not seen")
            status, prom = "run", 0
    elif kind == "cancel":
        if status == "halted":
            halt = "cancelling"
        else:
            status = "cancelling"
            for i in asks:
                js = put(js, i, Call("C", claim="withdrawn"))
    elif kind == "answer":
        if asks and status != "cancelling":
            js = put(js, asks[0], Call("D"))
        else:
            result = "refused"
    elif kind == "halt":
        if status != "halted":
            status, halt = "halted", status
    elif kind == "unhalt":
        if status == "halted":
            status, halt = (halt if r.halt_remembers else "run"), ""
            prom = 0 if status == "run" else prom
        else:
            result = "refused"
    elif kind == "redirect":
        if status in ("run", "pausing", "paused"):
            for i in asks:
                js = put(js, i, Call("C", claim="superseded"))
            redir = tuple(1 if x or js[i].st not in "-DC" else 0 for i, x in enumerate(redir))
            if status == "run" and k is not None:  # an unjournaled read in flight is closed as well
                pcs = t.w[k].pcs
                redir = tuple(int(x or (b.steps[i] == "read" and pcs[i] in BODY)) for i, x in enumerate(redir))
        else:
            result = "refused"
    t = t._replace(
        inbox=put(t.inbox, n, row._replace(outcome=result)),
        status=status,
        halt=halt,
        pby=pby,
        stands=stands,
        redir=redir,
        prom=prom,
        js=js,
    )
    return Decision(t, f"{kind} is decided: {result}, status {status}", tuple(bad))
