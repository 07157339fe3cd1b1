"""Models that several tests share. The real one comes from the model cache, or is fetched once.

Triton reads TRITON_INTERPRET when it is imported, when a kernel is defined and when one runs. Some modules of
transformers import it, so it is imported here first, ready to interpret; ``tests/kernels`` does the rest.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from verillm.constants import Dtype
from verillm.manifest import Manifest

with pytest.MonkeyPatch.context() as environment, contextlib.suppress(ImportError):
    environment.setenv("TRITON_INTERPRET", "1")
    import triton  # noqa: F401


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """SmolLM2-135M as bf16 safetensors."""
    from verillm.model_store import resolve

    return resolve()


def _manifest(folder: Path, dtype: Dtype) -> Manifest:
    from verillm.calibrate import manifest_of

    return manifest_of(folder, dtype)


@pytest.fixture(scope="session")
def smollm2_bf16(smollm2_folder: Path) -> Manifest:
    return _manifest(smollm2_folder, Dtype.BF16)


@pytest.fixture(scope="session")
def smollm2_fp32(smollm2_folder: Path) -> Manifest:
    return _manifest(smollm2_folder, Dtype.FP32)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama: 3 layers, d = 64, 300 tokens (256 bytes, then fillers), EOS 299."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-llama")
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=300,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.2,
        bos_token_id=298,
        eos_token_id=299,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: i for i, symbol in enumerate(alphabet)}
    vocabulary.update({f"word{i}": i for i in range(256, 298)})
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    fast.save_pretrained(folder)
    return folder
