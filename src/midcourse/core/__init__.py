"""Decide without the world: events, commands, the state machine. No I/O, no clock, no randomness, no await."""
