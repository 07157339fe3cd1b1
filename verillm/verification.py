"""The verdict over a whole job: what the worker's own words contradict, then what ``observe`` sees of it.

Proofs and signatures are checked before (``commitment.verify_opening``, ``eip712``); here are the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from verillm.commitment import RowOpening
from verillm.commitment.hashing import token_root as tree_of_tokens
from verillm.commitment.job import RowStore
from verillm.comparator.tolerance import ToleranceTable
from verillm.comparator.verdict import JobVerdict, judge
from verillm.constants import FinishReason, Verdict
from verillm.engine.transformers_engine import Engine
from verillm.manifest import TOKEN_MARGIN_Q24
from verillm.observe import check_request, observe
from verillm.types import TOKEN_BOUNDARY, Job


@dataclass(frozen=True)
class TokenFraud:
    """A token that does not follow from the worker's own committed row at ``position``; it stands at
    ``position + 1``. ``gap_q24`` = score(better) - score(claimed)."""

    position: int
    claimed: int
    better: int
    gap_q24: int


def verify_job(
    engine: Engine,
    table: ToleranceTable,
    job: Job,
    prompt: Sequence[int],
    output: Sequence[int],
    finish_reason: FinishReason,
    stop: Sequence[str],
    openings: Sequence[RowOpening],
    own: RowStore | None = None,
    token_root: bytes | None = None,
) -> JobVerdict:
    """Accept, reject with the first diverging position, or unable.

    ``token_root`` is the worker's committed one. Raises InvalidRequest if prompt or stop strings are not what
    the client signed.
    """
    check_request(job, prompt, stop)
    contradiction = _contradiction(engine, job, prompt, output, openings, token_root)
    if contradiction is not None:
        return contradiction
    seen = observe(engine, job, prompt, output, finish_reason, stop, openings, own)
    return judge(seen, table)


def _contradiction(
    engine: Engine,
    job: Job,
    prompt: Sequence[int],
    output: Sequence[int],
    openings: Sequence[RowOpening],
    token_root: bytes | None,
) -> JobVerdict | None:
    """What the worker's own words contradict, without running the model."""
    first = len(prompt)

    def reject(boundary: int, position: int, reason: str) -> JobVerdict:
        return JobVerdict(Verdict.REJECT, boundary, position, reason)

    if not output:
        return reject(TOKEN_BOUNDARY, first, "finish: the output is empty")
    if len(output) > job.max_output_tokens:
        reason = f"finish: {len(output)} output tokens, the job allows {job.max_output_tokens}"
        return reject(TOKEN_BOUNDARY, first + job.max_output_tokens, reason)
    for index, token in enumerate(output):
        if not 0 <= token < engine.vocab_size:
            reason = f"token: {token} is outside the vocabulary of {engine.vocab_size}"
            return reject(TOKEN_BOUNDARY, first + index, reason)
    tokens = [*prompt, *output]
    for o in sorted(openings, key=lambda o: (o.position, o.boundary)):
        if o.position < len(tokens) and o.token != tokens[o.position]:
            reason = f"opening: committed to token {o.token}, the transcript has {tokens[o.position]}"
            return reject(o.boundary, o.position, reason)
    if token_root is not None and token_root != tree_of_tokens(tokens):
        return reject(TOKEN_BOUNDARY, first, "commitment: token_root is not that of the transcript")
    return None


def find_token_fraud(
    engine: Engine,
    openings: Sequence[RowOpening],
    job: Job,
    tokens: Sequence[int],
    margin_q24: int = TOKEN_MARGIN_Q24,
) -> TokenFraud | None:
    """The output token that loses most, by more than ``margin_q24``, against the worker's own final rows.

    ``openings`` may be of any boundary; those after the final norm at P - 1 or later are used. ``tokens`` is
    prompt and output. None for masked jobs, which the contract cannot judge. Raises RowError or EngineError.
    """
    if job.sampling.masked:
        return None
    worst: TokenFraud | None = None
    last = len(engine.boundaries) - 1
    for o in openings:
        if o.boundary != last or not job.prompt_tokens - 1 <= o.position < len(tokens) - 1:
            continue
        claimed = tokens[o.position + 1]
        row = np.frombuffer(o.row, np.uint8)[None]
        gaps, best = engine.margins(row, job.sampling, o.position, [claimed])
        gap = int(gaps[0])
        if gap > margin_q24 and (worst is None or gap > worst.gap_q24):
            worst = TokenFraud(o.position, claimed, int(best[0]), gap)
    return worst
