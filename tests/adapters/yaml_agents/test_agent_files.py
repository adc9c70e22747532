"""What an agent file says is what the agent is: every field, every default, one file or a folder of them."""

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import midcourse
from midcourse.adapters.yaml_agents import load_agents, schema
from midcourse.adapters.yaml_agents.spec import AgentFile, read_spec
from midcourse.adapters.yaml_agents.yaml_positions import read_pages
from midcourse.runtime.agents import registered
from tests.adapters.yaml_agents.conftest import Write
from tests.promises.harness import Place

DESIGN = """\
spec:
  type: chat_model_agent
  interrupt:
    enabled: true
    checkpoint:
      backend: redis
      ttl_seconds: 3600
"""
EVERYTHING = """\
kind: Agent
apiVersion: midcourse/v1
metadata:
  name: clerk
  description: Answers letters.
  goals: [Answer the letter of Ada]
  version: "7"
  labels: {team: mail}
spec:
  type: chat_model_agent
  model: scripted:shop:talk
  instructions: |
    Answer every letter.
  tools:
    - shop:look
    - use: shop:send_mail
      name: mail
      requires_approval: true
      effect: write
      undo: shop:unsend
      probe: shop:was_sent
      settle: 1.5
      local: true
      if_silent: ask
      on_change: ask
      resources: [outbox]
      environment: prod
      cost: 0.25
      timeout: 30
      run_in: thread
      retry: {attempts: 2}
    - use: midcourse.tools:files_in
      with: {root: .}
  interrupt:
    enabled: false
    checkpoint: {backend: redis, ttl_seconds: 60, on_expiry: {answer: "no"}}
  policy: careful
  task_class: long
  labels: [mail, night]
  budget: {usd: 5}
  settings: {temperature: 0.2, max_tokens: 500, top_p: 0.9, timeout: 20, parallel_tool_calls: false,
    retry: {attempts: 3, first_wait: 1, factor: 3, max_wait: 30, jitter: 0.1}}
  limits: {requests: 20, tool_calls: 50, total_tokens: 100000}
  retries: 2
"""


def one(path: Path) -> midcourse.Agent[Any]:
    (agent,) = load_agents(path)
    return agent


