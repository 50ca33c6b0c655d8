"""Access tokens that are JWTs: signature, issuer, audience, times (mcp.md MCP-71; RFC 7519, RFC 9068).

The library behind it takes a fifth of a second to load, so this module is imported when the first token comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jwt
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from app.extend import Json
from app.web.mcp_token_errors import ExpiredTokenError, WrongTokenError

_KEYS_OF = {
    "RS256": ("RSA", None),
    "PS256": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "EdDSA": ("OKP", "Ed25519"),
}

ALGORITHMS = tuple(_KEYS_OF)
"""Signatures that count: none without one, and none with a secret that both sides know."""

LEEWAY_SECONDS = 30
"""How far the clock of the authorization server may be off."""

MAX_KEYS = 100


def is_jwt(token: str) -> bool:
    """True for what looks like one, right or wrong."""
    if token.count(".") != 2:
        return False
    try:
        jwt.get_unverified_header(token)
    except PyJWTError:
        return False
    return True


class Keys:
    """The public keys of an authorization server."""

    def __init__(self, document: Mapping[str, Json]) -> None:
        listed = document.get("keys")
        entries = listed if isinstance(listed, list) else []
        self._keys: list[Mapping[str, Any]] = [
            entry for entry in entries[:MAX_KEYS] if isinstance(entry, Mapping) and entry.get("use", "sig") == "sig"
        ]

    def find(self, token: str) -> PyJWK | None:
        """The key that a token says it is signed with; None when there is none, WrongTokenError for bad tokens."""
        try:
            header = jwt.get_unverified_header(token)
        except PyJWTError as error:
            raise WrongTokenError(why="no JWT") from error
        algorithm, name = header.get("alg"), header.get("kid")
        if algorithm not in _KEYS_OF:
            raise WrongTokenError(why="its signature is of a kind that does not count")
        kind = _KEYS_OF[algorithm]
        fitting = [
            key
            for key in self._keys
            if (key.get("kty"), key.get("crv")) == kind and key.get("alg", algorithm) == algorithm
        ]
        if name is not None:
            fitting = [key for key in fitting if key.get("kid") == name]
        for key in fitting if name is not None or len(fitting) == 1 else ():
            try:
                return PyJWK(dict(key), algorithm)
            except PyJWTError:
                continue  # it is broken
        return None


def claims(
    token: str, key: PyJWK, *, issuers: Sequence[str], audiences: Sequence[str], now: float
) -> Mapping[str, Json]:
    """What a token says, after all of it was checked. Raises WrongTokenError, ExpiredTokenError."""
    try:
        said: dict[str, Json] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=list(audiences),
            issuer=list(issuers),
            options={
                "require": ["exp", "iss", "aud"],
                "verify_exp": False,  # by our clock, below
                "verify_nbf": False,
                "verify_iat": False,
                "enforce_minimum_key_length": True,
            },
        )
    except PyJWTError as error:
        raise WrongTokenError(why=type(error).__name__) from error
    check_times(said, now)
    return said


def check_times(said: Mapping[str, Json], now: float) -> None:
    """Raises ExpiredTokenError, and WrongTokenError for one that holds later only or whose times are no numbers."""
    for name in ("exp", "nbf", "iat"):
        value = said.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise WrongTokenError(why=f"{name} is no number")
    if said.get("exp") is not None and said["exp"] < now - LEEWAY_SECONDS:
        raise ExpiredTokenError(why="it has expired")
    if max(said.get("nbf") or 0, said.get("iat") or 0) > now + LEEWAY_SECONDS:
        raise WrongTokenError(why="it does not hold yet")
