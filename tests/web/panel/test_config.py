"""The page of config.env over HTTP: form, review, save, conflict, text, copies; both languages; hostile values."""

from __future__ import annotations

import asyncio
import html
import json
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import pytest

from app.config.dotenv import parse_values
from app.config.env_backups import backups
from app.config.home_folders import make_home
from app.config.snapshot import load
from app.services import Services
from app.web.app import create_app
from tests.web.asgi import KEY, Answered, ask

LOGIN = ("authorization", "Basic " + b64encode(b"admin:secret").decode())
BASE = """# my server
API_URL=http://127.0.0.1:9
API_Key=upstream-secret-1
AdminUsername=admin
AdminPassword=secret
MaxVCPLoopStream=8 # rounds
VarCity="two
lines"
VarHostile='"><script>alert(1)</script>'
Upstream_fast_URL=http://127.0.0.1:9
MyOwn=1
"""


class Browser:
    """An administrator's browser without scripts."""

    def __init__(self, home: Path, environ: dict[str, str], text: str = BASE) -> None:
        make_home(home)
        self.home = home
        self.path = home / "config.env"
        self.path.write_text(text, encoding="utf-8")
        read = partial(load, home, environ)
        self.services = Services(read(), KEY, read_config=read)
        self._app = create_app(self.services)

    async def get(self, path: str = "", query: str = "", language: str = "en") -> Answered:
        async def with_query(scope, receive, send):  # type: ignore[no-untyped-def]
            await self._app({**scope, "query_string": query.encode()}, receive, send)

        headers = (LOGIN, ("accept-language", language), ("accept", "text/html"))
        return await ask(with_query, "GET", f"/AdminPanel/config{path}", *headers)

    async def post(self, path: str, fields: dict[str, str], language: str = "en") -> Answered:
        headers = (LOGIN, ("accept-language", language), ("content-type", "application/x-www-form-urlencoded"))
        return await ask(self._app, "POST", f"/AdminPanel/config{path}", *headers, blocks=[urlencode(fields).encode()])

    async def post_json(self, path: str, body: object) -> Answered:
        data = json.dumps(body).encode()
        headers = (LOGIN, ("hx-request", "true"), ("accept-language", "en"))
        return await ask(self._app, "POST", f"/AdminPanel/config{path}", *headers, blocks=[data])

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def values(self) -> dict[str, str]:
        return parse_values(self.text)


def browse(home: Path, test: Callable[[Browser], Awaitable[None]], text: str = BASE, **environ: str) -> None:
    async def main() -> None:
        await test(Browser(home, environ, text))

    asyncio.run(main())


def page(answer: Answered, status: int = 200) -> str:
    assert answer.status == status, answer.body[:500]
    return answer.body.decode()


def hidden(text: str, action: str) -> dict[str, str]:
    """The hidden fields of the form that is sent to ``action``."""
    form = text.split(f'action="{action}"')[1].split("</form>")[0]
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)
    return {html.unescape(name): html.unescape(value) for name, value in found}


def every_field(text: str) -> dict[str, str]:
    """What a browser without scripts sends for the untouched form."""
    form = text.split('id="config-form"')[1].split("</form>")[0]
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form))
    for name, rest in re.findall(r'<input id="[^"]*" name="([^"]*)"([^>]*)>', form):
        value = re.search(r'value="([^"]*)"', rest)
        fields[name] = value[1] if value else ""
    for name, value in re.findall(r'<textarea id="[^"]*" name="([^"]*)"[^>]*>\n(.*?)</textarea>', form, re.DOTALL):
        fields[name] = value.replace("\n", "\r\n")
    for name, options in re.findall(r'<select id="[^"]*" name="([^"]*)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r"<option selected>([^<]*)<", options)
        fields[name] = chosen[1] if chosen else ""
    return {html.unescape(name): html.unescape(value) for name, value in fields.items()}


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("zh-CN", ("配置", "监听端口。", "默认 6005", "重启后生效")),
        ("en", ("Configuration", "Port to listen on.", "After a restart")),
    ],
)
def test_the_form_has_all_settings_with_help_in_the_language_of_the_browser(
    tmp_path: Path, language: str, words: tuple[str, ...]
) -> None:
    async def test(browser: Browser) -> None:
        text = page(await browser.get(language=language))
        for word in words:
            assert word in text
        assert 'name="k.PORT"' in text
        assert 'name="k.VarCity"' in text
        assert 'name="k.MyOwn"' in text
        assert len(text.encode()) < 300_000

    browse(tmp_path, test)


