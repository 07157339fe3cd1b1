"""Providers that cheat, by name: ``CHEATS[name](lab, requests) -> claims``. All of them really compute.

Changed models are in ``weights``. Here are the others: text that another computation wrote and an honest
prefill under it, altered prompts, altered sampling, outputs cut or padded, and rows that no model made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import torch

from verillm.constants import PPM, FinishReason
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import Engine, SequenceState
from verillm.manifest import Manifest

from .claims import U8, Claim, claim_of
from .speculative import speculate
from .weights import changes
from .workload import Request


class Lab(Protocol):
    """Engines on loan: ``engine`` is honest, ``fresh`` loads another copy that may be changed."""

    engine: Engine
    manifest: Manifest

    def fresh(self) -> Engine: ...

    def stranger(self) -> Engine:
        """An engine of another model."""
        ...


Cheat = Callable[[Lab, Sequence[Request]], list[Claim]]


def decoded(
    engine: Engine, requests: Sequence[Request], specs: Sequence[GenerationSpec] | None = None
) -> list[SequenceState]:
    """All requests in one batch, with their own specs or others."""
    states = [engine.prefill(request.prompt) for request in requests]
    for _ in engine.decode_batch(states, specs or [request.spec for request in requests]):
        pass
    return states


def with_prefill(engine: Engine, request: Request, output: list[int], finish: FinishReason) -> Claim:
    """An honest prefill under any text."""
    store = engine.prefill([*request.prompt, *output[:-1]]).store
    return Claim(request, [store.rows(b) for b in range(store.boundaries)], output, finish)


def changed_model(lab: Lab, requests: Sequence[Request], name: str) -> list[Claim]:
    engine = _changed(lab, name)
    return [claim_of(r, s) for r, s in zip(requests, decoded(engine, requests), strict=True)]


def _changed(lab: Lab, name: str) -> Engine:
    engine = lab.fresh()
    with torch.no_grad():
        changes(len(engine.model.get_decoder().layers))[name](engine)
    return engine


def cheap_decode(lab: Lab, requests: Sequence[Request], name: str) -> list[Claim]:
    """An honest prefill of the prompt, and a changed model for the output alone: where the cost is."""
    states = [lab.engine.prefill(request.prompt) for request in requests]
    for _ in _changed(lab, name).decode_batch(states, [request.spec for request in requests]):
        pass
    return [claim_of(r, s) for r, s in zip(requests, states, strict=True)]


# Forged output: cheap decode, one honest prefill


def forged(lab: Lab, requests: Sequence[Request], name: str) -> list[Claim]:
    """Decoded with a changed model."""
    states = decoded(_changed(lab, name), requests)
    return [
        with_prefill(lab.engine, request, state.output, FinishReason.LENGTH)
        for request, state in zip(requests, states, strict=True)
    ]


def other_model(lab: Lab, requests: Sequence[Request]) -> list[Claim]:
    """Another model answers, and its text is put into this model's tokens."""
    stranger, claims = lab.stranger(), []
    prompts = [stranger.encode(lab.engine.decode(request.prompt)) or [0] for request in requests]
    asked = [replace(r, prompt=tuple(p)) for r, p in zip(requests, prompts, strict=True)]
    for request, state in zip(requests, decoded(stranger, asked), strict=True):
        output = lab.engine.encode(stranger.decode(state.output)) or [0]
        output = (output * request.spec.max_output_tokens)[: request.spec.max_output_tokens]
        claims.append(with_prefill(lab.engine, request, output, FinishReason.LENGTH))
    return claims


def accepts_too_much(lab: Lab, requests: Sequence[Request]) -> list[Claim]:
    """Speculative decoding that lets drafts stand that lose by up to half a logit; rows are honest."""
    prompts, specs = [r.prompt for r in requests], [r.spec for r in requests]
    states = speculate(lab.engine, prompts, specs, slack_q24=1 << 23)
    return [claim_of(r, s) for r, s in zip(requests, states, strict=True)]


# Altered prompts


def altered_prompt(lab: Lab, requests: Sequence[Request], change: Callable[[list[int]], None]) -> list[Claim]:
    """Computes on a changed prompt of the same length, and claims its rows for the signed one."""
    altered = []
    for request in requests:
        prompt = list(request.prompt)
        change(prompt)
        altered.append(replace(request, prompt=tuple(prompt)))
    return [
        replace(claim_of(r, s), request=r)
        for r, s in zip(requests, decoded(lab.engine, altered), strict=True)
    ]


