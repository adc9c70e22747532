"""One question per file: what does Midcourse cost, beside the floor, in one run on one machine."""
