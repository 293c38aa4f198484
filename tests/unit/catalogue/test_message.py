"""A message's text is read from the expression that makes it."""

from __future__ import annotations

import ast

import pytest

from t1cli.catalogue.message import bound_names, message_text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("'plain'", "plain"),
        ("f'{spec.rollout.max_turns} turns of {limit:,}'", "‹max turns› turns of ‹limit›"),
        ("'a ' + 'b' + (f' and {more}' if more else '')", "a b and ‹more›"),
        ("'' if fine else 'broken'", "broken"),
        ("f'{len(names)} names, {\", \".join(names)}'", "‹names› names, ‹names›"),
        ("f'{_sum(draft, stage)} GiB in {table[0]}'", "‹sum› GiB in ‹table›"),
        ("f'{1 + 2}'", "‹…›"),
        ('f\'`{draft.loaded.again("plan", "--search")}` lists all\'', "`t1 plan SPEC --search` lists all"),
        ("command_line('pool sweep', str(place))", "t1 pool sweep ‹place›"),
    ],
)
def test_values_stand_in_angle_quotes(code: str, text: str) -> None:
    assert message_text(ast.parse(code, mode="eval").body, {}) == text


def test_names_are_followed_to_what_they_were_given() -> None:
    function = ast.parse("def check():\n    found, wanted = f'{soft} files', 'more'\n    both = found + '; ' + wanted")
    assert message_text(ast.Name("both"), bound_names(function)) == "‹soft› files; more"


def test_a_name_that_means_itself_ends() -> None:
    loop = ast.parse("def check():\n    text = text + '.'\n")
    assert message_text(ast.Name("text"), bound_names(loop)).startswith("‹text›")
