"""The real clock takes its chance from the machine, not from the generator that a program may seed."""

import random

from midcourse.clock import SystemClock


def test_a_seed_of_the_program_does_not_make_all_workers_wait_equally_long() -> None:
    random.seed(0)
    first = SystemClock().random()
    random.seed(0)
    assert SystemClock().random() != first


def test_the_clock_leaves_the_programs_generator_alone() -> None:
    before = random.getstate()
    assert 0 <= SystemClock().random() < 1
    assert random.getstate() == before


def test_a_clock_that_a_program_builds_on_this_one_needs_not_begin_it() -> None:
    class Later(SystemClock):
        def __init__(self) -> None:
            self.skipped = 60.0

    assert 0 <= Later().random() < 1
