"""Lists over many sessions have whatever a journal has, though the process died the moment that it was journaled."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from midcourse.core.events import InterventionLabelled, ReportMade
from midcourse.core.ids import Position, SessionId
from midcourse.policy.artifact_shelf import ARTIFACTS, read_artifacts
from midcourse.policy.intervention_shelf import LABELS, read_labels
from midcourse.runtime.session_loader import read_events
from midcourse.wiring import open_store
from tests.policy.crash_program import SESSION


@pytest.mark.parametrize(("shelf", "kind"), [(ARTIFACTS, ReportMade), (LABELS, InterventionLabelled)])
async def test_what_a_killed_process_had_just_journaled_is_listed(tmp_path: Path, shelf: str, kind: type) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    child = subprocess.run([sys.executable, "-m", "tests.policy.crash_program", url, shelf], check=False, timeout=60)
    assert child.returncode == -signal.SIGKILL
    store = await open_store(url)
    try:
        journaled = [one.event for one in await read_events(store, SessionId(SESSION), Position(0), 100)]
        assert any(isinstance(event, kind) for event in journaled)
        if shelf == ARTIFACTS:
            listed = [(one.session, one.name) for one in await read_artifacts(store)]
        else:
            listed = [(one.session, one.about) for one in await read_labels(store)]
        assert listed == [(SESSION, "report.md" if shelf == ARTIFACTS else "msg_1")]
    finally:
        await store.close()
