"""Names that strangers choose can neither forge log lines nor fill the disk."""

from __future__ import annotations

import io
import logging
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from app.observe.lines import MAX_MESSAGE_CHARS, BriefLines, LineFormatter, PlainRecord, ScreenLog, set_log


def written(message: str, *arguments: object, fault: BaseException | None = None) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter("%(levelname)s: %(message)s"))
    information = (type(fault), fault, fault.__traceback__) if fault else None
    handler.handle(logging.LogRecord("x", logging.INFO, "f", 1, message, arguments, information))
    return stream.getvalue()


@pytest.mark.parametrize(
    "end", ["\n", "\r", "\x85", "\u2028", "\x0b", "\x1b[2K", "\0", "\ud800", "\u202e", "\u2066", "\U000e0041"]
)
def test_a_message_is_one_line(end: str) -> None:
    line = written("tool %s", f"a{end}INFO: forged")
    assert len(line.splitlines()) == 1
    assert end not in line[:-1]
    assert line.startswith("INFO: tool a\\")


def test_ordinary_text_stays_as_it_is() -> None:
    assert written("日记 %s\tdone", "小克") == "INFO: 日记 小克\tdone\n"


def test_a_long_message_is_cut_and_says_so() -> None:
    line = written("tool %s", "n" * 1_000_000)
    assert len(line) < MAX_MESSAGE_CHARS + 100
    assert "(1000005 characters)" in line


def test_a_traceback_keeps_its_lines() -> None:
    assert written("failed", fault=ValueError("why")).splitlines() == ["INFO: failed", "ValueError: why"]


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("Asia/Shanghai", "2023-11-15 06:13:20.250+08:00"), ("America/New_York", "2023-11-14 17:13:20.250-05:00")],
)
def test_times_are_told_in_the_configured_zone(zone: str, expected: str) -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "", (), None)
    record.created = 1_700_000_000.25
    assert LineFormatter("%(asctime)s", ZoneInfo(zone)).format(record) == expected


def test_forms_that_share_a_record_each_tell_their_own_line() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "tool %s", ("a\nb",), None)
    record.created = 1_700_000_000.25
    screen = LineFormatter("%(asctime)s %(message)s", ZoneInfo("UTC"))
    file = LineFormatter("[%(levelname)s] %(message)s %(asctime)s", ZoneInfo("UTC"))
    elsewhere = LineFormatter("%(asctime)s", ZoneInfo("Asia/Tokyo"))
    assert screen.format(record) == "2023-11-14 22:13:20.250+00:00 tool a\\nb"
    assert file.format(record) == "[INFO] tool a\\nb 2023-11-14 22:13:20.250+00:00"
    assert elsewhere.format(record) == "2023-11-15 07:13:20.250+09:00"


def test_a_message_is_made_once_however_many_forms_write_it() -> None:
    class Counted:
        times = 0

        def __str__(self) -> str:
            self.times += 1
            return "text"

    counted = Counted()
    record = logging.LogRecord("x", logging.INFO, "f", 1, "%s", (counted,), None)
    for layout in ("%(message)s", "[%(message)s]"):
        LineFormatter(layout, ZoneInfo("UTC")).format(record)
    assert counted.times == 1


def test_level_and_zone_can_be_set_anew_while_others_forms_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    ours, others = logging.StreamHandler(io.StringIO()), logging.StreamHandler(io.StringIO())
    ours.setFormatter(LineFormatter("%(asctime)s", ZoneInfo("UTC")))
    others.setFormatter(logging.Formatter("%(asctime)s"))
    monkeypatch.setattr(root, "handlers", [ours, others])
    before = root.level
    try:
        set_log(logging.DEBUG, ZoneInfo("Asia/Tokyo"))
        assert root.level == logging.DEBUG
        root.debug("x")
        assert ours.stream.getvalue().endswith("+09:00\n")
        assert "+" not in others.stream.getvalue()
    finally:
        root.setLevel(before)


@pytest.mark.parametrize(
    "moment", [1767573000.0, 1767573000.9994, 1767573000.9999997, 1767573001.0005, 0.0, 1792893600.5]
)
def test_times_are_those_of_the_calendar_though_their_seconds_are_remembered(moment: float) -> None:
    zone = ZoneInfo("Europe/Berlin")
    formatter = LineFormatter("%(asctime)s", zone)
    for created in (moment - 3600, moment, moment + 0.001, moment + 3600):
        record = PlainRecord("x", logging.INFO, "f", 1, "m", (), None)
        record.created = created
        assert formatter.format(record) == datetime.fromtimestamp(created, zone).isoformat(" ", "milliseconds")


