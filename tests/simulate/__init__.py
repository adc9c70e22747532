"""A deterministic simulation: workers, people and agents in one thread, with every choice from one seed."""