def test_the_file_of_the_design_makes_an_agent(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names no model: MIDCOURSE_MODEL does."""
    monkeypatch.setenv("MIDCOURSE_MODEL", "test")
    agent = one(write(DESIGN))
    assert (agent.name, agent.mode, agent.resumable, agent.asks) == ("mailer", "state", True, True)
    assert agent.terms == midcourse.Terms(backend="redis", ttl_seconds=3600)
    assert registered()["mailer"] is agent


async def test_the_agent_of_the_design_runs(write: Write, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDCOURSE_MODEL", "test")
    agent = one(write(DESIGN))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "hello")
        assert await session.result(20) == "success (no tool calls)"
        assert (await session.state()).terms == midcourse.Terms(backend="redis", ttl_seconds=3600)


def test_every_field_is_taken(write: Write) -> None:
    agent = one(write(EVERYTHING))
    assert (agent.name, agent.version, agent.asks) == ("clerk", "7", False)
    assert agent.retry == midcourse.Retry(3, 1.0, 3.0, 30.0, 0.1)
    assert agent.terms == midcourse.Terms(
        task_class="long",
        policy="careful",
        labels=("mail", "night"),
        budget=5.0,
        backend="redis",
        ttl_seconds=60.0,
        on_expiry=midcourse.DefaultAnswer("no"),
    )


def test_a_file_says_to_people_what_its_agent_does_and_what_to_ask_of_it(write: Write) -> None:
    (clerk,) = load_agents(write(EVERYTHING))
    assert clerk.description == "Answers letters."
    assert clerk.goals == ("Answer the letter of Ada",)


def test_every_field_of_the_models_is_in_that_file(write: Write) -> None:
    """So that a new field does not go untested. A model by its parts has tests of its own."""
    (page,) = read_pages(write(EVERYTHING))
    spec = read_spec(page)
    said: Any = page.content
    assert set(said) == {field.alias or name for name, field in AgentFile.model_fields.items()}
    for part in (spec.metadata, spec.spec, spec.spec.interrupt, spec.spec.settings, spec.spec.limits):
        assert part.model_fields_set == set(type(part).model_fields), type(part).__name__
    use = spec.spec.tools[1]
    assert not isinstance(use, str)
    assert use.model_fields_set == set(type(use).model_fields) - {"given"}


def test_what_is_not_said_has_a_default(write: Write) -> None:
    """The name is the file's; the version changes with the document, and only with it."""
    text = "spec: {type: chat_model_agent, model: test}"
    agent = one(write(text, "night.shift.yaml"))
    assert agent.name == "night.shift"
    assert agent.terms == midcourse.Terms()
    assert agent.version == one(write(f"# a remark\n{text}", "night.shift.yaml")).version
    assert agent.version != one(write(text.replace("test", "test, retries: 3"), "night.shift.yaml")).version


def test_a_budget_is_a_number_or_has_a_unit(write: Write) -> None:
    for spelled in ("5", "5.0", "{usd: 5}"):
        text = f"spec: {{type: chat_model_agent, model: test, budget: {spelled}}}"
        assert one(write(text)).terms.budget == 5.0


def test_empty_documents_are_none(write: Write) -> None:
    """Such as what stands after a last line of three dashes."""
    text = "---\nspec: {type: chat_model_agent, model: test}\n---\n"
    assert one(write(text)).name == "mailer"


def test_a_file_may_hold_several_agents(write: Write) -> None:
    """Divided by lines of three dashes."""
    found = load_agents(
        write("""\
---
metadata: {name: first}
spec: {type: chat_model_agent, model: test}
---
metadata: {name: second}
spec: {type: chat_model_agent, model: test}
""")
    )
    assert [agent.name for agent in found] == ["first", "second"]


def test_a_folder_gives_the_agents_of_all_its_files(write: Write) -> None:
    write("spec: {type: chat_model_agent, model: test}", "zoe.yaml")
    write("spec: {type: chat_model_agent, model: test}", "abe.yml")
    folder = write("this is no agent", "notes.txt").parent
    assert [agent.name for agent in load_agents(folder)] == ["abe", "zoe"]
    assert [agent.name for agent in load_agents(str(folder))] == ["abe", "zoe"]


def test_a_mistake_in_one_file_registers_no_agent_of_the_folder(write: Write) -> None:
    """All of them, or none."""
    write("spec: {type: chat_model_agent, model: test}", "abe.yaml")
    folder = write("spec: {type: chat_model_agent, model: tset}", "zoe.yaml").parent
    with pytest.raises(midcourse.InvalidInput, match=r"zoe\.yaml:1"):
        load_agents(folder)
    assert not registered()


def test_a_module_beside_the_file_can_be_imported_by_it(write: Write) -> None:
    path = write("spec: {type: chat_model_agent, model: test, tools: ['beside_it_4711:wave']}")
    (path.parent / "beside_it_4711.py").write_text("def wave() -> str:\n    return 'hello'\n")
    try:
        assert one(path).name == "mailer"
    finally:
        sys.modules.pop("beside_it_4711", None)


def test_a_function_inside_a_class_can_be_named(write: Write) -> None:
    assert one(write("spec: {type: chat_model_agent, model: test, tools: ['shop:Desk.ring']}"))


def test_a_file_that_is_loaded_again_takes_the_place_of_what_it_was(write: Write) -> None:
    """Without a word: it is the same origin."""
    path = write("spec: {type: chat_model_agent, model: test}")
    first, second = one(path), one(path)
    assert registered()["mailer"] is second
    assert first.version == second.version


# ---- the schema for editors


def _fits(content: object) -> bool:
    made: Any = jsonschema.Draft202012Validator(schema())
    return bool(made.is_valid(content))


@pytest.mark.parametrize("text", [DESIGN, EVERYTHING, "spec: {type: chat_model_agent}"])
def test_the_schema_accepts_what_the_loader_does(text: str) -> None:
    assert _fits(yaml.safe_load(text.replace("shop:", "shop.tools:")))


@pytest.mark.parametrize(
    "text",
    [
        "spec: {type: chat_model}",
        "spec: {type: chat_model_agent, modle: x}",
        "spec: {type: chat_model_agent, budget: 0}",
        "spec: {type: chat_model_agent, tools: [{use: 'a:b', effect: wirte}]}",
        "metadata: {name: x}",
    ],
)
def test_the_schema_refuses_what_the_loader_does(text: str) -> None:
    assert not _fits(yaml.safe_load(text))


def test_the_schema_is_json() -> None:
    assert json.loads(json.dumps(schema()))["title"] == "A Midcourse agent"
