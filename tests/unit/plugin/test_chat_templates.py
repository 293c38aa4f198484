"""Which chat template a campaign on slime gets: the family's, over the checkpoint that the spec names."""

from __future__ import annotations

import json
import logging
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from t1cli.embedded.template import TinyChatTemplate
from t1cli.errors import Refused
from t1cli.plugin.campaign import template_of
from t1cli.plugin.settings import settings_of
from t1cli.spec.experiment import ExperimentSpec
from t1cli.terminal.harness.chat.command_template import CommandTemplate

TEMPLATES = Path(__file__).parents[2] / "data" / "chat"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[[str], Path]:
    """A checkpoint directory with a tokenizer of single bytes and one of the test templates."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    letters = {letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])

    def make(template: str) -> Path:
        directory = tmp_path / template
        directory.mkdir()
        tokenizer.save(str(directory / "tokenizer.json"))
        (directory / "chat_template.jinja").write_text((TEMPLATES / f"{template}.jinja").read_text())
        (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": 258}))
        return directory

    return make


def spec_of(namespace: Callable[..., Namespace], *overrides: str) -> ExperimentSpec:
    return settings_of(namespace(*overrides, experiment="qwen3-8b-grpo")).spec


def test_a_known_family_appends(namespace: Callable[..., Namespace], checkpoint: Callable[[str], Path]) -> None:
    spec = spec_of(namespace, f"model.checkpoints.hf={checkpoint('qwen3')}")
    off, on = template_of(spec, thinking="off"), template_of(spec, thinking="on")
    assert isinstance(off, CommandTemplate) and off.renderer.is_append_only
    silent = off.decode(off.begin("Do it.").prompt_ids)
    assert silent.endswith("<think>\n\n</think>\n\n") and "Do it." in silent and '"shell"' in silent
    assert on.decode(on.begin("Do it.").prompt_ids).endswith("<|im_start|>assistant\n")
    assert template_of(spec, thinking="off") is off, "read once per process"


def test_a_checkpoint_that_cannot_be_appended_to_is_rendered_and_the_log_says_why(
    namespace: Callable[..., Namespace], checkpoint: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    spec = spec_of(namespace, f"model.checkpoints.hf={checkpoint('plain')}")
    with caplog.at_level(logging.WARNING):
        template = template_of(spec, thinking="off")
    assert isinstance(template, CommandTemplate) and not template.renderer.is_append_only
    assert "rendered as a whole" in caplog.text and "the template writes" in caplog.text


def test_a_family_of_ours_needs_no_checkpoint(namespace: Callable[..., Namespace]) -> None:
    spec = settings_of(namespace()).spec
    assert isinstance(template_of(spec, thinking="off"), TinyChatTemplate)


def test_without_a_checkpoint_there_is_nothing_to_render_with(namespace: Callable[..., Namespace]) -> None:
    with pytest.raises(Refused, match="no checkpoint"):
        template_of(spec_of(namespace, "model.checkpoints.hf=null"), thinking="off")
