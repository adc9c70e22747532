"""What the outside can see of a running process: metrics for Prometheus, spans for OpenTelemetry.

Neither library is needed to run agents: ``metrics`` needs what the extra ``server`` brings, ``spans`` the extra
``otel``.
"""
