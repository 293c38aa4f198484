"""What holds for every test: properties are judged by what they show, never by how long a busy machine took."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("t1", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("t1")
