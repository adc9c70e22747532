"""The browser's model and core fold the same journals to the same state, and the fixtures are what core says today."""

import json
import re
import shutil
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import midcourse
from midcourse.handle.http.response_bodies import WireEvent, event_of
from midcourse.server.to_json import encoded
from tests.unit.core.stories import in_status

pytestmark = pytest.mark.timeout(180)

CONSOLE: Final = Path(__file__).parents[2] / "console"
FIXTURES: Final = CONSOLE / "fixtures"
MAKE: Final = "make them again: PYTHONPATH=. python console/fixtures/make_fixtures.py"


@pytest.fixture(scope="module")
def making() -> Any:
    """The program that makes the fixtures."""
    spec = spec_from_file_location("make_fixtures", FIXTURES / "make_fixtures.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kept(name: str) -> list[dict[str, Any]]:
    """The fixtures as they are."""
    return json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))


def test_the_browsers_model_folds_every_recorded_journal_as_core_does() -> None:
    npm = shutil.which("npm")
    assert npm, "Node.js is not here: run `make console`, which says how to get it"
    done = subprocess.run(
        [npm, "test", "--silent"], cwd=CONSOLE, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    told = len(kept("histories")) + len(kept("runs"))
    passed = re.search(r"\bpass (\d+)", done.stdout)
    assert passed, done.stdout[-4000:]
    assert int(passed[1]) >= 2 * told


@pytest.mark.parametrize("name", ["histories", "runs"])
def test_core_folds_each_fixture_to_its_expected_state_today(making: Any, name: str) -> None:
    for fixture in kept(name):
        records = [event_of(msgspec.json.decode(encoded(event), type=WireEvent)) for event in fixture["events"]]
        today = json.loads(encoded(making.journal(fixture["name"], fixture["session"], records)))
        assert today == fixture, f"{fixture['name']}: {MAKE}"


def test_the_shortest_way_into_each_status_is_the_one_that_is_made_today(making: Any) -> None:
    known = {one["name"]: one for one in kept("histories")}
    for status in midcourse.Status:
        story = in_status(status)
        today = json.loads(encoded(making.journal(f"in {status}", story.session.id, story.records)))
        assert today == known[today["name"]], MAKE


def test_the_fixtures_pass_through_every_status_and_end() -> None:
    states = [state["status"] for name in ("histories", "runs") for one in kept(name) for state in one["states"]]
    assert set(states) >= {status.value for status in midcourse.Status}
