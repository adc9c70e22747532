"""Every question has the same shape, and what was answered is what the README shows."""

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Final, cast

import pytest

import bench
import midcourse
from bench import readme
from bench.__main__ import QUESTIONS, names
from bench.harness import Result, cells, percentile, saved, table, versions

PARTS: Final = {
    "__main__",
    "children",
    "drift_study",
    "effects",
    "floors",
    "harness",
    "loops",
    "peers",
    "plot",
    "readme",
    "risk_study",
    "soak",
    "soak_verdict",
    "soak_worker",
    "web",
}
"""Modules of the bench that ask nothing."""


def module_of(question: str) -> ModuleType:
    """A question's module."""
    return importlib.import_module(f"bench.{question}")


def test_every_module_is_a_question_or_a_known_part() -> None:
    modules = {module.name for module in pkgutil.iter_modules(bench.__path__)}
    assert modules == set(QUESTIONS) | PARTS


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_asks_in_its_docstring_and_answers_with_results(question: str) -> None:
    module = module_of(question)
    first = (module.__doc__ or "").partition("\n")[0]
    assert first.endswith("?"), first
    assert isinstance(module.QUESTION, str)
    signature = inspect.signature(module.answers)
    assert not signature.parameters
    assert signature.return_annotation == list[Result]


def test_no_two_questions_have_the_same_name() -> None:
    assert len(set(names())) == len(QUESTIONS)


def test_no_two_agents_of_the_bench_have_the_same_name() -> None:
    """All questions run in one process, where a cold resume finds its agent by name."""
    found: dict[str, set[str]] = {}
    for module in pkgutil.iter_modules(bench.__path__):
        for value in vars(module_of(module.name)).values():
            if isinstance(value, midcourse.Agent):
                one = cast("midcourse.Agent[object]", value)
                found.setdefault(one.name, set()).add(one.origin)
    assert {name: origins for name, origins in found.items() if len(origins) > 1} == {}
    assert found


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_been_answered(question: str) -> None:
    lines = [one for one in saved() if one.question == module_of(question).QUESTION]
    assert lines
    for line in lines:
        assert line.unit
        assert line.repeats > 0
        assert line.versions.keys() == versions().keys()
        assert (line.floor is None) == (not line.floor_is)
    assert len({line.case for line in lines}) == len(lines)


def test_no_answer_is_left_of_a_question_that_is_no_longer_asked() -> None:
    order = [one.question for one in saved()]
    assert list(dict.fromkeys(order)) == names()


def test_the_table_in_the_readme_is_the_one_of_the_results() -> None:
    _, _, rest = readme.README.read_text().partition(readme.BEGIN)
    shown, end, _ = rest.partition(readme.END)
    assert end
    assert shown.strip() == readme.generated(saved())


def test_the_readme_names_every_question() -> None:
    text = readme.README.read_text()
    assert [question for question in QUESTIONS if f"`{question}.py`" not in text] == []


def test_a_result_is_judged_by_the_numbers_of_the_design() -> None:
    def verdict(ours: float, must: float | None, aim: float | None) -> str:
        return Result("q", "c", ours, "ms", 1, must=must, aim=aim).verdict

    assert verdict(1, None, None) == ""
    assert verdict(1, 10, 1) == "aim"
    assert verdict(2, 10, 1) == "must"
    assert verdict(11, 10, 1) == "MISSED"
    assert verdict(2, 10, None) == "must"
    assert verdict(2, None, 1) == "not the aim"


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(200)]
    assert percentile(values, 0.99) == 198.0
    assert percentile([3.0], 0.99) == 3.0


def test_a_row_shows_peers_where_there_are_any_and_no_ratio_to_a_floor_of_zero() -> None:
    result = Result("q", "c", 2.0, "ms", 1, floor=0.0, floor_is="nothing", peers={"another": 4.0})
    assert cells(result) == ("q", "c", "", "2 ms", "0 ms", "", "another 4 ms", "", "", "")
    assert "another 4 ms" in table([result])
