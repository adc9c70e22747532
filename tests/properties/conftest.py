"""Property tests take the time they take; what bounds them is their number of examples."""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "midcourse",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # Without `explain`, which traces every line on Python 3.11 and would take longer than a test may.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
settings.load_profile("midcourse")
