"""Make a running process visible: metrics for Prometheus, spans for OpenTelemetry.

Neither library is needed to run agents: ``metrics`` needs the extra ``server``, ``spans`` the extra ``otel``.
"""
