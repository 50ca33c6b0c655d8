"""What all pages of the panel share: templates, languages, notices, forms, and the headers that keep scripts out."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from app import __version__
from app.chat.payload import dumps
from app.config.edited_file import EditConflictError
from app.errors import BadRequestError, VcpError, both
from app.extend import Access, DeclaredRoute, PageGroup, PanelPage, SearchHit
from app.protocol.markers import FATAL_ERROR
from app.services import Services
from app.web.body import ClientGoneError, read_body
from app.web.panel.language import in_language, language_of, theme_of
from app.web.panel.markdown import Renderer
from app.web.panel.numbers import duration, number, size
from app.web.panel.static import Assets

log = logging.getLogger(__name__)

URL = "/AdminPanel"
TEMPLATES = Path(__file__).parent / "templates"
FORM_LIMIT = 2 * 1024 * 1024
"""Bytes of a form. Larger texts are saved through ``/admin_api``."""

MAX_FIELDS = 2000

GROUPS = {
    PageGroup.OVERVIEW: ("概览", "Overview"),
    PageGroup.CHAT: ("对话", "Chat"),
    PageGroup.PROMPTS: ("提示词", "Prompts"),
    PageGroup.TOOLS: ("工具", "Tools"),
    PageGroup.MEMORY: ("记忆", "Memory"),
    PageGroup.SYSTEM: ("系统", "System"),
}
"""The groups of the navigation, in both languages."""

Answer = Callable[[Request], Awaitable[Response]]


class PanelPart(Protocol):
    """A part of the panel: its pages and their routes. ``PARTS`` in ``parts.py`` lists all.

    A part may have ``async def find(words, limit) -> Sequence[SearchHit]`` for the search of the top bar.
    """

    def pages(self) -> Sequence[PanelPage]:
        """Its entries of the navigation."""
        ...

    def routes(self) -> Sequence[DeclaredRoute]:
        """Its routes, below ``/AdminPanel/``, with ``Access.ADMIN``."""
        ...


def panel_route(path: str, answer: Answer, *methods: str) -> DeclaredRoute:
    """A route of the panel for these methods (none: GET); ``path`` stands below ``/AdminPanel``."""
    return DeclaredRoute(Route(f"{URL}{path}", answer, methods=list(methods or ("GET",))), Access.ADMIN)


class Panel:
    """The frame. ``pages`` gives all entries of the navigation of now."""

    def __init__(self, services: Services, assets: Assets, pages: Callable[[], Sequence[PanelPage]]) -> None:
        self.services = services
        self.assets = assets
        self._pages = pages
        self.markdown = Renderer()
        self._templates = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters |= {"json": _json, "markdown": self.markdown}
        self._templates.globals |= {
            "asset": assets.address,
            "url": URL,
            "version": __version__,
            "size": size,
            "number": number,
            "duration": duration,
        }

    def language(self, request: Request) -> str:
        """``zh`` or ``en``."""
        return language_of(request)

    def navigation(self) -> Mapping[PageGroup, Sequence[PanelPage]]:
        """All pages by their groups, in order."""
        found = sorted(self._pages(), key=lambda page: (page.order, page.path))
        return {group: [page for page in found if page.group is group] for group in PageGroup}

    def page(self, request: Request, template: str, page: str, *, status: int = 200, **values: Any) -> Response:
        """A whole page; ``page`` is the path of the ``PanelPage`` that is current in the navigation."""
        nonce = secrets.token_urlsafe(16)
        frame = {"current": page, "navigation": self.navigation(), "groups": GROUPS, "nonce": nonce}
        return self._html(self._render(request, template, {**frame, **values}), status, nonce)

    def fragment(self, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
        """A piece of a page, for htmx."""
        return self._html(self._render(request, template, values), status, "")

    def told(
        self,
        request: Request,
        chinese: str,
        english: str,
        *,
        status: int = 200,
        kind: str = "ok",
        events: Mapping[str, Any] | None = None,
    ) -> Response:
        """Only a notice; ``events`` are started on the page (``HX-Trigger``) and carry JSON."""
        text = chinese if self.language(request) == "zh" else english
        answer = self.fragment(request, "parts/notice.html", status=status, kind=kind, text=text)
        answer.headers["HX-Retarget"] = "#notices"
        answer.headers["HX-Reswap"] = "beforeend"
        if events:
            answer.headers["HX-Trigger"] = dumps(dict(events)).decode("ascii", "backslashreplace")
        return answer

    async def form(self, request: Request) -> Mapping[str, str]:
        """The fields of a form, the last of each name; raises BadRequestError and BodyTooLargeError."""
        return dict(await self.fields(request))

    async def fields(self, request: Request) -> Sequence[tuple[str, str]]:
        """The fields of a form in their order, names may come again; raises BadRequestError and BodyTooLargeError."""
        try:
            data = await read_body(request.scope, request.receive, FORM_LIMIT)
        except ClientGoneError:
            data = b""
        try:
            return parse_qsl(
                data.decode("utf-8"), keep_blank_values=True, strict_parsing=bool(data), max_num_fields=MAX_FIELDS
            )
        except (UnicodeDecodeError, ValueError):
            raise BadRequestError(both("表单无法读取", "the form cannot be read")) from None

    def guarded(self, answer: Answer) -> Answer:
        """``answer``, whose errors become a notice for htmx and a page for everybody else."""

        async def safe(request: Request) -> Response:
            try:
                return await answer(request)
            except EditConflictError as error:
                return self._failed(request, error.message, error.status)
            except VcpError as error:
                return self._failed(request, error.message, error.status)
            except OSError as fault:
                why = fault.strerror or fault
                return self._failed(request, both(f"磁盘操作失败：{why}", f"the disk refused: {why}"), 500)
            except Exception:  # the boundary of the web: a page that fails says so and hurts no other
                log.exception("page %s of the panel failed", request.scope["path"])
                return self._failed(request, FATAL_ERROR, 500)

        return safe

    def missing(self, request: Request) -> Response:
        """The page, or the notice, of an address that nothing has."""
        return self._failed(request, both("没有这个页面", "there is no such page"), 404)

    def _failed(self, request: Request, message: str, status: int) -> Response:
        message = in_language(message, self.language(request))
        if "hx-request" in request.headers:
            return self.told(request, message, message, status=status, kind="bad")
        return self.page(request, "error.html", "-", status=status, message=message, code=status)

    def _render(self, request: Request, template: str, values: Mapping[str, Any]) -> str:
        language = self.language(request)
        texts = {
            "language": language,
            "theme": theme_of(request),
            "t": (lambda chinese, english: chinese) if language == "zh" else (lambda chinese, english: english),
            "told": lambda text: in_language(text, language),
            "when": self._when,
            "here": request.scope["path"],
        }
        return self._templates.get_template(template).render(**texts, **values)

    def _when(self, moment: float | datetime | None, *, seconds: bool = True) -> Markup:
        """A moment in the server's zone, or a dash: also for one that is beyond the calendar, as a file may say."""
        if moment is None:
            return Markup("–")
        zone = self.services.config.zone
        try:
            at = (datetime.fromtimestamp(moment, zone) if isinstance(moment, int | float) else moment).astimezone(zone)
        except (ValueError, OverflowError, OSError):
            return Markup("–")
        shown = f"{at:%Y-%m-%d %H:%M:%S}" if seconds else f"{at:%Y-%m-%d %H:%M}"
        return Markup('<time datetime="{}">{}</time>').format(at.isoformat(timespec="seconds"), shown)

    def _html(self, text: str, status: int, nonce: str) -> Response:
        return HTMLResponse(text, status, page_headers(nonce))


def page_headers(nonce: str = "") -> dict[str, str]:
    """The headers of everything that a browser may show as a page: only our own files, in no frame, never kept.

    ``nonce`` lets the editor, which makes its style sheets itself, bring them.
    """
    style = f"'self' 'nonce-{nonce}'" if nonce else "'self'"
    policy = (
        f"default-src 'none'; script-src 'self'; style-src {style}; img-src 'self' data: blob:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def _json(value: Any) -> Markup:
    """A value for a ``<script type="application/json">``: nothing in it can end that element."""
    text = dumps(value).decode("utf-8")
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


async def search_hits(parts: Sequence[PanelPart], words: str, limit: int) -> Sequence[SearchHit]:
    """What the parts that can search have found, at most ``limit`` of each; one that fails is logged and left out."""
    found: list[SearchHit] = []
    for part in parts:
        find = getattr(part, "find", None)
        if find is None:
            continue
        try:
            found += (await find(words, limit))[:limit]
        except (VcpError, OSError) as fault:
            log.warning("%s could not search: %s", type(part).__name__, fault)
    return found
