"""The APIs that ``midcourse.testing.provider`` speaks: what each hears, what it objects to, how it says a script."""
