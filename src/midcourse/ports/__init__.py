"""What the runtime needs from the world, as protocols."""
