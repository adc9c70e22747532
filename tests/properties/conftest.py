"""Property tests take the time they take; what bounds them is their number of examples."""

from hypothesis import HealthCheck, settings

settings.register_profile("midcourse", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("midcourse")
