"""Every exception is drawn in the tree of ``errors.py``, where it belongs, and can be told by its code."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from midcourse import errors
from midcourse.errors import MidcourseError

SOURCE: Final = Path(__file__).parents[2] / "src" / "midcourse"


def defined() -> list[type[BaseException]]:
    return [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, BaseException) and kind.__module__ == errors.__name__
    ]


def drawn(docstring: str) -> Iterator[tuple[str, str, str]]:
    """Each line of the tree: the class, its parent as drawn, and what is said of it."""
    above: list[str] = []
    for line in docstring.partition("::")[2].splitlines():
        found = re.match(r"^(?P<indent>[ │├└─]*)(?P<name>\w+)(?:\((?P<parent>\w+)\))?\s+(?P<words>\S.*)$", line)
        if found is None:
            continue
        depth = (len(found["indent"]) - 4) // 4
        above = [*above[:depth], found["name"]]
        yield found["name"], found["parent"] or (above[depth - 1] if depth else "Exception"), found["words"]


def tree() -> dict[str, str]:
    return {name: parent for name, parent, _ in drawn(errors.__doc__ or "")}


def test_the_tree_names_every_exception_and_its_parent_as_drawn() -> None:
    assert tree() == {kind.__name__: kind.__bases__[0].__name__ for kind in defined()}


def test_the_tree_says_something_of_each_exception_once() -> None:
    lines = list(drawn(errors.__doc__ or ""))

    assert len({name for name, _, _ in lines}) == len(lines) == len(defined())


def test_the_tree_is_in_the_order_of_the_module() -> None:
    assert list(tree()) == [kind.__name__ for kind in defined()]


def test_every_exception_has_one_parent_and_a_docstring_of_its_own() -> None:
    for kind in defined():
        assert len(kind.__bases__) == 1, kind
        assert inspect.cleandoc(vars(kind)["__doc__"]).endswith("."), kind


def test_every_error_has_a_code_of_its_own() -> None:
    codes = Counter(vars(kind)["code"] for kind in defined() if issubclass(kind, MidcourseError))

    assert set(codes.values()) == {1}
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


def test_what_user_code_must_not_catch_is_no_exception() -> None:
    assert not issubclass(errors.InterruptRequested, Exception)
    assert not issubclass(errors.Interrupt, MidcourseError)


def test_an_error_keeps_its_sentence_its_code_and_its_facts() -> None:
    error = errors.StoreError("The id is taken.", code="session_exists", session_id="sess_42")

    assert (str(error), error.code, error.fields) == ("The id is taken.", "session_exists", {"session_id": "sess_42"})
    assert errors.StoreError.code == "store_error"


def test_no_error_that_users_see_is_defined_anywhere_else() -> None:
    known = {kind.__name__ for kind in defined()}
    elsewhere = [
        f"{path.relative_to(SOURCE)}: {node.name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name | ast.Attribute) and _name(base) in known for base in node.bases)
    ]

    assert elsewhere == []


def _name(base: ast.Name | ast.Attribute) -> str:
    return base.id if isinstance(base, ast.Name) else base.attr
