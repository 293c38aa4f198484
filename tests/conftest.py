"""What holds for every test: properties are judged by what they show, never by how long a busy machine took."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("t1", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("t1")

# A suite started in the background ignores Ctrl-C, and so would every process that its tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
