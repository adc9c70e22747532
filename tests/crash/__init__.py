"""A child process is killed at every call of its store, then started again: the end must be the same."""
