"""M1, M2: GPU memory by the band."""

RULES = ()
