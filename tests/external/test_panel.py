"""The panel in a real browser: every page, both languages, both looks, two widths; access, policy, hostile texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.external.browser import NAME, PAIRWISE, PASSWORD, Combination, browser, crawl, told, visiting
from tests.external.panel_home import XSS, fresh_home, used_home
from tests.program import Program, started
from tests.server import call_text

pytestmark = [pytest.mark.external, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

DESKTOP: Combination = (1440, "en", "light")


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def used(home: Path) -> Iterator[Program]:
    used_home(home)
    with started("serve", "--port", "0", cwd=home) as program:
        fill(program)
        yield program


def fill(program: Program) -> None:
    """Chats, calls and errors by the server's own doors, so that lists and traces have something in them."""
    headers = {"Authorization": "Bearer the-key-of-this-server"}
    with httpx.Client(base_url=address(program), headers=headers, timeout=60) as client:
        for words in ("What is 12*7?", XSS):
            body = {"model": "vcp-demo", "messages": [{"role": "system", "content": "{{Nova}} [[小克日记本]]"}]}
            body["messages"].append({"role": "user", "content": words})
            assert client.post("/v1/chat/completions", json=body).status_code == 200
        for tool in ("Echo", "Fails", XSS):
            text = call_text(tool, text=XSS, maid=XSS)
            client.post("/v1/human/tool", content=text.encode(), headers={"content-type": "text/plain"})


def address(program: Program) -> str:
    return program.base_url.removesuffix("/v1")


@pytest.mark.parametrize("combination", PAIRWISE, ids=lambda one: "-".join(map(str, one)))
def test_every_page_of_an_installation_in_use_is_in_order(
    opened: Browser, used: Program, combination: Combination
) -> None:
    with visiting(opened, address(used), combination) as visit:
        crawl(visit, axe=combination in PAIRWISE[::2])
    assert not visit.problems, told(visit.problems)
    assert len(visit.visited) >= 20, visit.visited
    assert "Traceback" not in used.logged


def test_every_page_of_a_first_day_is_in_order(opened: Browser, tmp_path: Path) -> None:
    fresh_home(tmp_path)
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        with visiting(opened, address(program), DESKTOP) as visit:
            crawl(visit, axe=True)
        assert not visit.problems, told(visit.problems)
        assert "Traceback" not in program.logged


def open_as_admin(opened: Browser, program: Program) -> Page:
    page = opened.new_context(locale="en-US").new_page()
    page.goto(f"{address(program)}/AdminPanel/login")
    page.fill("#username", NAME)
    page.fill("#password", PASSWORD)
    with page.expect_navigation(url="**/AdminPanel/"):
        page.press("#password", "Enter")
    return page


def test_two_people_edit_one_note_and_the_second_merges(opened: Browser, used: Program, home: Path) -> None:
    note = home / "dailynote" / "公共" / "2026-11-01-10_00_00.txt"
    note.write_text("first line\nsecond line\n", encoding="utf-8")
    pages = [open_as_admin(opened, used) for _ in range(2)]
    try:
        for page in pages:
            page.goto(f"{address(used)}/AdminPanel/notebooks/公共/note/{note.name}")
            page.wait_for_selector(".cm-content")
        for page, line in zip(pages, ("hers", "his"), strict=True):
            page.click(".cm-content")
            page.keyboard.press("Control+Home")
            page.keyboard.type(f"{line}\n")
            expect(page.locator(".editor-state")).to_have_text("Unsaved")
        pages[0].keyboard.press("Control+s")
        expect(pages[0].locator(".editor-state")).to_have_text("Saved")
        assert note.read_text(encoding="utf-8").startswith("hers\n")
        pages[1].keyboard.press("Control+s")
        dialog = pages[1].locator("dialog[open]")
        expect(dialog).to_contain_text("changed on disk")
        expect(dialog).to_contain_text("hers")
        expect(dialog).to_contain_text("his")
        assert note.read_text(encoding="utf-8").startswith("hers\n")
        dialog.get_by_role("button", name="Save the right side").click()
        expect(pages[1].locator(".editor-state")).to_have_text("Saved")
        assert note.read_text(encoding="utf-8") == "his\nfirst line\nsecond line\n"
    finally:
        for page in pages:
            page.context.close()


