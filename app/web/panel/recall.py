"""Why a prompt remembers what it remembers: a declaration asked with a question, with every part of every score."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.errors import BadRequestError, both
from app.extend import DeclaredRoute, PageGroup, PanelPage
from app.memory.diaries.notebooks import notebooks
from app.web.panel.frame import Panel, panel_route
from app.web.panel.notebooks import note_address

MAX_CHARS = 20_000
SHOWN_DROPPED = 50

PARTS = {
    "fused": ("融合", "fused"),
    "dense": ("语义", "meaning"),
    "lexical": ("词语", "words"),
    "neighbour": ("邻近", "neighbour"),
    "recency": ("新近", "recency"),
    "range": ("时间", "time"),
    "tags": ("标签", "tags"),
    "decay": ("衰减", "decay"),
    "rerank": ("重排", "rerank"),
    "cosine": ("余弦", "cosine"),
    "bm25": ("BM25", "BM25"),
}
"""Parts of a score by their names in explanations, in both languages."""


class RecallPart:
    """The page of explanations."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "explain 召回 检索 解释 为什么 recall rag"
        return (PanelPage("recall", PageGroup.MEMORY, "召回解释", "Why this was recalled", 20, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page and its answer."""
        return (panel_route("/recall", self._show), panel_route("/recall", self._explain, "POST"))

    async def _show(self, request: Request) -> Response:
        names = await asyncio.to_thread(notebooks, self._panel.services.in_force.notebooks)
        given = request.query_params
        return self._panel.page(
            request,
            "recall.html",
            "recall",
            names=names,
            declaration=given.get("declaration", "")[:MAX_CHARS],
            question=given.get("question", "")[:MAX_CHARS],
        )

    async def _explain(self, request: Request) -> Response:
        form = await self._panel.form(request)
        declaration, question = form.get("declaration", "")[:MAX_CHARS], form.get("question", "")[:MAX_CHARS]
        if not declaration.strip():
            raise BadRequestError(both("请填写声明，如 [[小克日记本]]", "write a declaration, such as [[Nova日记本]]"))
        messages = [{"role": "system", "content": declaration}, {"role": "user", "content": question}]
        services = self._panel.services
        texts = await services.parts_of_turn().preparation.operator_texts({"messages": messages}, "")
        found = await services.memory.recall.explain(texts, messages)
        return self._panel.fragment(
            request, "recall_answer.html", found=found, parts=PARTS, dropped_limit=SHOWN_DROPPED, link=_address
        )


def _address(path: str) -> str:
    notebook, _, file = path.partition("/")
    return note_address(notebook, file)
