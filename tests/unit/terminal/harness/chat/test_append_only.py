"""Appending: history never changes, what is appended is what the family's template writes, text stays text."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t1cli.terminal.harness.chat.message import Message, ToolCall
from t1cli.terminal.harness.chat.pieces import Control, Shield, encode_pieces, text_of
from t1cli.terminal.harness.chat.renderer import AppendOnlyRenderer

FAMILIES = ("qwen3", "qwen3_5", "glm_4_5", "glm_4_7")
EVERY = [(name, thinking) for name in FAMILIES for thinking in (False, True)]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"properties": {"at": {"type": "string"}}}}}

words = st.text(st.characters(codec="utf-8", categories=("L", "M", "N", "P", "S", "Zs", "Cc")), max_size=30)
plain = words.filter(lambda text: not any(part in text for part in ("<|", "[gMASK", "<sop")))
observations = st.lists(st.tuples(st.sampled_from(("user", "tool")), plain), min_size=1, max_size=3)


@pytest.fixture(scope="module")
def renderers(chat: SimpleNamespace) -> dict[tuple[str, bool], AppendOnlyRenderer]:
    tokenizer = chat.small_tokenizer()
    return {key: chat.renderer_for(key[0], thinking=key[1], tokenizer=tokenizer) for key in EVERY}


def sampled(renderer: AppendOnlyRenderer, text: str, stop: int = 0) -> tuple[int, ...]:
    """The ids of a reply whose text is encoded as a tokenizer would, closed by one of the family's stops."""
    return (*renderer.tokenizer.encode(text), renderer.stop_ids[stop])


def ids_of_text(renderer: AppendOnlyRenderer, text: str) -> tuple[int, ...]:
    """A whole chat's text at once, control tokens by their names."""
    return tuple(encode_pieces(Shield(renderer.tokenizer.controls).pieces(text), renderer.tokenizer))


@pytest.mark.parametrize(("name", "thinking"), EVERY)
def test_every_supported_family_appends(renderers: Any, name: str, thinking: bool) -> None:
    renderer = renderers[name, thinking]
    assert renderer.is_append_only and renderer.remark == ""


def test_a_template_that_frames_messages_otherwise_is_rendered_as_a_whole(chat: SimpleNamespace) -> None:
    source = chat.template_of("plain", thinking=False)
    tokenizer = chat.CheckpointTokenizer(chat.small_tokenizer())
    renderer = chat.renderer_of(tokenizer, source, family="qwen3", stop_ids=(3,))
    assert not renderer.is_append_only and renderer.remark.startswith("qwen3: after a reply, a user's message")
    unknown = chat.renderer_of(tokenizer, source, family="llama3", stop_ids=(3,))
    assert unknown.remark == "no framing is known for family `llama3`"


@pytest.mark.parametrize(("name", "thinking"), EVERY)
@settings(max_examples=25)
@given(turns=st.lists(st.tuples(plain, observations), max_size=4), asked=plain)
def test_pieces_encoded_one_by_one_are_the_whole_encoded_at_once(
    renderers: Any, name: str, thinking: bool, turns: Any, asked: str
) -> None:
    renderer = renderers[name, thinking]
    ids = renderer.whole((Message("user", asked),), (TOOL,))
    for said, heard in turns:
        reply = sampled(renderer, f"so{said}")
        ids = (*ids, *reply, *renderer.after(reply, [Message(role, text) for role, text in heard]))
    assert ids_of_text(renderer, renderer.tokenizer.decode(ids)) == ids


@pytest.mark.parametrize(("name", "thinking"), EVERY)
@settings(max_examples=25)
@given(said=words, heard=observations, thought=words)
def test_history_is_never_touched(
    renderers: Any, name: str, thinking: bool, said: str, heard: Any, thought: str
) -> None:
    """Not even reasoning, or a call, that the family's own template would strip or write anew."""
    renderer = renderers[name, thinking]
    first = renderer.whole((Message("user", "go"),), (TOOL,))
    reply = sampled(renderer, f"<think>\n{thought}\n</think>\n\n{said}<tool_call> odd </tool_call>", stop=1)
    following = (*first, *reply, *renderer.after(reply, [Message(role, text) for role, text in heard]))
    assert following[: len(first) + len(reply)] == (*first, *reply)


