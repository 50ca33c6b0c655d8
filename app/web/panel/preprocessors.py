"""The page of preprocessors: in which order plugins change a request before it is sent (5.7)."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.extend import DeclaredRoute, PageGroup, PanelPage, Stage
from app.web.panel.frame import Panel, panel_route

STAGES = {
    Stage.BEFORE_VARIABLES: ("变量之前", "before variables"),
    Stage.MEDIA: ("媒体", "media"),
    Stage.AFTER: ("变量之后", "after variables"),
    Stage.BEFORE_EACH_ROUND: ("每轮之前", "before each round"),
}
"""When a step runs, which goes before the order."""


class PreprocessorsPart:
    """The order, by drag and by keyboard; ``/admin_api/preprocessors/order`` saves it."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        return (PanelPage("preprocessors", PageGroup.PROMPTS, "预处理顺序", "Preprocessors", 40, "preprocessor order"),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page."""
        return (panel_route("/preprocessors", self._show),)

    async def _show(self, request: Request) -> Response:
        services = self._panel.services
        manifests = {plugin.name: plugin.manifest for plugin in services.found_plugins.plugins}
        offered = services.in_process.preprocessors()
        steps = [
            {
                "name": step.name,
                "display": manifests[step.name].display if step.name in manifests else step.name,
                "description": manifests[step.name].description if step.name in manifests else "",
                "stage": STAGES[step.stage],
            }
            for step in sorted(offered, key=lambda step: list(STAGES).index(step.stage))
        ]
        names = [step.name for step in offered]
        return self._panel.page(request, "preprocessors.html", "preprocessors", steps=steps, known=names)
