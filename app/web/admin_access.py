"""Who may come in as an administrator: HTTP Basic with limited attempts, and no other site's writes (spec 1.3; B18)."""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_network
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response

from app.errors import both
from app.web.errors import admin_error

log = logging.getLogger(__name__)

FAILURES = 5
WINDOW_SECONDS = 900.0
BLOCK_SECONDS = 1800.0
MAX_ADDRESSES = 10_000
MAX_COOKIE_CHARS = 8192
MAX_HEADER_CHARS = 4096
"""Longest ``Authorization`` header that is looked into."""

LOGIN_PATH = "/AdminPanel/login"
STATIC_PREFIX = "/adminpanel/static/"
"""Where the panel's own files are, in small letters: everybody may read them, the login page needs some."""

_SAFE_METHODS = frozenset({"GET", "HEAD"})


def cookie_name(port: int) -> str:
    """The cookie of a login. Servers on several ports of one machine would else share theirs and log each other out."""
    return f"vcp_admin_{port}"


@dataclass(slots=True)
class _Record:
    failures: int = 0
    since: float = 0.0
    blocked_until: float = 0.0


class LoginAttempts:
    """Wrong credentials by address: five within fifteen minutes of the first block for thirty; success clears.

    Addresses of IPv6 count by their /64, which is what one client has: 2^64 of them to try from.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def blocked_for(self, address: str) -> float:
        """Seconds until this address may try again; 0 when it may now."""
        record = self._records.get(_source(address))
        return 0.0 if record is None else max(0.0, record.blocked_until - self._clock())

    def failed(self, address: str) -> None:
        """Count wrong credentials."""
        now = self._clock()
        address = _source(address)
        record = self._records.get(address)
        if record is None or record.blocked_until or now - record.since > WINDOW_SECONDS:
            record = self._records[address] = _Record(since=now)
        self._records.move_to_end(address)
        record.failures += 1
        if record.failures >= FAILURES:
            record.blocked_until = now + BLOCK_SECONDS
            log.warning("address %s may not log in for %d s after %d wrong passwords", address, BLOCK_SECONDS, FAILURES)
        while len(self._records) > MAX_ADDRESSES:
            self._records.popitem(last=False)

    def succeeded(self, address: str) -> None:
        """Forget what was wrong before."""
        self._records.pop(_source(address), None)

    def blocked(self) -> list[tuple[str, float]]:
        """The addresses that may not try now, and for how many seconds, the longest first."""
        now = self._clock()
        waiting = [(address, record.blocked_until - now) for address, record in self._records.items()]
        return sorted(((address, left) for address, left in waiting if left > 0), key=lambda one: -one[1])

    def blocked_addresses(self) -> int:
        """How many addresses may not try now."""
        now = self._clock()
        return sum(record.blocked_until > now for record in self._records.values())


def _source(address: str) -> str:
    """What attempts from this address count for; what ``blocked`` lists stays as it is."""
    if ":" not in address or "/" in address:
        return address
    try:
        return str(ip_network(f"{address.partition('%')[0]}/64", strict=False))
    except ValueError:
        return address


class AdminAccess:
    """The check of administrators: a login of the panel, or HTTP Basic.

    ``credentials`` gives the name and the password of now; while one of them is empty nobody comes in (P72, D86). Only
    wrong credentials count as an attempt, missing ones do not (D85). ``logged_in`` says whether the token of a login
    holds, ``port`` names its cookie.
    """

    def __init__(
        self,
        credentials: Callable[[], tuple[str, str]],
        clock: Callable[[], float],
        logged_in: Callable[[str], bool] = lambda _token: False,
        port: Callable[[], int] = lambda: 0,
    ) -> None:
        self._credentials = credentials
        self._logged_in = logged_in
        self._port = port
        self.attempts = LoginAttempts(clock)

    def by_login(self, headers: Headers) -> bool:
        """Whether this request bears a login that holds."""
        cookies = cookie_parser(headers.get("cookie", "")[:MAX_COOKIE_CHARS])
        return self._logged_in(cookies.get(cookie_name(self._port()), ""))

    def refusal(self, path: str, method: str, headers: Headers, address: str) -> Response | None:
        """None for an administrator, else the answer."""
        if path.lower().startswith(STATIC_PREFIX) and method in _SAFE_METHODS:
            return None
        name, password = self._credentials()
        as_json = path.startswith("/admin_api") or "application/json" in headers.get("accept", "").lower()
        if not name or not password:
            explained = both(
                "请在 config.env 中设置 AdminUsername 和 AdminPassword",
                "set AdminUsername and AdminPassword in config.env",
            )
            title = "Service Unavailable: Admin credentials not configured."
            return admin_error(503, title, explained, as_json=as_json)
        by_login = path != LOGIN_PATH and self.by_login(headers)
        if path != LOGIN_PATH and not by_login:
            refusal = self._without_login(path, method, headers, address, (name, password), as_json=as_json)
            if refusal is not None:
                return refusal
        if method not in _SAFE_METHODS and not _from_own_pages(headers, by_login=by_login):
            explained = both("拒绝其他网站发起的请求", "requests of other sites change nothing here")
            return admin_error(403, "Forbidden", explained, as_json=as_json)
        return None

    def _without_login(
        self, path: str, method: str, headers: Headers, address: str, right: tuple[str, str], *, as_json: bool
    ) -> Response | None:
        wait = self.attempts.blocked_for(address)
        if wait > 0:
            minutes = math.ceil(wait / 60)
            explained = both(
                f"登录失败次数过多，请在 {minutes} 分钟后重试", f"too many failures, try again in {minutes} minutes"
            )
            retry = {"Retry-After": str(math.ceil(wait))}
            return admin_error(429, "Too Many Requests", explained, as_json=as_json, headers=retry)
        given = _given(headers)
        if given is None and not as_json and _opens_page(method, headers):
            return RedirectResponse(f"{LOGIN_PATH}?{urlencode({'next': path})}", 303, {"Cache-Control": "no-store"})
        if given is None or not _right(given, *right):
            if given is not None:
                self.attempts.failed(address)
            if "hx-request" in headers:  # a piece of a page whose login has ended: the whole page goes there
                return Response(status_code=401, headers={"HX-Redirect": LOGIN_PATH})
            own_page = headers.get("sec-fetch-site", "").lower() == "same-origin"
            challenge = {} if own_page else {"WWW-Authenticate": 'Basic realm="Admin Panel"'}
            explained = both("需要管理员用户名和密码", "the administrator's name and password are needed")
            return admin_error(401, "Unauthorized", explained, as_json=as_json, told=False, headers=challenge)
        self.attempts.succeeded(address)
        return None


def _opens_page(method: str, headers: Headers) -> bool:
    """True when a person's browser is about to show what it gets here."""
    if method not in _SAFE_METHODS or "hx-request" in headers:
        return False
    mode = headers.get("sec-fetch-mode")
    return mode == "navigate" if mode is not None else "text/html" in headers.get("accept", "").lower()


def _given(headers: Headers) -> bytes | None:
    """Name, colon and password as they were sent; empty when they cannot be read, None when there are none."""
    scheme, _, value = headers.get("authorization", "")[:MAX_HEADER_CHARS].partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(value.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _right(given: bytes, name: str, password: str) -> bool:
    sent_name, _, sent_password = given.partition(b":")
    name_right = hmac.compare_digest(sent_name, name.encode("utf-8", "surrogateescape"))
    password_right = hmac.compare_digest(sent_password, password.encode("utf-8", "surrogateescape"))
    return name_right & password_right


def _from_own_pages(headers: Headers, *, by_login: bool) -> bool:
    """True unless a browser says that another site's page sends this. Programs that are no browsers say nothing.

    The cookie of a login is a browser's, and every browser says where a write comes from: with it, nothing is a no.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site.lower() in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return not by_login
    try:
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""
    except ValueError:
        return False
