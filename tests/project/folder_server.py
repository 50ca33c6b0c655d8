"""A small MCP server on its standard streams, without the SDK: the files of the folder that is its last argument.

Where its working directory has a file ``words``, that is what it says of its tools.
"""

import json
import pathlib
import sys

FOLDER = pathlib.Path(sys.argv[-1])
WORDS = pathlib.Path("words")


def tool(name):
    told = WORDS.read_text(encoding="utf-8") if WORDS.exists() else f"What {name} does"
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return {"name": name, "description": told, "inputSchema": schema}


def result(method, params):
    if method == "initialize":
        who = {"name": "folder", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": who}
    if method == "tools/list":
        return {"tools": [tool("list_directory"), tool("read_text_file")]}
    if method == "tools/call":
        path = FOLDER / params["arguments"]["path"]
        listed = params["name"] == "list_directory"
        text = "\n".join(sorted(item.name for item in path.iterdir())) if listed else path.read_text(encoding="utf-8")
        return {"content": [{"type": "text", "text": text}]}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    answer = result(request["method"], request.get("params") or {})
    told = {"error": {"code": -32601, "message": "unknown"}} if answer is None else {"result": answer}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **told}), flush=True)
