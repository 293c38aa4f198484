"""Every Ray client call t1 makes."""
