"""The bubblewrap and nsenter command lines: what a sandbox sees, and what its commands may use."""

from __future__ import annotations

import os
import resource
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from t1cli.spec.sandbox import SandboxLimits
from t1cli.terminal.sandbox.interpreter import VerifierPython

TOOLS = ("bwrap", "nsenter", "setsid", "setpriv", "prlimit", "env", "sh")
"""Programs of the host that a bubblewrap sandbox is made of."""

PATH_INSIDE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

READY = b"ready\n"

_GRADING_BYTES = str(64 * 1024 * 1024)

_NAMESPACES = ("--mount", "--pid", "--ipc", "--uts", "--net")
_WITHOUT_PRIVILEGES = ("--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
_HELD = f"echo {READY.decode().strip()}; exec env --ignore-signal=CHLD cat >/dev/null 2>&1"
# Process 1 reads a pipe that only its owner can write to, and never does: it ends with its owner, also where the parent
# that bubblewrap's --die-with-parent goes by had died before process 1 came to ask for that.
# Process 1 ignores SIGCHLD so that the kernel reaps orphans: zombies would use up the process limit.
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "services", "protocols")


@dataclass(frozen=True)
class Confinement:
    """How one sandbox is confined.

    As root, namespaces are made without a user namespace and commands run under a user id of their own, so that the
    process limit is the sandbox's own and process 1 is out of reach. As another user, a user namespace does it.
    """

    limits: SandboxLimits
    user: int | None
    """User id of the commands when this process is root; None when it is not."""
    python: VerifierPython | None

    def holder(self, *, info_fd: int, passwd_fd: int, group_fd: int) -> tuple[str, ...]:
        """The command that makes the sandbox and keeps it; it prints READY when its root is in place."""
        return (
            tool("bwrap"),
            *self._isolation(),
            *("--info-fd", str(info_fd)),
            *self._root(),
            *("--perms", "0644", "--file", str(passwd_fd), "/etc/passwd"),
            *("--perms", "0644", "--file", str(group_fd), "/etc/group"),
            *("--chdir", "/work", "--", "/bin/sh", "-c", _HELD),
        )

    def command(self, init_pid: int, command: str, cwd: str) -> tuple[str, ...]:
        """The command that runs an agent's shell command inside, under all limits and without privileges."""
        user = () if self.user is None else (f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups")
        return (
            *(tool("prlimit"), *limit_arguments(self.limits, processes=True)),
            *self._entrance(init_pid),
            # A session of its own inside: so that it can be killed as a group without its reaper, nsenter.
            *("/usr/bin/setsid", "/usr/bin/setpriv", *user, *_WITHOUT_PRIVILEGES),
            *(shell(), "-c", 'cd -- "$1" && eval "$2"', "sh", cwd, command),
        )

    def trusted(self, init_pid: int, script: str, *arguments: str) -> tuple[str, ...]:
        """The command that runs a script of ours inside, outside the agent's process limit."""
        return (*self._entrance(init_pid), "/usr/bin/setsid", "/bin/sh", "-c", script, "sh", *arguments)

    def root_command(self, init_pid: int, command: str, cwd: str) -> tuple[str, ...]:
        """The command that runs a shell command inside as root, with the rights over files and processes alone."""
        rights = ("--bounding-set=-all,+chown,+dac_override,+fowner,+kill", *_WITHOUT_PRIVILEGES[1:])
        return (
            *self._entrance(init_pid),
            *("/usr/bin/setsid", "/usr/bin/setpriv", *rights),
            *(shell(), "-c", 'cd -- "$1" && eval "$2"', "sh", cwd, command),
        )

    def identities(self) -> tuple[str, str]:
        """Content of /etc/passwd and /etc/group inside."""
        root = "root:x:0:0:root:/work:/bin/sh\n"
        if self.user is None:
            return root, "root:x:0:\n"
        return f"{root}agent:x:{self.user}:{self.user}:agent:/work:/bin/sh\n", f"root:x:0:\nagent:x:{self.user}:\n"

    def _isolation(self) -> tuple[str, ...]:
        # uid 0 inside: any other id makes bubblewrap nest a second user namespace, which nsenter cannot join.
        user = () if self.user is not None else ("--unshare-user", "--uid", "0", "--gid", "0")
        network = () if self.limits.network else ("--unshare-net",)
        return (
            *user,
            *network,
            *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", "sandbox"),
            *("--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"),
        )

    def _root(self) -> tuple[str, ...]:
        # One tmpfs for everything that can be written, so that one size limit covers it.
        disk = str(self.limits.disk_mib * 1024 * 1024)
        found = (f"/etc/{name}" for name in _ETC)
        etc = tuple(part for path in found if os.path.exists(path) for part in ("--ro-bind", path, path))
        binds = () if self.python is None else self.python.binds
        return (
            *("--size", disk, "--perms", "0755", "--tmpfs", "/", "--ro-bind", "/usr", "/usr"),
            *_usr_links(),
            # bubblewrap itself covers /proc/sys only where it looks writable, which it is for root only later.
            *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
            *("--dev", "/dev", "--size", disk, "--perms", "1777", "--tmpfs", "/dev/shm"),
            *("--remount-ro", "/dev", "--perms", "1777", "--dir", "/tmp", "--dir", "/work"),
            # Apart from the agent's space, so that a full disk is graded like any other end.
            *(
                part
                for path in ("/tests", "/logs")
                for part in ("--size", _GRADING_BYTES, "--perms", "0755", "--tmpfs", path)
            ),
            *_directories(("/etc/passwd", *(target for _, target in binds))),
            *etc,
            *(part for source, target in binds for part in ("--ro-bind", source, target)),
        )

    def _entrance(self, init_pid: int) -> tuple[str, ...]:
        user = () if self.user is not None else ("--user", "--preserve-credentials")
        return (tool("nsenter"), f"--target={init_pid}", *user, *_NAMESPACES)


@lru_cache(maxsize=16)
def _directories(paths: tuple[str, ...]) -> tuple[str, ...]:
    # bubblewrap makes missing parents with mode 0700, which another user id cannot enter.
    parents = {str(parent) for path in paths for parent in Path(path).parents if parent != Path("/")}
    made = sorted(parent for parent in parents if not parent.startswith("/usr"))
    return tuple(part for parent in made for part in ("--perms", "0755", "--dir", parent))


def limit_arguments(limits: SandboxLimits, *, processes: bool) -> tuple[str, ...]:
    """prlimit's arguments. The process count is left out where it would count all of the user's processes."""
    allowed = allowed_limits(limits)
    return tuple(f"--{name}={value}" for name, value in allowed.items() if processes or name != "nproc")


def allowed_limits(limits: SandboxLimits) -> dict[str, int]:
    """Resource limits of one command: what the spec wants, or this process's hard limit where that is lower."""
    wanted = {
        "nofile": 1024,
        "core": 0,
        "fsize": limits.disk_mib * 1024 * 1024,
        "as": limits.memory_mib * 1024 * 1024,
        "nproc": limits.max_processes,
    }
    return {name: _allowed(getattr(resource, f"RLIMIT_{name.upper()}"), value) for name, value in wanted.items()}


@lru_cache(maxsize=16)
def tool(name: str) -> str:
    """Absolute path of a host program; the bare name when it is missing, so that starting it fails with that name."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{PATH_INSIDE}") or name


@lru_cache(maxsize=1)
def shell() -> str:
    """The shell that commands are run by: bash, which agents expect, or sh."""
    return "/usr/bin/bash" if Path("/usr/bin/bash").exists() else "/bin/sh"


def _allowed(kind: int, wanted: int) -> int:
    # Raising a limit above the hard one fails the whole command.
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


@lru_cache(maxsize=1)
def _usr_links() -> tuple[str, ...]:
    parts: list[str] = []
    for name in ("bin", "sbin", "lib", "lib64", "lib32"):
        path = Path("/") / name
        if path.is_symlink():
            parts += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            parts += ["--ro-bind", str(path), str(path)]
    return tuple(parts)
