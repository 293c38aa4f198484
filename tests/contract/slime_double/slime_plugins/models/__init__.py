"""A double of slime_plugins.models at v0.3.0."""
