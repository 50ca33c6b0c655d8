"""DailyNoteWrite as a child process (vcp-core 4.11, 5.6; memory.md 1.2 to 1.5; B34, B37)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PLUGIN = REPOSITORY / "Plugin" / "DailyNoteWrite"
NOTE = {"maidName": "Nova", "dateString": "2025.11.27", "contentText": "Walked by the river.\nTag: walk, river"}


@pytest.fixture
def write(run_plugin: Any, tmp_path: Path) -> Any:
    def run(arguments: object = NOTE, **more: Any) -> Any:
        return run_plugin("DailyNoteWrite", arguments, PROJECT_BASE_PATH=str(tmp_path), **more)

    return run


def notes(root: Path) -> list[Path]:
    return sorted(path for path in (root / "dailynote").rglob("*") if path.is_file())


def text_of(answer: Any) -> str:
    return Path(answer.json["filePath"]).read_bytes().decode("utf-8")


def test_a_note_is_stored_and_its_path_named(write: Any, tmp_path: Path) -> None:
    answer = write()
    (path,) = notes(tmp_path)
    assert answer.json == {"status": "success", "message": f"Diary saved to {path}", "filePath": str(path)}
    assert answer.code == 0
    assert path.parent == tmp_path / "dailynote" / "Nova"
    assert re.fullmatch(r"2025-11-27-\d\d_\d\d_\d\d\.txt", path.name)
    assert path.read_bytes().decode() == "[2025-11-27] - Nova\nWalked by the river.\nTag: walk, river"


def test_nothing_but_the_note_is_left_in_the_notebook(write: Any, tmp_path: Path) -> None:
    write()
    assert len(list((tmp_path / "dailynote" / "Nova").iterdir())) == 1


def test_the_names_of_the_tool_form_are_taken_too(write: Any) -> None:
    answer = write({"maid": "[公共]小克", "Date": "2025/1/2", "Content": "好。\nTag: 好"})
    assert "/公共/2025-1-2-" in answer.json["filePath"]
    assert text_of(answer) == "[2025-1-2] - 小克\n好。\nTag: 好"


def test_other_arguments_do_no_harm(write: Any) -> None:
    assert write(NOTE | {"tool_name": "DailyNoteWrite", "archery": "no_reply"}).json["status"] == "success"


def test_the_tag_line_is_normalised_and_last(write: Any) -> None:
    text = text_of(write(NOTE | {"contentText": "x\r\nTag：消费降级，鸭货\r\n"}))
    assert text == "[2025-11-27] - Nova\nx\nTag: 消费降级, 鸭货"


def test_the_extension_can_be_md(write: Any) -> None:
    assert write(DAILY_NOTE_EXTENSION="md").json["filePath"].endswith(".md")


def test_an_unknown_extension_gives_txt_and_a_warning(write: Any) -> None:
    answer = write(DAILY_NOTE_EXTENSION="exe")
    assert answer.json["filePath"].endswith(".txt")
    assert "DAILY_NOTE_EXTENSION" in answer.stderr


@pytest.mark.parametrize(
    ("setting", "zone"),
    [
        ({"DEFAULT_TIMEZONE": "America/New_York"}, "America/New_York"),
        ({"DEFAULT_TIMEZONE": "Pacific/Kiritimati", "TZ": "UTC"}, "Pacific/Kiritimati"),
        ({"TZ": "UTC"}, "Asia/Shanghai"),
        ({"DEFAULT_TIMEZONE": "Nowhere/Land"}, "Asia/Shanghai"),
        ({"DEFAULT_TIMEZONE": "../../etc/passwd"}, "Asia/Shanghai"),
    ],
)
def test_the_time_in_the_name_is_that_of_the_diary_zone(write: Any, setting: dict[str, str], zone: str) -> None:
    before = datetime.now(ZoneInfo(zone)).replace(microsecond=0)
    name = Path(write(**setting).json["filePath"]).name
    after = datetime.now(ZoneInfo(zone))
    seconds = int((after - before) / timedelta(seconds=1)) + 1
    possible = {f"2025-11-27-{before + timedelta(seconds=n):%H_%M_%S}.txt" for n in range(seconds + 1)}
    assert name in possible


def test_writers_at_the_same_time_never_overwrite_each_other(write: Any, tmp_path: Path) -> None:
    contents = [f"note {number}\nTag: a" for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda content: write(NOTE | {"contentText": content}), contents))
    assert {answer.json["status"] for answer in answers} == {"success"}
    assert sorted(path.read_text("utf-8").split("\n")[1] for path in notes(tmp_path)) == [
        c.split("\n")[0] for c in contents
    ]


@pytest.mark.parametrize(
    "maid", ["../../etc", "[../../x]y", "[..]y", "/abs/path", "C:\\x", "a\x00/../b", "CON", "字" * 400]
)
def test_no_author_leads_out_of_the_diary_folder(write: Any, tmp_path: Path, maid: str) -> None:
    answer = write(NOTE | {"maidName": maid})
    path = Path(answer.json["filePath"])
    assert path.parent.parent == tmp_path / "dailynote"
    assert [entry for entry in tmp_path.iterdir() if entry.is_dir()] == [tmp_path / "dailynote"]


def test_no_date_leads_out_of_the_notebook(write: Any, tmp_path: Path) -> None:
    answer = write(NOTE | {"dateString": "../../2025:11*27?"})
    assert Path(answer.json["filePath"]).parent == tmp_path / "dailynote" / "Nova"


def test_a_notebook_that_is_a_link_to_elsewhere_is_refused(write: Any, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "dailynote").mkdir()
    (tmp_path / "dailynote" / "Nova").symlink_to(outside)
    answer = write()
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert "Nova" in answer.json["error"]
    assert list(outside.iterdir()) == []


def test_a_link_to_the_sibling_with_the_same_beginning_is_refused(write: Any, tmp_path: Path) -> None:
    sibling = tmp_path / "dailynote-other"
    sibling.mkdir()
    (tmp_path / "dailynote").mkdir()
    (tmp_path / "dailynote" / "Nova").symlink_to(sibling)
    assert write().json["status"] == "error"


def test_the_diary_folder_itself_may_be_a_link(write: Any, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    real.mkdir()
    (tmp_path / "dailynote").symlink_to(real)
    assert write().json["status"] == "success"
    assert len(list((real / "Nova").iterdir())) == 1


def test_a_call_without_arguments_names_all_that_is_missing(write: Any) -> None:
    answer = write(raw=b"")
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert answer.json["message"] == answer.json["error"]
    assert all(name in answer.json["error"] for name in ("maidName", "dateString", "contentText"))


def test_input_that_is_no_json_is_a_clear_error(write: Any, tmp_path: Path) -> None:
    answer = write(raw=b"{oops")
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert "JSON" in answer.json["error"]
    assert not (tmp_path / "dailynote").exists()


def test_a_byte_order_mark_before_the_json_is_harmless(write: Any) -> None:
    assert write(raw=b"\xef\xbb\xbf" + json.dumps(NOTE).encode()).json["status"] == "success"


def test_half_a_surrogate_pair_is_replaced_and_the_rest_kept(write: Any) -> None:
    raw = json.dumps(NOTE | {"contentText": "a\ud83d b 😀\nTag: t"}).encode()
    assert text_of(write(raw=raw)).split("\n")[1] == "a\ufffd b 😀"


def test_a_note_over_the_size_limit_is_refused(write: Any, tmp_path: Path) -> None:
    answer = write(NOTE | {"contentText": "字" * (3 * 1024 * 1024)})
    assert answer.json["status"] == "error"
    assert "8388608" in answer.json["error"]
    assert not (tmp_path / "dailynote").exists()


def test_a_large_note_within_the_limit_is_stored(write: Any) -> None:
    answer = write(NOTE | {"contentText": "x" * (8 * 1024 * 1024 - 10) + "\nTag: a"})
    assert answer.json["status"] == "success"


@pytest.mark.parametrize("base", ["", "/nowhere/at/all"])
def test_a_missing_installation_folder_is_named(run_plugin: Any, base: str) -> None:
    answer = run_plugin("DailyNoteWrite", NOTE, PROJECT_BASE_PATH=base)
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert "PROJECT_BASE_PATH" in answer.json["error"]


def test_a_diary_folder_that_cannot_be_made_is_a_clear_error(write: Any, tmp_path: Path) -> None:
    (tmp_path / "dailynote").write_text("a file", "utf-8")
    answer = write()
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert "dailynote" in answer.json["error"]


def run_script(script: str, tmp_path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=PLUGIN,
        input=json.dumps(NOTE | {"contentText": "x" * 5000 + "\nTag: a"}).encode(),
        env=environment | {"PROJECT_BASE_PATH": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_a_disk_that_takes_no_more_is_an_error_and_leaves_no_half_note(tmp_path: Path, plugin_env: Any) -> None:
    script = (
        "import resource, runpy, sys; sys.path.insert(0, '.'); sys.dont_write_bytecode = True;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); runpy.run_path('main.py', run_name='__main__')"
    )
    done = run_script(script, tmp_path, plugin_env())
    answer = json.loads(done.stdout)
    assert (answer["status"], done.returncode) == ("error", 1)
    assert list((tmp_path / "dailynote" / "Nova").iterdir()) == []


def test_an_interpreter_without_the_server_is_a_clear_error(tmp_path: Path, plugin_env: Any) -> None:
    script = (
        "import runpy, sys; sys.path.insert(0, '.'); sys.modules['app'] = None;"
        "runpy.run_path('main.py', run_name='__main__')"
    )
    done = run_script(script, tmp_path, plugin_env())
    answer = json.loads(done.stdout)
    assert (answer["status"], done.returncode) == ("error", 1)
    assert "interpreter" in answer["error"]


def test_the_output_is_utf_8_in_the_c_locale(write: Any) -> None:
    answer = write(NOTE | {"maidName": "小克"}, LC_ALL="C", LANG="C", PYTHONIOENCODING="ascii")
    assert "/小克/" in answer.json["filePath"]


def test_a_system_that_cannot_write_the_name_is_told_what_to_set(write: Any) -> None:
    answer = write(NOTE | {"maidName": "小克"}, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert "PYTHONUTF8=1" in answer.json["error"]


# --- tags from the model ---------------------------------------------------------------------------------------------

UNTAGGED = NOTE | {"contentText": "Walked by the river."}


def test_missing_tags_are_asked_for_and_added(write: Any, tag_server: Any, tmp_path: Path) -> None:
    tag_server.say("xx [[Tag: A， B、C]] yy")
    answer = write(UNTAGGED, **tag_server.settings())
    (path,) = notes(tmp_path)
    assert answer.json["message"] == f"Diary saved to {path}"
    assert text_of(answer) == "[2025-11-27] - Nova\nWalked by the river.\nTag: A, B, C"


def test_the_tag_request_is_as_the_spec_says(write: Any, tag_server: Any) -> None:
    tag_server.say("[[Tag: a]]")
    write(UNTAGGED, **tag_server.settings(TagModelMaxTokens="1234"))
    (request,) = tag_server.requests
    body = request["body"]
    assert (request["path"], request["key"]) == ("/v1/chat/completions", "Bearer tag-key")
    assert (body["model"], body["temperature"], body["max_tokens"], body["stream"]) == ("tagger-1", 0.7, 1234, False)
    assert body["messages"][0]["role"] == "system"
    assert "[[Tag:" in body["messages"][0]["content"]
    assert body["messages"][1] == {"role": "user", "content": "Walked by the river."}


def test_a_note_with_tags_asks_nobody(write: Any, tag_server: Any) -> None:
    write(NOTE, **tag_server.settings())
    assert tag_server.requests == []


@pytest.mark.parametrize("missing", ["TagModel", "API_URL", "API_Key"])
def test_without_a_tag_model_the_note_is_stored_and_the_reason_told(write: Any, tag_server: Any, missing: str) -> None:
    answer = write(UNTAGGED, **tag_server.settings(**{missing: ""}))
    first, second = answer.json["message"].split("\n")
    assert first == f"Diary saved to {answer.json['filePath']}"
    assert missing in second
    assert text_of(answer) == "[2025-11-27] - Nova\nWalked by the river."
    assert tag_server.requests == []


def test_an_unusable_reply_leaves_the_note_untagged_and_says_why(write: Any, tag_server: Any) -> None:
    tag_server.say("no tags here")
    answer = write(UNTAGGED, **tag_server.settings())
    assert answer.json["status"] == "success"
    assert "Stored without tags" in answer.json["message"]
    assert text_of(answer).endswith("river.")


def test_a_busy_server_is_asked_again(write: Any, tag_server: Any) -> None:
    tag_server.say("", status=503)
    tag_server.say("[[tag: later]]")
    answer = write(UNTAGGED, **tag_server.settings())
    assert len(tag_server.requests) == 2
    assert text_of(answer).endswith("\nTag: later")


def test_the_note_is_on_the_disk_before_the_model_is_asked(write: Any, tag_server: Any, tmp_path: Path) -> None:
    seen: list[str] = []
    tag_server.on_request = lambda: seen.extend(path.read_text("utf-8") for path in notes(tmp_path))
    tag_server.say("[[Tag: a]]")
    write(UNTAGGED, **tag_server.settings())
    assert seen == ["[2025-11-27] - Nova\nWalked by the river."]


def test_an_edit_made_while_the_model_thinks_is_kept(write: Any, tag_server: Any, tmp_path: Path) -> None:
    tag_server.on_request = lambda: notes(tmp_path)[0].write_text("edited", "utf-8") and None
    tag_server.say("[[Tag: a]]")
    answer = write(UNTAGGED, **tag_server.settings())
    assert text_of(answer) == "edited"
    assert "changed in the meantime" in answer.json["message"]


def test_a_note_deleted_while_the_model_thinks_stays_deleted(write: Any, tag_server: Any, tmp_path: Path) -> None:
    tag_server.on_request = lambda: notes(tmp_path)[0].unlink()
    tag_server.say("[[Tag: a]]")
    write(UNTAGGED, **tag_server.settings())
    assert notes(tmp_path) == []


# --- the manifest ----------------------------------------------------------------------------------------------------


def test_the_manifest_fits_the_plugin() -> None:
    manifest = json.loads((PLUGIN / "plugin-manifest.json").read_text("utf-8"))
    assert manifest["name"] == "DailyNoteWrite"
    assert manifest["entryPoint"]["interpreter"] == "server"
    assert manifest["entryPoint"]["command"] == "python main.py"
    assert manifest["communication"] == {"protocol": "stdio", "timeout": 240_000}
    assert manifest["capabilities"]["invocationCommands"] == []


def test_every_setting_of_the_plugin_is_declared() -> None:
    manifest = json.loads((PLUGIN / "plugin-manifest.json").read_text("utf-8"))
    files = (REPOSITORY / "app" / "memory" / "diaries" / name for name in ("tag_model.py", "requests.py"))
    code = "".join(path.read_text("utf-8") for path in files)
    read = set(re.findall(r'environment\.get\("(\w+)"', code)) | {"TagModel", "API_URL", "API_Key"}
    assert set(manifest["configSchema"]) == read - {"PROJECT_BASE_PATH", "TagMaster", "DAILY_NOTE_FUZZY_DIFF"}
    tool = json.loads((PLUGIN.parent / "DailyNote" / "plugin-manifest.json").read_text("utf-8"))
    assert set(tool["configSchema"]) == read - {"PROJECT_BASE_PATH"}
