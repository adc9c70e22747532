"""Lets pytest explain the asserts of the suites it runs here."""

import pytest

pytest.register_assert_rewrite("midcourse.testing")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have counted and people want to read, also when they pass (``record_property("told", …)``)."""
    for report in terminalreporter.stats.get("passed", ()):
        for name, sentence in report.user_properties:
            if name == "told":
                terminalreporter.write_line(str(sentence))
