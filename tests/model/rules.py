"""The rules under test, one flag per sentence; the bounds of a search; and where the code keeps each rule.

True is the wording that the design has now (or the assumption granted); False is the text before it, by its letter (or
the assumption broken).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

FIXES: Final[Mapping[str, str]] = {
    "gate_last": "the gate is passed after the start is journaled, in one critical section with shutting it",
    "status_counts": "recovery goes by the journaled status and decided commands too, not by pending rows alone",
    "dead_cannot_finish": "a call whose worker is gone neither finishes nor is aborted: "
    "its fate is settled, else unknown",
    "settle_after_abort": "settle also runs after an abort in the same process, before undo and before `undone`",
    "redo_only_idempotent": "within settle only an `idempotent` call is redone",
    "new_key_after_undo": "a redo after an undo has a new key; settle holds for undos as well",
    "release_when_empty": "every append that lets a session go (ended, released) is refused while a row is undecided",
    "sweep_unowned": "workers also sweep sessions without owner: undecided rows, or a status that needs driving",
    "no_late_renewal": "an expired lease is never renewed; a new lease starts with no sessions",
    "exit_if_calls_live": "a worker that cannot end its calls when its lease is stale ends its process",
    "inbox_order": "rows are decided in inbox order, in recovery too; the strongest only picks the column",
    "ids_forever": "a command id stays unique after its row was decided",
    "self_stop_drops": "a worker that stopped itself drops its epochs and takes new ones when its lease is good again",
    "no_before_settle": "a person's `no` counts only once settle is over",
    "own_undos_excepted": "after `stopping` a stop's own undos may run, "
    "a pause's and a redirect's as well as a cancel's",
    "attempts_apart": "an attempt journaled as not begun leaves the earlier attempts' fate as it was",
}
ASSUMPTIONS: Final[Mapping[str, str]] = {
    "lease_margin": "a worker's own clock calls its lease stale before the store calls it expired",
    "settle_true": "a declared settle time is never too short",
    "stall_in_settle": "settle also covers a stalled worker's call that wakes up and sends",
}
IN_TEXT: Final[Mapping[str, str]] = {
    "park_when_empty": "parking is refused while the inbox holds an undecided command",
    "inbox_first": "recovery reads the inbox before it touches a call",
    "halt_remembers": "halted remembers where it came from",
    "journal_fenced": "the store refuses an append of an old epoch",
    "settle_after_takeover": "after a takeover nothing is undone and no `no` is believed within settle",
    "fresh_start": "every start checks the lease in memory",
}
ADDED: Final[Mapping[str, str]] = {
    "failed_put_drops": "a worker in whose process a stop could not be written drops the session, calls killed: "
    "it begins nothing before it has read the store again, under a new epoch",
    "resume_names_pause": "a resume names the pause it lifts, fixed when it is put: "
    "the one its sender saw, else the newest in the inbox; if another stands it is stale",
    "second_pause_counts": "a pause of a session that pauses already is from then on the one a resume must name",
}
ALTERNATIVES: Final[Mapping[str, str]] = {
    "silent_unknown": "instead of stall_in_settle: "
    "a call lost to a silent worker is never called undone and never redone unasked",
}
ALL_RULES: Final[Mapping[str, str]] = {**FIXES, **ASSUMPTIONS, **IN_TEXT, **ADDED, **ALTERNATIVES}


class Rules(NamedTuple):
    """Which sentences hold in a search. The default is all of them, without the alternatives."""

    gate_last: bool = True
    status_counts: bool = True
    dead_cannot_finish: bool = True
    settle_after_abort: bool = True
    redo_only_idempotent: bool = True
    new_key_after_undo: bool = True
    release_when_empty: bool = True
    sweep_unowned: bool = True
    no_late_renewal: bool = True
    exit_if_calls_live: bool = True
    inbox_order: bool = True
    ids_forever: bool = True
    self_stop_drops: bool = True
    no_before_settle: bool = True
    own_undos_excepted: bool = True
    attempts_apart: bool = True
    lease_margin: bool = True
    settle_true: bool = True
    stall_in_settle: bool = True
    park_when_empty: bool = True
    inbox_first: bool = True
    halt_remembers: bool = True
    journal_fenced: bool = True
    settle_after_takeover: bool = True
    fresh_start: bool = True
    failed_put_drops: bool = True
    resume_names_pause: bool = True
    second_pause_counts: bool = True
    silent_unknown: bool = False


def toggled(*names: str) -> Rules:
    """All rules as they are by default, except that these are the other way round."""
    return Rules()._replace(**{name: name in ALTERNATIVES for name in names})


class Bounds(NamedTuple):
    """What one search may try."""

    steps: tuple[str, ...] = ("rev",)
    """Effect classes (read, idem, rev, irrev), or ask: the agent waits for a person."""
    clients: tuple[tuple[str, ...], ...] = (("pause",),)
    """Each client's commands, sent in order; clients send concurrently."""
    crash: int = 0
    """How often a worker may be killed; the next four likewise."""
    stall: int = 0
    lapse: int = 0
    dup: int = 0
    api_crash: int = 0
    parallel: bool = False
    probe: bool = False
    """Irreversible tools have a probe."""
    thread: bool = False
    """Tool bodies cannot be killed."""
    undo_all: bool = False
    """Cancel also undoes finished calls."""
    keyed: bool = False
    """The remote side of a reversible tool remembers keys and answers a second request of one key without acting."""
    early: bool = False
    """Gate and abort do not wait for the decision to be written."""
    put_fails: int = 0
    """Clients also live in a worker's process, where a stop shuts the gate before its row is written; so many times the
    row cannot be written. Goes with ``early``."""


