"""Look at a job with the model: one prefill over prompt and output, then rows, token margins and finish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from verillm.commitment import RowOpening, token_list_hash
from verillm.commitment.job import RowStore
from verillm.comparator.observation import JobObservation, compare_pairs
from verillm.comparator.repetition import countable
from verillm.comparator.tolerance import ToleranceTable
from verillm.comparator.verdict import judge
from verillm.constants import FinishReason, Verdict
from verillm.eip712 import stop_hash
from verillm.engine.depth import prefill_to
from verillm.engine.finish import first_violation
from verillm.engine.transformers_engine import Engine
from verillm.errors import EngineError, InvalidRequest, RowError
from verillm.types import Job

MARGIN_BLOCK = 64
"""Output tokens between two looks at the evidence."""
Margins = tuple[tuple[int, int], ...]
"""(position of the token, margin Q24)."""


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
    *,
    depth: int | None = None,
    until: ToleranceTable | None = None,
) -> JobObservation:
    """Compare a job with our own prefill: the opened rows, every output token's margin, the finish rule.
    Rows of text that repeats itself are left out (``comparator.repetition``).

    ``own`` holds the rows of a prefill of prompt + output[:-1]; None prefills here. ``depth`` b stops that
    prefill at boundary b, to save the layers behind it: rows beyond are not compared, and a token's margin
    is measured on the worker's own opened row. ``until`` returns as soon as the evidence rejects by this
    table, so perhaps before it comes to the first divergence. ``unable`` is set if the engine fails. Raises
    InvalidRequest if the prompt is not the job's, or an opening or ``depth`` is outside the job.
    """
    check_request(job, prompt, stop)
    count, last = len(prompt) + len(output) - 1, len(engine.boundaries) - 1
    if any(not (0 <= o.boundary <= last and 0 <= o.position < count) for o in openings):
        limits = f"{last + 1} boundaries and {count} positions"
        raise InvalidRequest(f"openings: one is outside the job's {limits}")
    if depth is not None and not 0 <= depth <= last:
        raise InvalidRequest(f"depth: boundary {depth} is outside 0 to {last}")
    deepest = last if depth is None else depth
    try:
        store = own if own is not None else prefill_to(engine, [*prompt, *output[:-1]], deepest)
        if store.count(0) != count:
            raise EngineError(f"own rows: {store.count(0)}, the job has {count}")
        text = [*prompt, *output]
        counts = countable(text)
        reached = {(o.boundary, o.position): o for o in openings if o.boundary <= deepest}
        rows, shared = compare_pairs(
            (
                (b, t, text[t], o.row, store.rows(b)[t].tobytes())
                for (b, t), o in reached.items()
                if counts[t]
            ),
            engine.dtype,
        )
        found: Margins = ()
        blocks = _margins(engine, job, prompt, output, openings, store if deepest == last else None)
        block: Margins | None = ()
        while block is not None:
            found += block
            seen = JobObservation(rows, found, shared)
            if until is not None and judge(seen, until).verdict is Verdict.REJECT:
                return seen
            block = next(blocks, None)
    except (EngineError, RowError) as error:
        return JobObservation((), (), unable=str(error))
    broken = first_violation(
        output, finish_reason, engine.eos_token_ids, stop, job.max_output_tokens, engine.decode
    )
    end = len(output) - 1 if broken is None else broken
    return JobObservation(rows, found, shared, broken is None, len(prompt) + end)


def _margins(
    engine: Engine,
    job: Job,
    prompt: Sequence[int],
    output: Sequence[int],
    openings: Sequence[RowOpening],
    store: RowStore | None,
) -> Iterator[Margins]:
    """Of every output token by our own final rows, block by block; without a ``store`` that has them, of
    those that follow a final row that the worker opened, by that row."""
    first, last = len(prompt), len(engine.boundaries) - 1
    if store is None:
        for o in {o.position: o for o in openings if o.boundary == last}.values():
            if o.position >= first - 1:
                row, token = np.frombuffer(o.row, np.uint8)[None], output[o.position - first + 1]
                values, _ = engine.margins(row, job.sampling, o.position, [token])
                yield ((o.position + 1, int(values[0])),)
        return
    for start in range(0, len(output), MARGIN_BLOCK):
        claimed = output[start : start + MARGIN_BLOCK]
        rows = store.rows(last)[first - 1 + start :][: len(claimed)]
        values, _ = engine.margins(rows, job.sampling, first - 1 + start, claimed)
        yield tuple((first + start + i, int(value)) for i, value in enumerate(values))
