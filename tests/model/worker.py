"""What a worker may do next: its lease, its calls, its part in deciding, recovering and ending a session."""

from typing import NamedTuple

from tests.model.decide import decide
from tests.model.rules import Bounds, Rules
from tests.model.state import (
    API,
    BODY,
    ENDED,
    FREE,
    GONE,
    STOPS,
    STRENGTH,
    Call,
    Moves,
    Request,
    State,
    finished,
    idle,
    initial,
    kill_calls,
    lost_calls,
    owner_lives,
    process_ends,
    put,
    settled,
    turn_of,
    undecided,
    with_call,
    with_pc,
    with_worker,
)


def worker_moves(s: State, r: Rules, b: Bounds, k: int, out: Moves) -> None:
    """All that worker k can do, and what can befall it."""
    w, name = s.w[k], f"W{k + 1}"
    faults_and_clocks(s, r, k, out)
    if w.up != "U":
        return
    own_lease(s, r, b, k, out)
    for i, pc in enumerate(w.pcs):  # tool bodies: user code, which asks nobody
        if pc in ("go", "ugo"):
            key = s.js[i].key if s.js[i].st != "-" else 0
            word, kind, sent = ("body", "do", "sent") if pc == "go" else ("undo", "undo", "usent")
            reqs = tuple(sorted((*s.reqs, Request(i, key, kind, k))))
            out.add(f"{name}: the {word} of call {i} sends its request", with_pc(s, k, i, sent)._replace(reqs=reqs))
    if w.ep == 0:
        take(s, r, k, out)
        return

    fenced = w.ep != s.epoch and r.journal_fenced
    if fenced:  # any append of an old epoch is refused, and the driver stops
        t = kill_calls(s, r, b, k)
        t = with_worker(t, k, ep=0, rec=0) if t.w[k].up == "U" else t
        out.add(f"{name}'s append is refused: another owner has the epoch; it stops", t)
        # what needs no append goes on below: passing the gate with a read, bodies

    rows = undecided(s)
    if rows and not fenced:  # control: decide inbox rows, in the owner's process
        n = rows[0]
        if w.rec == 1 and not r.inbox_order:
            n = max(rows, key=lambda x: (STRENGTH[s.inbox[x].kind], -x))
        t, text, bad = decide(s, r, b, n, k)
        t = with_worker(t, k, gate=int(t.status == "run" and w.rec == 0), saw=1)
        out.add(f"{name}: {text}", t, bad=bad)
    hurry = b.early and w.rec == 0 and not fenced
    hurry = hurry and (k + 1 in s.hasty or any(s.inbox[n].kind in STOPS for n in rows))
    if hurry and w.gate:
        out.add(f"{name} shuts the gate, the decision is not written yet", with_worker(s, k, gate=0))
    if w.rec == 2:
        return  # stopped itself and still holds the epoch: no agent runs
    if w.rec == 1:
        if not rows or not r.inbox_first:
            astray = not r.status_counts and column(s, r, k, 0) == "died" and s.status in ("pausing", "cancelling")
            opens = s.status == "run" or astray
            out.add(f"{name} has read the inbox and goes on", with_worker(s, k, rec=0, gate=int(opens)))
        return

    fresh = w.lease in "FY" or not r.fresh_start
    for i, cls in enumerate(b.steps):
        col = column(s, r, k, i)
        here = Here(s, r, b, k, i, col, fenced=fenced, fresh=fresh)
        if cls == "ask":
            if s.js[i].st == "-" and w.gate and fresh and s.status == "run" and not fenced and turn_of(s, b, i):
                out.add(f"{name} journals ask {i} as open", with_call(s, i, Call("S")))
            continue
        start(here, out)
        stop(here, col in ("pause", "redirect", "cancel", "halt") or (hurry and not w.gate), out)
        if not fenced and cls != "read":
            settle(here, out)
    if not fenced and idle(w):
        end(s, r, b, k, out)


