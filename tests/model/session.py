"""One session of Midcourse as a transition system: what the design's sections 2, 3, 4 and 6 say, and nothing more.

Two workers, one API process, a linearizable store (inbox, journal, epochs, leases), a remote world in which a request
that was sent lands late or never. Time is not a number: a lease runs out, a grace is over, a settle time has passed as
events, and the assumptions about clocks are conditions on when such an event may happen.
"""

from collections.abc import Sequence

from tests.model.decide import decide
from tests.model.rules import Bounds, Rules
from tests.model.state import (
    API,
    BODY,
    FREE,
    GONE,
    STOPS,
    Api,
    Call,
    Moves,
    Row,
    State,
    kill_calls,
    lost_calls,
    owner_lives,
    put,
    settled,
    undecided,
    with_call,
    with_pc,
    with_worker,
)
from tests.model.worker import worker_moves


def moves(s: State, r: Rules, b: Bounds) -> Moves:
    """All that can happen in this state."""
    out = Moves()
    if s.status == "bound":
        return out
    if s.api.up == "U":
        clients(s, r, b, out)
        api_process(s, r, b, out)
    elif s.api.lease == "F":
        out.add("the API's lease runs out", s._replace(api=s.api._replace(lease="X")))
    else:
        t = s._replace(api=Api())
        out.add("a new API process starts", t._replace(owner=GONE) if s.owner == API else t)
    if b.put_fails:
        clients_in_workers(s, r, b, out)
    if s.wake:
        out.add("the bus loses the wake-up", s._replace(wake=0), fair=False)
    world(s, b, out)
    persons(s, r, out)
    for k in (0, 1):
        worker_moves(s, r, b, k, out)
    return out


def rings(r: Rules) -> int:
    """With sweeping a wake-up only saves time, so it is left out."""
    return int(not r.sweep_unowned)


def rows_of(s: State, c: int, kind: str) -> list[Row]:
    """The next row of client c; a resume may mean the pause its sender saw, or the newest in the inbox."""
    rid = c * 10 + s.pos[c]
    if kind != "resume":
        return [Row(rid, kind)]
    newest = max((n for n, row in enumerate(s.inbox) if row.kind == "pause"), default=-1)
    means = {newest} if s.stands < 0 else {newest, s.stands}
    return [Row(rid, kind, names=n) for n in sorted(means)]


def clients(s: State, r: Rules, b: Bounds, out: Moves) -> None:
    """People put commands through the API process."""
    for c, commands in enumerate(b.clients):
        if s.pos[c] < len(commands) and not s.hasty[c]:
            kind = commands[s.pos[c]]
            api = s.api._replace(attn=int(not owner_lives(s)))
            for row in rows_of(s, c, kind):
                t = s._replace(inbox=(*s.inbox, row), pos=put(s.pos, c, s.pos[c] + 1), wake=rings(r), api=api)
                out.add(f"client {c} puts {kind}; the answer is `accepted`", t, fair=False)
        if s.dup and s.pos[c]:
            row = next((x for x in reversed(s.inbox) if x.id == c * 10 + s.pos[c] - 1), None)
            if not r.ids_forever and row and row.outcome:
                api = s.api._replace(attn=1)
                t = s._replace(inbox=(*s.inbox, row._replace(outcome="")), dup=0, api=api)
                out.add(f"client {c} retries {row.kind} with the same id", t, fair=False)


def clients_in_workers(s: State, r: Rules, b: Bounds, out: Moves) -> None:
    """A stop from inside a worker's process: the gate is shut at once, then the row is written, or cannot be."""
    for c, commands in enumerate(b.clients):
        if s.pos[c] == len(commands) or commands[s.pos[c]] not in STOPS:
            continue
        kind = commands[s.pos[c]]
        for k, w in enumerate(s.w):
            who = f"client {c}, in W{k + 1}'s process"
            if w.up != "U":
                continue
            if not s.hasty[c] and w.ep and s.putfails:
                t = with_worker(s, k, gate=0)._replace(hasty=put(s.hasty, c, k + 1))
                out.add(f"{who}, says {kind}: the gate is shut, the row is not written yet", t, fair=False)
            if s.hasty[c] == k + 1:
                t = s._replace(hasty=put(s.hasty, c, 0), pos=put(s.pos, c, s.pos[c] + 1))
                written = t._replace(inbox=(*s.inbox, *rows_of(s, c, kind)), wake=rings(r))
                out.add(f"{who}: {kind} is written; the answer is `accepted`", written)
                if s.putfails:
                    t, bad = not_durable(t._replace(putfails=s.putfails - 1), r, b, k)
                    text = f"{who}: {kind} cannot be written; the answer is `stopped, not durable`"
                    out.add(text, t, fair=False, bad=bad)


