"""What undecided commands say of a session's worker."""

from midcourse.core import commands as cmd
from midcourse.core.commands import encode_command
from midcourse.core.contact import PendingCommand, pending_commands, silent_since, unreachable_since
from midcourse.core.ids import CommandId


def test_undecided_commands_are_named_in_their_order_and_damaged_ones_are_left_out() -> None:
    pause = encode_command(cmd.Pause(id=CommandId("cmd_1"), by="ana", reason="a secret of hers"))
    cancel = encode_command(cmd.Cancel(id=CommandId("cmd_2"), by="ben"))
    found = pending_commands([(4.0, pause), (5.0, b"torn"), (6.0, cancel)])
    assert found == (
        PendingCommand(command="pause", by="ana", at=4.0),
        PendingCommand(command="cancel", by="ben", at=6.0),
    )


def test_a_worker_is_silent_since_the_oldest_command_that_it_left_undecided_for_too_long() -> None:
    stored = [PendingCommand(command="pause", by="", at=at) for at in (7.0, 4.0)]
    assert unreachable_since(stored, before=5.0) == 4.0
    assert unreachable_since(stored, before=3.9) is None
    assert unreachable_since([], before=5.0) is None


def test_a_worker_is_silent_since_its_last_sign_of_life_if_that_is_too_long_ago() -> None:
    def since(heartbeat: float | None, event: float = 0.0) -> float | None:
        return silent_since(heartbeat, event, now=10.0, patience=1.0)

    assert since(6.9) == 6.9
    assert since(7.0) is None
    assert since(2.0, 9.0) is None, "it has written something meanwhile"
    assert since(None) is None, "the store knows of no heartbeats"
