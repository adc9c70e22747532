"""Views of sessions that others can read without Midcourse."""
