"""What an agent's file says of retries."""

import pytest

import midcourse
from midcourse.adapters.yaml_agents import load_agents
from tests.adapters.yaml_agents.conftest import Write

FILE = """\
spec:
  type: chat_model_agent
  model: test
  tools:
    - use: shop:send_mail
      effect: write
      retry: {attempts: 2}
"""


def test_a_retry_of_what_cannot_be_undone_is_refused_with_its_line(write: Write) -> None:
    with pytest.raises(midcourse.InvalidInput, match="irreversible") as refused:
        load_agents(write(FILE))
    assert refused.value.fields["line"] == 7


def test_a_number_that_makes_no_sense_is_refused_with_its_line(write: Write) -> None:
    with pytest.raises(midcourse.InvalidInput, match="attempts") as refused:
        load_agents(write(FILE.replace("write", "read").replace("attempts: 2", "attempts: 0")))
    assert refused.value.fields["line"] == 7
