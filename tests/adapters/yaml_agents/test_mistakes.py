"""A mistake in an agent file is told with file, line and field, and with what to write instead."""

import sys
from pathlib import Path

import pytest

import midcourse
from midcourse.adapters.yaml_agents import load_agents
from midcourse.adapters.yaml_agents.yaml_positions import SIZE_LIMIT
from tests.adapters.yaml_agents.conftest import Write

HEAD = "spec:\n  type: chat_model_agent\n  model: test\n"

MISTAKES = {
    "a typo in a field": (HEAD + "  instrucions: x\n", 4, "spec.instrucions", "Did you mean 'instructions'?"),
    "a typo at the top": (HEAD + "metdata: {}\n", 4, "metdata", "Did you mean 'metadata'?"),
    "a typo in a tool": (
        HEAD + "  tools:\n    - use: shop:look\n      effekt: read\n",
        6,
        "spec.tools[0].effekt",
        "Did you mean 'effect'?",
    ),
    "a typo deep down": (
        HEAD + "  interrupt:\n    checkpoint:\n      ttl: 5\n",
        6,
        "spec.interrupt.checkpoint.ttl",
        "There are: backend, on_expiry, ttl_seconds.",
    ),
    "a typo in a retry": (
        HEAD + "  settings:\n    retry: {atempts: 3}\n",
        5,
        "spec.settings.retry.atempts",
        "Did you mean 'attempts'?",
    ),
    "a word that is none of them": (HEAD + "  task_class: lng\n", 4, "spec.task_class", "Did you mean 'long'?"),
    "a wrong type of agent": ("spec:\n  type: chat_agent\n", 2, "spec.type", "Did you mean 'chat_model_agent'?"),
    "a wrong effect": (
        HEAD + "  tools:\n    - {use: 'shop:look', effect: raed}\n",
        5,
        "spec.tools[0].effect",
        "Did you mean 'read'?",
    ),
    "a wrong backend": (
        HEAD + "  interrupt:\n    checkpoint: {backend: rediss}\n",
        5,
        "spec.interrupt.checkpoint.backend",
        "Did you mean 'redis'?",
    ),
    "a key twice": (HEAD + "  policy: a\n  policy: b\n", 5, "spec.policy", "second time; the first is on line 4"),
    "a path that is none": (HEAD + "  tools:\n    - shop.look\n", 5, "spec.tools[0]", "Write 'module:name'"),
    "a path that is none, in a tool": (HEAD + "  tools:\n    - use: look\n", 5, "spec.tools[0].use", "module:name"),
    "a missing module": (
        HEAD + "  tools:\n    - shoop.tools:look\n",
        5,
        "spec.tools[0]",
        "'shoop.tools' cannot be imported: ModuleNotFoundError",
    ),
    "a missing function": (
        HEAD + "  tools:\n    - use: shop:loook\n",
        5,
        "spec.tools[0].use",
        "has no 'loook'. Did you mean 'look'?",
    ),
    "no mapping": (
        HEAD + "  interrupt: false\n",
        4,
        "spec.interrupt",
        "it is a mapping with: enabled, checkpoint; here it is false.",
    ),
    "an empty mapping": (HEAD + "  limits:\n", 4, "spec.limits", "total_tokens; here it is empty."),
    "neither a path nor a mapping": (
        HEAD + "  tools: [5]\n",
        4,
        "spec.tools[0]",
        "it is an import path ('module:name'), or a mapping with: use, with, name",
    ),
    "no list": (HEAD + "  tools: shop:look\n", 4, "spec.tools", "it is a list; here it is '"),
    "neither true nor false": (
        HEAD + "  interrupt: {enabled: maybe}\n",
        4,
        "spec.interrupt.enabled",
        "it is true or false; here it is 'maybe'.",
    ),
    "no function": (HEAD + "  tools:\n    - shop:NUMBER\n", 5, "spec.tools[0]", "is a int, not a function"),
    "a missing undo": (
        HEAD + "  tools:\n    - use: shop:send_mail\n      effect: write\n      undo: shop:unsned\n",
        7,
        "spec.tools[0].undo",
        "has no 'unsned'",
    ),
    "a declaration that contradicts itself": (
        HEAD + "  tools:\n    - use: shop:send_mail\n      effect: read\n      undo: shop:unsend\n",
        7,
        "spec.tools[0].undo",
        "Tool 'send_mail': a 'read' changes nothing",
    ),
    "a key in the file": (
        "spec:\n  type: chat_model_agent\n  model:\n    name: m\n    api_key: sk-123\n",
        5,
        "spec.model.api_key",
        "name that: api_key_env",
    ),
    "no model": ("spec:\n  type: chat_model_agent\n", 1, "spec.model", "or set MIDCOURSE_MODEL"),
    "a model without a provider": (
        "spec:\n  type: chat_model_agent\n  model: gpt-5\n",
        3,
        "spec.model",
        "'openai:gpt-5'",
    ),
    "an unknown provider": (
        "spec:\n  type: chat_model_agent\n  model: openia:gpt-5\n",
        3,
        "spec.model",
        "there is no provider 'openia'",
    ),
    "a server without a model": (
        "spec:\n  type: chat_model_agent\n  model: {base_url: 'http://x'}\n",
        3,
        "spec.model.name",
        "what does the server call the model?",
    ),
    "two models in one": (
        "spec:\n  type: chat_model_agent\n  model: {name: x, script: 'shop:talk'}\n",
        3,
        "spec.model",
        "give one of name",
    ),
    "a model of no parts": ("spec:\n  type: chat_model_agent\n  model: {}\n", 3, "spec.model", "give one of name"),
    "a script that is not there": (
        "spec:\n  type: chat_model_agent\n  model: {script: 'shop:tlak'}\n",
        3,
        "spec.model",
        "has no 'tlak'",
    ),
    "a script that is none": (
        "spec:\n  type: chat_model_agent\n  model: scripted:shop:NUMBER\n",
        3,
        "spec.model",
        "is a int, not a script",
    ),
    "weights that are not there": (
        "spec:\n  type: chat_model_agent\n  model: {local: /nowhere/at.gguf}\n",
        3,
        "spec.model",
        "/nowhere/at.gguf",
    ),
    "two tools of one name": (
        HEAD + "  tools:\n    - shop:look\n    - use: shop:send_mail\n      name: look\n",
        4,
        "spec.tools",
        "two tools are called 'look'",
    ),
    "a set that declares": (
        HEAD + "  tools:\n    - use: midcourse.tools:files_in\n      with: {root: .}\n      effect: read\n",
        5,
        "spec.tools[0]",
        "a set of tools declares itself",
    ),
    "a set that cannot be made": (
        HEAD + "  tools:\n    - use: shop:fail_to_make\n      with: {root: a}\n",
        6,
        "spec.tools[0].with",
        "OSError: no a",
    ),
    "a set with a wrong argument": (
        HEAD + "  tools:\n    - use: midcourse.tools:files_in\n      with: {rot: .}\n",
        6,
        "spec.tools[0].with",
        "rot",
    ),
    "a set of nothing": (
        HEAD + "  tools:\n    - use: shop:make_nothing\n      with: {root: a}\n",
        5,
        "spec.tools[0].use",
        "makes no set of tools",
    ),
    "no budget at all": (HEAD + "  budget: 0\n", 4, "spec.budget", "greater than 0"),
    "a time that is none": (
        HEAD + "  interrupt: {checkpoint: {ttl_seconds: -1}}\n",
        4,
        "spec.interrupt.checkpoint.ttl_seconds",
        "greater than 0",
    ),
    "an expiry that is none": (
        HEAD + "  interrupt:\n    checkpoint:\n      ttl_seconds: 5\n      on_expiry: cancell\n",
        7,
        "spec.interrupt.checkpoint.on_expiry",
        "Did you mean 'cancel'?",
    ),
    "an expiry that never comes": (
        HEAD + "  interrupt:\n    checkpoint:\n      on_expiry: {answer: no way}\n",
        6,
        "spec.interrupt.checkpoint.on_expiry",
        "Give ttl_seconds, too",
    ),
    "a name nobody can use": ("metadata: {name: 'a b'}\n" + HEAD, 1, "metadata.name", "'a b'"),
    "a list in place of an agent": ("- a\n- b\n", 1, "", "an agent is a mapping with 'spec'"),
    "a word in place of an agent": ("agent\n", 1, "", "an agent is a mapping with 'spec'"),
    "no spec": ("metadata: {name: a}\n", 1, "spec", "it is missing"),
    "a number in place of a spec": ("spec: 3\n", 1, "spec", "it is 3"),
    "no YAML": ("spec: [\n", 2, "path", "this is no YAML"),
    "a tab": ("spec:\n\ttype: x\n", 2, "path", "this is no YAML"),
    "a Python object": ("spec: !!python/object/apply:os.getcwd []\n", 1, "path", "this is no YAML"),
    "too deep": ("a: " + "[" * 60 + "]" * 60, 1, None, "nested more than 50 deep"),
}


