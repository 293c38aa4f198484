"""What several checks need is asked once; the others wait for the first one's answer or failure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Memo:
    """Answers by name, shared by the threads of one preflight."""

    def __init__(self) -> None:
        self._answers: dict[str, Future[Any]] = {}
        self._lock = threading.Lock()

    def once(self, name: str, ask: Callable[[], T]) -> T:
        """The answer of the first `ask` under this name. Raises what that one raised."""
        with self._lock:
            mine = name not in self._answers
            answer = self._answers.setdefault(name, Future())
        if mine:
            try:
                answer.set_result(ask())
            except BaseException as failure:
                answer.set_exception(failure)
        return cast(T, answer.result())
