"""Report on interruptions: facts of each session, rates against targets, a checklist, a review of thresholds."""
