"""Markdown of models, diaries and plugins as HTML for pages: no raw HTML, no script, no picture of another place."""

from __future__ import annotations

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

MAX_CHARS = 200_000
"""Longer texts are shown as they are, since no person reads them as a page."""

MAX_MARKS = 5_000
"""Texts with more characters that mark something up, or more lines, are shown as they are too: each costs time."""

MAX_CELLS = 20_000
"""The same for lines times columns: rows of a table are filled up to the width of its head."""

_MARKS = "[]*_`~|<>&!\n"

HEADINGS_BELOW = 2
"""By how much headings are lowered: the first ones of a page are the page's own."""

_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code"),
    *("em", "strong", "s", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "th": {"align"}, "td": {"align"}, "code": {"class"}}
_SCHEMES = {"http", "https", "mailto"}


class Renderer:
    """Markdown to HTML, in two steps of which each suffices: raw HTML is text, and an allow-list goes over all."""

    def __init__(self) -> None:
        self._parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
        self._parser.disable("image")  # a picture is a request to another place; it stays a link

    def __call__(self, text: str) -> Markup:
        """The text as safe HTML."""
        if _costs_too_much(text):
            return Markup("<pre>{}</pre>").format(text)
        try:
            tokens = self._parser.parse(text)
            for token in tokens:
                if token.type in ("heading_open", "heading_close"):
                    token.tag = f"h{min(6, int(token.tag[1]) + HEADINGS_BELOW)}"
            html = self._parser.renderer.render(tokens, self._parser.options, {})
        except RecursionError:
            return Markup("<pre>{}</pre>").format(text)
        clean = nh3.clean(
            html, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes=_SCHEMES, link_rel="noopener noreferrer nofollow"
        )
        return Markup(clean)


def _costs_too_much(text: str) -> bool:
    """Whether rendering would hold everybody up: a model may write anything, and a page waits for it."""
    if len(text) > MAX_CHARS or sum(map(text.count, _MARKS)) > MAX_MARKS:
        return True
    lines = text.split("\n")
    return len(lines) * max(line.count("|") for line in lines) > MAX_CELLS
