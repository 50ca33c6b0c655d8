"""A real browser at the panel of a real server: looks at every page it can reach, and says what is wrong with each."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Error, Page, Request, sync_playwright

NAME, PASSWORD = "admin", "panel-password"
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
WIDTHS = {1440: 900, 390: 844}
LANGUAGES = {"zh": "zh-CN", "en": "en-US"}
THEMES = ("light", "dark")
PAIRWISE = ((1440, "zh", "light"), (1440, "en", "dark"), (390, "zh", "dark"), (390, "en", "light"))
"""Every pair of width, language and look once."""
FULL = tuple((width, language, theme) for width in WIDTHS for language in LANGUAGES for theme in THEMES)

OF_ONE_KIND = 2
"""Pages of one kind that are visited: of a hundred notes two are enough."""

MAX_PAGE_BYTES = 300 * 1024
"""What a page and all its files may have together, before the editor (CodeMirror) is loaded."""

SERIOUS = ("serious", "critical")

Combination = tuple[int, str, str]


def chromium() -> str:
    """The browser of this machine; AssertionError when there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found is not None, "Chromium is missing; .ci/run installs it"
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """The browser, without a window."""
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=chromium(), args=[*sandbox, "--disable-gpu"])
        try:
            yield opened
        finally:
            opened.close()


@dataclass(slots=True)
class Visit:
    """A person who is logged in; ``problems`` grows with each page that is not as it should be."""

    base: str
    page: Page
    combination: Combination
    problems: list[str] = field(default_factory=list)
    visited: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    bytes: int = 0

    def open(self, path: str) -> None:
        """Go to a page and wait until it has settled."""
        self.bytes = 0
        answer = self.page.goto(self.base + path, wait_until="load")
        self.page.wait_for_timeout(150)
        assert answer is not None
        if answer.status != 200:
            self.say(path, f"status {answer.status}")

    def say(self, path: str, problem: str) -> None:
        """Note a problem of a page."""
        width, language, theme = self.combination
        self.problems.append(f"{path} [{width} {language} {theme}]: {problem}")

    def look(self, path: str, *, axe: bool) -> list[str]:
        """Open a page and check it; the addresses of the panel that it leads to."""
        self.open(path)
        self.visited.append(path)
        if self.bytes > MAX_PAGE_BYTES:
            self.say(path, f"{self.bytes} bytes with its files")
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if wide > 1:
            self.say(path, f"is {wide} pixels wider than the window")
        shown = self.page.evaluate("document.documentElement.lang")
        if shown != ("zh-CN" if self.combination[1] == "zh" else "en"):
            self.say(path, f"is in {shown}")
        if self.page.locator("h1").count() != 1:
            self.say(path, f"has {self.page.locator('h1').count()} first headings")
        if axe:
            self._check_access(path)
        links: list[str] = self.page.eval_on_selector_all("a[href]", "links => links.map(a => a.getAttribute('href'))")
        return [link.partition("#")[0] for link in links if link.startswith("/AdminPanel/")]

    def _check_access(self, path: str) -> None:
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: Any = self.page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'], resultTypes: ['violations']})"
        )
        for rule in found["violations"]:
            if rule["impact"] in SERIOUS:
                where = "; ".join(str(node["target"]) for node in rule["nodes"][:3])
                self.say(path, f"axe: {rule['id']} ({rule['impact']}) at {where}")


@contextmanager
def visiting(opened: Browser, base: str, combination: Combination) -> Iterator[Visit]:
    """Log in by the page, in one combination of width, language and look."""
    width, language, theme = combination
    context = opened.new_context(
        viewport={"width": width, "height": WIDTHS[width]},
        locale=LANGUAGES[language],
        color_scheme="dark" if theme == "dark" else "light",
        has_touch=width < 500,
    )
    try:
        page = context.new_page()
        visit = Visit(base, page, combination)
        _listen(context, page, visit)
        page.goto(f"{base}/AdminPanel/login?next=/AdminPanel/actions")
        page.fill("#username", NAME)
        page.fill("#password", PASSWORD)
        with page.expect_navigation(url="**/AdminPanel/actions"):
            page.press("#password", "Enter")
        yield visit
        for address in visit.foreign:
            visit.problems.append(f"a request to another origin: {address}")
    finally:
        context.close()


def _listen(context: BrowserContext, page: Page, visit: Visit) -> None:
    host = urlsplit(visit.base).netloc

    def console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            visit.say(
                urlsplit(page.url).path,
                f"console {message.type}: {message.text[:300]} {message.location.get('url', '')}",
            )

    def finished(request: Request) -> None:
        try:
            answer = request.response()
            if (
                answer is not None
                and "codemirror" not in request.url
                and "text/event-stream" not in str(answer.headers)
            ):
                visit.bytes += int(answer.headers.get("content-length", 0))
        except Error:
            return  # the page is gone already

    def asked(request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != host:
            visit.foreign.append(request.url)

    def dialog(opened: Dialog) -> None:
        visit.say(urlsplit(page.url).path, f"a script opened a dialog: {opened.message}")
        opened.dismiss()

    page.on("console", console)
    page.on("pageerror", lambda error: visit.say(urlsplit(page.url).path, f"error in a script: {error}"))
    page.on("dialog", dialog)
    page.on("requestfinished", finished)
    context.on("request", asked)


def crawl(visit: Visit, *, axe: bool, only: Sequence[str] = ()) -> None:
    """Visit every page of the navigation, and of each kind of page that they lead to ``OF_ONE_KIND``."""
    waiting = list(only) or ["/AdminPanel/"]
    seen: dict[str, int] = {}
    known = set(waiting)
    while waiting:
        path = waiting.pop(0)
        for link in visit.look(path, axe=axe):
            kind = kind_of(link)
            if link in known or seen.get(kind, 0) >= OF_ONE_KIND or is_file(link):
                continue
            known.add(link)
            seen[kind] = seen.get(kind, 0) + 1
            waiting.append(link)


def kind_of(link: str) -> str:
    """What pages of one kind have in common: ``/AdminPanel/notebooks/a/note/b`` and ``…/c/note/d`` are one."""
    parts = urlsplit(link)
    segments = [one for one in parts.path.split("/") if one][1:]
    shape = [segment if place % 2 == 0 else "*" for place, segment in enumerate(segments)]
    names = sorted(pair.partition("=")[0] for pair in parts.query.split("&") if pair)
    return "/".join(shape[:4]) + "?" + "&".join(names)


def is_file(link: str) -> bool:
    """True for what a browser stores and does not show."""
    path = urlsplit(link).path
    return any(word in path for word in ("/download", "/export", "/static/", "/stream", "/logout"))


def told(problems: Sequence[str]) -> str:
    """Problems for an assertion."""
    return json.dumps(problems, ensure_ascii=False, indent=1)