@pytest.mark.parametrize(("text", "line", "field", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_pointed_at(write: Write, text: str, line: int, field: str | None, words: str) -> None:
    path = write(text)
    with pytest.raises(midcourse.InvalidInput) as found:
        load_agents(path)
    assert str(found.value).startswith(f"{path}:{line}: "), str(found.value)
    assert words in str(found.value)
    if field is not None and field != "path":
        assert str(found.value).partition(": ")[2].startswith(f"{field}: " if field else ""), str(found.value)
    if field is not None:
        assert found.value.fields["path"] == str(path)


def test_several_mistakes_are_told_at_once(write: Write) -> None:
    path = write("spec:\n  typ: chat_model_agent\n  modle: test\n  budget: -1\n")
    with pytest.raises(midcourse.InvalidInput) as found:
        load_agents(path)
    lines = str(found.value).splitlines()
    assert [line.removeprefix(f"{path}:").partition(": ")[0] for line in lines] == ["1", "2", "3", "4"]


def test_two_agents_of_one_name_are_refused(write: Write) -> None:
    write("spec: {type: chat_model_agent, model: test}", "mailer.yaml")
    folder = write("metadata: {name: mailer}\nspec: {type: chat_model_agent, model: test}", "other.yaml").parent
    with pytest.raises(
        midcourse.InvalidInput, match=r"other\.yaml:1: metadata\.name: 'mailer' is also the name .*mail"
    ):
        load_agents(folder)


def test_an_empty_file_and_an_empty_folder_hold_no_agent(write: Write, tmp_path: Path) -> None:
    for text in ("", "# only a remark\n", "\n\n"):
        with pytest.raises(midcourse.InvalidInput, match="holds no agent: it is empty"):
            load_agents(write(text))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(midcourse.InvalidInput, match=r"There is no \.yaml file in"):
        load_agents(tmp_path / "nothing")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(midcourse.InvalidInput, match="cannot be read: No such file"):
        load_agents(tmp_path / "nowhere.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"spec: \xe4")
    with pytest.raises(midcourse.InvalidInput, match="it is not UTF-8"):
        load_agents(tmp_path / "latin.yaml")
    (tmp_path / "long.yaml").write_text("#" * (SIZE_LIMIT + 1))
    with pytest.raises(midcourse.InvalidInput, match="has 1,000,001 characters"):
        load_agents(tmp_path / "long.yaml")


def test_a_bomb_of_aliases_is_refused_or_read_but_does_not_explode(write: Write) -> None:
    """Nine levels of ten: a thousand million, if they were written out."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        levels.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    with pytest.raises(midcourse.InvalidInput):
        load_agents(write("\n".join(levels)))


def test_what_holds_itself_is_refused(write: Write) -> None:
    with pytest.raises(midcourse.InvalidInput):
        load_agents(write("spec: &spec\n  type: chat_model_agent\n  model: test\n  labels: *spec\n"))


def test_the_same_text_in_two_places_of_a_list_is_not_a_key_twice(write: Write) -> None:
    with pytest.raises(midcourse.InvalidInput, match="two tools are called 'look'"):
        load_agents(write(HEAD + "  tools:\n    - shop:look\n    - shop:look\n"))


def test_a_module_beside_the_file_is_the_one_that_is_meant(tmp_path: Path) -> None:
    """Two folders, each with a module of its own under one name: no agent gets the other's tools."""
    try:
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "twice_4712.py").write_text("def wave() -> str:\n    return 'hello'\n")
            text = "spec: {type: chat_model_agent, model: test, tools: ['twice_4712:wave']}"
            (tmp_path / folder / f"{folder}.yaml").write_text(text)
        load_agents(tmp_path / "a")
        with pytest.raises(midcourse.InvalidInput, match="twice_4712"):
            load_agents(tmp_path / "b")
    finally:
        sys.modules.pop("twice_4712", None)


@pytest.mark.parametrize(
    "parts",
    [
        "{name: 'openai:gpt-5', api_key_env: MY_KEY}",
        "{script: 'shop:talk', api_key_env: MY_KEY}",
        "{local: true, name: some-model}",
    ],
)
def test_parts_of_a_model_that_do_not_go_together_are_refused(write: Write, parts: str) -> None:
    """A key that the file names, and that is not used, would be another's."""
    with pytest.raises(midcourse.InvalidInput, match=r"spec\.model"):
        load_agents(write(f"spec:\n  type: chat_model_agent\n  model: {parts}\n"))
