"""One owner per checkpoint directory: a claim is left in it before anything is saved there."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from t1cli.errors import Refused
from t1cli.records import read_json, write_json
from t1cli.run.checkpoint_manifest import Owner, saved_rollouts

CLAIM: Final = "t1_campaign.json"


def claim_problem(directory: Path, owner: Owner) -> str:
    """Why a directory must not be saved into; empty when it is free or this run's own."""
    claim = read_json(directory / CLAIM)
    if claim is None and (directory / CLAIM).exists():
        return f"its {CLAIM} cannot be read; remove that file if no other campaign saves there"
    if claim is None:
        if saved := saved_rollouts(directory):
            return f"it holds checkpoints of unknown origin (rollouts {saved[0]} to {saved[-1]})"
        return ""
    if claim.get("run_dir") != owner.run_dir:
        return f"it belongs to {claim.get('run_dir')} (campaign `{claim.get('campaign')}`)"
    if claim.get("role") != owner.role:
        return f"it is the {claim.get('role')}'s, not the {owner.role}'s"
    if claim.get("family") != owner.family:
        return f"it belongs to another campaign that was also called `{claim.get('campaign')}`"
    return ""


def claim(directory: Path, owner: Owner) -> None:
    """Make a directory this run's. Of several that try at once, on any host, one succeeds; Refused for the others."""
    problem = claim_problem(directory, owner)
    if not problem and not (directory / CLAIM).exists():
        _leave(directory, owner)
        # Whoever was first stands there now.
        problem = claim_problem(directory, owner)
    if problem:
        raise Refused(
            f"the {owner.role} cannot save here: {problem}",
            where=str(directory),
            hint=f"another directory for checkpoint.{owner.role}_dir, or none: then it lies in the run directory",
        )


def _leave(directory: Path, owner: Owner) -> None:
    """Put a claim down unless there is one by now. It appears whole, where the file system has hard links."""
    aside = directory / f".{CLAIM}.{secrets.token_hex(8)}"
    write_json(aside, asdict(owner))
    try:
        os.link(aside, directory / CLAIM)
    except FileExistsError:
        pass
    except OSError:
        _create(directory / CLAIM, aside.read_bytes())
    finally:
        aside.unlink(missing_ok=True)


def _create(path: Path, content: bytes) -> None:
    with suppress(FileExistsError), path.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