class Here(NamedTuple):
    """One call, seen from the worker that drives the session."""

    s: State
    r: Rules
    b: Bounds
    k: int
    i: int
    col: str
    fenced: bool
    fresh: bool


def column(s: State, r: Rules, k: int, i: int) -> str:
    """Which column of the table in section 4 applies to call i."""
    w = s.w[k]
    if s.status == "halted":
        return "halt"
    if s.status == "paused":
        return "pause"
    if not (r.status_counts or not w.tk or w.saw):
        return "died"
    if s.status == "cancelling":
        return "cancel"
    if s.status == "pausing":
        return "pause"
    return "redirect" if s.redir[i] else "died"


def begins_wrongly(s: State, k: int) -> list[str]:
    """What it would break if a call began on worker k now."""
    w, bad = s.w[k], list[str]()
    if s.prom:
        bad.append("I1 a call starts after `stopping` was answered")
    if w.nd:
        bad.append("I1 a call starts on a worker that has answered `stopped, not durable`")
    if w.ep != s.epoch:
        bad.append("I9 a driver without the epoch starts a call")
    if w.cx:
        bad.append("I7 a call of a cancelled session is done (again) after recovery")
    return bad


def faults_and_clocks(s: State, r: Rules, k: int, out: Moves) -> None:
    """Kills, stalls, and leases that run out."""
    w, name = s.w[k], f"W{k + 1}"
    busy = w.ep or not idle(w)
    if w.up != "D" and s.crash and busy:
        out.add(f"{name} is killed", process_ends(s, k)._replace(crash=s.crash - 1), fair=False)
    if w.up == "U" and s.stall and busy:
        out.add(f"{name} stalls", with_worker(s, k, up="S")._replace(stall=s.stall - 1), fair=False)
    if w.up == "S":
        out.add(f"{name} wakes up", with_worker(s, k, up="U"), fair=r.stall_in_settle)
    if w.lease == "F":
        if w.up == "D":
            out.add(f"{name}'s lease runs out", with_worker(s, k, lease="X"))
        elif w.up == "S":
            out.add(f"{name}'s lease becomes stale by its own clock", with_worker(s, k, lease="L"))
        elif s.lapse:
            t = with_worker(s, k, lease="L")._replace(lapse=s.lapse - 1)
            out.add(f"{name} cannot renew: its lease becomes stale by its own clock", t, fair=False)
        if not r.lease_margin and (w.up != "U" or s.lapse):
            t = with_worker(s, k, lease="Y")._replace(lapse=s.lapse - (w.up == "U"))
            out.add(f"{name}'s lease expires at the store while its own clock says fresh", t, fair=False)
    if w.lease == "L":
        out.add(f"{name}'s lease expires at the store", with_worker(s, k, lease="X"), fair=w.up != "U")
    if w.lease == "Y":
        out.add(f"{name}'s own clock calls the lease stale", with_worker(s, k, lease="X"))
    if w.up == "D" and w.lease == "X":
        t = with_worker(s, k, up="U", lease="F")
        out.add(f"{name} starts again as a new process", t._replace(owner=GONE) if s.owner == k + 1 else t)


def own_lease(s: State, r: Rules, b: Bounds, k: int, out: Moves) -> None:
    """What a worker does about its own lease."""
    w, name = s.w[k], f"W{k + 1}"
    if w.lease in "LX" and w.rec != 2 and (w.ep or not idle(w)):
        t = kill_calls(s, r, b, k)
        if t.w[k].up == "U":
            kept = 0 if r.self_stop_drops else w.ep
            t = with_worker(t, k, ep=kept, rec=2 if kept else 0)
        out.add(f"{name} stops itself (stale by its own clock): gate shut, calls killed", t)
    if w.lease == "L":
        out.add(f"{name} renews its lease", with_worker(s, k, lease="F"))
    if w.lease == "X":
        if not r.no_late_renewal:
            out.add(f"{name} renews its expired lease", with_worker(s, k, lease="F"))
        elif w.ep == 0 and not any(pc in BODY for pc in w.pcs):
            t = with_worker(s, k, lease="F", rec=0)
            out.add(f"{name} gets a new lease, with no sessions", t._replace(owner=GONE) if s.owner == k + 1 else t)
        elif w.rec == 2:
            out.add(f"{name} gives up its sessions", with_worker(s, k, ep=0, rec=0))


