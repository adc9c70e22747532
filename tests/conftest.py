"""Lets pytest explain the asserts of the suites it runs here."""

import pytest

pytest.register_assert_rewrite("midcourse.testing")
