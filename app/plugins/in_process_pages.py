"""Pages that in-process plugins add to the panel: checked when the plugin is loaded, made within its limits."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.errors import both
from app.extend import PageVisit, PanelPage, PluginPage
from app.plugins.in_process_modules import PluginCodeError
from app.plugins.in_process_shelves import Owner

PAGES_LIMIT = 20
"""Most pages of one plugin."""
CONTENT_CHARS = 2_000_000
"""Most characters of a page."""

_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class OwnedPage:
    """A plugin's page, with the address that it has in the panel."""

    plugin: str
    page: PanelPage
    declared: PluginPage
    owner: Owner

    async def content(self, visit: PageVisit) -> str:
        """The HTML of the page; raises VcpError for whatever goes wrong in the plugin."""
        html = await self.owner.run_source(self.declared.content, visit, what="pages")
        if not isinstance(html, str) or len(html) > CONTENT_CHARS:
            raise PluginCodeError(
                both(
                    f"插件 {self.plugin} 的页面必须是不超过 {CONTENT_CHARS} 个字符的文本",
                    f"a page of plugin {self.plugin} must be a text of at most {CONTENT_CHARS} characters",
                )
            )
        return html


def checked_pages(plugin: str, owner: Owner, declared: object) -> tuple[OwnedPage, ...]:
    """What ``pages()`` returned, in the plugin's name; raises PluginCodeError when one cannot be shown."""
    if not isinstance(declared, list | tuple) or len(declared) > PAGES_LIMIT:
        raise PluginCodeError(
            both(
                f"pages() 必须返回最多 {PAGES_LIMIT} 个 PluginPage 的列表",
                f"pages() must return a list of at most {PAGES_LIMIT} PluginPage",
            )
        )
    found: dict[str, OwnedPage] = {}
    for one in declared:
        path = one.page.path if isinstance(one, PluginPage) else ""
        if not isinstance(one, PluginPage) or not _PATH.fullmatch(path) or path in found:
            raise PluginCodeError(
                both(
                    f"pages() 中的 {path!r} 无效：需要 PluginPage，路径为字母、数字、- 和 _，且不重复",
                    f"{path!r} of pages() is no PluginPage with a path of its own made of letters, digits, - and _",
                )
            )
        entry = one.page
        address = f"plugin-pages/{plugin}/{path}"
        page = PanelPage(address, entry.group, entry.chinese, entry.english, entry.order, entry.words)
        found[path] = OwnedPage(plugin, page, one, owner)
    return tuple(found.values())