_TRUTH = "assumed of tools: docs/how-to/declare-tools.md and docs/design.md say so"
_LEASES = "stores/sqlite locks: a lease that ends exactly when the process does"
_STORES = ("stores/sqlite/writes.py",)

IN_CODE: Final[Mapping[str, tuple[str, ...] | str]] = {
    "gate_last": ("runtime/gate.py", "runtime/steps.py"),
    "status_counts": ("core/interrupted_calls.py", "runtime/deadlines.py"),
    "dead_cannot_finish": ("core/calls.py", "core/interrupted_calls.py", "runtime/call_recovery.py"),
    "settle_after_abort": ("core/calls.py", "core/interrupted_calls.py", "runtime/call_recovery.py"),
    "redo_only_idempotent": ("core/interrupted_calls.py", "core/calls.py"),
    "new_key_after_undo": ("core/ids.py", "core/steps.py", "runtime/steps.py"),
    "release_when_empty": _STORES,
    "sweep_unowned": ("runtime/worker.py", *_STORES),
    "no_late_renewal": _LEASES,
    "exit_if_calls_live": _LEASES,
    "inbox_order": ("runtime/command_inbox.py", *_STORES),
    "ids_forever": _STORES,
    "self_stop_drops": _LEASES,
    "no_before_settle": ("core/interrupted_calls.py", "runtime/call_recovery.py"),
    "own_undos_excepted": ("core/session.py", "runtime/undo.py", "runtime/rollback.py"),
    "attempts_apart": ("core/calls.py",),
    "lease_margin": _LEASES,
    "settle_true": _TRUTH,
    "stall_in_settle": _TRUTH,
    "park_when_empty": ("runtime/parking.py", *_STORES),
    "inbox_first": ("runtime/worker.py", "runtime/command_inbox.py"),
    "halt_remembers": ("core/session.py", "core/halts.py"),
    "journal_fenced": ("runtime/journal.py", *_STORES),
    "settle_after_takeover": ("core/calls.py", "core/interrupted_calls.py"),
    "fresh_start": ("runtime/gate.py",),
    "failed_put_drops": ("runtime/control.py", "runtime/driver.py"),
    "resume_names_pause": ("core/pauses.py",),
    "second_pause_counts": "not in the code: by the design a second pause changes nothing; inbox order protects it",
    "silent_unknown": ("core/session.py", "core/interrupted_calls.py", "runtime/tools.py"),
}
"""Each rule's place, as modules of src/midcourse; or a sentence that says why it has none."""
