"""A small MCP server on its standard streams, without any library, so that fifty of them start quickly.

``python bench/mcp_peer.py TOOLS`` has so many tools. Each answers with the text that it is given; ``slow`` as the text
takes a fifth of a second, in which the process may be killed.
"""

import json
import sys
import time

_VERBS = ("list", "read", "create", "update", "delete", "search", "export", "import", "watch", "count")


def _tool(number: int) -> dict[str, object]:
    properties = {
        "text": {"type": "string", "description": "What comes back"},
        "limit": {"type": "integer", "description": "Most entries that are returned", "minimum": 1, "maximum": 100},
        "order": {"type": "string", "enum": ["newest", "oldest", "relevance"], "description": "Which come first"},
    }
    verb = _VERBS[number % len(_VERBS)]
    return {
        "name": f"{verb}_things_{number}",
        "description": f"{verb.capitalize()} things of kind {number}. Returns names, times and a summary of each.",
        "inputSchema": {"type": "object", "properties": properties, "additionalProperties": False},
    }


def _result(method: str, params: dict[str, object], tools: list[dict[str, object]]) -> dict[str, object] | None:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "peer", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": tools}
    if method == "tools/call":
        given = params.get("arguments")
        text = str(given.get("text", "")) if isinstance(given, dict) else ""
        if text.startswith("slow"):
            time.sleep(0.2)
        return {"content": [{"type": "text", "text": text}]}
    return None


def main() -> None:
    """Answer until standard input ends."""
    tools = [_tool(number) for number in range(int(sys.argv[1]))]
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        result = _result(request["method"], request.get("params") or {}, tools)
        if result is None:
            answer["error"] = {"code": -32601, "message": "there is no such method"}
        else:
            answer["result"] = result
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
