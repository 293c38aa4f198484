"""Any machine that runs commands becomes a sandbox: our scripts in real bubblewrap, behind a provider that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from t1cli.spec.sandbox import SandboxLimits
from t1cli.terminal.sandbox.harbor import answers
from t1cli.terminal.sandbox.harbor import machine as machine_module
from t1cli.terminal.sandbox.harbor.bubblewrap_machine import BubblewrapMachine, as_harbor_says
from t1cli.terminal.sandbox.harbor.machine import Machine, prepared
from t1cli.terminal.sandbox.local import bubblewrap_problem
from t1cli.terminal.sandbox.sandbox import SandboxError

pytestmark = pytest.mark.skipif(bool(bubblewrap_problem()), reason=f"no bubblewrap here: {bubblewrap_problem()}")


@dataclass
class Provider:
    """A Harbor environment that loses the answers of calls whose number is in `loses`, after they have run."""

    inner: BubblewrapMachine
    loses: Callable[[int], bool] = lambda call: False
    calls: list[str] = field(default_factory=list)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> Any:
        self.calls.append(command)
        call = len(self.calls)
        result = await self.inner.run(command, cwd=cwd, env=env, seconds=timeout_sec, as_root=user == "root")
        if self.loses(call):
            raise ConnectionResetError("the answer was lost")
        # As providers do: the last line break is gone, and a banner came first.
        answer = as_harbor_says(result)
        answer.stdout = f"Welcome!\n{answer.stdout.rstrip()}"
        return answer

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self.inner.put_file(Path(source_path), target_path)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await self.inner.get_file(source_path, Path(target_path))


def inside(tmp_path: Path, body: Callable[[Machine, Provider], Awaitable[None]], **limits: int) -> None:
    async def whole() -> None:
        inner = BubblewrapMachine(tmp_path / "machine", SandboxLimits.model_validate(limits))
        await inner.begin(None)
        provider = Provider(inner)
        try:
            await body(await prepared(provider), provider)
        finally:
            await inner.end()

    asyncio.run(whole())


def test_a_command_whose_answers_get_lost_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "PAUSE_SECONDS", 0.01)

    async def body(machine: Machine, provider: Provider) -> None:
        before = len(provider.calls)
        provider.loses = lambda call: call <= before + 2
        result = await machine.exec("echo ran >> log; cat log; exit 5", timeout_seconds=120)
        assert (result.output, result.exit_code, len(provider.calls) - before) == ("ran\n", 5, 3)
        provider.loses = lambda call: True
        with pytest.raises(SandboxError, match="ConnectionResetError: the answer was lost"):
            await machine.exec("echo again >> log", timeout_seconds=120)
        provider.loses = lambda call: False
        assert (await machine.exec("cat log", timeout_seconds=120)).output == "ran\nagain\n"

    inside(tmp_path, body)


def test_a_long_command_is_asked_about_in_short_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "POLL_SECONDS", 0.2)

    async def body(machine: Machine, provider: Provider) -> None:
        before = len(provider.calls)
        result = await machine.exec("echo begun; until [ -e go ]; do sleep 0.1; done; echo done", timeout_seconds=120)
        assert (result.output, result.timed_out) == ("begun\ndone\n", False)
        assert len(provider.calls) - before >= 4

    async def go(machine: Machine, provider: Provider) -> None:
        running = asyncio.ensure_future(body(machine, provider))
        while len(provider.calls) < 6:
            await asyncio.sleep(0.05)
        await provider.inner.run("touch go", cwd=None, env=None, seconds=60, as_root=False)
        await running

    inside(tmp_path, go)


def test_background_jobs_hold_nothing_up_and_are_ended_though_they_hide(tmp_path: Path) -> None:
    async def body(machine: Machine, provider: Provider) -> None:
        # One keeps the output open, one leaves session, parent and environment, one has a name that cannot be parsed.
        odd = "cp /usr/bin/sleep $'od) Z 1\\nd'; ./$'od) Z 1\\nd' 300 &"
        result = await machine.exec(f"sleep 300 & env -i setsid -f sleep 300; {odd} echo out", timeout_seconds=120)
        assert (result.output, result.exit_code) == ("out\n", 0)
        assert await machine.end_processes() == 3
        assert await machine.end_processes() == 0
        assert (await machine.exec("echo alive", timeout_seconds=120)).output == "alive\n"

    inside(tmp_path, body)


def test_a_command_that_is_killed_or_fills_the_disk_still_ends(tmp_path: Path) -> None:
    async def body(machine: Machine, provider: Provider) -> None:
        killed = await machine.exec("kill -9 $PPID; kill -9 $$; sleep 60", timeout_seconds=120)
        assert (killed.exit_code, killed.timed_out) == (137, False)
        full = await machine.exec("cat /dev/zero > big; cat /dev/zero; exit 3", timeout_seconds=120)
        assert (full.exit_code, full.timed_out) == (3, False)
        after = await machine.exec("rm -f big; echo room", timeout_seconds=120)
        assert after.output == "room\n"

    inside(tmp_path, body, disk_mib=8)


def test_long_commands_files_and_outputs(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "large.bin").write_bytes(bytes(range(256)) * 1024)

    async def body(machine: Machine, provider: Provider) -> None:
        text = "x'y" * 60_000
        assert (await machine.exec(f": '{text}'\necho \"$0 long\"", timeout_seconds=120)).output.endswith(" long\n")
        await machine.put_directory(source, "/work", read_only=False)
        assert await machine.read_file("/work/large.bin", max_bytes=1 << 20) == (source / "large.bin").read_bytes()
        # Binary, and exactly at the limits of what is kept.
        for size in (65536, 65537, 131072, 131073):
            shown = (await machine.exec(f"head -c {size} large.bin | tr '\\200-\\377' 'x'", timeout_seconds=120)).output
            wanted = "".join(chr(byte) if byte < 128 else "x" for byte in range(256)) * 1024
            if size <= 131072:
                assert shown == wanted[:size]
            else:
                assert shown == f"{wanted[:65536]}\n[1 bytes left out]\n{wanted[size - 65536 : size]}"

    inside(tmp_path, body)


def test_what_was_planted_makes_way(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_text("placed")

    async def body(machine: Machine, provider: Provider) -> None:
        await machine.exec("mkdir real; ln -s real sub; ln -s /etc/passwd real/file; touch wall", timeout_seconds=120)
        await machine.put_directory(source, "/work", read_only=False)
        await machine.put_directory(source, "/work/wall", read_only=True)
        listed = await machine.exec("cat sub/file wall/sub/file; readlink real/file", timeout_seconds=120)
        assert listed.output == "placedplaced/etc/passwd\n"
        assert (await machine.exec("echo more >> sub/file && echo no >> wall/sub/file", timeout_seconds=120)).exit_code

    inside(tmp_path, body)


def test_an_image_without_what_is_needed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = (*machine_module.scripts.NEEDED, "no-such-program")
    monkeypatch.setattr(
        machine_module.scripts,
        "PREPARE",
        machine_module.scripts.PREPARE.replace(" ".join(needed[:-1]), " ".join(needed)),
    )

    async def body(machine: Machine, provider: Provider) -> None:
        raise AssertionError("was prepared")

    with pytest.raises(SandboxError, match="the image lacks no-such-program"):
        inside(tmp_path, body)
