"""Where metrics are read from. A source yields rows as they appear; what it cannot read is blind, never `ok`."""
