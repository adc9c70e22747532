"""The stores of sessions: SQLite, in memory for tests, in a file for everything on one machine."""
