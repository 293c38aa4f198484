"""A sandbox pool over HTTP. IN: a local provider. OUT: leases that queue fairly, and a provider that uses them."""
