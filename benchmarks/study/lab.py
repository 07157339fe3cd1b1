"""Engines, manifests and peers of one model and dtype, kept between tasks of one process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from verillm.calibrate import manifest_of
from verillm.commitment.job import RowStore
from verillm.comparator.calibration import MARGIN_RATE_SAFETY, MARGIN_SCALE_SAFETY
from verillm.comparator.tolerance import ToleranceTable
from verillm.constants import Dtype
from verillm.engine.transformers_engine import Engine
from verillm.model_store import resolve

from .peers import Peer, peers
from .variants import Prefill

REMEMBERED = 512
"""Verifier runs kept: many providers write the same text."""


@dataclass(frozen=True)
class Subject:
    """What is studied."""

    model: str
    dtype: Dtype

    @property
    def names(self) -> dict[str, str]:
        return {"model": self.model, "dtype": self.dtype.name.lower()}


class Lab:
    """``engine`` is honest and serves verifiers too; ``stranger_model`` names another model."""

    def __init__(self, subject: Subject, stranger_model: str) -> None:
        self.subject, self._stranger_model = subject, stranger_model
        self._folder = resolve(subject.model)
        self.manifest = manifest_of(self._folder, subject.dtype, lambda line: print(line, flush=True))
        self.engine = self._load()
        self._seen: OrderedDict[tuple[str, tuple[int, ...]], RowStore] = OrderedDict()

    @property
    def table(self) -> ToleranceTable:
        return self.manifest.table

    def _load(self) -> Engine:
        return Engine.from_manifest(self._folder, self.manifest, threads=1)

    def fresh(self) -> Engine:
        """Another copy, which ends outputs where ``engine`` does."""
        engine = self._load()
        engine.eos_token_ids = self.engine.eos_token_ids
        return engine

    def stranger(self) -> Engine:
        folder = resolve(self._stranger_model)
        engine = Engine.from_manifest(folder, manifest_of(folder, self.subject.dtype), threads=1)
        engine.eos_token_ids = ()
        return engine

    @cached_property
    def peers(self) -> list[Peer]:
        """Token-DiFR's clip comes from the manifest's honest margins, without the safety that is in them."""
        rng, table = np.random.default_rng(0), self.table
        rate = table.margin_rate_ppb / 1e9 / MARGIN_RATE_SAFETY
        scale = table.margin_scale_q24 / MARGIN_SCALE_SAFETY
        lost = rng.random(100_000) < rate
        honest = np.where(lost, rng.exponential(scale, 100_000), 0).astype(np.int64)
        return peers(honest)[0]

    def verify(self, name: str, prefill: Prefill, texts: Sequence[Sequence[int]]) -> list[RowStore]:
        """The rows of each text by the prefill variant ``name``; remembered."""
        keys = [(name, tuple(text)) for text in texts]
        missing = [key for key in dict.fromkeys(keys) if key not in self._seen]
        if missing:
            for key, state in zip(missing, prefill(self.engine, [key[1] for key in missing]), strict=True):
                self._seen[key] = state.store
        found = [self._seen[key] for key in keys]
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return found


@cache
def lab(subject: Subject, stranger_model: str) -> Lab:
    """One per process and subject."""
    return Lab(subject, stranger_model)
