"""The models that a client knows: manifests, and tokenizers where their folders have one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from verillm.errors import ConfigError, InvalidRequest
from verillm.manifest import Manifest
from verillm.sdk.text import TOKENIZER_FILE, TextCodec

NO_MODELS = "model: the client knows none; give a manifest file or a model folder"


@dataclass(frozen=True)
class KnownModel:
    """A manifest and the folder where its tokenizer is expected."""

    manifest: Manifest
    folder: Path

    @property
    def model_id(self) -> bytes:
        return self.manifest.model_id

    @cached_property
    def text(self) -> TextCodec | None:
        """The tokenizer, or None if the folder has none."""
        return TextCodec(self.folder) if (self.folder / TOKENIZER_FILE).is_file() else None

    @property
    def label(self) -> str:
        """``name:dtype``."""
        return f"{self.manifest.name}:{self.manifest.row_dtype.name.lower()}"


def load_models(sources: Iterable[str | Path]) -> tuple[KnownModel, ...]:
    """Manifests of files and folders; a folder gives each of its ``manifest-*.json``.

    The tokenizer is looked for next to the manifest. Raises ConfigError or EncodingError.
    """
    models: dict[bytes, KnownModel] = {}
    for source in map(Path, sources):
        paths = sorted(source.glob("manifest-*.json")) if source.is_dir() else [source]
        if not paths:
            raise ConfigError(f"model: {source} has no manifest-*.json; make one with `verillm calibrate`")
        for path in paths:
            manifest = Manifest.load(path)
            models[manifest.model_id] = KnownModel(manifest, path.parent)
    return tuple(models.values())


def choose_model(known: Sequence[KnownModel], served: Sequence[bytes], wanted: str | None) -> KnownModel:
    """The one known model that the scheduler serves and that ``wanted`` (name, name:dtype, 0x-id or None)
    means. Raises ConfigError if the client knows none, InvalidRequest if none or several fit."""
    if not known:
        raise ConfigError(NO_MODELS)
    offered = [model for model in known if model.model_id in served]
    listed = ", ".join(f"{m.label} 0x{m.model_id.hex()}" for m in offered) or "none that this client knows"
    fits = [
        model
        for model in offered
        if wanted is None or wanted in (model.manifest.name, model.label, "0x" + model.model_id.hex())
    ]
    if not fits:
        asked = "" if wanted is None else f"{wanted!r} is unknown or not served; "
        raise InvalidRequest(f"model: {asked}the scheduler serves {listed}; choose one of them")
    if len(fits) > 1:
        raise InvalidRequest(f"model: several fit; name one of {listed}")
    return fits[0]
