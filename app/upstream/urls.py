"""The address of a model API, as people write it and as requests need it (D12, P35)."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from app.errors import ConfigError

VERSION = "/v1"
CHAT_PATH = "/v1/chat/completions"
MODELS_PATH = "/v1/models"

# Addresses are often copied from a curl example, together with the endpoint.
_PASTED_ENDPOINTS = ("/chat/completions", "/completions", "/embeddings", "/models")
_EXAMPLE = "write it as in API_URL=https://api.example.com"


def base_url(api_url: str) -> str:
    """The base address without ``/v1`` and without a slash at its end, so that ``base + "/v1/…"`` has one ``/v1``.

    Accepts the address with and without ``/v1``, with slashes and blanks around it, and a whole endpoint
    (``…/v1/chat/completions``). A path before ``/v1`` is kept. Raises ``ConfigError`` that names ``API_URL`` when no
    request can be made with it (D12).
    """
    text = api_url.strip()
    if not text:
        raise ConfigError(f"API_URL is empty; {_EXAMPLE}")
    parts = _split(text)
    path = parts.path.rstrip("/")
    for endpoint in _PASTED_ENDPOINTS:
        if path.endswith(endpoint):
            path = path.removesuffix(endpoint).rstrip("/")
            break
    while path.endswith(VERSION):
        path = path.removesuffix(VERSION).rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def host_of(url: str) -> str:
    """Host and port of an address, for messages: never credentials, path or query."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _split(text: str) -> SplitResult:
    """The parts of a usable address; the messages never repeat what may be a password."""
    if any(character.isspace() or not character.isprintable() for character in text):
        raise ConfigError(f"API_URL has a blank or a control character in it; {_EXAMPLE}")
    scheme, separator, _ = text.partition("://")
    if not separator:
        raise ConfigError(f"API_URL does not begin with http:// or https://; {_EXAMPLE}")
    if scheme.lower() not in ("http", "https"):
        raise ConfigError(f"API_URL begins with {scheme}://, only http:// and https:// can be used; {_EXAMPLE}")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"API_URL has a host or port that cannot be used ({error}); {_EXAMPLE}") from error
    if not host or port == 0:
        raise ConfigError(f"API_URL has no usable host or port; {_EXAMPLE}")
    if "@" in parts.netloc:
        raise ConfigError(f"API_URL has a name or password in it; put the key into API_Key and {_EXAMPLE}")
    if parts.query or parts.fragment:
        raise ConfigError(f"API_URL has a part after ? or #, which cannot be sent; {_EXAMPLE}")
    return parts
