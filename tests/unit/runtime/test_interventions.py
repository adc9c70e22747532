"""Interventions over all sessions: what one tenant's people say of theirs counts for theirs alone."""

from msgspec.structs import replace

from midcourse.core.policy_decision import Alarm
from midcourse.policy.intervention_shelf import INTERVENTIONS, LabelRecord, alarm_items, judged_by_agent, read_alarms
from midcourse.policy.restraint import JudgedIntervention
from midcourse.stores.sqlite.memory import MemoryStore


def alarm(session: str, at: float) -> Alarm:
    return Alarm(
        at=at,
        session=session,
        intervention="int_1",
        agent="clerk",
        by="policy:standard@1",
        level="pause",
        signals=("drift",),
    )


async def test_a_label_of_one_tenant_counts_against_no_signal_of_another() -> None:
    alarms = [alarm("acme~x", 1.0), alarm("beta~x", 2.0)]
    labels = [
        LabelRecord(at=3.0, session="acme~x", about="int_1", verdict="wrong", by="acme~ada", agent="clerk"),
        LabelRecord(at=3.0, session="beta~x", about="int_1", verdict="right", by="beta~ada", agent="clerk"),
    ]
    assert judged_by_agent(alarms, labels) == {
        ("acme", "clerk"): [JudgedIntervention(3.0, "policy:standard@1", ("drift",), is_wrong=True)],
        ("beta", "clerk"): [JudgedIntervention(3.0, "policy:standard@1", ("drift",), is_wrong=False)],
    }


async def test_a_warning_that_was_called_wrong_counts_against_nothing_unless_it_was_held_back() -> None:
    warning = replace(alarm("x", 1.0), level="notify")
    label = LabelRecord(at=3.0, session="x", about="int_1", verdict="wrong", by="ada", agent="clerk")
    assert judged_by_agent([warning], [label]) == {}
    assert len(judged_by_agent([replace(warning, held=True)], [label])["", "clerk"]) == 1


async def test_a_tenants_alarms_are_the_newest_of_its_own() -> None:
    store = MemoryStore()
    alarms = [alarm(f"{whose}{at}", float(at)) for at in range(1, 6) for whose in ("acme~", "beta~", "")]
    await store.shelve(INTERVENTIONS, alarm_items(alarms))
    assert [one.session for one in await read_alarms(store, tenant="acme", limit=2)] == ["acme~4", "acme~5"]
    assert [one.session for one in await read_alarms(store, tenant="", since=4.0)] == ["4", "5"]
    assert len(await read_alarms(store)) == 15
