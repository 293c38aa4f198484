"""`python -m t1cli.embedded RUN_DIR [--resume]`: the campaign of a prepared run directory, in a process of its own."""

from __future__ import annotations

import sys

from t1cli.launch.campaign_process import detached_main
from t1cli.launch.embedded_backend import run_embedded

if __name__ == "__main__":
    sys.exit(detached_main(sys.argv[1:], run_embedded))
