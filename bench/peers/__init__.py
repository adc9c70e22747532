"""The same work done by the floor, by Midcourse and by other frameworks, measured in one run: ``make peers``."""
