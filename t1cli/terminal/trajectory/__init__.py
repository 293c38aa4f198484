"""IN: the turns of one trial. OUT: TrainingRows of equal-length ids, mask, log-probs and routing rows."""
