"""The promises of the store port, one module for each part of it; ``store_conformance`` puts them together."""
