"""Lets ``python -m midcourse`` do what the ``midcourse`` command does."""

from midcourse.cli import main

if __name__ == "__main__":
    main()
