"""Logging in and out of the panel, and the choice of language and look (vcp-core 1.3; D85)."""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.errors import VcpError
from app.extend import DeclaredRoute, PanelPage
from app.web.admin_access import LOGIN_PATH, LoginAttempts, cookie_name
from app.web.gate import CLIENT_IP
from app.web.panel.frame import URL, Panel, panel_route
from app.web.panel.language import LANGUAGE_COOKIE, LANGUAGES, THEME_COOKIE, THEMES
from app.web.panel.sessions import SESSION_SECONDS, Sessions

_MAX_ADDRESS = 2000
_MAX_NAME = 200
"""Characters of a wrong name that come back into the field."""

_YEAR = 365 * 24 * 3600


class LoginPart:
    """The login page, logout, and what a browser remembers of a person's choices."""

    def __init__(self, panel: Panel, sessions: Sessions, attempts: LoginAttempts) -> None:
        self._panel = panel
        self._sessions = sessions
        self._attempts = attempts

    def pages(self) -> Sequence[PanelPage]:
        """None: nobody goes to the login page by the navigation."""
        return ()

    def routes(self) -> Sequence[DeclaredRoute]:
        """Login is open to all, the gate knows that; the others are the administrators'."""
        return (
            panel_route(LOGIN_PATH.removeprefix(URL), self._show),
            panel_route(LOGIN_PATH.removeprefix(URL), self._log_in, "POST"),
            panel_route("/logout", self._log_out, "POST"),
            panel_route("/preferences", self._prefer, "POST"),
        )

    async def _show(self, request: Request) -> Response:
        return self._page(request, inside(request.query_params.get("next", "")))

    async def _log_in(self, request: Request) -> Response:
        try:
            form = await self._panel.form(request)
        except VcpError as error:  # the page of errors has the navigation, which is not for everybody
            return self._page(request, inside(""), status=error.status)
        target = inside(form.get("next", ""))
        address = request.scope[CLIENT_IP]
        if wait := self._attempts.blocked_for(address):
            return self._page(request, target, status=429, minutes=math.ceil(wait / 60))
        settings = self._panel.services.settings
        right = _equal(form.get("username", ""), settings.admin_username)
        right &= _equal(form.get("password", ""), settings.admin_password)
        if not right or not settings.admin_password:
            self._attempts.failed(address)
            return self._page(request, target, status=401, name=form.get("username", "")[:_MAX_NAME])
        self._attempts.succeeded(address)
        answer = RedirectResponse(target, 303)
        answer.set_cookie(
            cookie_name(self._panel.services.port),
            self._sessions.begin(),
            max_age=int(SESSION_SECONDS),
            httponly=True,
            samesite="lax",
            secure=_over_tls(request),
        )
        return answer

    async def _log_out(self, request: Request) -> Response:
        name = cookie_name(self._panel.services.port)
        self._sessions.end(request.cookies.get(name, ""))
        answer = RedirectResponse(LOGIN_PATH, 303)
        answer.delete_cookie(name)
        answer.headers["Clear-Site-Data"] = '"cache"'
        return answer

    async def _prefer(self, request: Request) -> Response:
        form = await self._panel.form(request)
        answer = RedirectResponse(inside(form.get("next", "")), 303)
        for cookie, name, known in ((LANGUAGE_COOKIE, "language", LANGUAGES), (THEME_COOKIE, "theme", THEMES)):
            if form.get(name) in known:
                answer.set_cookie(cookie, form[name], max_age=_YEAR, samesite="lax", secure=_over_tls(request))
        return answer

    def _page(self, request: Request, target: str, *, status: int = 200, name: str = "", minutes: int = 0) -> Response:
        answer = self._panel.page(
            request,
            "login.html",
            "login",
            status=status,
            target=target,
            name=name,
            minutes=minutes,
            failed=status == 401,
            unreadable=status in (400, 413),
        )
        if minutes:
            answer.headers["Retry-After"] = str(60 * minutes)
        return answer


def inside(address: str) -> str:
    """``address`` when it leads into the panel, else that of the dashboard: nobody is sent elsewhere after a login."""
    plain = address.isprintable() and "\\" not in address and len(address) <= _MAX_ADDRESS
    if not plain or not address.startswith(f"{URL}/"):
        return f"{URL}/"
    parts = urlsplit(address)
    return address if not parts.scheme and not parts.netloc and parts.path != LOGIN_PATH else f"{URL}/"


def _equal(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode("utf-8", "surrogateescape"))


def _over_tls(request: Request) -> bool:
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "").lower() == "https"
