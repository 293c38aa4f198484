"""IN: a name, an owner and limits. OUT: a live sandbox that runs commands. Knows no task, reward or model."""
