"""IN: a task, a live sandbox and an engine. OUT: the turns of one trial and why it stopped."""
