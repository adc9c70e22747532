"""The HTTP API, from its tokens to its routes."""
