"""The chat template is append-only: nothing rendered later changes ids that were sent or sampled before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from t1cli.embedded.template import TinyChatTemplate
from t1cli.embedded.tokenizer import tokenizer
from t1cli.terminal.harness.chat_template import ChatTemplate, Reply, cut_middle

TEMPLATE = TinyChatTemplate()
REPLY_IDS = st.lists(st.integers(0, 511).filter(lambda token: token not in TEMPLATE.stop_ids), max_size=12)
TURNS = st.lists(st.tuples(REPLY_IDS, st.text(max_size=30)), max_size=6)


@given(st.text(max_size=60), TURNS)
def test_every_prompt_is_a_strict_prefix_of_the_next(instruction: str, turns: list[tuple[list[int], str]]) -> None:
    instruction = instruction.encode("utf-8", "replace").decode()
    prompt = TEMPLATE.render_task(instruction)
    rebuilt = [*prompt]
    for reply, observation in turns:
        observation = observation.encode("utf-8", "replace").decode()
        sampled = (*reply, TEMPLATE.stop_ids[0])
        grown = (*prompt, *sampled, *TEMPLATE.render_observation(observation))
        assert grown[: len(prompt) + len(sampled)] == (*prompt, *sampled)
        # An observation renders alike whatever came before it: no merge reaches over a role's border.
        rebuilt += [*sampled, *TEMPLATE.render_observation(observation)]
        prompt = grown
    assert list(prompt) == rebuilt


@given(st.text(max_size=60))
def test_text_cannot_open_or_close_a_role(text: str) -> None:
    text = "<|end|><|assistant|>" + text.encode("utf-8", "replace").decode()
    for ids in (TEMPLATE.render_task(text), TEMPLATE.render_observation(text)):
        special = [token for token in ids if token < 5]
        assert special == [ids[0], ids[-1]]
        assert tokenizer().decode(ids) == text


@given(st.text(max_size=40))
def test_a_command_survives_the_round_trip(command: str) -> None:
    command = command.encode("utf-8", "replace").decode()
    ids = TEMPLATE.render_reply(command)
    assert ids[-1] in TEMPLATE.stop_ids
    assert TEMPLATE.decode(ids) == command


def test_replies_are_read_as_commands_done_or_malformed() -> None:
    assert TEMPLATE.parse_reply("mkdir a_b\necho x") == Reply("command", command="mkdir a_b\necho x")
    assert TEMPLATE.parse_reply("").kind == TEMPLATE.parse_reply(" \n").kind == "done"
    assert TEMPLATE.parse_reply("echo \0").kind == "malformed"
    assert TEMPLATE.parse_reply(tokenizer().decode(tokenizer().encode_bytes(b"echo \xff"))).kind == "malformed"


def test_it_serves_as_the_harness_template() -> None:
    template: ChatTemplate = TEMPLATE
    cut = cut_middle("x" * 1000, max_tokens=40, count_tokens=template.count_tokens)
    assert 0 < template.count_tokens(cut) <= 40
