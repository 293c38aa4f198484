"""The tokenizer round-trips every text and every byte string, and knows the words of generated tasks."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from t1cli.embedded.tokenizer import SPECIAL_TOKENS, Tokenizer, tokenizer
from t1cli.terminal.tasks.generator import sibling

SHELL = st.text(alphabet=st.sampled_from("abcehorst _-./|&;<>$`\"'\\\n\t*?[]{}()!#~%0123456789é→😀"), max_size=60)


@given(st.one_of(st.text(max_size=80), SHELL))
def test_every_text_comes_back(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert tokenizer().decode(tokenizer().encode(text)) == text


@given(st.binary(max_size=80))
def test_every_byte_string_comes_back(data: bytes) -> None:
    assert tokenizer().decode_bytes(tokenizer().encode_bytes(data)) == data
    escaped = data.decode("utf-8", "surrogateescape")
    assert tokenizer().decode_bytes(tokenizer().encode(escaped)) == data


@given(st.one_of(st.text(max_size=40), st.sampled_from(SPECIAL_TOKENS), SHELL))
def test_no_text_becomes_a_special_token(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert all(token >= len(SPECIAL_TOKENS) for token in tokenizer().encode(text))


@given(st.lists(st.integers(-5, 2000), max_size=40))
def test_decoding_takes_any_ids(ids: list[int]) -> None:
    assert isinstance(tokenizer().decode(ids), str)


def test_generated_tasks_need_no_byte_fallback_for_letters() -> None:
    rng = random.Random(5)
    words = tokenizer()
    for _ in range(300):
        task = sibling(rng, ())
        for text in (task.instruction, *task.solution):
            singles = [words.decode_bytes([token]) for token in words.encode(text)]
            assert not [piece for piece in singles if len(piece) == 1 and piece.isalpha()], text


def test_a_two_word_name_is_three_tokens_wherever_it_stands() -> None:
    words = tokenizer()
    name = words.encode("amber_cedar")
    assert len(name) == 3
    for text in ("mkdir amber_cedar", "Make the directory amber_cedar.\n", "cp x amber_cedar"):
        ids = words.encode(text)
        assert any(ids[place : place + 3] == name for place in range(len(ids)))


def test_the_fingerprint_tells_vocabularies_apart() -> None:
    other = Tokenizer()
    assert other.fingerprint == tokenizer().fingerprint
    other._piece_of = other._piece_of[:-1]
    assert other.fingerprint != tokenizer().fingerprint
