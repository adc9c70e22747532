"""Whatever a file says, it makes agents or an ``InvalidInput``: never another error."""

import re
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import midcourse
from midcourse.adapters.yaml_agents import load_agents
from midcourse.runtime import agents
from tests.adapters.yaml_agents import shop

FIELDS = """kind apiVersion metadata spec name description version labels type model instructions tools interrupt policy
task_class budget settings limits retries use with requires_approval effect undo probe settle local if_silent on_change
resources environment cost timeout run_in enabled checkpoint backend ttl_seconds on_expiry answer usd temperature
max_tokens base_url api_key api_key_env script requests tool_calls"""
_NAMES = ("look", "send_mail", "unsend", "talk", "NUMBER", "Desk.ring", "nowhere")
WORDS = [
    *("Agent", "midcourse/v1", "chat_model_agent", "test", "local", "read", "write", "idempotent", "redis", "store"),
    *("long", "ask", "tell", "thread", "process", "http://127.0.0.1:1/v1", "openai:gpt-5-mini", "mailer", "1", "."),
    *(f"{shop.__name__}:{name}" for name in _NAMES),
    *(f"scripted:{shop.__name__}:talk", "scripted:", "midcourse.tools:files_in", ":", "a:", "ollama:x"),
]

Anything: TypeAlias = st.SearchStrategy[Any]

scalars: Anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=20),
    st.dates(),
    st.sampled_from(WORDS),
)
keys: Anything = (
    st.sampled_from(re.findall(r"\w+", FIELDS)) | st.text(max_size=8) | st.integers() | st.none() | st.booleans()
)
nonsense: Anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=25
)
tools: Anything = st.lists(
    st.sampled_from(WORDS)
    | st.fixed_dictionaries(
        {"use": st.sampled_from(WORDS)},
        optional={
            "name": st.sampled_from(["a", "b"]) | scalars,
            "with": st.fixed_dictionaries({}, optional={"root": st.just("/nowhere") | scalars}) | nonsense,
            "requires_approval": st.booleans() | scalars,
            "effect": st.sampled_from(["read", "write", "idempotent"]) | scalars,
            "undo": st.sampled_from(WORDS),
            "probe": st.sampled_from(WORDS),
            "timeout": scalars,
            "settle": scalars,
            "cost": scalars,
            "local": scalars,
            "run_in": st.sampled_from(["thread", "process"]),
        },
    ),
    max_size=3,
)
almost: Anything = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {"type": st.just("chat_model_agent") | scalars},
            optional={
                "model": st.sampled_from(WORDS) | nonsense,
                "tools": tools | nonsense,
                "budget": scalars | nonsense,
                "interrupt": nonsense,
                "settings": nonsense,
                "limits": nonsense,
                "retries": scalars,
                "instructions": scalars,
                "task_class": scalars,
            },
        )
    },
    optional={"metadata": nonsense, "kind": scalars},
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("anything") / "anything.yaml"


@pytest.fixture(autouse=True)
def _registry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "_registered", dict[str, object]())


def _load(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        found = load_agents(file)
    except midcourse.InvalidInput as refused:
        assert str(file) in str(refused)
    else:
        assert all(agent.mode == "state" and agent.name for agent in found)


BUSY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@BUSY
@given(content=nonsense | almost)
def test_what_can_be_written_as_yaml_is_an_agent_or_refused(file: Path, content: Any) -> None:
    _load(file, yaml.safe_dump(content, allow_unicode=True))


@BUSY
@given(content=st.lists(almost, max_size=3))
def test_so_are_several_documents(file: Path, content: list[Any]) -> None:
    _load(file, yaml.safe_dump_all(content))


@BUSY
@given(text=st.text(max_size=200))
def test_so_is_any_text(file: Path, text: str) -> None:
    _load(file, text)


@BUSY
@given(content=almost, data=st.data())
def test_so_is_a_file_that_is_cut_off_or_has_a_slip_in_it(file: Path, content: Any, data: st.DataObject) -> None:
    text = yaml.safe_dump(content)
    at = data.draw(st.integers(0, len(text)))
    slip = data.draw(
        st.sampled_from(["", "\n", "\t", " ", ":", "- ", "{", "]", "&a ", "*a", "!!set ", "<<: ", "? ", "%"])
    )
    _load(file, text[:at] + slip + data.draw(st.sampled_from(["", text[at:]])))