@pytest.mark.parametrize(("name", "thinking"), [("glm_4_7", False), ("glm_4_5", False), ("qwen3", True)])
def test_a_chat_with_nothing_to_strip_is_what_the_template_renders_as_a_whole(
    renderers: Any, name: str, thinking: bool
) -> None:
    renderer = renderers[name, thinking]
    start = "\n" if name == "glm_4_5" else ""
    messages = [Message("system", "Be brief."), Message("user", "How many files?")]
    ids = renderer.whole(messages, (TOOL,))
    turns = (
        ("Looking.", (ToolCall("look", '{"at": "here"}'),), [Message("tool", "3 files\n"), Message("tool", "é")]),
        ("Three.", (), [Message("user", "And now?")]),
        ("Still three.", (), [Message("system", "Hurry."), Message("user", "Now?")]),
    )
    for said, calls, heard in turns:
        written = {"glm_4_7": "<tool_call>look<arg_key>at</arg_key><arg_value>here</arg_value></tool_call>"}.get(
            name,
            "\n<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>here</arg_value>\n</tool_call>"
            if name == "glm_4_5"
            else '\n<tool_call>\n{"name": "look", "arguments": {"at": "here"}}\n</tool_call>',
        )
        stops = {"tool": 0, "user": 0 if name == "qwen3" else 1, "system": 0 if name == "qwen3" else 1}
        reply = sampled(renderer, start + said + (written if calls else ""), stop=stops[heard[0].role])
        if heard[0].role == "system" and name != "qwen3":
            reply = reply[:-1]  # GLM has no token that ends a reply and announces a system message
        ids = (*ids, *reply, *renderer.after(reply, heard))
        messages += [Message("assistant", said, tool_calls=calls), *heard]
        assert ids == renderer.whole(messages, (TOOL,))


HEARD = (Message("tool", " a \n"), Message("tool", "b"), Message("user", " go on "))
QWEN = "user\n<tool_response>\n{0}\n</tool_response>\n<tool_response>\nb\n</tool_response><|im_end|>\n"
APPENDED = {
    ("qwen3", False): "\n<|im_start|>"
    + QWEN.format(" a \n")
    + "<|im_start|>user\n go on <|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ("qwen3", True): "\n<|im_start|>"
    + QWEN.format(" a \n")
    + "<|im_start|>user\n go on <|im_end|>\n<|im_start|>assistant\n",
    ("qwen3_5", True): "\n<|im_start|>"
    + QWEN.format("a")
    + "<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n<think>\n",
    ("glm_4_5", False): "\n<tool_response>\n a \n\n</tool_response>\n<tool_response>\nb\n</tool_response>"
    "<|user|>\n go on /nothink<|assistant|>\n<think></think>",
    ("glm_4_7", True): "<tool_response> a \n</tool_response><tool_response>b</tool_response>"
    "<|user|> go on <|assistant|><think>",
}


@pytest.mark.parametrize(("key", "expected"), APPENDED.items(), ids=str)
def test_appended_text_of_each_family(renderers: Any, key: tuple[str, bool], expected: str) -> None:
    renderer = renderers[key]
    assert renderer.tokenizer.decode(renderer.after((65, renderer.stop_ids[0]), HEARD)) == expected


@pytest.mark.parametrize(
    ("name", "closed_by", "role", "expected"),
    [
        ("qwen3", "<|im_end|>", "user", "\n<|im_start|>user\n"),
        ("qwen3", "<|endoftext|>", "user", "<|im_end|>\n<|im_start|>user\n"),
        ("qwen3", None, "user", "<|im_end|>\n<|im_start|>user\n"),
        ("glm_4_7", "<|user|>", "user", "x<|assistant|>"),
        ("glm_4_7", "<|observation|>", "user", "<|user|>x<|assistant|>"),
        ("glm_4_7", "<|user|>", "tool", "<|observation|><tool_response>x"),
        ("glm_4_7", "<|endoftext|>", "tool", "<|observation|><tool_response>x"),
        ("glm_4_7", None, "system", "<|system|>x<|assistant|>"),
    ],
)
def test_a_reply_gets_what_its_own_end_lacks_and_keeps_what_it_has(
    renderers: Any, name: str, closed_by: str | None, role: Any, expected: str
) -> None:
    dialect = renderers[name, False].dialect
    text = text_of((*dialect.after_reply(closed_by, (Message(role, "x"),)), Control("<|assistant|>")))
    assert text.startswith(expected), text


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=25)
@given(text=st.lists(st.sampled_from(("<|im_end|>", "<|user|>", "<|im_", "start|>", "x", "[gMASK]", " "))).map("".join))
def test_outside_text_never_becomes_a_control_token(renderers: Any, name: str, text: str) -> None:
    renderer = renderers[name, False]
    controls = set(renderer.tokenizer.controls.values())

    def shape(words: str) -> list[int]:
        tool = {"type": "function", "function": {"name": "t", "description": words}}
        asked = [Message("system", words), Message("user", words)]
        ids = (*renderer.whole(asked, (tool,)), *renderer.after((renderer.stop_ids[0],), [Message("tool", words)]))
        return [token for token in ids if token in controls]

    assert shape(text) == shape("x")
    whole = renderer.whole([Message("user", f"({text})")], ())
    assert f"({text}" in renderer.tokenizer.decode(whole)
