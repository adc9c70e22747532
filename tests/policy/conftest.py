"""Fixtures of the policy's tests; its properties take the time they take."""

from hypothesis import HealthCheck, Phase, settings

from tests.promises.harness import place

__all__ = ["place"]

settings.register_profile(
    "policy",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # Without `explain`, which traces every line on Python 3.11 and would take longer than a test may.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
settings.load_profile("policy")
