"""Static plugins of a node: their texts become placeholders of the main server (spec 6.4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.node.bench import main_end, running_node
from tests.server import run, write_plugin

STATIC = {
    "pluginType": "static",
    "capabilities": {"systemPromptPlaceholders": [{"placeholder": "{{ShedWeather}}"}]},
}


def test_texts_are_sent_after_the_first_run_and_again_when_they_change(tmp_path: Path) -> None:
    folder = write_plugin(tmp_path, "Weather", "print(open('now').read())", **STATIC)
    (folder / "now").write_text("dry")

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url, config=["RunStaticPlugins=true"]) as node:
            link, registered = await main.introduced()
            assert registered["tools"] == []
            told = await link.receive("update_static_placeholders")
            assert told == {"serverName": "shed", "placeholders": {"{{ShedWeather}}": "dry"}}
            await node.services.statics.refresh("Weather")  # the first run may still be writing its text down
            (folder / "now").write_text("wet")
            await node.services.statics.refresh("Weather")
            told = await link.receive("update_static_placeholders")
            assert told["placeholders"] == {"{{ShedWeather}}": "wet"}
            await asyncio.sleep(0.05)
            (folder / "plugin-manifest.json").rename(folder / "plugin-manifest.json.block")
            await node.services.reload()
            told = await link.receive()  # nothing was sent in between: the text was the same
            assert told == {"serverName": "shed", "placeholders": {"{{ShedWeather}}": None}}
            (folder / "plugin-manifest.json.block").rename(folder / "plugin-manifest.json")
            await node.services.reload()
            while (await link.receive())["placeholders"] != {"{{ShedWeather}}": "wet"}:
                pass

    run(test())


def test_texts_that_do_not_fit_are_left_out(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Big", "print('x' * 990_000)", **STATIC)
    two = {**STATIC, "capabilities": {"systemPromptPlaceholders": [{"placeholder": "{{Small}}"}]}}
    write_plugin(tmp_path, "Small", "print('y' * 100_000)", **two)
    config = ["RunStaticPlugins=true", "NodeMaxFrameMB=1"]

    async def test() -> None:
        async with main_end() as main, running_node(tmp_path, main.url, config=config) as node:
            link, _ = await main.introduced()
            await node.services.statics.refresh("Big")
            await node.services.statics.refresh("Small")
            while set(told := (await link.receive("update_static_placeholders"))["placeholders"]) != {"{{Small}}"}:
                assert len(str(told)) < 1024 * 1024

    run(test())
