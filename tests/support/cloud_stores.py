"""Servers of Google's and Azure's object stores, in separate processes behind breakable links.

`scripts/set_up_emulators.sh` installs them. Both store objects in memory, so killing one is like
losing a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sparkflow.export.model_files import MODEL_FILE
from sparkflow_runtime.files import system
from sparkflow_runtime.testing.faulty_link import FaultyLink
from support.object_store import ObjectStore, server_process

PLACE: Final = Path(__file__).parents[2] / ".venv-emulators"
AZURITE: Final = PLACE / "node_modules/.bin/azurite-blob"
GOOGLE: Final = PLACE / "bin/python"

_GOOGLE_SERVER: Final = r"""
import json, os, sys
from http.server import ThreadingHTTPServer
from gcp_storage_emulator import server
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects

# What Google's own does and the emulator does not: several calls at once, objects whose names end
# with a slash, and a listing of one level that has those of the level below.
server.server.HTTPServer = ThreadingHTTPServer
listed = objects.ls

def ls(request, response, storage, *more, **others):
    listed(request, response, storage, *more, **others)
    if request.query.get("includeTrailingDelimiter") == ["true"]:
        found = json.loads(response._content)
        for each in found["prefixes"]:
            try:
                found["items"].append(storage.get_file_obj(request.params["bucket_name"], each))
            except NotFound:
                pass
        response.json(found)

server.HANDLERS = tuple(
    (
        path.replace(r".*[^/]+)", ".+)"),
        {method: ls if act is listed else act for method, act in acts.items()},
    )
    for path, acts in server.HANDLERS
)
running = server.create_server("127.0.0.1", 0, True, "bucket")
running.start()
print("http://%s:%d" % running._api._httpd.server_address, flush=True)
sys.stdin.read()
os._exit(0)  # with the tests' process, if that is killed
"""
_ACCOUNT: Final = "devstoreaccount1"
_KEY: Final = (  # Azurite's, which everybody knows
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


def why_not(scheme: str) -> str:
    """Returns why there is no server for a scheme; "" if there is one."""
    there = GOOGLE if scheme == "gs" else AZURITE
    return "" if there.exists() else f"{there} is missing: run scripts/set_up_emulators.sh"


@contextmanager
def cloud_store(scheme: str, patch: Any) -> Iterator[ObjectStore]:
    """Starts a server with an empty bucket; it ends with the block.

    Args:
        scheme: `gs` or `abfs`.
        patch: pytest's `monkeypatch`. For `abfs`, pyarrow's file system is created with an account
            key: its URIs cannot contain one, and the requests to Azure's login need TLS.
    """
    if scheme == "gs":
        command = [str(GOOGLE), "-c", _GOOGLE_SERVER]
    else:
        command = ["node", str(AZURITE), "--inMemoryPersistence", "--disableTelemetry"]
        command += ["--blobHost", "127.0.0.1", "--blobPort", "0", "--skipApiVersionCheck"]
    with server_process(command) as process:
        assert process.stdout is not None
        found = (re.search(r"http://(127\.0\.0\.1:[1-9]\d*)", line) for line in process.stdout)
        link = FaultyLink(next(each[1] for each in found if each is not None))
        environment = {"CLOUD_STORAGE_EMULATOR_ENDPOINT": f"http://{link.address}"}
        try:
            if scheme == "gs":
                patch.setenv(*environment.popitem())
                root = "gs://anonymous@bucket"
            else:
                root = f"abfs://bucket@{_ACCOUNT}.dfs.core.windows.net"
                lead_to(link.address, root, patch).create_dir("bucket")
            yield ObjectStore(process, link, root, environment)
        finally:
            link.close()


def lead_to(address: str, root: str, patch: Any) -> Any:
    """Makes URIs below `root` use an account with a known key, and otherwise work as in pyarrow.

    Returns pyarrow's file system.
    """
    from pyarrow import fs

    where = {
        f"{each}_storage_{part}": value
        for each in ("blob", "dfs")
        for part, value in (("authority", address), ("scheme", "http"))
    }
    azure = fs.AzureFileSystem(_ACCOUNT, account_key=_KEY, **where)
    before = system._elsewhere

    def elsewhere(uri: str) -> tuple[Any, str]:
        if not uri.startswith(root):
            return before(uri)
        return azure, f"bucket{uri.removeprefix(root)}"

    patch.setattr(system, "_elsewhere", elsewhere)
    return azure


def files_of_model(folder: Path) -> dict[str, bytes]:
    """Returns the files of a saved model in the order of writing: the description is last."""
    files = {each.name: each.read_bytes() for each in folder.iterdir()}
    return {name: files[name] for name in sorted(files, key=lambda name: name == MODEL_FILE)}
