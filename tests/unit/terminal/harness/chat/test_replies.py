"""Replies taken apart: thinking, words, calls in each family's way of writing them; what cannot be read stays text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.terminal.harness.chat.reply import ParsedReply, parse_reply, split_thinking
from t1cli.terminal.harness.chat.tool_calls import JsonCalls, KeyValueCalls, ParameterCalls

TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "put",
            "parameters": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "mode": {"type": "integer"},
                    "deep": {"type": "boolean"},
                    "meta": {"type": "object"},
                    "either": {"type": ["string", "null"]},
                },
            },
        },
    },
)
ARGUMENTS = {"path": "a b\n</x>", "mode": 420, "deep": True, "meta": {"k": [1]}, "either": "3", "extra": "7"}
FORMATS = (JsonCalls(), ParameterCalls(), KeyValueCalls())


def written(form: Any, name: str, arguments: dict[str, Any]) -> str:
    """A call as the family's template writes it."""
    if isinstance(form, JsonCalls):
        return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    if isinstance(form, ParameterCalls):
        inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
        return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"
    inner = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in values.items())
    return f"<tool_call>{name}\n{inner}</tool_call>"


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: type(form).__name__)
def test_calls_are_read_back_with_the_types_that_the_tool_declares(form: Any) -> None:
    text = f"Working.\n\n{written(form, 'put', ARGUMENTS)}\n{written(form, 'rest', {})}"
    found = form.read(text, TOOLS)
    assert (found.content, found.problem) == ("Working.", "")
    assert [(call.name, call.parsed) for call in found.calls] == [("put", ARGUMENTS), ("rest", {})]


@pytest.mark.parametrize("form", (JsonCalls(), ParameterCalls(), KeyValueCalls()), ids=lambda f: type(f).__name__)
def test_half_a_character_that_json_can_spell_makes_no_call(form: Any) -> None:
    said = written(form, "put", {"path": "a", "meta": {"k": "?"}}).replace("?", "\\ud83d")
    found = form.read(said, TOOLS)
    assert found.calls == () and "half a character" in found.problem and found.content == said
    whole = form.read(said.replace("\\ud83d", "\\ud83d\\ude42"), TOOLS)
    assert len(whole.calls) == 1 and not whole.problem


@given(values=st.dictionaries(st.sampled_from(("path", "either")), st.text(st.characters(codec="utf-8"))))
def test_any_text_survives_being_a_json_argument(values: dict[str, str]) -> None:
    found = JsonCalls().read(written(JsonCalls(), "put", values), TOOLS)
    safe = "</tool_call>" not in str(values)
    assert not safe or [call.parsed for call in found.calls] == [values]


BROKEN = {
    JsonCalls: (
        "<tool_call>{oops}</tool_call>",
        '<tool_call>{"name": 3}</tool_call>',
        '<tool_call>["put"]</tool_call>',
        '<tool_call>{"name": "put", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "put", "arguments": "{"}</tool_call>',
        '<tool_call>{"name": "put"',
        '<tool_call>{"name": "put"}</tool_call> <tool_call>',
    ),
    ParameterCalls: (
        "<tool_call>put</tool_call>",
        "<tool_call><function=put>words<parameter=a>b</parameter></function></tool_call>",
        "<tool_call><function=put>",
    ),
    KeyValueCalls: (
        "<tool_call></tool_call>",
        "<tool_call>put<arg_key>a</arg_key></tool_call>",
        "<tool_call>put<arg_key>a</arg_key><arg_value>b</arg_value>words</tool_call>",
        "<tool_call>put",
    ),
}


@pytest.mark.parametrize(("form", "text"), [(form(), text) for form, texts in BROKEN.items() for text in texts])
def test_what_is_no_call_stays_in_the_content_and_says_why(form: Any, text: str) -> None:
    found = form.read(f"First. {text}", TOOLS)
    assert found.content == f"First. {text}" and found.calls == () and found.problem


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: type(form).__name__)
@given(text=st.lists(st.sampled_from(("<tool_call>", "</tool_call>", "<function=", ">", "<arg_key>", "{", '"', "x"))))
def test_reading_never_raises_and_never_loses_an_unread_reply(form: Any, text: list[str]) -> None:
    found = form.read("".join(text), TOOLS)
    assert found.calls or found.content == "".join(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("words", (None, "words")),
        ("<think>\nhm\n</think>\n\nwords", ("hm", "words")),
        ("\n<think>hm</think>\nwords", ("hm", "words")),
        ("<think>\n\n</think>\n\nwords", ("", "words")),
        ("<think>\nhm", ("hm", "")),
        ("words <think>x</think>", (None, "words <think>x</think>")),
    ],
)
def test_thinking_is_what_the_first_block_holds(text: str, expected: tuple[str | None, str]) -> None:
    assert split_thinking(text) == expected


def test_without_tools_nothing_is_read_as_a_call() -> None:
    text = written(JsonCalls(), "put", {"path": "x"})
    assert parse_reply(text, JsonCalls(), ()) == ParsedReply(text)
    assert parse_reply(f"<think>\na\n</think>\n\n{text}", JsonCalls(), TOOLS).message.reasoning == "a"