def not_durable(t: State, r: Rules, b: Bounds, k: int) -> tuple[State, Sequence[str]]:
    """A stop could not be written in worker k's process. The gate stays shut."""
    if r.failed_put_drops and t.w[k].ep:
        t = kill_calls(t, r, b, k)  # released is nothing: the store still says that the session is this worker's
        if t.w[k].up == "U":
            t = with_worker(t, k, ep=0, rec=0)
    if t.w[k].up == "U":
        t = with_worker(t, k, gate=0, nd=1)
    lives = any(pc in BODY for pc in t.w[k].pcs)
    return t, ["I1 `stopped, not durable` was answered while a call of it lives"] if lives else []


def api_process(s: State, r: Rules, b: Bounds, out: Moves) -> None:
    """With no live owner the accepting process takes the epoch, decides, and releases. It may be killed in between."""
    if s.api.ep == 0 and s.api.attn:
        if not undecided(s) or owner_lives(s):
            out.add("the API sees that somebody else has the session", s._replace(api=s.api._replace(attn=0)))
        else:
            api = s.api._replace(ep=s.epoch + 1, attn=0, dec=0)
            t = s._replace(epoch=s.epoch + 1, owner=API, silent=lost_calls(s, r), api=api)
            out.add("the API finds no live owner and takes the next epoch", t)
    if s.api.ep:
        if s.api.ep != s.epoch:
            out.add("the API's append is refused; it drops the epoch", s._replace(api=s.api._replace(ep=0)))
        else:
            for n in undecided(s)[:1]:
                t, text, bad = decide(s, r, b, n)
                out.add("the API: " + text, t._replace(api=t.api._replace(dec=1)), bad=bad)
            if s.api.dec and (not undecided(s) or not r.release_when_empty):
                t = s._replace(owner=FREE, api=s.api._replace(ep=0, dec=0), wake=rings(r))
                out.add("the API releases the session", t)
    if s.apicrash:
        t = s._replace(api=Api("D", lease=s.api.lease), apicrash=s.apicrash - 1)
        out.add("the API process is killed", t, fair=False)
    if not s.prom and s.status in ("pausing", "paused", "cancelling", "cancelled", "halted"):
        out.add("the API answers `stopping` (or `stopped`)", s._replace(prom=1), fair=False)


def world(s: State, b: Bounds, out: Moves) -> None:
    """A request that was sent lands and is answered; one that nobody waits for lands or is lost, at any time."""
    for n, (i, key, kind, k) in enumerate(s.reqs):
        t = s._replace(reqs=s.reqs[:n] + s.reqs[n + 1 :])
        cls = b.steps[i]
        waiting = s.w[k].pcs[i] == ("sent" if kind == "do" else "usent") and (cls == "read" or s.js[i].key == key)
        p0, p1, x0, x1 = s.eff[i]
        if kind == "do":
            present, execs = (p0, p1)[key], (x0, x1)[key]
            if cls == "idem":
                present, execs = 1, 1  # the remote side knows the key
            elif cls != "read" and not (cls == "rev" and b.keyed and execs):
                present, execs = present + 1, execs + 1
            eff = (present, p1, execs, x1) if key == 0 else (p0, present, x0, execs)
        else:
            eff = (0, p1, x0, x1) if key == 0 else (p0, 0, x0, x1)
        landed = t._replace(eff=put(t.eff, i, eff))
        word = ("request" if kind == "do" else "undo") + f" of call {i} (key {key}, sent by W{k + 1})"
        if waiting:
            out.add(f"the {word} lands and is answered", with_pc(landed, k, i, "ret" if kind == "do" else "uret"))
        else:
            out.add(f"the {word} lands, nobody waits for it", landed)
            out.add(f"the {word} is lost", t)


def persons(s: State, r: Rules, out: Moves) -> None:
    """A person is asked whether call i happened, and looks."""
    if s.status != "run" or s.owner not in (1, 2) or not owner_lives(s):
        return
    k = s.owner - 1
    w = s.w[k]
    if w.ep != s.epoch or w.up != "U" or w.rec:
        return
    for i, asked in enumerate(s.ask):
        call = s.js[i]
        if asked != "open" or call.st != "S" or w.pcs[i] != "-":
            continue
        if sum(s.eff[i][2:]):
            t = with_call(s._replace(ask=put(s.ask, i, "yes")), i, Call("D", call.key))
            out.add(f"the person looks and says: call {i} happened", t)
        elif settled(s, r, i, k) or not r.no_before_settle:
            t = with_call(s._replace(ask=put(s.ask, i, "no")), i, Call("N", call.key))
            out.add(f"the person looks and says: call {i} did not happen", t)
