"""model and checkpoints: directories as they really lie on a disk, whole, torn, foreign and missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from t1cli.preflight.chat_template import compare, relation_of
from t1cli.preflight.check import Context
from t1cli.preflight.checks.model import expected
from tests.unit.preflight.conftest import Ask, MakeContext

GRPO, T1 = "qwen3-8b-grpo", "t1-strategy15k"

APPEND = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CUTS_THINKING = APPEND.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")


def checkpoint(place: Path, **config: Any) -> Path:
    """A Hugging Face directory of Qwen3-8B's shape."""
    place.mkdir(parents=True)
    shape = {"hidden_size": 4096, "num_hidden_layers": 36, "vocab_size": 151936, "num_key_value_heads": 8}
    (place / "config.json").write_text(json.dumps({**shape, **config}))
    (place / "tokenizer.json").write_text("{}")
    (place / "chat_template.jinja").write_text(APPEND)
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "one.safetensors"}}))
    (place / "one.safetensors").write_bytes(b"x")
    return place


def of(context_of: MakeContext, place: Path, key: str = "hf") -> Context:
    return context_of(GRPO, f"model.checkpoints.{key}={place}")


@pytest.mark.catalogue("C7")
def test_the_config_is_compared_with_the_preset(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    assert ask("model.config", of(context_of, checkpoint(tmp_path / "good"))).status == "pass"
    other = checkpoint(tmp_path / "other", num_hidden_layers=48, text_config={"hidden_size": 2048})
    saw = ask("model.config", of(context_of, other))
    assert saw.status == "fail"
    assert "hidden_size is 2048, the preset says 4096" in saw.found and "num_hidden_layers is 48" in saw.found
    assert ask("model.config", of(context_of, tmp_path / "absent")).status == "fail"


@pytest.mark.parametrize(
    "config,says",
    [
        ({"intermediate_size": 12288, "rms_norm_eps": 1e-6, "rope_parameters": {"rope_theta": 1000000}}, ""),
        ({"intermediate_size": 11008}, "intermediate_size is 11008, the preset says 12288"),
        ({"rms_norm_eps": 1e-5}, "rms_norm_eps is 1e-05, the preset says 1e-06"),
        ({"rope_theta": 10000}, "rope_theta is 10000, the preset says 1000000"),
        ({"rope_theta": 1000000, "rope_parameters": {"rope_theta": 5000000}}, "rope_theta is 5000000"),
    ],
)
def test_what_slime_asserts_of_the_config_is_seen_before(
    context_of: MakeContext, ask: Ask, tmp_path: Path, config: dict[str, Any], says: str
) -> None:
    saw = ask("model.config", of(context_of, checkpoint(tmp_path / "m", **config)))
    assert saw.status == ("fail" if says else "pass") and says in saw.found


def test_a_model_of_experts_alone_has_no_dense_width(context_of: MakeContext) -> None:
    assert "intermediate_size" not in expected(context_of(T1).spec)
    assert expected(context_of(T1).spec)["shared_expert_intermediate_size"] == 1024
    assert expected(context_of(GRPO).spec)["intermediate_size"] == 12288


def test_a_download_that_was_cut_off_is_named(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "m")
    (place / "one.safetensors").unlink()
    assert "1 weight files missing, first one.safetensors" in ask("model.config", of(context_of, place)).found
    (place / "config.json").write_text("{torn")
    assert "no readable config.json" in ask("model.config", of(context_of, place)).found
    (place / "tokenizer.json").unlink()
    assert ask("model.tokenizer", of(context_of, place)).status == "fail"


@pytest.mark.catalogue("F1")
def test_which_relation_a_chat_template_leaves(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "m")
    saw = ask("model.tokenizer", of(context_of, place))
    assert saw.status == "pass" and saw.found.startswith("relation strict")
    (place / "chat_template.jinja").write_text(CUTS_THINKING)
    saw = ask("model.tokenizer", of(context_of, place))
    assert saw.status == "warn" and saw.found.startswith("relation split: the reply is rewritten")
    (place / "chat_template.jinja").unlink()
    (place / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": [{"name": "default", "template": APPEND}]})
    )
    assert ask("model.tokenizer", of(context_of, place)).status == "pass"
    (place / "tokenizer_config.json").unlink()
    saw = ask("model.tokenizer", of(context_of, place))
    assert saw.status == "fail" and "no chat template" in saw.found


def test_a_template_that_rewrites_history_does_not_matter_where_turns_are_appended(
    context_of: MakeContext, ask: Ask, tmp_path: Path
) -> None:
    """Qwen3's template cuts thinking out of earlier turns; its framing is known, so nothing earlier is rendered."""
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers (extra `chat`) is not installed")
    place = checkpoint(tmp_path / "m")
    shutil.copy("tests/data/chat/qwen3.jinja", place / "chat_template.jinja")
    saw = ask("model.tokenizer", of(context_of, place))
    assert saw.status == "warn" and "relation split" in saw.found and "no readable tokenizer" in saw.found
    words = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={}, merges=[]))
    words.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    words.save(str(place / "tokenizer.json"))
    saw = ask("model.tokenizer", of(context_of, place))
    assert saw.status == "pass" and "appended as qwen3 frames them" in saw.found, saw.found