def _one_token(prompt: list[int]) -> None:
    prompt[len(prompt) // 2] ^= 1


def _system_prompt(prompt: list[int]) -> None:
    """The first quarter, where a system prompt stands, becomes something else."""
    rng = random.Random(5)
    for i in range(1, 1 + max(1, len(prompt) // 4)):
        prompt[i % len(prompt)] = rng.randrange(2, 1000)


def truncated_prompt(lab: Lab, requests: Sequence[Request]) -> list[Claim]:
    """Computes without the first half of the prompt; the missing rows are copies of the first one it has."""
    requests = [r for r in requests if len(r.prompt) > 1]
    short = [replace(r, prompt=r.prompt[len(r.prompt) // 2 :]) for r in requests]
    claims = []
    for request, state in zip(requests, decoded(lab.engine, short), strict=True):
        claim = claim_of(request, state)
        missing = len(request.prompt) - len(request.prompt[len(request.prompt) // 2 :])
        rows = [np.concatenate([rows[:1].repeat(missing, axis=0), rows]) for rows in claim.rows]
        claims.append(replace(claim, rows=rows))
    return claims


# Altered sampling


def other_sampling(
    lab: Lab, requests: Sequence[Request], asked: dict[str, int], done: dict[str, int]
) -> list[Claim]:
    """The client asks for ``asked`` and the provider samples with ``done``, its rows being honest."""

    def spec(request: Request, sampling: dict[str, int]) -> GenerationSpec:
        return replace(request.spec, sampling=replace(request.spec.sampling, **sampling))

    states = decoded(lab.engine, requests, [spec(r, {**asked, **done}) for r in requests])
    return [claim_of(replace(r, spec=spec(r, asked)), s) for r, s in zip(requests, states, strict=True)]


# Outputs cut and padded


def cut(lab: Lab, requests: Sequence[Request], forged_eos: bool) -> list[Claim]:
    """Stops half way, and says that the limit was reached or that the model ended there."""
    claims = []
    eos = lab.manifest.eos_token_ids[0]
    for request, state in zip(requests, decoded(lab.engine, requests), strict=True):
        output = state.output[: max(1, len(state.output) // 2)]
        if forged_eos:  # so that only its margin can tell
            output = [*[token for token in output[:-1] if token != eos], eos]
            claim = with_prefill(lab.engine, request, output, FinishReason.EOS)
            claims.append(replace(claim, eos=(eos,)))
        else:
            claims.append(with_prefill(lab.engine, request, output, FinishReason.LENGTH))
    return claims


def padded(lab: Lab, requests: Sequence[Request]) -> list[Claim]:
    """Computes half of the output and bills the whole: the rest repeats what is there."""
    claims = []
    for request, state in zip(requests, decoded(lab.engine, requests), strict=True):
        half = state.output[: max(1, len(state.output) // 2)]
        output = (half * 2)[: len(state.output)]
        claims.append(with_prefill(lab.engine, request, output, FinishReason.LENGTH))
    return claims


# Rows that no model made for this job


def _honest(lab: Lab, requests: Sequence[Request]) -> list[Claim]:
    return [claim_of(r, s) for r, s in zip(requests, decoded(lab.engine, requests), strict=True)]


def made_up(lab: Lab, requests: Sequence[Request], spoil: Callable[[U8, Engine], U8]) -> list[Claim]:
    """An honest run whose rows are replaced."""
    return [
        replace(claim, rows=[spoil(rows, lab.engine) for rows in claim.rows])
        for claim in _honest(lab, requests)
    ]


def replayed(lab: Lab, requests: Sequence[Request]) -> list[Claim]:
    """Each job claims the rows of the next one, cut or repeated to its own length."""
    claims = _honest(lab, requests)
    taken = claims[1:] + claims[:1]
    return [
        replace(
            claim,
            rows=[np.resize(theirs, mine.shape) for mine, theirs in zip(claim.rows, other.rows, strict=True)],
        )
        for claim, other in zip(claims, taken, strict=True)
    ]


def _as_rows(values: torch.Tensor) -> U8:
    return values.contiguous().view(torch.uint8).numpy()


def _typed(rows: U8, engine: Engine) -> torch.Tensor:
    return torch.from_numpy(rows.copy()).view(engine.model.dtype)


def _shuffled(rows: U8, engine: Engine) -> U8:
    return rows[np.random.default_rng(3).permutation(len(rows))]


def _constant(rows: U8, engine: Engine) -> U8:
    return _as_rows(torch.ones_like(_typed(rows, engine)))


def _random(rows: U8, engine: Engine) -> U8:
    """Noise with the spread of the honest rows: as close as one gets without the model."""
    values = _typed(rows, engine).float()
    noise = torch.randn(values.shape, generator=torch.Generator().manual_seed(len(rows)))
    return _as_rows((values.mean(0) + noise * values.std(0, correction=0)).to(engine.model.dtype))


def _sign_flipped(rows: U8, engine: Engine) -> U8:
    return _as_rows(-_typed(rows, engine))


def _nan(rows: U8, engine: Engine) -> U8:
    return _as_rows(torch.full_like(_typed(rows, engine), float("nan")))


WARM = {"temperature_ppm": 700_000}
PLAIN = {"temperature_ppm": PPM}
CHEATS: dict[str, Cheat] = {
    **{name: partial(changed_model, name=name) for name in changes(30)},
    **{
        f"decode alone: {name}": partial(cheap_decode, name=name)
        for name in ("int8 weights", "int4 weights", "one layer dropped")
    },
    "forged output, int4 decode": partial(forged, name="int4 weights"),
    "forged output, early exit": partial(forged, name="early exit"),
    "other model": other_model,
    "speculation accepts too much": accepts_too_much,
    "prompt truncated": truncated_prompt,
    "prompt altered in one token": partial(altered_prompt, change=_one_token),
    "system prompt altered": partial(altered_prompt, change=_system_prompt),
    "temperature 1.0 for 0.7": partial(other_sampling, asked=WARM, done={"temperature_ppm": PPM}),
    "temperature 0 for 0.7": partial(other_sampling, asked=WARM, done={"temperature_ppm": 0}),
    "top-p 1 for 0.5": partial(
        other_sampling, asked={**PLAIN, "top_p_ppm": 500_000}, done={"top_p_ppm": PPM}
    ),
    "top-k 5 for none": partial(other_sampling, asked=PLAIN, done={"top_k": 5}),
    "other seed": partial(other_sampling, asked=PLAIN, done={"seed": 99}),
    "early stop": partial(cut, forged_eos=False),
    "early stop, forged EOS": partial(cut, forged_eos=True),
    "padded output": padded,
    "replayed rows": replayed,
    "shuffled rows": partial(made_up, spoil=_shuffled),
    "constant rows": partial(made_up, spoil=_constant),
    "random rows": partial(made_up, spoil=_random),
    "sign-flipped rows": partial(made_up, spoil=_sign_flipped),
    "NaN rows": partial(made_up, spoil=_nan),
}
"""The changed models' names do not depend on the number of layers."""