def test_secrets_are_password_fields(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        text = page(await browser.get())
        for key in ("Key", "API_Key", "AdminPassword"):
            assert re.search(rf'name="k\.{key}" type="password"', text), key

    browse(tmp_path, test)


def test_hostile_values_are_text(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        for answer in (
            await browser.get(),
            await browser.get(query="tab=text"),
            await browser.post("/review", {"k.VarHostile": '"><img src=x onerror=alert(1)>', "expected": ""}),
            await browser.post("", {"k.VarNew": "</textarea><script>alert(2)</script>\n", "a.Text.Name": '"><script>'}),
        ):
            text = page(answer)
            assert "<script>alert" not in text
            assert "<img src=x" not in text
            assert '"><script>' not in text

    browse(tmp_path, test)


def test_the_untouched_form_changes_nothing_even_without_scripts(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        fields = every_field(page(await browser.get()))
        assert len(fields) > 200
        assert "Nothing is changed" in page(await browser.post("/review", fields))

    browse(tmp_path, test)


def test_changes_are_shown_then_saved_and_all_else_stays(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        fields = {
            **every_field(page(await browser.get())),
            "k.MaxVCPLoopStream": "9",
            "k.PORT": "7001",
            "k.API_Key": "upstream-secret-2",
            "k.VarCity": "one\r\ntwo\r\nthree",
            "k.ShowVCP": "true",
        }
        shown = page(await browser.post("/review", fields))
        assert "In force only after a restart" in shown
        assert "PORT" in shown
        assert "MaxVCPLoopStream=9 # rounds" in shown
        differences = shown.split("config-diff")[1].split("</table>")[0]
        assert "upstream-secret" not in differences
        assert browser.text == BASE
        saved = await browser.post("/save", hidden(shown, "/AdminPanel/config/save"))
        assert (saved.status, saved.headers["location"]) == (303, "/AdminPanel/config?saved=1")
        assert browser.values == {
            **parse_values(BASE),
            "MaxVCPLoopStream": "9",
            "PORT": "7001",
            "API_Key": "upstream-secret-2",
            "VarCity": "one\ntwo\nthree",
            "ShowVCP": "true",
        }
        assert "# my server\n" in browser.text
        assert browser.services.settings.max_vcp_loop_stream == 9
        assert len(backups(tmp_path)) == 1
        after = page(await browser.get(query="saved=1"))
        assert "Saved." in after
        assert "in force after a restart of the server: PORT" in after

    browse(tmp_path, test)


def test_values_that_cannot_be_used_are_told_at_their_fields_and_nothing_is_lost(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        fields = {"expected": "", "k.ApiRetries": "many", "k.VarNew": "kept", "k.MaxVCPLoopStream": "7"}
        for language, words in (("en", "is not a whole number from 1 to 100"), ("zh", "应为 1 到 100 的整数")):
            text = page(await browser.post("/review", fields, language), 422)
            control = text.split('name="k.ApiRetries"')[1].split("</div>")[0]
            assert 'value="many"' in control
            assert 'aria-invalid="true"' in control
            assert words in control
            assert 'name="k.MaxVCPLoopStream" value="7"' in text
        assert browser.text == BASE

    browse(tmp_path, test)


def test_problems_that_were_there_before_do_not_stop_another_change(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        assert "ApiRetries" in page(await browser.get())
        shown = page(await browser.post("/review", {"k.PORT": "7001"}))
        assert (await browser.post("/save", hidden(shown, "/AdminPanel/config/save"))).status == 303
        assert browser.values["ApiRetries"] == "lots"

    browse(tmp_path, test, BASE + "ApiRetries=lots\n")


def test_what_the_server_could_not_start_with_is_refused(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        text = page(await browser.post("/review", {"k.Key": "please-change-me"}), 422)
        assert "placeholder" in text
        fields = {"k.Key": "please-change-me", "expected": ""}
        assert (await browser.post("/save", fields)).status == 422
        assert browser.text == BASE

    browse(tmp_path, test, HOST="0.0.0.0")


def test_an_emptied_setting_gets_its_default_and_a_removed_key_goes(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        fields = {"k.MaxVCPLoopStream": "", "k.MyOwn": "", "r.VarHostile": "on"}
        shown = page(await browser.post("/review", fields))
        await browser.post("/save", hidden(shown, "/AdminPanel/config/save"))
        assert "MaxVCPLoopStream" not in browser.values
        assert "#MaxVCPLoopStream=5 # rounds\n" in browser.text
        assert browser.values["MyOwn"] == ""
        assert "VarHostile" not in browser.text

    browse(tmp_path, test)


def test_members_of_families_are_added(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        fields = {
            "a.Upstream.Name": "spare",
            "a.Upstream.URL": "http://127.0.0.1:11434",
            "a.Upstream.Models": "qwen-*",
            "a.Text.Name": "VarNew",
            "a.Text.Value": "line 1\r\nline 2",
            "a.Sar.Models": "small-model",
            "a.Sar.Prompt": "Be brief.",
            "a.Detector.Pattern": "As a language model",
            "a.Detector.Output": "As your helper",
            "a.Other.Name": "PLUGIN_KEY",
            "a.Other.Value": "v",
        }
        shown = page(await browser.post("/review", fields))
        await browser.post("/save", hidden(shown, "/AdminPanel/config/save"))
        assert browser.values == {
            **parse_values(BASE),
            "Upstream_spare_URL": "http://127.0.0.1:11434",
            "Upstream_spare_Models": "qwen-*",
            "VarNew": "line 1\nline 2",
            "SarModel1": "small-model",
            "SarPrompt1": "Be brief.",
            "Detector1": "As a language model",
            "Detector_Output1": "As your helper",
            "PLUGIN_KEY": "v",
        }

    browse(tmp_path, test)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"a.Text.Name": "City", "a.Text.Value": "x"}, "begins with Tar or Var"),
        ({"a.Text.Name": "VarCity", "a.Text.Value": "x"}, "is there already"),
        ({"a.Other.Name": "A B", "a.Other.Value": "x"}, "letters a to z"),
        ({"a.Upstream.Name": "spare"}, "a URL are needed"),
        ({"a.Sar.Models": "m"}, "both are needed"),
    ],
)
def test_new_members_that_cannot_be_are_told_where_they_were_written(
    tmp_path: Path, fields: dict[str, str], words: str
) -> None:
    async def test(browser: Browser) -> None:
        text = page(await browser.post("/review", {**fields, "k.PORT": "7001"}), 422)
        assert words in text
        assert 'name="k.PORT" value="7001"' in text
        assert (await browser.post("/save", fields)).status == 422
        assert browser.text == BASE

    browse(tmp_path, test)


def test_going_back_from_the_review_keeps_what_was_filled_in(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        shown = page(await browser.post("/review", {"k.PORT": "7001", "a.Text.Name": "VarNew", "a.Text.Value": "v"}))
        again = page(await browser.post("", hidden(shown, "/AdminPanel/config")))
        assert 'name="k.PORT" value="7001"' in again
        assert "Unsaved" in again
        assert 'name="a.Text.Name" autocomplete="off" spellcheck="false" value="VarNew"' in again
        assert browser.text == BASE

    browse(tmp_path, test)


def test_two_people_the_second_is_told_and_both_changes_end_up_in_the_file(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        shown = page(await browser.post("/review", {"k.PORT": "7001"}))
        browser.path.write_text(BASE + "VarTheirs=1\n", encoding="utf-8")
        told = page(await browser.post("/save", hidden(shown, "/AdminPanel/config/save")), 409)
        assert "changed meanwhile by somebody else" in told
        assert browser.text == BASE + "VarTheirs=1\n"
        assert (await browser.post("/save", hidden(told, "/AdminPanel/config/save"))).status == 303
        assert browser.values == {**parse_values(BASE), "VarTheirs": "1", "PORT": "7001"}

    browse(tmp_path, test)


def test_settings_of_the_environment_are_marked(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        control = page(await browser.get()).split('data-setting="MaxVCPLoopStream"')[1].split("config-control")[0]
        assert "Overridden by the environment" in control

    browse(tmp_path, test, MaxVCPLoopStream="3")


def test_long_values_and_many_keys_are_edited_as_text_and_the_page_stays_small(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        text = page(await browser.get())
        assert len(text.encode()) < 600_000
        assert "edit it as text" in text
        assert "more are not shown" in text
        fields = every_field(text)
        assert "Nothing is changed" in page(await browser.post("/review", fields))

    many = "".join(f"VarMany{n}=v\n" for n in range(600))
    browse(tmp_path, test, f'{BASE}VarLong="{"long " * 5000}"\n{many}')


def test_the_text_is_judged_before_it_is_saved(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        editor = page(await browser.get(query="tab=text"))
        assert 'data-save="/admin_api/config/main"' in editor
        shown = page(
            await browser.post_json("/review-text", {"content": BASE + 'ApiRetries=many\nVarX="open\nPORT=7\n'})
        )
        assert "Line 12</span> <code>ApiRetries</code>" in shown
        assert "not closed" in shown
        assert "In force only after a restart" in shown
        assert "Nothing is changed" in page(await browser.post_json("/review-text", {"content": BASE}))
        assert (await browser.post_json("/review-text", {"content": 5})).status == 400
        assert browser.text == BASE

    browse(tmp_path, test)


def test_copies_are_listed_compared_and_restored(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        assert "No backups yet" in page(await browser.get(query="tab=backups"))
        shown = page(await browser.post("/review", {"k.API_Key": "upstream-secret-2"}))
        await browser.post("/save", hidden(shown, "/AdminPanel/config/save"))
        (copy,) = backups(tmp_path)
        listed = page(await browser.get(query="tab=backups"))
        assert f"/AdminPanel/config/backups/{copy.name}" in listed
        compared = page(await browser.get(f"/backups/{copy.name}"))
        assert "upstream-secret" not in compared
        assert "upstream-secret-1" in page(await browser.get(f"/backups/{copy.name}", "secrets=1"))
        action = f"/AdminPanel/config/backups/{copy.name}/restore"
        assert (await browser.post(f"/backups/{copy.name}/restore", {"expected": "old"})).status == 409
        assert (await browser.post(f"/backups/{copy.name}/restore", hidden(compared, action))).status == 303
        assert browser.text == BASE
        assert len(backups(tmp_path)) == 2
        assert (await browser.get("/backups/..%2Fx")).status == 404

    browse(tmp_path, test)


def test_a_file_that_cannot_be_read_is_told_with_the_way_out(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        browser.path.write_bytes(b"A=\xff\xff\xff")
        assert "UTF-8" in page(await browser.get(), 500)

    browse(tmp_path, test)


def test_the_search_finds_settings_by_name_and_by_help(tmp_path: Path) -> None:
    async def test(browser: Browser) -> None:
        async def hits(words: str) -> str:
            async def with_query(scope, receive, send):  # type: ignore[no-untyped-def]
                await browser._app({**scope, "query_string": urlencode({"q": words}).encode()}, receive, send)

            return page(await ask(with_query, "GET", "/AdminPanel/search", LOGIN, ("accept-language", "en")))

        assert "/AdminPanel/config#k-MaxVCPLoopStream" in await hits("vcploop")
        assert "/AdminPanel/config#k-PORT" in await hits("监听端口")

    browse(tmp_path, test)
