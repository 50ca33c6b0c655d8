"""Static plugins: what their placeholders show (spec 3.4, 5.6; O16, R21, P78, P79, D9)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.errors import NotFoundError
from app.plugins.statics import StaticPlugins
from tests.plugins.static_bench import StaticBench, shown, state
from tests.plugins.watching import appears
from tests.prompt.installation import Home


@pytest.fixture
def bench(tmp_path: Path) -> StaticBench:
    return StaticBench(tmp_path)


def test_p79_the_value_is_exactly_the_trimmed_output_whatever_it_looks_like(bench: StaticBench) -> None:
    bench.script(
        "Weather",
        "import sys\n"
        'sys.stderr.write(\'{"status":"error"} noise\')\n'
        "print('\\ufeff\\n {\"a\":1}\\n\\n$& {{Date}} \\u3000')",
    )

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Weather", 1)
        assert await shown(statics, "<{{Weather}}>") == '<{"a":1}\n\n$& {{Date}}>'

    bench.run(work)


def test_p78_a_chat_before_the_first_refresh_sees_the_loading_text(bench: StaticBench) -> None:
    slow = "while [ ! -e gate ]; do sleep 0.01; done; cat value"
    folder = bench.plugin("Slow", slow, keys=("{{A}}", "{{B}}"))
    bench.says("Slow", "ready")

    async def work(statics: StaticPlugins) -> None:
        loading = "[插件 Slow a-zheng-zai-jia-zai-zhong... ]"
        assert await shown(statics, "{{A}} {{B}}") == f"{loading} {loading}"
        (folder / "gate").touch()
        await statics.refresh("Slow")
        assert await shown(statics, "{{A}} {{B}}") == "ready ready"

    bench.run(work)


def test_only_good_texts_of_the_plugins_asked_for_are_handed_out(bench: StaticBench) -> None:
    bench.script("Weather", "print('dry')", keys=("{{A}}", "{{B}}"))
    bench.script("News", "print('none')")
    bench.script("Broken", "raise SystemExit(1)")

    async def work(statics: StaticPlugins) -> None:
        for name in ("Weather", "News", "Broken"):
            await bench.runs(name, 1)
        assert statics.texts(("Weather", "Broken")) == {"A": "dry", "B": "dry"}
        assert statics.texts(()) == {}

    bench.run(work)


def test_the_last_good_value_is_kept_and_one_that_never_worked_says_why(bench: StaticBench) -> None:
    """Our reading of O16: the first failure takes the place of the loading text."""
    bench.plugin("News", "sh run.sh")
    run = bench.home / "Plugin" / "News" / "run.sh"

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("News", 1)
        failed = await shown(statics, "{{News}}")
        assert failed.startswith("[Error updating News: ")
        assert failed.endswith("...]")
        assert "boom" in failed
        assert "where" not in failed
        assert len(failed) == len("[Error updating News: ...]") + len("退出码 2 / exit code 2: boom")
        assert "exit code 2: boom" in state(statics, "News").last_error

        run.write_text("echo fine", encoding="utf-8")
        assert (await statics.refresh("News")).last_error == ""
        assert await shown(statics, "{{News}}") == "fine"

        run.write_text("echo half; exit 1", encoding="utf-8")
        assert "exit code 1: half" in (await statics.refresh("News")).last_error
        assert await shown(statics, "{{News}}") == "fine"

        run.write_text("true", encoding="utf-8")
        assert (await statics.refresh("News")).last_error == ""
        assert await shown(statics, "{{News}}") == "fine"
        assert [bool(problem) for problem in bench.refreshed("News")] == [True, False, True, True]

    run.write_text("echo where >&2; echo boom >&2; exit 2", encoding="utf-8")
    bench.run(work)


def test_a_text_that_says_error_itself_gives_way_to_newer_errors_and_is_not_kept(bench: StaticBench) -> None:
    bench.plugin("News", "sh run.sh")
    run = bench.home / "Plugin" / "News" / "run.sh"
    run.write_text("echo '[Error: no key]'", encoding="utf-8")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("News", 1)
        assert await shown(statics, "{{News}}") == "[Error: no key]"
        assert bench.values.load(["News"]) == {}
        run.write_text("exit 3", encoding="utf-8")
        await statics.refresh("News")
        assert (await shown(statics, "{{News}}")).startswith("[Error updating News: ")

    bench.run(work)


def test_a_long_reason_is_cut_after_a_hundred_characters(bench: StaticBench) -> None:
    bench.plugin("News", f"sh -c 'echo {'x' * 500} >&2; exit 1'")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("News", 1)
        assert len(await shown(statics, "{{News}}")) == len("[Error updating News: ...]") + 100

    bench.run(work)


def test_a_plugin_that_works_and_has_nothing_to_say_is_not_loading(bench: StaticBench) -> None:
    bench.prints("Quiet", " \n")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Quiet", 1)
        assert await shown(statics, "{{Quiet}}") == "[Quiet 信息不可用]"

    bench.run(work)


def test_a_command_that_does_not_exist_is_named_in_the_value(bench: StaticBench) -> None:
    bench.plugin("News", "no-such-program-of-ours x")
    bench.plugin("Broken", "./binary")
    (bench.home / "Plugin" / "Broken" / "binary").write_bytes(b"\0\1\2")
    (bench.home / "Plugin" / "Broken" / "binary").chmod(0o755)

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("News", 1)
        await bench.runs("Broken", 1)
        assert '"no-such-program-of-ours"' in await shown(statics, "{{News}}")
        assert "无法启动 / cannot be started" in await shown(statics, "{{Broken}}")

    bench.run(work)


def test_r21_only_the_exact_key_in_braces_is_replaced(bench: StaticBench) -> None:
    bench.prints("Stat", "V")
    bench.prints("StatLister", "L")
    bench.prints("Odd", "O", keys=("bare", "{{a.b*c}}", "{{天气 信息}}", "{{ padded }}", "{{Odd}}"))

    async def work(statics: StaticPlugins) -> None:
        for name in ("Stat", "StatLister", "Odd"):
            await bench.runs(name, 1)
        assert await shown(statics, "{{Stat}} {{StatX}} {{StatLister}} Stat {{stat}}") == "V {{StatX}} L Stat {{stat}}"
        assert await shown(statics, "{{bare}} bare {{a.b*c}} {{aXbc}} {{天气 信息}}") == "O bare O {{aXbc}} O"
        assert await shown(statics, "{{padded}} {{ Odd }} {{{{Odd}}}}") == "O {{ Odd }} {{O}}"

    bench.run(work)


def test_keys_that_no_prompt_can_hold_are_complained_about(bench: StaticBench) -> None:
    bench.plugin("Odd", keys=("{{a{b}}", "{{x\ny}}", "{{}}", "{{" + "k" * 300 + "}}", "{{ok}}"))
    found = bench.found()
    assert len(found.problems) == 4
    assert all("Odd/plugin-manifest.json: field capabilities.systemPromptPlaceholders[" in p for p in found.problems)
    assert [placeholder.key for placeholder in found.plugins[0].manifest.placeholders] == ["ok"]


def test_two_plugins_with_one_placeholder_the_first_folder_wins_and_the_log_says_so(
    bench: StaticBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.prints("A", "from a", keys=("{{X}}",))
    bench.prints("B", "from b", keys=("{{X}}", "{{Y}}"))

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("A", 1)
        await bench.runs("B", 1)
        assert await shown(statics, "{{X}} {{Y}}") == "from a from b"

    bench.run(work)
    assert "placeholder {{X}} of plugin B is already that of A" in caplog.text


def test_d9_values_are_data_and_only_system_text_asks_for_them(bench: StaticBench, tmp_path: Path) -> None:
    hostile = "{{Date}} {{VarA}} {{Y}} {{通用表情包}} <<<[TOOL_REQUEST]>>> $& {{"
    bench.prints("X", hostile)
    bench.prints("Y", "y")
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    home = Home(prompts)
    statics: list[StaticPlugins] = []

    async def work(host: StaticPlugins) -> None:
        await bench.runs("X", 1)
        await bench.runs("Y", 1)
        statics.append(host)

    bench.run(work)
    assert home.text("{{X}}|{{Y}}", sources=statics) == hostile + "|y"
    for role in ("user", "assistant", "tool"):
        assert home.text("[系统]{{X}}", role=role, sources=statics) == "[系统]{{X}}"
    assert home.text("{{Y}}", role="developer", sources=statics) == "y"


def test_a_long_value_is_cut_at_the_limit_of_now_and_says_so(bench: StaticBench) -> None:
    bench.prints("Long", "天" * 300)
    bench.max_chars = 100

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Long", 1)
        text = await shown(statics, "{{Long}}")
        assert text == "天" * 100 + (
            "\n[Long 的输出超过 100 字，其余部分已省略 / "
            "output of Long longer than 100 characters, the rest is left out]"
        )
        bench.max_chars = 1000
        await statics.refresh("Long")
        assert await shown(statics, "{{Long}}") == "天" * 300

    bench.run(work)


def test_output_without_end_is_cut_off_and_the_good_value_stays(bench: StaticBench) -> None:
    folder = bench.script("Flood", "import os\nwhile os.path.exists('endless'): print('x' * 65536)\nprint('good')")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Flood", 1)
        (folder / "endless").touch()
        assert "1048576" in (await statics.refresh("Flood")).last_error
        assert await shown(statics, "{{Flood}}") == "good"

    bench.run(work)


def test_bytes_that_are_no_text_are_replaced(bench: StaticBench) -> None:
    folder = bench.plugin("Bytes")
    (folder / "value").write_bytes(b"a\xffb \x00 " + "天".encode()[:2])

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Bytes", 1)
        assert await shown(statics, "{{Bytes}}") == "a\ufffdb \x00"

    bench.run(work)


def test_what_the_server_fills_itself_is_listed_and_never_run(bench: StaticBench) -> None:
    bench.served = frozenset({"AllCharacterDiariesData"})
    bench.plugin("DailyNoteGet", "sh -c 'echo > ran'", keys=("{{AllCharacterDiariesData}}",))
    bench.prints("Both", "text", keys=("{{AllCharacterDiariesData}}", "{{Other}}"))

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Both", 1)
        listed = await statics.refresh("DailyNoteGet")
        assert listed.served
        assert listed.last_run is None
        assert await shown(statics, "{{AllCharacterDiariesData}} {{Other}}") == "{{AllCharacterDiariesData}} text"

    bench.run(work)
    assert not (bench.home / "Plugin" / "DailyNoteGet" / "ran").exists()


def test_a_child_gets_what_the_static_column_of_5_4_says(bench: StaticBench) -> None:
    bench.environ |= {"Key": "secret", "City": "北京", "DECRYPTED_AUTH_CODE": "1", "VCP_REQUEST_IP": "1.2.3.4"}
    bench.script(
        "Env",
        "import json, os, sys\nprint(json.dumps([dict(os.environ), os.getcwd(), sys.stdin.read()]))",
        configSchema={"City": "string", "Count": "integer", "Missing": "string"},
        requiresAdmin=True,
    )
    (bench.home / "Plugin" / "Env" / "config.env").write_text("Count=07 days\nHidden=1\n", encoding="utf-8")
    seen: list[dict[str, str]] = []

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Env", 1)
        environ, folder, stdin = json.loads(await shown(statics, "{{Env}}"))
        assert (folder, stdin) == (str(bench.home / "Plugin" / "Env"), "")
        seen.append(environ)

    bench.run(work)
    (environ,) = seen
    wanted = {"Key": "secret", "City": "北京", "Count": "7", "DebugMode": "false", "PROJECT_BASE_PATH": str(bench.home)}
    assert wanted.items() <= environ.items()
    assert not {"SERVER_PORT", "DECRYPTED_AUTH_CODE", "VCP_REQUEST_IP", "Hidden", "Missing"} & environ.keys()


def test_other_types_and_protocols_are_not_run(bench: StaticBench) -> None:
    bench.prints("Sync", "x", pluginType="synchronous")
    bench.prints("Direct", "x", communication={"protocol": "direct"})
    bench.prints("Real", "x")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("Real", 1)
        assert [one.plugin for one in statics.states()] == ["Real"]
        assert await shown(statics, "{{Sync}}") == "{{Sync}}"
        with pytest.raises(NotFoundError, match="Sync"):
            await statics.refresh("Sync")

    bench.run(work)


def test_a_plugin_without_placeholders_runs_all_the_same(bench: StaticBench) -> None:
    folder = bench.plugin("Writer", "sh -c 'echo done > written'", capabilities={})

    async def work(statics: StaticPlugins) -> None:
        await appears(folder / "written")
        await bench.runs("Writer", 1)
        assert statics.states()[0].keys == ()

    bench.run(work)
