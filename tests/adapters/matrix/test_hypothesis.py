"""A required hypothesis holds the first action of every framework's agent, and its model can comply."""

from msgspec.structs import replace

import midcourse
from midcourse.core.hypothesis import HOW
from midcourse.core.interrupted_calls import DID_NOT_HAPPEN
from midcourse.models.script import Text, replies
from midcourse.policy import versions
from midcourse.policy.document import HypothesisRule
from midcourse.policy.profiles import STANDARD
from tests.adapters.matrix import courses
from tests.adapters.matrix.conftest import Stage
from tests.adapters.matrix.test_stops import PATIENCE

STRICT = replace(
    STANDARD,
    name="strict",
    extends="standard",
    signals=replace(STANDARD.signals, hypothesis=HypothesisRule(required=True)),
)
STATES = Text("Hypothesis: a room in Rome is free in May.\nSo I book one.")


async def test_a_model_is_told_to_state_its_hypothesis_states_it_and_acts(stage: Stage) -> None:
    store = await stage.place.store()
    await versions.save(store, STRICT, by="ada", why="a test", now=1.0)
    await store.close()
    stage.provider.script = replies(
        (courses.LOOK, courses.BOOK),
        (STATES, courses.BOOK),
        courses.ALL_DONE,
    )
    async with stage.place.open(stage.agent, grace=0) as mc:
        session = await mc.start(stage.agent, courses.GOAL, session_id="s", terms=midcourse.Terms(policy="strict"))
        assert await session.result(PATIENCE) == "All is done."
        assert (await session.state()).hypothesis == "a room in Rome is free in May."
    done = courses.counted()
    assert (done["look done"], done["book begun"], done["book done"]) == (1, 1, 1)
    # It was told before its second answer: why nothing was booked, and what to do.
    told = stage.heard(1).said
    assert any(DID_NOT_HAPPEN in one.text for one in told if one.role == "tool")
    assert any(HOW in one.text for one in told if one.role == "user")
