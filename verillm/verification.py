"""Check a whole job with the model: one prefill over prompt and output, then rows, token margins and finish.

Proofs and signatures are checked before (``commitment.verify_opening``, ``eip712``); here are the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from verillm.commitment import RowOpening, token_list_hash
from verillm.commitment.hashing import token_root as tree_of_tokens
from verillm.commitment.job import RowStore
from verillm.comparator.compare import row_statistics
from verillm.comparator.tolerance import ToleranceTable
from verillm.comparator.verdict import JobObservation, JobVerdict, RowComparison, judge
from verillm.constants import FinishReason, Verdict
from verillm.eip712 import stop_hash
from verillm.engine.finish import first_violation
from verillm.engine.transformers_engine import Engine
from verillm.errors import EngineError, InvalidRequest, RowError
from verillm.manifest import TOKEN_MARGIN_Q24
from verillm.sampling.sampler import margins
from verillm.types import TOKEN_BOUNDARY, Job


@dataclass(frozen=True)
class TokenFraud:
    """A token that does not follow from the worker's own committed row at ``position``; it stands at
    ``position + 1``. ``gap_q24`` = score(better) - score(claimed)."""

    position: int
    claimed: int
    better: int
    gap_q24: int


def check_request(job: Job, prompt: Sequence[int], stop: Sequence[str]) -> None:
    """Raise InvalidRequest unless prompt and stop strings are those that the client signed."""
    if len(prompt) != job.prompt_tokens or token_list_hash(prompt) != job.prompt_hash:
        raise InvalidRequest(
            f"prompt: positions 0 to {max(len(prompt), 1) - 1} do not hash to the job's prompt_hash; "
            "this is not the prompt that the client signed"
        )
    if stop_hash(stop) != job.stop_hash:
        raise InvalidRequest("stop: the strings do not hash to the job's stop_hash")


def observe(
    engine: Engine,
    job: Job,
    prompt: Sequence[int],
    output: Sequence[int],
    finish_reason: FinishReason,
    stop: Sequence[str],
    openings: Sequence[RowOpening],
    own: RowStore | None = None,
) -> JobObservation:
    """Compare a job with our own prefill: every output token's margin, the opened rows, the finish rule.

    ``own`` holds the rows of a prefill of prompt + output[:-1]; None prefills here. ``unable`` is set if the
    engine fails. Raises InvalidRequest if the prompt is not the job's or an opening is outside the job.
    """
    check_request(job, prompt, stop)
    count = len(prompt) + len(output) - 1
    if any(not (0 <= o.boundary < len(engine.boundaries) and 0 <= o.position < count) for o in openings):
        limits = f"{len(engine.boundaries)} boundaries and {count} positions"
        raise InvalidRequest(f"openings: one is outside the job's {limits}")
    try:
        store = own if own is not None else engine.prefill([*prompt, *output[:-1]]).store
        if store.count(0) != count:
            raise EngineError(f"own rows: {store.count(0)}, the job has {count}")
        rows = tuple(
            RowComparison(
                o.boundary,
                o.position,
                *row_statistics(o.row, store.rows(o.boundary)[o.position], engine.dtype),
            )
            for o in openings
        )
        final = store.rows(len(engine.boundaries) - 1)
        found = _output_margins(engine, job, len(prompt), output, final)
    except (EngineError, RowError) as error:
        return JobObservation((), (), unable=str(error))
    broken = first_violation(
        output, finish_reason, engine.eos_token_ids, stop, job.max_output_tokens, engine.decode
    )
    last = len(output) - 1 if broken is None else broken
    return JobObservation(rows, found, finish_ok=broken is None, finish_position=len(prompt) + last)


def _output_margins(
    engine: Engine, job: Job, first: int, output: Sequence[int], final: np.ndarray
) -> tuple[tuple[int, int], ...]:
    """(position, margin Q24) of each output token; ``first`` is the position of the first one."""
    claimed = np.asarray(output, np.int64)
    found: list[tuple[int, int]] = []
    for start, logits in engine.logit_blocks(final[first - 1 :]):
        block = claimed[start : start + len(logits)]
        values, _ = margins(logits, job.sampling, first - 1 + start, block)
        found += [(first + start + i, int(value)) for i, value in enumerate(values)]
    return tuple(found)


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
    return judge(observe(engine, job, prompt, output, finish_reason, stop, openings, own), table)


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
        logits = engine.logits(np.frombuffer(o.row, np.uint8)[None])
        gaps, best = margins(logits, job.sampling, o.position, np.array([claimed]))
        gap = int(gaps[0])
        if gap > margin_q24 and (worst is None or gap > worst.gap_q24):
            worst = TokenFraud(o.position, claimed, int(best[0]), gap)
    return worst
