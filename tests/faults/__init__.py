"""Faults put in on purpose, and the checker that says which promises held."""
