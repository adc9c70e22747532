"""What became of interruptions: facts of each session, rates against targets, a checklist, and a review of thresholds."""
