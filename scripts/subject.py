"""Refuse a commit subject that is over 72 characters or says nothing. A hook of the stage ``commit-msg``."""

import re
import sys
from pathlib import Path
from typing import Final

LIMIT: Final = 72
EMPTY: Final = re.compile(r"(wip|fix(es|up)?|lint|format|types|more|work in progress)\W*", re.IGNORECASE)


def fault(subject: str) -> str:
    """Return what is wrong with a subject, or nothing."""
    if len(subject) > LIMIT:
        return f"The subject has {len(subject)} characters, {len(subject) - LIMIT} too many: shorten it."
    if EMPTY.fullmatch(subject):
        return f"'{subject}' says nothing to a stranger: say what the commit does, as in 'Refuse a late resume'."
    return ""


if __name__ == "__main__":
    sys.exit(fault(Path(sys.argv[1]).read_text().partition("\n")[0]))
