"""`pivotal serve`: the live page."""

from __future__ import annotations

from typing import Annotated

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import argument, in_output
from pivotal.errors import PivotalError


def serve(
    run_folders: Annotated[
        list[str] | None,
        argument("Runs, or folders of runs and studies. Default: runs/.", metavar="[FOLDER]..."),
    ] = None,
    port: Annotated[
        int, in_output("The port on this machine; 0 takes any free one.", min=0, max=65535)
    ] = 8765,
    browser: Annotated[bool, in_output("Open the page in a browser.", "--open")] = False,
    device: shared_options.Device = None,
) -> None:
    """Serve a live page: type a sentence, set the units of a run, and see what the model predicts.

    For a folder of runs, such as runs/, the page starts with a table of them. The page can try your own pairs and start
    a search. Only this machine can reach it. Ctrl-C stops the server and saves a running search.
    """
    from pivotal.cli.list import RUNS
    from pivotal.models import device_named

    try:
        from pivotal.serve.server import LiveServer
    except ModuleNotFoundError as error:
        raise PivotalError(f"The live page needs {error.name}: pip install 'pivotal[serve]'.") from None
    if device is not None:
        device_named(device)
    server = LiveServer(run_folders or (), root=RUNS, port=port, device=device, say=terminal.note)
    terminal.line(f"The live page is at {server.address}")
    terminal.note("Ctrl-C stops it.")
    if browser:
        import webbrowser

        webbrowser.open(server.address)
    server.run()
