"""Where sessions live: in memory for tests, in a SQLite file for everything on one machine."""