def take(s: State, r: Rules, k: int, out: Moves) -> None:
    """A worker without the session takes it, if it needs somebody."""
    w = s.w[k]
    if w.lease != "F" or any(pc in BODY for pc in w.pcs):
        return
    needs = undecided(s) or s.status in ("run", "pausing", "cancelling")
    unended = undecided(s) or s.status not in ENDED
    if s.owner in (1, 2, API) and s.owner != k + 1 and not owner_lives(s) and unended:
        how = "takes over: the owner's lease has run out"
    elif s.owner == GONE and unended:
        how = "takes over: the owner is gone"
    elif s.owner == k + 1 and needs:
        how = "takes its own session again"
    elif s.owner == FREE and needs and (r.sweep_unowned or s.wake):
        how = "takes the session, which has no owner"
    else:
        return
    epoch = s.epoch + 1
    cancelled = any(row.kind == "cancel" and row.outcome in ("", "ok") for row in s.inbox)
    t = with_worker(s, k, ep=epoch, gate=0, rec=1, tk=1, saw=0, cx=int(cancelled), nd=0)
    silent = lost_calls(s, r) if s.owner != k + 1 else s.silent
    out.add(f"W{k + 1} {how} (epoch {epoch})", t._replace(epoch=epoch, owner=k + 1, wake=0, silent=silent))


def start(here: Here, out: Moves) -> None:
    """A call begins: the gate looks open, the start is journaled, the gate is passed. In the end: its result."""
    s, r, b, k, i, col, fenced, fresh = here
    w, call, cls, name = s.w[k], s.js[i], b.steps[i], f"W{k + 1}"
    pc = w.pcs[i]
    if pc == "-" and w.gate and fresh and col == "died" and not finished(s, i) and turn_of(s, b, i):
        redo_idem = cls == "idem" and call.st in "SA"
        redo_undone = call.st == "V" and call.claim == "undone" and (settled(s, r, i, k) or not r.new_key_after_undo)
        redo_hasty = cls == "rev" and call.st == "S" and w.tk and not r.redo_only_idempotent
        if call.st in "-N" or redo_idem or redo_undone or redo_hasty:
            if cls == "read" and r.gate_last:
                out.add(f"{name} starts call {i} (read)", with_pc(s, k, i, "go"), bad=begins_wrongly(s, k))
            else:
                out.add(f"{name} finds the gate open for call {i}", with_pc(s, k, i, "chk"))
    elif pc == "chk" and cls == "read":
        out.add(f"{name} starts call {i} (read)", with_pc(s, k, i, "go"), bad=begins_wrongly(s, k))
    elif pc == "chk" and not fenced:
        key = call.key + (call.st == "V" and r.new_key_after_undo)
        if key > 1:
            out.add("bound: a third key is not explored", initial(b)._replace(status="bound"))
        elif r.gate_last and s.status != "run":
            out.add(f"{name}: the start of call {i} is refused, status {s.status}", with_pc(s, k, i, "-"))
        else:
            t = with_pc(with_call(s, i, Call("S", key, prev=call.st)), k, i, "app")
            out.add(f"{name} journals the start of call {i} (key {key})", t._replace(redir=put(t.redir, i, 0)))
    elif pc == "app":
        if not r.gate_last:
            out.add(f"{name} begins call {i}", with_pc(s, k, i, "go"), bad=begins_wrongly(s, k))
        elif w.gate and fresh:
            out.add(f"{name} passes the gate and begins call {i}", with_pc(s, k, i, "go"), bad=begins_wrongly(s, k))
        elif not fenced:
            back = Call("N", call.key)
            if r.attempts_apart and call.prev in "SA":
                back = Call("A", call.key)
            elif r.attempts_apart and call.prev == "V":
                back = Call("V", call.key - 1, 1, "undone")
            t = with_pc(with_call(s, i, back), k, i, "-")
            out.add(f"{name} finds the gate shut: this attempt at call {i} is journaled as not begun", t)
    elif pc == "ret" and not fenced:
        t = with_pc(with_call(s, i, Call("D", call.key)), k, i, "-")
        out.add(f"{name} journals the result of call {i}", t._replace(redir=put(s.redir, i, 0)))


