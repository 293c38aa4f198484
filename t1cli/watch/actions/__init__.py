"""What follows from an alert: told once, delivered, a stop after a countdown, a pause, a pin, an evidence bundle."""
