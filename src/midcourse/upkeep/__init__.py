"""Erasure and restore of what a store keeps."""
