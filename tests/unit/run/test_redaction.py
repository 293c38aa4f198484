"""Secrets vanish by name, by shape and by value; what is no secret stays readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t1cli.run.environment import recorded_environment
from t1cli.run.redaction import REDACTED, LineRedactor, Redactor
from t1cli.secret_names import names_a_secret
from t1cli.spec.load import load_experiment

EXPERIMENTS = Path(__file__).parents[3] / "experiments"

SECRETS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=6, max_size=40).filter(
    lambda s: s not in REDACTED and not s.startswith("/")
)


SECRET_NAMES = (
    "WANDB_API_KEY",
    "HF_TOKEN",
    "GITHUB_PAT",
    "AWS_SECRET_ACCESS_KEY",
    "db_password",
    "DB_PWD",
    "githubToken",
    "--wandb-key",
    "engine.env.OPENAI_API_KEY",
    "AUTH_HEADER",
    "MYTOKEN",
    "client_secret",
    "SESSION_COOKIE",
    "AWS_ACCESS_KEY",
    "DB_PASSPHRASE",
    "GOOGLE_CREDENTIALS",
    "AUTHORIZATION",
)
HARMLESS_NAMES = (
    "PATH",
    "PWD",
    "max_tokens_per_gpu",
    "MAX_TOKENS",
    "context_tokens",
    "TOKENIZERS_PARALLELISM",
    "input_key",
    "label_key",
    "reward_key",
    "rollout.max_new_tokens_per_turn",
    "moe_token_dispatcher_type",
    "linear-num-key-heads",
    "num_key_value_heads",
    "fim-pad-token",
    "monkey",
    "keyboard",
    "tasks.path",
    "AUTHOR",
    "compat",
)


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_secret_names(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_harmless_names(name: str) -> None:
    assert not names_a_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        "key sk-proj-abcdefghijklmnopqrstuv in a log",
        "clone with ghp_0123456789abcdefghij0123456789abcdef",
        "Authorization: Bearer abc.def-ghi_jkl",
        "https://user:hunter2hunter2@pool.example/v1",
        "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nxyz\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_shapes_of_keys_vanish_wherever_they_stand(text: str) -> None:
    safe = Redactor().text(text)
    assert REDACTED in safe
    for leaked in ("proj-abc", "ghp_", "abc.def", "hunter2", "AKIA", "MIIE"):
        assert leaked not in safe


BODY = ["MIIEpAIBAAKCAQEAx7", "c2VjcmV0IGJvZHkgb2YgYSBrZXk", "AbCdEfGhIjKlMnOpQr=="]
KEY = ["-----BEGIN RSA PRIVATE KEY-----", *BODY, "-----END RSA PRIVATE KEY-----"]


@pytest.mark.parametrize("prefix", ["", "(Trainer pid=5, ip=10.0.0.2) "])
def test_a_key_that_comes_line_by_line_vanishes_to_its_end_and_no_further(prefix: str) -> None:
    redactor = LineRedactor(Redactor())
    lines = ["before", *(prefix + line for line in KEY), "after", prefix + " ".join(KEY), "step 3: {'a': 1}"]
    said = [redactor.line(line) for line in lines]
    assert said[0] == "before" and said[6] == "after" and said[8] == "step 3: {'a': 1}"
    assert not any(part in "\n".join(said) for part in BODY)


def test_a_key_without_an_end_does_not_hide_the_rest_of_a_log() -> None:
    redactor = LineRedactor(Redactor())
    said = [redactor.line(line) for line in [KEY[0], *(f"line {number}" for number in range(1000))]]
    assert said[1] == REDACTED and said[-1] == "line 999"


def test_a_secret_of_several_lines_is_hidden_a_line_at_a_time_too() -> None:
    redactor = Redactor.of_environment({"SSH_PRIVATE_KEY": "\n".join(KEY), "OTHER_SECRET": "ab\ncd"})
    assert all(redactor.text(f"x {line} y") == f"x {REDACTED} y" for line in BODY)
    assert redactor.text("ab and cd") == "ab and cd", "short lines stand everywhere"
    assert BODY[0] not in redactor.text("\n".join(["-----BEGIN PRIVATE KEY-----", "another", *BODY]))


def test_ordinary_text_is_left_alone() -> None:
    text = "commit 1b6a815c0ffee1b6a815c0ffee1b6a815c0ffee1 at https://example.org/a?b=c, lr 1e-06, --set a.b=c"
    assert Redactor().text(text) == text


@given(secret=SECRETS, around=st.text(max_size=10))
def test_a_secret_value_of_the_environment_is_gone_from_any_json(secret: str, around: str) -> None:
    redactor = Redactor.of_environment({"SERVICE_TOKEN": secret, "HOME": "/root"})
    value = {"a": [around + secret + around, {"b": secret}], secret: 1, "argv": ("--x", f"k={secret}")}
    kept = json.dumps(redactor.json(value), ensure_ascii=False)
    assert secret not in kept.replace(REDACTED, "")


def test_what_lies_under_a_secret_name_is_hidden_whole_even_if_short() -> None:
    value = {"engine.env.DB_PASSWORD": {"value": "abc", "where": "x.yaml:3", "replaced": [{"value": "de"}]}}
    text = json.dumps(Redactor().json(value))
    assert "abc" not in text and '"de"' not in text


def test_argument_lists_hide_the_value_after_the_option() -> None:
    arguments = [
        "t1",
        "launch",
        "x",
        "--wandb-key",
        "s3cr3t",
        "--api_token=abc",
        "--set",
        "engine.env.HF_TOKEN=q",
        "-y",
    ]
    assert Redactor().argv(arguments) == (
        *("t1", "launch", "x", "--wandb-key", REDACTED, f"--api_token={REDACTED}"),
        *("--set", f"engine.env.HF_TOKEN={REDACTED}", "-y"),
    )


def test_the_recorded_environment_is_an_allow_list_without_secret_names() -> None:
    source = {
        "NCCL_DEBUG": "INFO",
        "WANDB_MODE": "offline",
        "WANDB_API_KEY": "0123456789abcdef",
        "HF_TOKEN": "hf_x",
        "MY_COMPANY": "acme",
        "PATH": "/bin:/opt/0123456789abcdef/bin",
    }
    kept = recorded_environment(Redactor.of_environment(source), source)
    assert kept == {"NCCL_DEBUG": "INFO", "WANDB_MODE": "offline", "PATH": f"/bin:/opt/{REDACTED}/bin"}


@pytest.mark.parametrize("experiment", sorted(p.parent.name for p in EXPERIMENTS.glob("*/experiment.yaml")))
def test_no_shipped_experiment_is_changed_by_redaction(experiment: str) -> None:
    content = load_experiment(EXPERIMENTS / experiment / "experiment.yaml").spec.model_dump(mode="json")
    assert Redactor().json(content) == content


def test_numbers_are_hidden_only_under_names_that_can_hold_a_numeric_secret() -> None:
    assert Redactor().json({"num_key": 8, "token": 5, "password": 123456}) == {
        "num_key": 8,
        "token": 5,
        "password": REDACTED,
    }
