"""A fault tester with real processes: workers and people on one store, and everything that can happen to them."""