def test_the_playground_streams_an_answer_shows_the_call_and_stops(opened: Browser, used: Program) -> None:
    page = open_as_admin(opened, used)
    try:
        page.goto(f"{address(used)}/AdminPanel/playground")
        expect(page.locator("#model-a")).to_have_value("vcp-demo")
        page.fill("#message", "What is 12*7?")
        page.press("#message", "Enter")
        card = page.locator(".call")
        expect(card).to_contain_text("SciCalculator")
        expect(card.locator(".badge")).to_have_text("success")
        card.locator("summary").click()
        expect(card).to_contain_text("84")
        expect(page.locator('[data-side="a"] [data-action="stop"]')).to_be_hidden()
        page.fill("#message", "slow")
        page.press("#message", "Enter")
        page.locator('[data-side="a"] [data-action="stop"]').click()
        expect(page.locator(".message[data-kind='warn']")).to_have_text("Stopped")
    finally:
        page.context.close()


def test_a_person_needs_no_mouse(opened: Browser, used: Program) -> None:
    page = open_as_admin(opened, used)
    try:
        page.goto(f"{address(used)}/AdminPanel/actions")
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#content")).to_be_focused()
        page.keyboard.press("/")
        expect(page.locator("#search-field")).to_be_focused()
        page.keyboard.type("playground")
        hit = page.locator("#search-hits a").first
        expect(hit).to_contain_text("Playground")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**/AdminPanel/playground")
    finally:
        page.context.close()


def test_hits_of_a_search_are_read_on_a_phone_and_the_page_of_now_is_in_sight(opened: Browser, used: Program) -> None:
    with visiting(opened, address(used), (390, "zh", "dark")) as visit:
        visit.open("/AdminPanel/actions")
        visit.page.fill("#search-field", "西湖")
        hit = visit.page.locator("#search-hits a").first
        expect(hit).to_be_visible()
        box = hit.bounding_box()
        assert box is not None and box["width"] > 300 and box["x"] >= 0 and box["x"] + box["width"] <= 390
    with visiting(opened, address(used), DESKTOP) as visit:
        visit.page.set_viewport_size({"width": 1440, "height": 600})
        for page in ("actions", ""):
            visit.open(f"/AdminPanel/{page}")
            expect(visit.page.locator(".navigation [aria-current]")).to_be_in_viewport()


def test_a_login_that_has_ended_loses_nothing_that_was_written(opened: Browser, used: Program, home: Path) -> None:
    note = home / "dailynote" / "公共" / "2026-11-02-10_00_00.txt"
    page = open_as_admin(opened, used)
    try:
        page.goto(f"{address(used)}/AdminPanel/notebooks/公共/note/{note.name}")
        page.wait_for_selector(".cm-content")
        page.click(".cm-content")
        page.keyboard.press("Control+Home")
        page.keyboard.type("kept ")
        kept = page.context.cookies()
        page.context.clear_cookies()
        page.keyboard.press("Control+s")
        expect(page.locator(".editor-state")).to_have_text("Not saved")
        page.context.add_cookies(kept)
        page.keyboard.press("Control+s")
        expect(page.locator(".editor-state")).to_have_text("Saved")
        assert note.read_text(encoding="utf-8").startswith("kept ")
    finally:
        page.context.close()


def test_no_page_of_the_panel_may_stand_in_a_frame_or_be_read_by_another_site(used: Program) -> None:
    with httpx.Client(base_url=address(used), auth=(NAME, PASSWORD)) as client:
        answer = client.get("/AdminPanel/actions", headers={"Origin": "https://evil.example"})
        assert answer.status_code == 200 and "access-control-allow-origin" not in answer.headers
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        forged = client.post("/admin_api/rag-tags", json={}, headers={"Origin": "https://evil.example"})
        assert forged.status_code == 403
