"""The cases: what each rule is tried on when it is off, and what must hold when all are on."""

from typing import Final, NamedTuple

from tests.model.rules import Bounds

B = Bounds
NOTHING: Final = ((),)
CLASSES: Final = ("read", "idem", "rev", "irrev")


def send(*clients: str) -> tuple[tuple[str, ...], ...]:
    """What each client sends, as words."""
    return tuple(tuple(client.split()) for client in clients)


STARTS = "I1 a call starts after `stopping` was answered"
NOT_DURABLE = "I1 a call starts on a worker that has answered `stopped, not durable`"
NOT_STOPPED = "I1 `stopped, not durable` was answered while a call of it lives"
UNDO_STARTS = "I1 an undo that is not a cancel's starts after `stopping`"
UNLISTED = "I1 shown as stopped while a call of it lives, unlisted"
DECIDED_TWICE = "I2 one command was decided twice"
LATER_PAUSE = "I3 a resume lifted a pause that was put after it"
UNSEEN_PAUSE = "I3 a resume lifted a pause that its sender had not seen"
EXISTS_TWICE = "I5 a reversible effect exists twice"
RUN_TWICE = "I5 irreversible executed twice, nobody was asked"
NOT_THERE = "I6 the journal says done, the world has no such effect"
DID_HAPPEN = "I6 the journal says it did not happen, it did"
NOT_UNDONE = "I6 the journal says undone, the effect exists"
NOT_OBSERVED = "I6 the receipt says it happened (cannot be undone), nothing was observed"
CANCELLED_RUNS = "I7 a call of a cancelled session is done (again) after recovery"
CANCELLED_LIVES = "I8 cancelled session is run again"
NO_EPOCH = "I9 a driver without the epoch starts a call"
CYCLE = "I10 a cycle of fair moves"
STUCK = "I10 nobody has anything left to do, but: "
STUCK_RUN, STUCK_PAUSING, STUCK_CANCELLING = (STUCK + f"status {status}" for status in ("run", "pausing", "cancelling"))
STUCK_ROW = STUCK + "undecided command"


