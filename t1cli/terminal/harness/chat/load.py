"""The renderer of a checkpoint directory: by appending when a framing of its family is what its template writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t1cli.errors import Refused
from t1cli.terminal.harness.chat.checkpoint_template import CannotRender, CheckpointTemplate, checkpoint_template
from t1cli.terminal.harness.chat.checkpoint_tokenizer import checkpoint_tokenizer
from t1cli.terminal.harness.chat.dialect import Dialect
from t1cli.terminal.harness.chat.families import dialects_of
from t1cli.terminal.harness.chat.message import Message
from t1cli.terminal.harness.chat.pieces import Control, Tokenizer
from t1cli.terminal.harness.chat.probe import NoOpening, differences, reply_opening
from t1cli.terminal.harness.chat.renderer import AppendOnlyRenderer, Renderer, WholeRenderer


def checkpoint_renderer(directory: Path, *, family: str, thinking: bool) -> Renderer:
    """The renderer of a model's checkpoint. Raises Refused when its tokenizer or its template cannot be used."""
    template = checkpoint_template(directory, thinking=thinking)
    return renderer_of(checkpoint_tokenizer(directory), template, family=family, stop_ids=_own_stop_ids(directory))


def renderer_of(
    tokenizer: Tokenizer, template: CheckpointTemplate, *, family: str, stop_ids: tuple[int, ...] = ()
) -> Renderer:
    """The renderer for a tokenizer and a template. Raises Refused when the template opens no reply."""
    try:
        opening = reply_opening(template)
        dialects = dialects_of(family, thinking=template.thinking)
        remarks = [_remark(dialect, template, tokenizer) for dialect in dialects]
    except (NoOpening, CannotRender) as problem:
        raise Refused(f"the chat template cannot be used: {problem}", where=template.where) from problem
    for dialect, remark in zip(dialects, remarks, strict=True):
        if not remark:
            ids = _merged(tuple(tokenizer.controls[name] for name in dialect.stops), stop_ids)
            return AppendOnlyRenderer(
                tokenizer=tokenizer, template=template, stop_ids=ids, opening=opening, dialect=dialect
            )
    remark = "; ".join(remarks) or f"no framing is known for family `{family}`"
    if not stop_ids:
        raise Refused(
            f"no token is known to end a reply, and {remark}",
            where=template.where,
            hint="`eos_token_id` in the checkpoint's generation_config.json names it",
        )
    return WholeRenderer(tokenizer=tokenizer, template=template, stop_ids=stop_ids, opening=opening, remark=remark)


def _remark(dialect: Dialect, template: CheckpointTemplate, tokenizer: Tokenizer) -> str:
    """Why a framing cannot be used with this checkpoint; empty when it can."""
    framing = dialect.after_reply(None, [Message(role) for role in ("system", "user", "tool")])
    used = (*dialect.stops, *(piece.name for piece in framing if isinstance(piece, Control)))
    missing = [name for name in dict.fromkeys(used) if name not in tokenizer.controls]
    if missing:
        return f"{dialect.name}: the tokenizer has no {' '.join(missing)}"
    first = next(differences(dialect, template), None)
    return "" if first is None else f"{dialect.name}: {first}"


def _own_stop_ids(directory: Path) -> tuple[int, ...]:
    """What the checkpoint itself says ends a reply."""
    for name in ("generation_config.json", "config.json"):
        found = _settings(directory / name).get("eos_token_id")
        listed = found if isinstance(found, list) else [found]
        ids = tuple(token for token in listed if isinstance(token, int))
        if ids:
            return ids
    return ()


def _settings(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _merged(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys((*first, *second)))
