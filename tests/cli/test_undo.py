"""``midcourse undo``: what it exits with."""

import msgspec
import pytest

from midcourse.core.events import ReceiptLine, ReceiptOutcome
from midcourse.core.ids import SessionId, StepId
from midcourse.core.receipt import Receipt
from midcourse.core.session import Session
from midcourse.runtime.control import Control
from tests.cli.conftest import Command


def test_an_undo_that_no_process_carries_out_in_time_exits_with_1(midcourse: Command) -> None:
    done = midcourse("undo", "sess_cancelled", "--wait", "0.05")
    assert done.code == 1
    assert "It has not ended yet" in done.out
    assert "midcourse show sess_cancelled" in done.out


@pytest.mark.parametrize(
    ("outcome", "code"),
    [("undone", 0), ("cannot be undone", 0), ("undo failed", 1), ("undo ran with unknown result", 1)],
)
def test_an_undo_exits_with_1_if_it_failed(
    midcourse: Command, monkeypatch: pytest.MonkeyPatch, outcome: ReceiptOutcome, code: int
) -> None:
    receipt = Receipt((ReceiptLine(StepId("1/put#1"), "put", outcome, "reversible", 1, "it is locked"),), final=True)

    async def undo(*_: object, **__: object) -> Receipt:
        return receipt

    monkeypatch.setattr("midcourse.handle.session.SessionHandle.undo", undo)
    done = midcourse("undo", "sess_cancelled")
    assert done.code == code
    assert "it is locked" in done.out
    assert ("Not undone: put. To try again: midcourse undo sess_cancelled" in done.out) is (code == 1)
    assert midcourse("undo", "sess_cancelled", "--json").code == code


def test_an_undo_that_waits_for_a_tool_names_it_and_exits_with_1(
    midcourse: Command, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def undo(*_: object, **__: object) -> Receipt:
        return Receipt((), final=False)

    async def session(control: Control, session_id: SessionId) -> Session:
        return msgspec.structs.replace(await read(control, session_id), needs=("shop.tools:make",))

    read = Control.session
    monkeypatch.setattr("midcourse.handle.session.SessionHandle.undo", undo)
    monkeypatch.setattr(Control, "session", session)
    done = midcourse("undo", "sess_cancelled")
    assert done.code == 1
    assert "'shop.tools:make'" in done.out
    assert "midcourse cancel sess_cancelled --force" in done.out
    assert "'shop.tools:make'" in midcourse("show", "sess_cancelled").out
