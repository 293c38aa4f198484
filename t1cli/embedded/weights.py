"""Actor weights as one safetensors file that says by itself which network and tokenizer they belong to."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from t1cli.embedded.model import Head, TinyMoE, TinyMoEConfig
from t1cli.embedded.tokenizer import tokenizer
from t1cli.errors import BadInput

WEIGHTS_FILE = "model.safetensors"
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def save_weights(path: Path, weights: Mapping[str, Tensor], config: TinyMoEConfig) -> None:
    """Write `path` (one file, renamed into place) with the config and the tokenizer's fingerprint in its header."""
    header = {"config": json.dumps(asdict(config)), "tokenizer": tokenizer().fingerprint}
    aside = path.with_name(f".{path.name}.writing")
    save_tensors(aside, {name: tensor.detach().contiguous() for name, tensor in weights.items()}, metadata=header)
    aside.chmod(0o644)
    aside.replace(path)


def save_tensors(path: Path, tensors: Mapping[str, Tensor], *, metadata: dict[str, str] | None = None) -> None:
    """A safetensors file. What the machine refuses is an OSError; safetensors has it only as the text of its own."""
    try:
        save_file(dict(tensors), path, metadata=metadata)
    except SafetensorError as error:
        path.unlink(missing_ok=True)
        if number := _OS_ERROR.search(str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
        raise


def read_config(path: Path) -> TinyMoEConfig:
    """The config in the header of a file that `save_weights` wrote; BadInput when there is none or it does not fit."""
    path = weights_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
        config = TinyMoEConfig(**json.loads(header["config"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"no weights of the embedded engine: {error!r}", where=str(path)) from error
    if header.get("tokenizer") != tokenizer().fingerprint:
        raise BadInput(
            f"weights of another tokenizer ({header.get('tokenizer')}, this t1 has {tokenizer().fingerprint})",
            where=str(path),
            hint="build new ones: python -m t1cli.embedded.warm_start --output DIRECTORY",
        )
    return config


def read_weights(path: Path, config: TinyMoEConfig, *, head: Head = "lm") -> dict[str, Tensor]:
    """fp32 weights by name from a file, or a directory that holds `model.safetensors`; BadInput unless they fit."""
    path = weights_file(path)
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise BadInput(f"weights cannot be read: {error}", where=str(path)) from error
    check_shapes(weights, config, where=str(path), head=head)
    return {name: tensor.float() for name, tensor in weights.items()}


def check_shapes(weights: Mapping[str, Tensor], config: TinyMoEConfig, *, where: str, head: Head = "lm") -> None:
    """BadInput naming every weight that is missing, unknown or of another shape than such a network has."""
    with torch.device("meta"):
        network = TinyMoE(config, head=head, initialise=False)
    wanted = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if wrong:
        lines = ", ".join(f"{name}: found {found.get(name)}, expected {wanted.get(name)}" for name in wrong[:5])
        raise BadInput(f"{len(wrong)} weights do not fit the network: {lines}", where=where)


def weights_file(path: Path) -> Path:
    """The file itself, or `model.safetensors` of a directory."""
    return path / WEIGHTS_FILE if path.is_dir() else path
