"""The only importer of rich. IN: results of stages. OUT: text for people, or one JSON object."""
