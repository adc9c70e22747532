"""The runtime's needs from the world, as protocols."""