def test_a_hostile_template_runs_nothing_and_ends(tmp_path: Path) -> None:
    escape = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    assert relation_of(escape)[0] == "unknown"
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{{ a * b }}{% endfor %}{% endfor %}"
    relation, why = relation_of(endless)
    assert relation == "unknown" and why
    assert compare("a", "b")[0] == "split"


def torch_dist(place: Path, iteration: int = 100) -> Path:
    directory = place / f"iter_{iteration:07d}"
    directory.mkdir(parents=True)
    (place / "latest_checkpointed_iteration.txt").write_text(f"{iteration}\n")
    for name in (".metadata", "common.pt", "__0_0.distcp", "__0_1.distcp"):
        (directory / name).write_bytes(b"x" * 10)
    return directory


@pytest.mark.parametrize("key", ["torch_dist", "warm_critic"])
@pytest.mark.catalogue("C1")
def test_converted_weights_are_complete_or_named(context_of: MakeContext, ask: Ask, tmp_path: Path, key: str) -> None:
    directory = torch_dist(tmp_path / "td")
    context = context_of(T1, f"model.checkpoints.{key}={tmp_path / 'td'}")
    assert ask(f"model.{key}", context).status == "pass"
    (directory / "__0_1.distcp").write_bytes(b"")
    assert "__0_1.distcp is empty" in ask(f"model.{key}", context).found
    (directory / ".metadata").unlink()
    assert ".metadata" in ask(f"model.{key}", context).found
    (tmp_path / "td/latest_checkpointed_iteration.txt").write_text("200\n")
    saw = ask(f"model.{key}", context)
    assert saw.status == "fail" and "iter_0000200" in saw.found


def save(place: Path, iteration: int, **manifest: Any) -> None:
    directory = place / f"iter_{iteration:07d}"
    directory.mkdir(parents=True)
    if manifest:
        (directory / "manifest.json").write_text(json.dumps(manifest))
    (place / "latest_checkpointed_iteration.txt").write_text(str(iteration))


@pytest.mark.catalogue("C2")
def test_what_lies_in_named_save_directories(context_of: MakeContext, ask: Ask, tmp_path: Path) -> None:
    actor, critic = tmp_path / "actor", tmp_path / "critic"
    context = context_of(T1, f"checkpoint.actor_dir={actor}", f"checkpoint.critic_dir={critic}")
    assert ask("checkpoints.resume", context).status == "pass"
    save(actor, 9, role="actor", campaign=T1, rollout=9)
    save(critic, 9, role="critic", campaign=T1, rollout=9)
    assert ask("checkpoints.resume", context).found == "every role has iter_0000009"
    save(actor, 19, role="actor", campaign=T1, rollout=19)
    saw = ask("checkpoints.resume", context)
    assert saw.status == "warn" and "actor iter_0000019, critic iter_0000009" in saw.found
    (critic / "latest_checkpointed_iteration.txt").write_text("19")
    saw = ask("checkpoints.resume", context)
    assert saw.status == "fail" and "critic: the tracker names iteration 19, which is not there" in saw.found
    save(critic, 29, role="actor", campaign="another", rollout=29)
    saw = ask("checkpoints.resume", context)
    assert "holds the actor" in saw.found and "belongs to campaign another" in saw.found


def test_run_directories_are_new_and_not_looked_at(context_of: MakeContext, ask: Ask) -> None:
    assert ask("checkpoints.resume", context_of("quickstart")).status == "skipped"
    assert ask("model.config", context_of("quickstart")).status == "skipped"
