"""Control from outside: real second processes on one SQLite file."""
