"""A checkpoint's own chat template: found beside its tokenizer, rendered in a sandbox, never changed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t1cli.errors import Refused
from t1cli.terminal.harness.chat.message import Message, Tool

if TYPE_CHECKING:
    import jinja2

TEMPLATE_FILE = "chat_template.jinja"
CONFIG_FILE = "tokenizer_config.json"
# Marks around what an assistant said, for masks; they render nothing.
_TRAINING_TAGS = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")


class CannotRender(Exception):
    """The template refuses these messages, for example two system messages; the text says why."""


@dataclass(frozen=True)
class CheckpointTemplate:
    """Jinja text as a checkpoint ships it, with the switches that keep history as it was."""

    source: str
    where: str = ""
    thinking: bool = False
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    """`bos_token`, `eos_token` and their like, as templates name them."""

    def render(self, messages: Sequence[Message], tools: Sequence[Tool] = (), *, reply: bool) -> str:
        """The whole chat as text, ending in the opening of a reply when asked. Raises CannotRender."""
        try:
            return self._compiled.render(
                messages=[message.for_template() for message in messages],
                tools=list(tools) or None,
                documents=None,
                add_generation_prompt=reply,
                enable_thinking=self.thinking,
                # Names that families use for one wish: reasoning of earlier turns stays in the history.
                clear_thinking=False,
                preserve_thinking=True,
                **self.special_tokens,
            )
        except Exception as error:
            # A template is a program of somebody else's: whatever it raises is its refusal.
            raise CannotRender(f"{type(error).__name__}: {error}") from error

    @cached_property
    def _compiled(self) -> jinja2.Template:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        # As Hugging Face's `apply_chat_template` sets its environment up; templates count on it.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
        return environment.from_string(_TRAINING_TAGS.sub("", self.source))


def checkpoint_template(directory: Path, *, thinking: bool) -> CheckpointTemplate:
    """The template of a checkpoint directory. Raises Refused when it has none."""
    own, config = directory / TEMPLATE_FILE, directory / CONFIG_FILE
    settings = _settings(config)
    special = {name: _token(settings.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
    if own.is_file():
        return CheckpointTemplate(own.read_text(encoding="utf-8"), str(own), thinking, special)
    source = settings.get("chat_template")
    if isinstance(source, list):  # several named templates; `default` is the one for chats
        source = {entry.get("name"): entry.get("template") for entry in source}.get("default")
    if not isinstance(source, str):
        raise Refused(
            f"no chat template: neither {TEMPLATE_FILE} nor `chat_template` in {CONFIG_FILE}",
            where=str(directory),
            hint="model.checkpoints.hf must name the directory of a chat model",
        )
    return CheckpointTemplate(source, f"{config}:chat_template", thinking, special)


def _settings(config: Path) -> dict[str, Any]:
    if not config.is_file():
        return {}
    try:
        found = json.loads(config.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused(f"not readable as JSON: {error}", where=str(config)) from error
    return found if isinstance(found, dict) else {}


def _token(value: Any) -> str:
    """A special token's text; older files hold it as an object."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _raise(message: str) -> None:
    raise ValueError(message)
