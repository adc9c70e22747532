"""Alarms that reach a person together. Pure."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from midcourse.core.policy_decision import Alarm


class Batch(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """Alarms that reach a person together, at ``ready_at``. An interruption is a batch of its own, at once."""

    person: str
    since: float
    ready_at: float
    alarms: tuple[Alarm, ...]


def batches(alarms: Iterable[Alarm], gather: float, of_policies: Mapping[str, float] = {}) -> list[Batch]:
    """Gather alarms, given in the order of their time, into batches: the first opens a window of ``gather``.

    ``of_policies`` overrides it, by who stepped in: nothing waits longer than its own policy allows.
    """
    made: list[Batch] = []
    windows: dict[str, Batch] = {}
    for alarm in alarms:
        if alarm.level != "notify":
            made.append(Batch(person=alarm.person, since=alarm.at, ready_at=alarm.at, alarms=(alarm,)))
            continue
        told_at = alarm.at + of_policies.get(alarm.by, gather)
        window = windows.get(alarm.person)
        if window is not None and alarm.at < window.ready_at:
            ready_at = min(window.ready_at, told_at)
            windows[alarm.person] = replace(window, ready_at=ready_at, alarms=(*window.alarms, alarm))
            continue
        if window is not None:
            made.append(window)
        windows[alarm.person] = Batch(person=alarm.person, since=alarm.at, ready_at=told_at, alarms=(alarm,))
    return sorted([*made, *windows.values()], key=lambda batch: batch.ready_at)
