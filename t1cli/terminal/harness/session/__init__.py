"""IN: chat requests of any text harness. OUT: replies as text, and every turn with the exact ids behind it."""
