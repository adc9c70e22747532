"""Reports on recorded sessions, and backtests of policies on recorded runs."""
