"""One file per command: parse, call one stage, hand the result to ui, exit."""
