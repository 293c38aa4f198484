"""An engine client whose calls have no time limit."""

from __future__ import annotations

import requests


class SGLangEngine:
    def __init__(self, url: str) -> None:
        self.url = url

    def _make_request(self, endpoint: str, payload: dict | None = None):
        url = f"{self.url}/{endpoint}"
        response = requests.post(url, json=payload or {})
        response.raise_for_status()
        return response.json()
