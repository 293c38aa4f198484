"""The reference page of every key is generated and current, and every key has a meaning."""

from __future__ import annotations

from t1cli.spec.experiment import ExperimentSpec
from t1cli.spec.fields import all_keys
from t1cli.spec.locate import data_root
from t1cli.spec.reference import REFERENCE_FILE, reference_text


def test_the_committed_page_is_the_generated_one() -> None:
    page = data_root() / "docs" / "reference" / REFERENCE_FILE
    assert page.read_text() == reference_text(), "run: t1 schema --markdown --output docs/reference/spec.md"


def test_every_key_has_a_docstring() -> None:
    bare = [
        key for key, block in all_keys(ExperimentSpec) if not block.model_fields[key.rpartition(".")[2]].description
    ]
    assert not bare


def test_no_kind_equals_a_key_of_its_block() -> None:
    """Pydantic puts the kind into an error's path; were it also a key, the error would be placed at the wrong line."""
    for _, block in all_keys(ExperimentSpec):
        kind = block.model_fields.get("kind")
        if kind is not None:
            assert kind.default not in block.model_fields
