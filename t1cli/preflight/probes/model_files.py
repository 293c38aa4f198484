"""A model's files on a node: configuration, tokenizer, chat template, converted weights, saved checkpoints."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MOST_BYTES = 4 << 20
_ITERATION = re.compile(r"iter_\d{7}")


def hugging_face(path: str) -> dict[str, Any]:
    """config.json, whether tokenizer and weights are there, and the chat template with its digest."""
    place = Path(path)
    if not place.is_dir():
        return {"exists": False}
    template = _template(place)
    return {
        "exists": True,
        "config": _json(place / "config.json"),
        "tokenizer": any((place / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")),
        "tokenizer_digest": _digest(place / "tokenizer.json"),
        "template": template,
        "template_digest": hashlib.sha256(template.encode()).hexdigest()[:12] if template else None,
        "weights_missing": _missing_shards(place),
    }


def chats(path: str, family: str, thinking: bool) -> dict[str, Any]:
    """`hugging_face`, and the framing by which trials append to their chats."""
    from t1cli.preflight.chat_template import appended_as

    found = hugging_face(path)
    if found["exists"] and found["tokenizer"] and found["template"]:
        found["appended"] = appended_as(path, family=family, thinking=thinking)
    return found


def torch_dist(path: str) -> dict[str, Any]:
    """A Megatron checkpoint directory: which iteration its tracker names, and what of it is missing."""
    place = Path(path)
    if not place.is_dir():
        return {"exists": False}
    tracker = _text(place / "latest_checkpointed_iteration.txt").strip()
    named = "release" if tracker == "release" else f"iter_{int(tracker):07d}" if tracker.isdigit() else ""
    directory = place / named if named else place
    shards = sorted(directory.glob("*.distcp")) if directory.is_dir() else []
    missing = [name for name in (".metadata", "common.pt") if not (directory / name).is_file()]
    return {
        "exists": True,
        "tracker": tracker,
        "directory": str(directory),
        "missing": missing + ([] if shards else ["*.distcp"]),
        "empty": [shard.name for shard in shards if shard.stat().st_size == 0],
        "bytes": sum(shard.stat().st_size for shard in shards),
    }


def saves(paths: Mapping[str, str]) -> dict[str, Any]:
    """By role: where its directory really is, what its tracker names, and which iterations have a manifest."""
    return {role: _saves(Path(path)) for role, path in paths.items()}


def _saves(place: Path) -> dict[str, Any]:
    if not place.is_dir():
        return {"exists": False, "resolved": str(place.resolve())}
    found = {
        entry.name: _json(entry / "manifest.json") for entry in place.iterdir() if _ITERATION.fullmatch(entry.name)
    }
    return {
        "exists": True,
        "resolved": str(place.resolve()),
        "tracker": _text(place / "latest_checkpointed_iteration.txt").strip(),
        "iterations": {
            name: None if manifest is None else {key: manifest.get(key) for key in ("role", "campaign", "rollout")}
            for name, manifest in sorted(found.items())
        },
    }


def _template(place: Path) -> str:
    separate = _text(place / "chat_template.jinja")
    if separate:
        return separate
    found = (_json(place / "tokenizer_config.json") or {}).get("chat_template")
    if isinstance(found, list):
        named = [one for one in found if isinstance(one, dict) and one.get("name") == "default"]
        found = named[0].get("template") if named else None
    return found if isinstance(found, str) else ""


def _missing_shards(place: Path) -> list[str]:
    index = _json(place / "model.safetensors.index.json")
    if index is None:
        return [] if any(place.glob("*.safetensors")) or any(place.glob("*.bin")) else ["*.safetensors"]
    names = index.get("weight_map")
    shards = sorted({str(name) for name in names.values()}) if isinstance(names, dict) else []
    return [name for name in shards if not (place / name).is_file()]


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(_text(path) or "null")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()[:12]
    except OSError:
        return None
