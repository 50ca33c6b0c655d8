"""The measuring parts run from end to end, and their arithmetic is right. No figure is judged here."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import table
from bench.child import BenchError, cpu_seconds
from bench.comparison import Row, row_of
from bench.load import Job, Measured, Pool, measure
from bench.replies import Shape, request_body

ROOT = Path(__file__).parents[2]


def test_a_tiny_run_prints_a_ratio_for_every_measurement_and_writes_them_as_json(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench", "--tiny", "--json", str(figures)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows = json.loads(figures.read_text("utf-8"))["rows"]
    assert {(row["connections"], row["case"], row["what"]) for row in rows} == {
        (connections, case, what)
        for connections in (1, 2)
        for case, what in (
            ("plain", "requests"),
            ("plain", "CPU per request"),
            ("stream", "requests"),
            ("stream", "CPU per request"),
            ("a chunk of its own", "CPU per chunk"),
            ("paced stream", "added time to first token, p50"),
        )
    }
    requests = [row for row in rows if row["what"] == "requests"]
    assert all(row["baseline"] > 0 and row["server"] > 0 and row["ratio"] > 0 for row in requests)
    assert "ratio" in done.stdout


def test_a_shape_is_told_by_the_name_of_the_model() -> None:
    for shape in (Shape(1), Shape(10, 5000), Shape(60, whole=True), Shape(10, tool=True)):
        assert Shape.of(shape.model) == shape
    with pytest.raises(ValueError, match="canned"):
        Shape.of("gpt-1-2-3-4")


def test_the_processor_time_of_another_process_grows_with_its_work() -> None:
    script = "print(sum(range(3_000_000)), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        before = cpu_seconds(child.pid)
        assert child.stdout is not None
        child.stdout.readline()
        after = cpu_seconds(child.pid)
        child.communicate("\n")
    if sys.platform == "linux":
        assert before is not None and after is not None and after > before
    else:
        assert before is after is None


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 500 Oh\r\ncontent-length: 13\r\n\r\n{"content":1}',
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\n"content"\r\n0\r\n\r\n',
        b"",
    ],
    ids=["status", "no text", "empty stream", "no end mark", "hung up"],
)
def test_a_bad_answer_ends_the_measurement(answer: bytes) -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}]")
        writer.write(answer)
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            body = request_body(Shape(1), stream=True).decode()
            pool = Pool()
            with pytest.raises(BenchError, match="1 of 1 answers"):
                await measure(pool, Job(f"http://127.0.0.1:{port}/x", "k", body, 1, 0, 0))
            pool.close()

    asyncio.run(asyncio.wait_for(main(), 20))


def test_rates_and_costs_are_per_second_and_per_request() -> None:
    measured = Measured(requests=200, seconds=4.0, first=0.001, cpu=0.5)
    assert measured.rate == 50
    assert measured.cpu_each == 0.0025
    assert Measured(200, 4.0, 0.001, None).cpu_each is None


def test_the_table_shows_what_could_not_be_measured_as_a_dash() -> None:
    text = table([Row("plain", "CPU per request", "us", 32, None, 1234.5, None, "lower")])
    assert text.splitlines()[1].split() == [
        "32", "plain", "CPU", "per", "request", "-", "1,234", "us", "-", "lower",
    ]  # fmt: skip


@pytest.mark.parametrize(("baseline", "server"), [(-0.4, 6.0), (0.3, -0.9), (0.0, 1.0)])
def test_a_difference_that_is_lost_in_the_noise_has_no_ratio(baseline: float, server: float) -> None:
    row = row_of("many", "CPU per chunk", "us", 32, [(baseline, server)] * 2 + [(1.0, 2.0)], "lower")
    assert (row.baseline, row.server, row.ratio) == (baseline, server, None)
