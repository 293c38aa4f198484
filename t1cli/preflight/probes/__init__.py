"""What is read on a node: standard library only, plain data in and out, nothing changed. Judged elsewhere."""
