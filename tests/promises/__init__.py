"""The promises of the design, each a named test on every store."""
