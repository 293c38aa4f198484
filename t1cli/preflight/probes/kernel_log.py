"""Lines of the kernel's own log, read without waiting for more."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_RECORD_BYTES = 8192
_MOST_RECORDS = 200_000
_TOLD = 20
_RECORD = re.compile(r"^\d+,\d+,(\d+),[^;]*;(.*)")


def kernel_log(containing: Sequence[str], path: Path = Path("/dev/kmsg")) -> list[dict[str, Any]] | None:
    """The newest matching lines as {ago_seconds, text}, letters' case aside; None when the log may not be read.

    `/dev/kmsg` gives one record a read: `priority,number,microseconds since boot,flags;text`.
    """
    records = _records(path)
    if records is None:
        return None
    wanted = [text.lower() for text in containing]
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    found = []
    for record in records:
        matched = _RECORD.match(record)
        if matched and any(text in matched[2].lower() for text in wanted):
            found.append({"ago_seconds": round(since_boot - int(matched[1]) / 1e6), "text": matched[2][:300]})
    return found[-_TOLD:]


def _records(path: Path) -> list[str] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read_all(descriptor)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int) -> list[str] | None:
    records: list[str] = []
    while len(records) < _MOST_RECORDS:
        try:
            content = os.read(descriptor, _RECORD_BYTES)
        except BlockingIOError:
            break
        except BrokenPipeError:  # overwritten while it was read; the next one is still there
            continue
        except OSError:
            return records or None
        if not content:
            break
        records += content.decode(errors="replace").splitlines()
    return records
