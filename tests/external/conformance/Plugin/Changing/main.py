"""Says that it is there."""

import json

print(json.dumps({"status": "success", "result": "here"}))
