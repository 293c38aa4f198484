"""How a pool says no: a status, a code that programs read, and a sentence."""

from __future__ import annotations


class PoolRefusal(Exception):
    """An answer other than 200. `code` is one of the constants below."""

    def __init__(self, status: int, code: str, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.retry_after_seconds = retry_after_seconds


BAD_REQUEST = "BAD_REQUEST"
UNAUTHORIZED = "UNAUTHORIZED"
UNKNOWN_LEASE = "UNKNOWN_LEASE"
QUEUE_FULL = "QUEUE_FULL"
QUEUE_TIMEOUT = "QUEUE_TIMEOUT"
DRAINING = "DRAINING"
RESET_FAILED = "RESET_FAILED"
CREATE_FAILED = "CREATE_FAILED"
SANDBOX_LOST = "SANDBOX_LOST"
NO_SANDBOX = "NO_SANDBOX"
EVALUATION_FAILED = "EVALUATION_FAILED"
SERVER_TROUBLE = "SERVER_TROUBLE"
SERVER_BUG = "SERVER_BUG"


def bad_request(message: str) -> PoolRefusal:
    """A request that no repetition will make right."""
    return PoolRefusal(400, BAD_REQUEST, message)


def unknown_lease(lease_id: str) -> PoolRefusal:
    """A lease that was closed, has expired, or belongs to somebody else; the words are those of older servers."""
    return PoolRefusal(404, UNKNOWN_LEASE, f"Unknown run_lease_id: {lease_id}")