def test_another_zone_counts_at_once_also_within_a_second() -> None:
    formatter = LineFormatter("%(asctime)s", ZoneInfo("UTC"))
    lines = []
    for zone in ("UTC", "Asia/Shanghai"):
        formatter.zone = ZoneInfo(zone)
        record = PlainRecord("x", logging.INFO, "f", 1, "m", (), None)
        record.created = 1767573000.25
        lines.append(formatter.format(record))
    assert lines == ["2026-01-05 00:30:00.250+00:00", "2026-01-05 08:30:00.250+08:00"]


def test_a_plain_record_has_all_that_layouts_ask_for() -> None:
    """Programs beside this one may set layouts of their own; what is not known is empty and no error."""
    everything = "%(name)s %(levelname)s %(pathname)s%(filename)s%(module)s:%(lineno)d %(funcName)s %(msecs)03d "
    everything += "%(thread)s %(threadName)s %(process)s %(processName)s %(relativeCreated)d %(message)s"
    record = PlainRecord("x", logging.WARNING, "f", 7, "%(what)s", ({"what": "by name"},), None)
    line = logging.Formatter(everything).format(record)
    assert line.startswith("x WARNING :0 None ")
    assert line.endswith("by name")
    assert 0 <= record.msecs < 1000


def test_a_line_for_the_screen_is_there_at_once_and_one_that_cannot_be_written_harms_nobody(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = io.StringIO()
    screen = ScreenLog(stream)
    screen.setFormatter(LineFormatter("%(message)s"))

    def record(message: str, *arguments: object) -> logging.LogRecord:
        return PlainRecord("x", logging.INFO, "f", 1, message, arguments, None)

    assert screen.handle(record("one %s", "line"))
    assert stream.getvalue() == "one line\n"
    screen.handle(record("%d", "no number"))  # told on stderr, as the library does
    stream.close()
    screen.handle(record("nobody reads this"))
    told = capsys.readouterr().err
    assert "not all arguments" in told or "number is required" in told or "real number" in told
    assert "closed file" in told


def test_a_filter_of_the_screen_has_its_way() -> None:
    stream = io.StringIO()
    screen = ScreenLog(stream)
    screen.addFilter(lambda record: "secret" not in record.getMessage())
    screen.handle(PlainRecord("x", logging.INFO, "f", 1, "a secret", (), None))
    screen.handle(PlainRecord("x", logging.INFO, "f", 1, "a word", (), None))
    assert stream.getvalue() == "a word\n"


def brief(message: str, *arguments: object, exc_info: object = None, folders: tuple[str, ...] = ()) -> str:
    formatter = BriefLines("%(levelname)s %(message)s", ZoneInfo("UTC"), folders=folders)
    return formatter.format(PlainRecord("x", logging.ERROR, "f", 1, message, arguments, exc_info))


def test_a_brief_line_has_no_stack_and_of_an_exception_only_its_kind() -> None:
    """STD-47."""
    try:
        raise RuntimeError("a secret")
    except RuntimeError as error:
        line = brief("it failed in %s", "here", exc_info=(type(error), error, error.__traceback__))
    assert line == "ERROR it failed in here (RuntimeError)"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("/home/somebody/books/a.txt: cannot be read", "a.txt: cannot be read"),
        ("in /var/lib/x/ and '/etc/passwd'", "in x and 'passwd'"),
        (r"C:\Users\somebody\a.txt is gone", "a.txt is gone"),
        ("/a folder/with blanks/config.env:3: wrong", "…/config.env:3: wrong"),
        ("see https://example.com/a/b and 1/2/3 and a/b", "see https://example.com/a/b and 1/2/3 and a/b"),
        ("中文 / English", "中文 / English"),
        ("one line\nand its details", "one line"),
    ],
)
def test_a_brief_line_names_no_place_of_this_machine(message: str, line: str) -> None:
    """STD-47."""
    assert brief(message, folders=("/a folder/with blanks", "/")) == f"ERROR {line}"
