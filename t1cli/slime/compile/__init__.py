"""IN: an ExperimentSpec and where its run goes. OUT: entry, arguments, role file, settings, environment and job.

`table.TABLE` is the one place that ties spec keys to flags; `decode` reads it the other way.
"""
