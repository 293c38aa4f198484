"""`t1 pool`: serve sandboxes of this machine to trials anywhere, and remove what dead owners left."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from t1cli.cli.boundary import guarded
from t1cli.errors import BadInput, CouldNotAsk, Diagnostic, ExitCode

if TYPE_CHECKING:
    from t1cli.terminal.sandbox.swept import Swept

MAX_TOKEN_FILE_BYTES = 1 << 20

group = typer.Typer(help="Serve sandboxes over HTTP, and sweep what dead owners left.", no_args_is_help=True)


def serve(  # noqa: PLR0913 - one option each
    directory: Annotated[Path, typer.Option(help="Records and verifier output of this server.")] = Path("pool"),
    host: Annotated[str, typer.Option(help="Address to listen on; beyond loopback a token is needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 18081,
    max_tasks: Annotated[int, typer.Option(min=1, help="Different tasks at once.")] = 16,
    max_runs_per_task: Annotated[int, typer.Option(min=1, help="Leases of one task at once.")] = 8,
    capacity: Annotated[int | None, typer.Option(min=1, help="Leases at once, whatever their tasks.")] = None,
    dataset: Annotated[Path | None, typer.Option(help="Directory of tasks that /reset may name.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with `name token` lines.")] = None,
    backend: Annotated[str, typer.Option(help="auto, bubblewrap or process.")] = "auto",
    max_waiting: Annotated[int, typer.Option(min=1, help="Requests that may wait; more are answered 429.")] = 4096,
    idle_seconds: Annotated[float, typer.Option(min=1.0, help="Unused leases are closed after this.")] = 600.0,
    drain_seconds: Annotated[float, typer.Option(min=0.0, help="Live leases may go on this long at the end.")] = 600.0,
    memory_mib: Annotated[int, typer.Option(min=16, help="Memory of one sandbox.")] = 1024,
    disk_mib: Annotated[int, typer.Option(min=1, help="Writable space of one sandbox.")] = 256,
) -> int:
    """Serve until SIGTERM, then drain. Prints one JSON line with the address when ready."""
    import asyncio

    from t1cli.spec.sandbox import LocalSandbox, SandboxLimits
    from t1cli.terminal.sandbox.local import local_provider
    from t1cli.terminal.sandbox.pool.operations import Pool
    from t1cli.terminal.sandbox.pool.server import Address
    from t1cli.terminal.sandbox.pool.server import serve as serve_pool
    from t1cli.terminal.sandbox.pool.settings import PoolSettings, PoolTimes, QueueLimits

    if backend not in ("auto", "bubblewrap", "process"):
        raise BadInput(f"backend {backend!r}", where="--backend", hint="auto, bubblewrap or process")
    settings = PoolSettings(
        directory=directory.resolve(),
        limits=QueueLimits(max_tasks, max_runs_per_task, capacity, max_waiting),
        times=PoolTimes(
            idle_seconds=idle_seconds, drain_seconds=drain_seconds, reap_every_seconds=min(5.0, idle_seconds / 4)
        ),
        dataset=None if dataset is None else dataset.resolve(),
        tokens=() if token_file is None else _tokens(token_file),
    )
    spec = LocalSandbox.model_validate(
        {
            "backend": backend,
            # The line decides who gets a place; a sandbox that is being replaced may overlap its successor.
            "capacity": 2 * settings.limits.slots,
            "limits": SandboxLimits(memory_mib=memory_mib, disk_mib=disk_mib),
        }
    )
    provider = local_provider(spec, settings.directory / "sandboxes")

    async def run() -> None:
        await serve_pool(Pool(settings, provider), Address(host, port), ready=typer.echo)

    asyncio.run(run())
    return ExitCode.YES


def sweep(
    place: Annotated[Path, typer.Argument(help="A run directory, or the directory of a pool server or of sandboxes.")],
    url: Annotated[list[str] | None, typer.Option(help="Pool servers to close a run's dead leases on.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Destroy the sandboxes that dead owners of this machine have on record below a directory."""
    from t1cli.terminal.sandbox.leases import NODE_PREFIX
    from t1cli.terminal.sandbox.sweep import sweep_record
    from t1cli.terminal.sandbox.swept import Swept
    from t1cli.ui.json_view import print_object

    if not place.is_dir():
        raise BadInput(f"{place} is no directory", where="PLACE", hint="runs/NAME, or what --directory of serve names")
    records = sorted(path.parent for path in place.rglob("leases.jsonl"))
    if not records and not any(place.rglob("journal.jsonl")):
        raise BadInput(f"no leases.jsonl below {place}", where="PLACE", hint="runs/NAME/…/sandboxes has one")
    swept: dict[str, Swept] = {}
    for record in records:
        # What was leased from servers is theirs to end; the record only has the names.
        is_leased = record.name == "pool" and record.parent.name.startswith(("sandboxes", NODE_PREFIX))
        swept[str(record)] = Swept(_sweep_leased(record, url or [])) if is_leased else sweep_record(record)
    if as_json:
        names = {where: list(found.names) for where, found in swept.items()}
        failed = {where: dict(found.failed) for where, found in swept.items() if found.failed}
        print_object({"format_version": 1, "swept": names, "failed": failed})
    else:
        for where, found in swept.items():
            typer.echo(f"{where}: {len(found.names)} swept" + "".join(f"\n  {name}" for name in found.names))
        if not swept:
            typer.echo(f"{place}: 0 swept, nothing was ever leased there")
    return _all_swept(swept)


def _all_swept(swept: Mapping[str, Swept]) -> int:
    """Raises CouldNotAsk with every sandbox that is still there."""
    left = tuple(
        Diagnostic(f"{name} is still there: {reason}", where, hint="it stays on record; the same command tries again")
        for where, found in swept.items()
        for name, reason in found.failed.items()
    )
    if left:
        raise CouldNotAsk.many(left)
    return ExitCode.YES


def _sweep_leased(record: Path, urls: list[str]) -> tuple[str, ...]:
    import asyncio

    from t1cli.spec.sandbox import PoolSandbox
    from t1cli.terminal.sandbox.pool.client import PoolProvider

    if not urls:
        typer.echo(f"{record}: leases of pool servers are left to their idle limit; --url closes them now", err=True)
        return ()
    provider = PoolProvider(PoolSandbox(urls=tuple(urls), max_tasks=1, max_runs_per_task=1), record.parent)

    async def run() -> tuple[str, ...]:
        try:
            return await provider.sweep(None)
        finally:
            await provider.close()

    return asyncio.run(run())


def _tokens(path: Path) -> tuple[tuple[str, str], ...]:
    """Names and tokens of a `name token` file. BadInput names every line that is none; a token is never shown."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_TOKEN_FILE_BYTES + 1)
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}", "--token-file", "one `name token` a line, in UTF-8") from error
    if len(content) > MAX_TOKEN_FILE_BYTES:
        raise BadInput(f"more than {MAX_TOKEN_FILE_BYTES} bytes", str(path), "one `name token` a line")
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    hint = "a name, a space, and a token of 16 or more characters"
    wrong = tuple(
        Diagnostic(f"line {number} is no `name token`", f"{path}:{number}", hint=hint)
        for number, parts in lines
        if len(parts) != 2 or len(parts[1]) < 16
    )
    if wrong:
        raise BadInput.many(wrong)
    if not lines:
        raise BadInput("no token in the file", str(path), "one `name token` a line")
    return tuple((parts[0], parts[1]) for _, parts in lines)


group.command("serve")(guarded(serve))
group.command("sweep")(guarded(sweep))
