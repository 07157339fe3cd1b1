"""Load a model folder, and refuse what the protocol cannot describe."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from verillm.constants import Dtype
from verillm.errors import ConfigError, EngineError

TORCH_DTYPES = {Dtype.BF16: torch.bfloat16, Dtype.FP16: torch.float16, Dtype.FP32: torch.float32}
WEIGHT_DTYPE = Dtype.BF16
"""Weights are rounded to this dtype before compute, whatever the rows' dtype is."""
ATTENTIONS = ("sdpa", "eager")
_CHANGED_LOGITS = {"logits_scaling": 1, "logit_scale": 1, "final_logit_softcapping": None}
"""Settings of some families that change logits after the head: name, value that changes nothing."""


def load_model(folder: str, dtype: Dtype, attn: str) -> tuple[Any, Any]:
    """(model, tokenizer) from a local folder of safetensors: weights rounded to WEIGHT_DTYPE, then ``dtype``.

    Raises ConfigError for an unknown ``attn`` or a checkpoint that is not exactly the model's weights,
    EngineError if loading fails.
    """
    if attn not in ATTENTIONS:
        raise ConfigError(f"attn: {attn!r} is not one of {', '.join(ATTENTIONS)}")
    _check_unquantised(folder)
    transformers_logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=TORCH_DTYPES[dtype],
            attn_implementation=attn,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, ImportError, MemoryError) as error:
        raise EngineError(f"model: cannot load {folder}: {error}") from error
    model, report = loaded
    for problem in ("missing_keys", "unexpected_keys"):
        if report[problem]:
            names = ", ".join(sorted(map(str, report[problem]))[:4])
            raise ConfigError(f"model: {folder} has {problem.replace('_keys', ' tensors')}: {names}")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(TORCH_DTYPES[WEIGHT_DTYPE]))
    return model.eval(), tokenizer


def _check_unquantised(folder: str) -> None:
    """Raise ConfigError for a quantised checkpoint: a manifest pins the weights' values, but neither scales
    that are found while running nor the kernels' precision. Without a readable config.json there is none."""
    try:
        config = json.loads((Path(folder) / "config.json").read_text())
    except (OSError, ValueError):
        return  # transformers says what is wrong with it
    if isinstance(config, dict) and config.get("quantization_config"):
        raise ConfigError(f"model: {folder}/config.json has a quantization_config; give dequantised weights")


def check_architecture(model: Any, boundaries: Sequence[int]) -> Any:
    """The decoder stack, which has ``layers`` and ``norm``. Raises ConfigError if anything does not fit."""
    decoder = model.get_decoder()
    if not all(hasattr(decoder, name) for name in ("layers", "norm")):
        raise ConfigError(f"model: {type(model).__name__} is not of the Llama family (layers, norm)")
    for name, neutral in _CHANGED_LOGITS.items():
        if getattr(model.config, name, neutral) != neutral:
            raise ConfigError(f"model: config.{name} changes the logits; the protocol has no such step")
    if getattr(model.get_output_embeddings(), "bias", None) is not None:
        raise ConfigError("model: the output head has a bias; the protocol has none")
    count = len(decoder.layers)
    ends = list(boundaries)
    if not ends or ends != sorted(set(ends)) or ends[0] < 1 or ends[-1] != count:
        raise ConfigError(f"boundaries: {ends} must increase from at least 1 to the {count} layers")
    return decoder


def cache_argument(decoder: Any) -> str:
    """What this version of transformers calls the KV cache."""
    return "cache" if "cache" in inspect.signature(decoder.forward).parameters else "past_key_values"


def eos_token_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """EOS ids of the generation config, else of the config, and the tokenizer's; sorted."""
    found: set[int] = set()
    generation = model.generation_config.eos_token_id if model.generation_config else None
    for value in (generation or model.config.eos_token_id, tokenizer.eos_token_id):
        if value is not None:
            found.update(value if isinstance(value, (list, tuple)) else [value])
    return tuple(sorted(found))
