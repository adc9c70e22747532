"""Models for offline use: one that says what a script says, and a small real one that runs here."""
