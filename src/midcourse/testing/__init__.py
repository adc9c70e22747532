from midcourse.testing.clock import FakeClock

__all__ = ["FakeClock"]
