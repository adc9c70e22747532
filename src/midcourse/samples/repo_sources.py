"""The sources that ``repo-fixer`` works on: a small web shop, generated, with its tests and a vendored client.

Two things are the matter with it. 47 files name a parameter ``timeout`` that a rename would reach, and the client that
they call is vendored and keeps that name. And a session that has expired counts as valid, while a fresh one does not.
"""

from typing import Final

RESOURCES: Final = (
    *("accounts", "addresses", "adverts", "articles", "baskets", "brands", "bundles", "campaigns", "carriers", "carts"),
    *(
        "catalogs",
        "claims",
        "countries",
        "coupons",
        "currencies",
        "deliveries",
        "discounts",
        "exports",
        "gifts",
        "images",
    ),
    *("imports", "invoices", "labels", "languages", "ledgers", "letters", "margins", "offers", "orders", "parcels"),
    *("payments", "pictures", "prices", "products", "profiles", "receipts", "refunds", "regions", "returns", "reviews"),
    "stocks",
)
"""41 modules of the shop; with 6 modules of tests they are the 47 files."""

_RESOURCE: Final = '''"""{title} of the shop."""

from vendor.client import Client


def load(client: Client, number: int, timeout: float = 5.0) -> dict[str, object]:
    """One of the {name}, waiting up to ``timeout`` seconds."""
    return client.get(f"/{name}/{{number}}", timeout=timeout)
'''
_RESOURCE_TESTS: Final = '''"""Tests of {first} to {last}."""

from shop import {modules}
from vendor.client import Client


def test_each_is_loaded() -> None:
    client = Client()
    for module in ({modules},):
        assert module.load(client, 7, timeout=1.0)["status"] == 200
'''
_CLIENT: Final = '''"""A client for the shop's API. Vendored: it comes from elsewhere, and is not edited here."""


class Client:
    """Answers every request, as long as it is asked properly."""

    def get(self, path: str, *, timeout: float) -> dict[str, object]:
        return {"status": 200 if timeout > 0 else 408, "path": path}
'''
_RUN: Final = '''"""Runs the tests of a suite, ``api`` or ``login``: python tests/run.py api"""

import importlib
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE.parent)]
suite = sys.argv[1]
failed = count = 0
for path in sorted((HERE / suite).glob("test_*.py")):
    try:
        module = importlib.import_module(f"tests.{suite}.{path.stem}")
        tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    except Exception:
        tests = []
        failed, count = failed + 1, count + 1
        print(f"FAILED {path.name}: {traceback.format_exc().splitlines()[-1]}")
    for test in tests:
        count += 1
        try:
            test()
        except Exception as error:
            failed += 1
            print(f"FAILED {path.name} {test.__name__}: {type(error).__name__}: {error}")
print(f"{count - failed} of {count} passed")
sys.exit(1 if failed else 0)
'''

_LOGIN: Final = {
    "src/auth/__init__.py": '"""Who is who."""\n',
    "src/auth/login.py": '''"""Logs people in: a fresh session, or the one they have."""

from auth import session, tokens
from pool import connections

ATTEMPTS = 2


def login(user: str, now: float, known: session.Session | None = None) -> session.Session:
    """The session of ``user``; raises if there is no end to it."""
    for _ in range(ATTEMPTS):
        found = known or session.Session(user, now + session.LIFETIME, tokens.make(user))
        if session.is_valid(found, now):
            with connections.acquire() as connection:
                connection.touch(user)
            return found
        known = None
    raise RuntimeError(f"login of {user} loops: no session stays valid while it waits for a connection")
''',
    "src/auth/session.py": '''"""A session: whose it is, and until when."""

from dataclasses import dataclass

LIFETIME = 1800
CLOCK_SKEW = 30


@dataclass(frozen=True)
class Session:
    user: str
    expires_at: float
    token: str


def is_valid(session: Session, now: float) -> bool:
    """Return whether it has not expired."""
    return session.expires_at < now
''',
    "src/auth/tokens.py": '''"""Tokens of sessions."""

LENGTH = 24


def make(user: str) -> str:
    return (user * LENGTH)[:LENGTH]
''',
    "tests/login/test_login.py": '''"""People can log in, and stay so until their session is over."""

from auth.login import login
from auth.session import LIFETIME, Session, is_valid


def test_a_person_can_log_in() -> None:
    assert login("ann", now=1000.0).user == "ann"


def test_a_session_ends() -> None:
    assert not is_valid(Session("ann", 1000.0, ""), now=1000.0 + LIFETIME)
''',
}
_POOL: Final = (("connections", "SIZE", 4), ("health", "EVERY", 30), ("limits", "WAITERS", 16), ("reaper", "IDLE", 60))
_ORM: Final = (
    *("batches", "cache", "columns", "cursors", "fields", "filters", "hydrate", "identity", "joins", "loader"),
    *("mapper", "query", "relations", "schema"),
)
_CONNECTIONS: Final = '''"""Connections to the database, shared."""

from collections.abc import Iterator
from contextlib import contextmanager

from orm.mapper import Row

SIZE = 4


class Connection:
    def touch(self, user: str) -> Row:
        return Row(user)


@contextmanager
def acquire() -> Iterator[Connection]:
    yield Connection()
'''


def sources() -> dict[str, str]:
    """Return every file of the repository, by its path."""
    files = {
        "README.md": "# Shop\n\nTests: `python tests/run.py api` and `python tests/run.py login`.\n",
        ".gitignore": "__pycache__/\n",
        "vendor/__init__.py": "",
        "vendor/client.py": _CLIENT,
        "src/shop/__init__.py": '"""The shop."""\n',
        "tests/__init__.py": "",
        "tests/api/__init__.py": "",
        "tests/login/__init__.py": "",
        "tests/run.py": _RUN,
        **_LOGIN,
    }
    for name in RESOURCES:
        files[f"src/shop/{name}.py"] = _RESOURCE.format(title=name.capitalize(), name=name)
    for number in range(6):
        part = RESOURCES[number * 7 : number * 7 + 7]
        files[f"tests/api/test_{part[0]}.py"] = _RESOURCE_TESTS.format(
            first=part[0], last=part[-1], modules=", ".join(part)
        )
    files["src/pool/__init__.py"] = '"""Connections."""\n'
    for name, constant, value in _POOL[1:]:
        files[f"src/pool/{name}.py"] = f'"""The pool\'s {name}."""\n\n{constant} = {value}\n'
    files["src/pool/connections.py"] = _CONNECTIONS
    files["src/orm/__init__.py"] = '"""Rows as objects."""\n'
    for number, name in enumerate(_ORM):
        files[f"src/orm/{name}.py"] = f'"""The {name} of the mapper."""\n\nCHUNK = {50 + 10 * number}\nLAZY = True\n'
    files["src/orm/mapper.py"] += (
        "\n\nclass Row:\n    def __init__(self, name: str) -> None:\n        self.name = name\n"
    )
    return files
