"""The state of one session and of everything that touches it, and the smallest changes to it."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from tests.model.rules import Bounds, Rules

T = TypeVar("T")
Effect = tuple[int, int, int, int]
"""Of one call: exists under key 0, under key 1; executed under key 0, under key 1."""

FREE, API, GONE = 0, 3, 9
"""The owner: nobody, (worker 1 or 2,) the API process, a process known to be gone."""
STRENGTH: Final = {"halt": 4, "unhalt": 4, "cancel": 3, "pause": 2, "redirect": 1, "resume": 0}
STOPS: Final = ("pause", "cancel", "halt")
BODY: Final = ("go", "sent", "ugo", "usent")
"""User code of the call is alive."""
ENDED: Final = ("done", "cancelled")


class Worker(NamedTuple):
    """A process that drives sessions, as it sees itself."""

    up: str = "U"
    """U up, S stalled, D down."""
    ep: int = 0
    """The epoch it believes it has."""
    gate: int = 0
    rec: int = 0
    """1 reading the inbox after taking the session, 2 stopped itself and still holding the epoch."""
    tk: int = 0
    """The epoch came by taking over."""
    saw: int = 0
    """It decided a row itself."""
    cx: int = 0
    """A cancel was durable when it took over."""
    nd: int = 0
    """It answered `stopped, not durable` and has not read the store since."""
    lease: str = "F"
    """F fresh everywhere, L stale by the worker's own clock, X expired at the store too, Y expired at the store only
    (the assumption lease_margin is broken)."""
    pcs: tuple[str, ...] = ()
    """Where each call is: - none, chk gate seen open, app start journaled, go body runs (nothing sent yet), sent, ret
    answered, ab aborted; ugo usent uret the same for its undo."""


class Api(NamedTuple):
    """The process that takes commands."""

    up: str = "U"
    ep: int = 0
    lease: str = "F"
    attn: int = 0
    """It has just put a command."""
    dec: int = 0
    """It has decided one in this epoch."""


class Call(NamedTuple):
    """A call in the journal."""

    st: str = "-"
    """- S started, A aborted, D done, W undo begun, V undo over, N did not happen, C closed."""
    key: int = 0
    und: int = 0
    """Undos begun."""
    claim: str = ""
    """What the journal says of the effect: undone, undo?, ? unknown, no, cannot."""
    prev: str = ""
    """What was known of the earlier attempts when this one was journaled."""


class Row(NamedTuple):
    """A command in the inbox."""

    id: int
    kind: str
    outcome: str = ""
    names: int = -1
    """Of a resume: the row of the pause that its sender means."""


class Request(NamedTuple):
    """What is on the wire. ``kind``: do or undo."""

    call: int
    key: int
    kind: str
    worker: int


class State(NamedTuple):
    """Everything. The order matters only to explore.py, which keeps neighbours together."""

    epoch: int
    owner: int
    status: str
    halt: str
    pby: int
    """The row of the last pause that was granted."""
    stands: int
    """The row of the pause that a resume must name."""
    inbox: tuple[Row, ...]
    js: tuple[Call, ...]
    redir: tuple[int, ...]
    """A redirect was journaled while the call was open."""
    silent: tuple[int, ...]
    """The call was lost to a silent worker."""
    ask: tuple[str, ...]
    """What a person was asked and said."""
    w: tuple[Worker, ...]
    api: Api
    wake: int
    pos: tuple[int, ...]
    """How many commands each client has sent."""
    hasty: tuple[int, ...]
    """Of each client: the worker (1, 2) in whose process its stop has shut the gate, the row being written; or 0."""
    reqs: tuple[Request, ...]
    eff: tuple[Effect, ...]
    crash: int
    """What the world may still do, down to putfails."""
    stall: int
    lapse: int
    dup: int
    apicrash: int
    putfails: int
    prom: int
    """`stopping` was answered and nobody resumed since."""


NOCALL = Call()
_CALLS, _WORKERS = State._fields.index("js"), State._fields.index("w")


Move = tuple[str, bool, State, Sequence[str]]
"""What can happen next: a sentence; whether it is fair, which is what a live system owes (the others are the world's);
the state after it; what it breaks."""


class Moves(list[Move]):
    """All that can happen in one state."""

    def add(self, text: str, t: State, *, fair: bool = True, bad: Sequence[str] = ()) -> None:
        """One more thing that can happen."""
        self.append((text, fair, t, bad))


def initial(b: Bounds) -> State:
    """Worker 1 drives, nothing has happened."""
    n = len(b.steps)
    return State(
        epoch=1,
        owner=1,
        status="run",
        halt="",
        pby=-1,
        stands=-1,
        inbox=(),
        js=(NOCALL,) * n,
        redir=(0,) * n,
        silent=(0,) * n,
        ask=("",) * n,
        w=(Worker(ep=1, gate=1, pcs=("-",) * n), Worker(pcs=("-",) * n)),
        api=Api(),
        wake=0,
        pos=(0,) * len(b.clients),
        hasty=(0,) * len(b.clients),
        reqs=(),
        eff=((0, 0, 0, 0),) * n,
        crash=b.crash,
        stall=b.stall,
        lapse=b.lapse,
        dup=b.dup,
        apicrash=b.api_crash,
        putfails=b.put_fails,
        prom=0,
    )


def put(items: tuple[T, ...], i: int, value: T) -> tuple[T, ...]:
    """The tuple with another i-th item."""
    return (*items[:i], value, *items[i + 1 :])


def _with(t: State, at: int, value: object) -> State:
    return State._make((*t[:at], value, *t[at + 1 :]))  # in half the time of _replace


def with_worker(t: State, k: int, **change: object) -> State:
    """Worker k changes."""
    return _with(t, _WORKERS, put(t.w, k, t.w[k]._replace(**change)))


def with_pc(t: State, k: int, i: int, pc: str) -> State:
    """Call i is elsewhere on worker k."""
    return with_worker(t, k, pcs=put(t.w[k].pcs, i, pc))


def with_call(t: State, i: int, call: Call) -> State:
    """The journal says something else of call i."""
    return _with(t, _CALLS, put(t.js, i, call))


def undecided(s: State) -> list[int]:
    """The rows that nobody has decided, in inbox order."""
    return [i for i, row in enumerate(s.inbox) if row.outcome == ""]


def finished(s: State, i: int) -> bool:
    """Call i needs nothing more for the agent to go on."""
    return s.js[i].st in "DC"


def turn_of(s: State, b: Bounds, i: int) -> bool:
    """The calls before call i are finished, or nobody waits for them."""
    return b.parallel or i == 0 or all(finished(s, j) for j in range(i))


def idle(w: Worker) -> bool:
    """The worker has no call in hand."""
    return w.pcs.count("-") == len(w.pcs)


def owner_lives(s: State) -> bool:
    """The store sees a lease that has not run out."""
    if s.owner in (1, 2):
        return s.w[s.owner - 1].lease in "FL"
    return s.owner == API and s.api.lease == "F"


def settled(s: State, r: Rules, i: int, k: int) -> bool:
    """The settle time of call i is over, seen from worker k. Truthful: nothing of it can land any more."""
    if not r.settle_true:
        return True
    if any(q.call == i and (q.kind == "do" or r.new_key_after_undo) for q in s.reqs):
        return False
    if r.stall_in_settle:  # ep: it has not noticed yet; a thread that outlives its worker's self-stop is not covered
        return not any(j != k and w.up != "D" and w.ep and w.pcs[i] in BODY for j, w in enumerate(s.w))
    return True


def lost_calls(s: State, r: Rules) -> tuple[int, ...]:
    """Whoever takes the epoch from a silent worker, the API process too, journals which calls were lost with it."""
    if r.silent_unknown and s.owner in (1, 2):
        return tuple(int(x or c.st in "SW") for x, c in zip(s.silent, s.js, strict=True))
    return s.silent


def process_ends(t: State, k: int) -> State:
    """Worker k is gone, its calls and the clients in its process with it; what these were writing was not written."""
    idle = ("-",) * len(t.js)
    t = with_worker(t, k, up="D", ep=0, gate=0, rec=0, tk=0, saw=0, cx=0, nd=0, pcs=idle)
    if k + 1 in t.hasty:
        pos = tuple(p + (h == k + 1) for p, h in zip(t.pos, t.hasty, strict=True))
        t = t._replace(pos=pos, hasty=tuple(0 if h == k + 1 else h for h in t.hasty))
    return t


def kill_calls(t: State, r: Rules, b: Bounds, k: int) -> State:
    """Async bodies are cancelled. Threads live on, unless the process ends with them."""
    pcs = t.w[k].pcs
    if b.thread and any(pc in BODY for pc in pcs):
        if r.exit_if_calls_live:
            return process_ends(t, k)
        return with_worker(t, k, gate=0, rec=2, pcs=tuple(pc if pc in BODY else "-" for pc in pcs))
    return with_worker(t, k, gate=0, rec=2, pcs=("-",) * len(pcs))
