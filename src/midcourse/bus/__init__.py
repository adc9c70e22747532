"""Wake-ups between workers: within one process, or between the processes of one machine."""
