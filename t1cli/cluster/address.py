"""Where a cluster's job server is and how a client proves who it is; neither is left to Ray's defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from t1cli.errors import BadInput

AuthMode = Literal["disabled", "token"]
AUTH_VARIABLE: Final = "RAY_AUTH_MODE"
_TOKEN_VARIABLES: Final = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_ADDRESS_VARIABLES: Final = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
_FORMS: Final = "`http://HOST:8265` (the dashboard), `HOST:6379` (the head), or `ray://HOST:10001`"


@dataclass(frozen=True)
class ClusterAddress:
    """A cluster as the user named it."""

    text: str
    """`http(s)://…`, `ray://…`, `host:port` or `auto`."""
    source: str
    """Where it was named: `engine.ray_address` or an environment variable."""

    @property
    def is_url(self) -> bool:
        """Whether it is the job server's own address, so that nothing has to be looked up."""
        return self.text.startswith(("http://", "https://"))


def cluster_address(named: str | None, environment: Mapping[str, str] | None = None) -> ClusterAddress | None:
    """The spec's address, else RAY_API_SERVER_ADDRESS, else RAY_ADDRESS; None when no cluster is named.

    Raises BadInput for a form that is none of Ray's.
    """
    environment = os.environ if environment is None else environment
    if named:
        return _checked(ClusterAddress(named.rstrip("/"), "engine.ray_address"))
    for variable in _ADDRESS_VARIABLES:
        if value := environment.get(variable):
            return _checked(ClusterAddress(value.rstrip("/"), variable))
    return None


def auth_mode(environment: Mapping[str, str] | None = None, home: Path | None = None) -> AuthMode:
    """RAY_AUTH_MODE when it says something; else `token` where a token is at hand, else `disabled`.

    Ray's own rule differs between head and client, so that a client without the variable may be turned away by a head
    that found a token in its user's home.
    """
    environment = os.environ if environment is None else environment
    said = environment.get(AUTH_VARIABLE, "").lower()
    if said in ("disabled", "token"):
        return "token" if said == "token" else "disabled"
    token_file = (home or Path.home()) / ".ray" / "auth_token"
    return "token" if any(environment.get(name) for name in _TOKEN_VARIABLES) or token_file.is_file() else "disabled"


def _checked(address: ClusterAddress) -> ClusterAddress:
    text = address.text
    if text == "auto":
        return address
    parts = urlsplit(text if "://" in text else f"//{text}")
    try:
        whole = bool(parts.hostname) and (parts.port is not None or parts.scheme in ("http", "https"))
    except ValueError:
        whole = False
    if not whole or parts.scheme not in ("", "http", "https", "ray"):
        raise BadInput(f"`{text}` is no address of a Ray cluster: expected {_FORMS}", where=address.source)
    if parts.username or parts.password:
        raise BadInput("an address must not carry a password: it would be recorded", where=address.source)
    return address
