"""One adapter per agent framework, the same shape in each."""