def stop(here: Here, stopping: bool, out: Moves) -> None:
    """Calls in flight when the grace is over."""
    s, _, b, k, i, col, fenced, _ = here
    call, cls, name = s.js[i], b.steps[i], f"W{k + 1}"
    pc = s.w[k].pcs[i]
    if pc in ("go", "sent") and stopping and not b.thread and cls != "irrev":
        if cls == "read":
            t = with_pc(s, k, i, "-")
            if col == "redirect" and not fenced:
                t = with_call(t, i, Call("C"))._replace(redir=put(t.redir, i, 0))
            out.add(f"{name} aborts call {i} (read)", t)
        else:
            out.add(f"{name} aborts call {i}: its task has ended here", with_pc(s, k, i, "ab"))
    if pc == "ab" and not fenced:
        out.add(f"{name} journals call {i} as aborted", with_pc(with_call(s, i, Call("A", call.key)), k, i, "-"))
    if cls == "read" and pc == "-" and col == "redirect" and call.st == "-" and not fenced:
        out.add(f"{name} closes call {i}: no effect", with_call(s, i, Call("C"))._replace(redir=put(s.redir, i, 0)))


def settle(here: Here, out: Moves) -> None:
    """Calls that are open in the journal and not alive here, and undos that have returned."""
    s, _, b, k, i, col, _, fresh = here
    call, cls, name = s.js[i], b.steps[i], f"W{k + 1}"
    pc, st = s.w[k].pcs[i], call.st
    if pc == "-" and st in "SAWVN":
        if cls == "rev" and st in "SAW" and fresh:
            undo(here, out)
        if cls == "irrev" and st == "S":
            find_out(here, out)
        if cls == "idem" and st in "SA" and col in ("redirect", "cancel"):
            close(here, "?", "may have happened", out)
        if st == "V" and (col == "redirect" or (call.claim == "undo?" and col == "died")):
            close(here, call.claim, call.claim, out)
        if st == "N" and col == "redirect":
            close(here, "no", "not run", out)
    if pc == "uret":
        said = "undo?" if s.silent[i] else "undone"
        t = with_pc(with_call(s, i, Call("V", call.key, call.und, said)), k, i, "-")
        out.add(f"{name} journals call {i} as " + ("undo ran, result unknown" if s.silent[i] else "undone"), t)
    if b.undo_all and col == "cancel" and cls == "rev" and st == "D" and pc == "-" and fresh:
        t = with_pc(with_call(s, i, Call("W", call.key, 1)), k, i, "ugo")
        out.add(f"{name} journals and begins the undo of finished call {i}", t)


def clear(here: Here) -> bool:
    """Nothing of the call can land any more, or nobody waits for that."""
    s, r, _, k, i, *_ = here
    return settled(s, r, i, k) or not (r.settle_after_takeover if s.w[k].tk else r.settle_after_abort)


def close(here: Here, claim: str, text: str, out: Moves) -> None:
    """The journal says the last word about a call."""
    s, i = here.s, here.i
    t = with_call(s, i, Call("C", s.js[i].key, claim=claim))._replace(redir=put(s.redir, i, 0))
    out.add(f"W{here.k + 1} closes call {i}: {text}", t)


