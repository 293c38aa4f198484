"""IN: messages and a checkpoint's tokenizer and template. OUT: ids that are only ever appended, and replies as text."""
