"""``python -m tests.external.screenshots docs/images``: a picture of every page of the panel, in both languages."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import httpx

from tests.external.browser import Visit, browser, visiting
from tests.external.panel_home import shown_home
from tests.program import started

QUALITY = 72
"""Of the JPEG files; text stays sharp and a page has about 60 KB."""

SETTLE_SECONDS = 1.5
LANGUAGES = ("en", "zh")
CHOSEN = {"/AdminPanel/agents": "?file=Nova.txt", "/AdminPanel/variables": "?file=Guide.txt"}
"""What is chosen on a page that else shows a list alone."""

QUESTIONS = ("What is 12*7?", "What is sqrt(2)+1?", "hello", "What is 3^5?")


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        shown_home(home)
        with started("serve", "--port", "0", cwd=home) as program:
            base = program.base_url.removesuffix("/v1")
            _chat(base)
            with browser() as opened:
                for language in LANGUAGES:
                    with visiting(opened, base, (1440, language, "light")) as visit:
                        visit.open("/AdminPanel/")
                        links = visit.page.eval_on_selector_all(
                            "#navigation a", "links => links.map(a => a.getAttribute('href'))"
                        )
                        for link in links:
                            visit.open(link + CHOSEN.get(link, ""))
                            time.sleep(SETTLE_SECONDS)
                            if link.endswith("/playground"):
                                visit.page.fill("#message", QUESTIONS[0])
                                visit.page.press("#message", "Enter")
                                visit.page.wait_for_selector(".call .badge[data-kind=ok]")
                                visit.page.click(".call summary")
                                time.sleep(SETTLE_SECONDS)
                            name = link.removeprefix("/AdminPanel/").replace("/", "-") or "dashboard"
                            _picture(visit, folder / f"{name}.{language}.jpg")
                            if link.endswith("/traces"):
                                visit.page.click("tbody tr:last-child a")
                                time.sleep(SETTLE_SECONDS)
                                _picture(visit, folder / f"trace.{language}.jpg")


def _picture(visit: Visit, path: Path) -> None:
    visit.page.screenshot(path=path, type="jpeg", quality=QUALITY)
    print(f"{path}: {path.stat().st_size // 1024} KiB")


def _chat(base: str) -> None:
    headers = {"Authorization": "Bearer the-key-of-this-server"}
    with httpx.Client(base_url=base, headers=headers, timeout=60) as client:
        for words in QUESTIONS:
            messages = [{"role": "system", "content": "{{Nova}}"}, {"role": "user", "content": words}]
            client.post("/v1/chat/completions", json={"model": "vcp-demo", "messages": messages}).raise_for_status()


if __name__ == "__main__":
    main()
