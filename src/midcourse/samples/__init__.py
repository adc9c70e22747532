"""The sample agents of the demonstration and the docs. They use the public names alone."""