def undo(here: Here, out: Moves) -> None:
    """A reversible call that was cut or lost is undone, once settle is over."""
    s, r, _, k, i, col, *_ = here
    call, name = s.js[i], f"W{k + 1}"
    deferred = col == "pause" and s.w[k].tk and r.dead_cannot_finish  # a dead worker's call waits for resume
    if col == "halt" or deferred:
        return
    if call.und >= 2:
        t = with_call(s, i, Call("V", call.key, call.und, "undo?"))
        out.add(f"{name}: undo of call {i} given up, result unknown", t)
    elif clear(here):
        late = s.prom and s.status != "cancelling" and not r.own_undos_excepted
        bad = ["I1 an undo that is not a cancel's starts after `stopping`"] if late else []
        t = with_pc(with_call(s, i, Call("W", call.key, call.und + 1)), k, i, "ugo")
        out.add(f"{name} journals and begins the undo of call {i}", t, bad=bad)


def find_out(here: Here, out: Moves) -> None:
    """An irreversible call that was lost: its probe is asked, or a person, or it is unknown."""
    s, r, b, k, i, col, *_ = here
    call, name = s.js[i], f"W{k + 1}"
    untold = not b.probe or s.silent[i]  # no probe that could be believed
    if col == "died" or (col in ("redirect", "cancel") and r.dead_cannot_finish):
        happened = sum(s.eff[i][2:]) > 0
        if b.probe and (happened or not s.silent[i]) and clear(here):
            said = "happened" if happened else "did not happen"
            t = with_call(s, i, Call("D" if happened else "N", call.key))
            out.add(f"{name}: the probe says call {i} {said}", t)
        elif untold and col == "died" and s.ask[i] != "open":
            out.add(f"{name} asks a person: did call {i} happen?", s._replace(ask=put(s.ask, i, "open")))
        elif untold and col == "redirect":
            close(here, "?", "may have happened", out)
    if col == "cancel" and call.claim == "":
        if not r.dead_cannot_finish:
            t = with_call(s, i, Call("C", call.key, claim="cannot"))
            out.add(f"{name} lists call {i} as cannot be undone", t)
        elif untold:
            out.add(f"{name} lists call {i} as unknown", with_call(s, i, Call("C", call.key, claim="?")))


def end(s: State, r: Rules, b: Bounds, k: int, out: Moves) -> None:
    """The ends of things, each one append: paused, cancelled, completed, parked."""
    name, empty, col = f"W{k + 1}", not undecided(s), column(s, r, k, 0)

    def let_go(t: State) -> State:
        return with_worker(t._replace(owner=FREE), k, ep=0, gate=0, tk=0, saw=0, cx=0)

    def stopped(i: int) -> bool:
        dead = s.w[k].tk and r.dead_cannot_finish
        return s.js[i].st in "-DCVN" or b.steps[i] in ("idem", "ask") or bool(dead)

    def final(i: int) -> bool:
        st, cls = s.js[i].st, b.steps[i]
        if cls == "ask" and st == "S":  # halted while it was open
            return True
        return st in "-CVN" or (st == "D" and not (b.undo_all and cls == "rev"))

    calls = range(len(b.steps))
    if s.status == "pausing" and col == "pause" and all(stopped(i) for i in calls):
        out.add(f"{name} journals paused", s._replace(status="paused"))
    may_end = empty or not r.release_when_empty
    if s.status == "cancelling" and col == "cancel" and may_end and all(final(i) for i in calls):
        js = tuple(c._replace(claim="no") if c.st in "-N" and c.claim == "" else c for c in s.js)
        t = let_go(s._replace(status="cancelled", js=js))
        out.add(f"{name} journals cancelled, with the receipt, and lets the session go", t)
    if s.status == "run" and s.w[k].gate and may_end and all(finished(s, i) for i in calls):
        out.add(f"{name} journals completed and lets the session go", let_go(s._replace(status="done")))
    if s.status == "paused" and (empty or not r.park_when_empty):
        out.add(f"{name} parks the session", let_go(s))
