"""The log of what administrators change: bounded, whole lines, never in anybody's way."""

from __future__ import annotations

from pathlib import Path

from app.observe.action_log import ACTIONS_FILE, MAX_BYTES, Action, ActionLog


def action(number: int, path: str = "/admin_api/x") -> Action:
    return Action(float(number), "127.0.0.1", "login", "POST", path, 200)


def test_the_last_actions_come_first(tmp_path: Path) -> None:
    log = ActionLog(tmp_path)
    assert log.last(5) == ()
    for number in range(8):
        log.add(action(number))
    assert [one.at for one in log.last(3)] == [7.0, 6.0, 5.0] and len(log.last(100)) == 8
    assert (tmp_path / ACTIONS_FILE).stat().st_mode & 0o777 == 0o600


def test_the_file_has_a_limit_and_keeps_the_newer_half(tmp_path: Path) -> None:
    log = ActionLog(tmp_path)
    path = tmp_path / ACTIONS_FILE
    log.add(action(0))
    line = path.read_bytes()
    path.write_bytes(line * (MAX_BYTES // len(line)))
    for number in range(3):
        log.add(action(number + 1, "x" * 10_000))
    assert path.stat().st_size < MAX_BYTES and log.last(1)[0].at == 3.0
    assert len(log.last(10)) == 10


def test_lines_that_are_none_and_a_folder_in_the_way_hurt_nobody(tmp_path: Path) -> None:
    log = ActionLog(tmp_path)
    log.add(action(1))
    with (tmp_path / ACTIONS_FILE).open("ab") as file:
        file.write(b'half a li\n{"at": 1}\n[]\n\xff\n')
    log.add(action(2))
    assert [one.at for one in log.last(10)] == [2.0, 1.0]
    other = tmp_path / "other"
    (other / ACTIONS_FILE).mkdir(parents=True)
    ActionLog(other).add(action(1))
    assert ActionLog(other).last(1) == ()


def test_lines_of_wrong_types_and_one_line_without_end_hurt_nobody(tmp_path: Path) -> None:
    log = ActionLog(tmp_path)
    log.add(action(1))
    path = tmp_path / ACTIONS_FILE
    line = path.read_text(encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        for old, new in (("1.0", '"x"'), ("200", '"x"'), ('"POST"', "5"), ('"127.0.0.1"', "null")):
            file.write(line.replace(old, new))
    assert [one.at for one in log.last(10)] == [1.0]
    path.write_bytes(b"x" * (2 * MAX_BYTES))
    log.add(action(2))
    log.add(action(3))
    assert path.stat().st_size < MAX_BYTES and [one.at for one in log.last(10)] == [3.0]
