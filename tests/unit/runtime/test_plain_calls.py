"""A plain function that a stop would abort says why it runs on, and what would make it killable."""

from midcourse.core.ids import StepId
from midcourse.runtime.calls import CallInFlight


def test_a_call_that_cannot_be_aborted_says_why_and_names_run_in_process() -> None:
    call = CallInFlight(StepId("1/copy#1"), "copy", "tool", 1, 0.0, in_thread=True)
    assert call.running(1.0).doing == ""
    call.asked_to_end.yes = True
    doing = call.running(1.0).doing
    assert "no thread can be aborted" in doing
    assert 'run_in="process"' in doing
