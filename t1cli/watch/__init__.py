"""IN: a run directory or any metric source. OUT: alerts and diagnoses. Never starts a campaign."""
