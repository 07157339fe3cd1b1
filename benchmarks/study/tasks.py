"""The study's tasks: one provider and its jobs each, so that they can run in several processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .cheats import CHEATS
from .claims import Claim, Outcome, claim_of, evaluate
from .lab import Lab, Subject, lab
from .peers import Peer
from .variants import decodes, prefills
from .workload import Request, request

CHEAT_VERIFIER = "plain"
CONTROL = "honest"
"""Name of the honest provider that cheats are told from: the same jobs, decoded as cheats decode."""
BATCH = 8


@dataclass(frozen=True)
class Task:
    """``provider``: a decode variant if ``verifiers`` are given, else a cheat or CONTROL, whose jobs have
    ``output_tokens`` each. Jobs are numbered from ``first``."""

    subject: Subject
    stranger: str
    provider: str
    seed: int
    first: int
    jobs: int
    verifiers: tuple[str, ...] = ()
    output_tokens: int | None = None

    @property
    def label(self) -> str:
        return f"{self.subject.model} {self.subject.dtype.name.lower()}: {self.provider}"


def run(task: Task) -> list[Outcome]:
    """All comparisons of one task. One thread: the study runs one process per core."""
    torch.set_num_threads(1)
    place = lab(task.subject, task.stranger)
    return _honest(task, place) if task.verifiers else _cheat(task, place)


def _requests(task: Task, place: Lab) -> list[Request]:
    numbers = range(task.first, task.first + task.jobs)
    return [request(place.engine, task.seed, number, task.output_tokens) for number in numbers]


def _honest(task: Task, place: Lab) -> list[Outcome]:
    requests = _requests(task, place)
    decode = decodes(task.subject.dtype)[task.provider]
    states = decode(place.engine, [r.prompt for r in requests], [r.spec for r in requests])
    claims = [claim_of(r, s) for r, s in zip(requests, states, strict=True)]
    return [outcome for name in task.verifiers for outcome in _verify(task, place, name, claims, None)]


def _cheat(task: Task, place: Lab) -> list[Outcome]:
    eos, place.engine.eos_token_ids = place.engine.eos_token_ids, ()
    try:  # every job has its full length
        outcomes = []
        requests = _requests(task, place)
        for first in range(0, len(requests), BATCH):
            batch = requests[first : first + BATCH]
            claims = _claims(task, place, batch)
            outcomes += _verify(task, place, CHEAT_VERIFIER, claims, place.peers)
        return outcomes
    finally:
        place.engine.eos_token_ids = eos


def _claims(task: Task, place: Lab, requests: Sequence[Request]) -> list[Claim]:
    if task.provider == CONTROL:
        decode = decodes(task.subject.dtype)[f"batch {BATCH}"]
        states = decode(place.engine, [r.prompt for r in requests], [r.spec for r in requests])
        return [claim_of(r, s) for r, s in zip(requests, states, strict=True)]
    return CHEATS[task.provider](place, requests)


def _verify(
    task: Task, place: Lab, name: str, claims: Sequence[Claim], peers: Sequence[Peer] | None
) -> list[Outcome]:
    texts = [[*claim.request.prompt, *claim.output[:-1]] for claim in claims]
    stores = place.verify(name, prefills(task.subject.dtype)[name], texts)
    names = {"provider": task.provider, "verifier": name, **task.subject.names}
    return [
        evaluate(claim, own, place.engine, place.table, names, peers)
        for claim, own in zip(claims, stores, strict=True)
    ]
