"""For those who write a store, a bus or an agent: what Midcourse's own tests are made of."""
