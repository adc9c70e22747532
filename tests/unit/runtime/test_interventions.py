"""Interventions over all sessions: what one tenant's people say of theirs counts for theirs alone."""

from midcourse.core.policy.restraint import Alarm
from midcourse.runtime.interventions import Labelled, keep_alarms, read_alarms, wrong_by_agent
from midcourse.stores.memory import MemoryStore


def alarm(session: str, at: float) -> Alarm:
    return Alarm(at=at, session=session, intervention="int_1", agent="clerk", signals=("drift",))


async def test_a_label_of_one_tenant_counts_against_no_signal_of_another() -> None:
    alarms = [alarm("acme~x", 1.0), alarm("beta~x", 2.0)]
    labels = [
        Labelled(at=3.0, session="acme~x", about="int_1", verdict="wrong", by="acme~ada", agent="clerk"),
        Labelled(at=3.0, session="beta~x", about="int_1", verdict="right", by="beta~ada", agent="clerk"),
    ]
    assert wrong_by_agent(alarms, labels) == {
        ("acme", "clerk"): {"drift": (1, 1)},
        ("beta", "clerk"): {"drift": (0, 1)},
    }


async def test_a_tenants_alarms_are_the_newest_of_its_own() -> None:
    store = MemoryStore()
    await keep_alarms(
        store, [alarm(f"{whose}{at}", float(at)) for at in range(1, 6) for whose in ("acme~", "beta~", "")]
    )
    assert [one.session for one in await read_alarms(store, tenant="acme", limit=2)] == ["acme~4", "acme~5"]
    assert [one.session for one in await read_alarms(store, tenant="", since=4.0)] == ["4", "5"]
    assert len(await read_alarms(store)) == 15
