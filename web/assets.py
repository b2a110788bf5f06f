"""The static files, and several style sheets as one. Event loop; files are read in pool threads."""

from __future__ import annotations

from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

OFFLINE_WORKER = "offline-worker.js"


class Assets(StaticFiles):
    """Static files whose address changes with their content. `css/a+b.css` is the sheets a and b, in this
    order.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        if "+" in path:
            try:
                sheets = await run_in_threadpool(self._joined, Path(path))
            except (OSError, ValueError):  # a name that no file can have
                raise HTTPException(404) from None
            response = Response(sheets, media_type="text/css")
        else:
            response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        if path == OFFLINE_WORKER:
            response.headers["Service-Worker-Allowed"] = "/"
        return response

    def _joined(self, path: Path) -> bytes:
        sheets = []
        for name in path.stem.split("+"):
            found, _ = self.lookup_path(str(path.with_name(f"{name}.css")))
            if not found:
                raise HTTPException(404)
            sheets.append(Path(found).read_bytes())
        return b"\n".join(sheets)