class Off(NamedTuple):
    """A rule switched off: on what, and what then breaks."""

    rule: str
    bounds: Bounds
    breaks: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Rules that must be off with it to show the point."""
    left: tuple[str, ...] = ()
    """What these break even with the rule on."""


SWITCHED_OFF: Final = (
    Off("gate_last", B(("read",), send("pause")), (STARTS,)),
    Off("gate_last", B(("irrev",), send("pause")), (STARTS,)),
    Off("status_counts", B(("rev",), send("cancel"), crash=1), (CYCLE, STUCK_CANCELLING)),
    Off(
        "status_counts",
        B(("rev",), send("cancel"), crash=1),
        (STARTS, CANCELLED_RUNS, STUCK_CANCELLING),
        also=("gate_last",),
        left=(STARTS,),
    ),
    Off(
        "status_counts",
        B(("idem",), send("pause"), crash=1),
        (STARTS, STUCK_PAUSING),
        also=("gate_last",),
        left=(STARTS,),
    ),
    Off("dead_cannot_finish", B(("irrev",), send("pause"), crash=1), (STUCK_PAUSING,)),
    Off("dead_cannot_finish", B(("irrev",), send("redirect"), crash=1), (STUCK_RUN,)),
    Off("dead_cannot_finish", B(("irrev",), send("cancel"), crash=1), (NOT_OBSERVED,)),
    Off("settle_after_abort", B(("rev",), send("cancel")), (NOT_UNDONE,)),
    Off("settle_after_abort", B(("rev",), send("pause resume")), (NOT_UNDONE, EXISTS_TWICE)),
    Off("redo_only_idempotent", B(("rev",), NOTHING, crash=1), (EXISTS_TWICE,)),
    Off("new_key_after_undo", B(("rev",), send("pause resume"), crash=1), (NOT_THERE,)),
    Off("new_key_after_undo", B(("rev",), send("pause resume"), keyed=True), (NOT_THERE,)),
    Off("own_undos_excepted", B(("rev",), send("pause")), (UNDO_STARTS,)),
    Off("attempts_apart", B(("idem",), send("pause"), crash=1), (DID_HAPPEN,)),
    Off("no_before_settle", B(("irrev",), NOTHING, crash=1), (DID_HAPPEN,)),
    Off("sweep_unowned", B(("read",), send("pause resume")), (STUCK_RUN,)),
    Off("sweep_unowned", B(("read",), send("pause resume"), api_crash=1), (STUCK_RUN, STUCK_ROW)),
    Off("release_when_empty", B(("read",), send("pause", "cancel"))),  # sweeping makes up for it
    Off("release_when_empty", B(("read",), send("cancel")), (STUCK_ROW,), also=("sweep_unowned",)),
    Off("inbox_order", B(("read",), send("pause resume", "pause"))),  # a resume that names its pause makes up for it
    Off(
        "inbox_order",
        B(("read",), send("pause resume", "pause")),
        (LATER_PAUSE, UNSEEN_PAUSE),
        also=("resume_names_pause",),
        left=(UNSEEN_PAUSE,),
    ),
    Off("ids_forever", B(("read",), send("pause resume", "pause"), dup=1), (DECIDED_TWICE,)),
    Off("no_late_renewal", B(("read",), NOTHING, stall=1), (NO_EPOCH,)),
    Off("self_stop_drops", B(("read",), NOTHING, lapse=1), (STUCK_RUN,)),
    Off("exit_if_calls_live", B(("rev",), send("cancel"), lapse=1, thread=True), (NOT_UNDONE, EXISTS_TWICE)),
    Off("exit_if_calls_live", B(("irrev",), NOTHING, lapse=1, thread=True, probe=True), (DID_HAPPEN, RUN_TWICE)),
    Off("lease_margin", B(("read",), NOTHING, lapse=1), (NO_EPOCH,)),
    Off("settle_true", B(("rev",), send("cancel")), (NOT_UNDONE,)),
    Off("stall_in_settle", B(("rev",), send("cancel"), stall=1), (NOT_UNDONE, EXISTS_TWICE)),
    Off("stall_in_settle", B(("irrev",), NOTHING, stall=1, probe=True), (DID_HAPPEN, RUN_TWICE)),
    Off(
        "park_when_empty",
        B(("read",), send("pause resume")),
        (STUCK_ROW, STUCK_RUN),
        also=("sweep_unowned",),
        left=(STUCK_RUN,),
    ),
    Off("inbox_first", B(("rev",), send("cancel"), crash=1), (CANCELLED_RUNS,)),
    Off("halt_remembers", B(("read",), send("cancel halt unhalt")), (CANCELLED_LIVES,)),
    Off(
        "journal_fenced",
        B(("idem",), send("pause"), stall=1),
        (STUCK_PAUSING, STARTS, DID_HAPPEN, UNLISTED, NO_EPOCH),
    ),
    Off("settle_after_takeover", B(("rev",), send("cancel"), crash=1), (NOT_UNDONE, EXISTS_TWICE)),
    Off("fresh_start", B(("read",), NOTHING, stall=1), (NO_EPOCH,)),
    Off(
        "failed_put_drops",
        B(("read",), send("pause", "resume"), early=True, put_fails=1),
        (NOT_DURABLE, NOT_STOPPED, STUCK_RUN),
    ),
    Off("resume_names_pause", B(("read",), send("pause resume", "pause")), (UNSEEN_PAUSE,)),
    Off(
        "resume_names_pause",
        B(("read",), send("pause resume", "pause")),
        (LATER_PAUSE, UNSEEN_PAUSE),
        also=("inbox_order",),
    ),
    Off("second_pause_counts", B(("read",), send("pause resume", "pause")), (UNSEEN_PAUSE,)),
)

AS_WRITTEN: Final = (
    *(
        B((c,), clients, crash=1, stall=1)
        for c in CLASSES
        for clients in (NOTHING, send("pause resume"), send("cancel"), send("redirect"), send("pause", "cancel"))
    ),
    *(
        B(("irrev",), clients, crash=1, stall=1, probe=True)
        for clients in (NOTHING, send("cancel"), send("pause resume"), send("redirect"))
    ),
)
SMALL: Final = (
    *AS_WRITTEN,
    *(B((c,), send("cancel"), lapse=1, crash=1, thread=True) for c in CLASSES),
    *(B((c,), send("pause resume"), api_crash=1, lapse=1) for c in CLASSES),
    B(("rev",), send("cancel"), crash=2, undo_all=True),
    *(B((c,), send("cancel halt unhalt"), crash=1) for c in CLASSES),
    *(B(("ask", "read"), send("answer", other), crash=1, stall=1) for other in ("answer", "cancel", "redirect")),
    B(("ask",), send("pause resume", "answer"), crash=1),
    B(("ask",), send("halt unhalt", "answer"), crash=1),
    B(("rev",), send("pause resume"), crash=1, keyed=True),
    *(
        B((c,), clients, crash=1, early=True)
        for c in CLASSES
        for clients in (send("pause resume"), send("cancel"), send("pause", "redirect"))
    ),
    B(("read",), send("pause resume", "resume"), crash=1, dup=1),
    B(("rev",), send("pause resume", "resume"), dup=1),
    *(B((c,), send("pause", "resume"), crash=1, early=True, put_fails=1) for c in CLASSES),
    *(B((c,), send("cancel"), crash=1, stall=1, early=True, put_fails=1) for c in CLASSES),
    B(("rev",), send("cancel"), lapse=1, thread=True, early=True, put_fails=1),
    B(("read",), send("pause resume", "pause"), crash=1),
)
MEDIUM: Final = (
    *(
        B(steps, clients, crash=1)
        for steps in (("rev", "read"), ("irrev", "rev"), ("idem", "irrev"))
        for clients in (send("pause resume"), send("cancel"), send("redirect"))
    ),
    *(
        B(steps, send("cancel"), crash=1, parallel=True)
        for steps in (("rev", "irrev"), ("idem", "rev"), ("read", "irrev"))
    ),
    *(
        B((c,), clients, crash=2, stall=1)
        for c in CLASSES
        for clients in (send("cancel"), send("redirect"), send("pause"))
    ),
    *(B((c,), send("pause resume", "redirect"), crash=1) for c in CLASSES),
    *(B((c,), send("pause resume", "pause resume"), crash=1) for c in CLASSES),
    *(B((c,), send("halt unhalt", "cancel"), crash=1, api_crash=1) for c in CLASSES),
)
LARGE: Final = (
    *(B((c,), send("pause resume", "cancel"), crash=1, stall=1, lapse=1) for c in CLASSES),
    *(B((c,), send("pause resume", "cancel"), crash=2, api_crash=1) for c in CLASSES),
    B(("rev", "irrev"), send("pause resume"), crash=1, stall=1, parallel=True),
)
SIZES: Final = {"small": SMALL, "medium": MEDIUM, "large": LARGE}


def describe(b: Bounds) -> str:
    """A case in words."""
    parts = ["+".join(b.steps) + (" in parallel" if b.parallel else "")]
    parts.append(" | ".join(" ".join(c) for c in b.clients if c) or "no command")
    counts = {"crash": b.crash, "stall": b.stall, "lapse": b.lapse, "dup": b.dup, "api_crash": b.api_crash}
    parts += [f"{name} {count}" for name, count in counts.items() if count]
    flags = {"probe": b.probe, "thread": b.thread, "undo_all": b.undo_all, "keyed": b.keyed, "early": b.early}
    parts += [name for name, on in flags.items() if on]
    if b.put_fails:
        parts.append(f"put_fails {b.put_fails}")
    return ", ".join(parts)
