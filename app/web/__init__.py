"""The FastAPI app: auth, errors, one thin file per route group."""
