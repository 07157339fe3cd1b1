"""A sample job, and a settled round as vectors for Solidity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from eth_account import Account
from eth_utils import to_checksum_address

from verillm import eip712, settlement
from verillm.commitment import MerkleTree
from verillm.constants import Verdict
from verillm.params import load_params
from verillm.types import Job, Line, Round, SettlementRecord

KEY = Account.from_key(bytes(31) + b"\x07")
OPERATORS = [to_checksum_address(bytes([0x70 + i]) * 20) for i in range(4)]
CLIENTS = [to_checksum_address(bytes([0xC0 + i]) * 20) for i in range(2)]
SCHEDULER = to_checksum_address("0x" + "5c" * 20)
A, R, U = Verdict.ACCEPT, Verdict.REJECT, Verdict.UNABLE
CASES: list[tuple[int, int, list[int], list[Verdict]]] = [
    # client, worker, verifiers, verdicts: accounts on both sides, in several roles, and with nothing at all.
    (0, 0, [1, 2], [A, A]),
    (1, 1, [0], [A]),
    (0, 0, [2, 3], [R, U]),
    (1, 2, [], []),
    (0, 1, [3, 2, 0], [A, U, A]),
    (0, 0, [1], [A]),
]


def sample_job(**changes: Any) -> Job:
    """A job with every field set, signed for by KEY in the vectors."""
    values: dict[str, Any] = {
        "client": KEY.address,
        "scheduler": to_checksum_address("0x" + "5c" * 20),
        "model_id": b"\x11" * 32,
        "prompt_hash": b"\x22" * 32,
        "prompt_tokens": 64,
        "max_output_tokens": 256,
        "stop_hash": eip712.stop_hash(["\n\n", "é"]),
        "temperature_ppm": 700_000,
        "top_k": 40,
        "top_p_ppm": 950_000,
        "seed": 2**64 - 1,
        "input_price": 10**13,
        "output_price": 2**128 - 1,
        "verifiers": 2,
        "deadline": 1_900_000_000,
        "nonce": 2**256 - 1,
    }
    return Job(**(values | changes))


def sample_records() -> list[SettlementRecord]:
    """The linked records of CASES; job i has id (i + 1) * 32."""
    records = []
    for i, (client, worker, verifiers, verdicts) in enumerate(CASES):
        job = sample_job(client=CLIENTS[client], output_price=10**15 + i, prompt_tokens=64 + i, verifiers=3)
        names = [OPERATORS[v] for v in verifiers]
        counts = (job.prompt_tokens, 20 * i + 1)
        records.append(
            settlement.make_record(
                job, bytes([i + 1]) * 32, OPERATORS[worker], *counts, names, verdicts, load_params("devnet")
            )
        )
    return settlement.link_records(records)


def sample_round(records: Sequence[SettlementRecord]) -> Round:
    """A round with every field set that is settled with these records."""
    debits, credits = settlement.round_lines(records)
    return Round(
        scheduler=SCHEDULER,
        model_id=b"\x11" * 32,
        root=b"\x12" * 32,
        jobs=len(records),
        params_version=3,
        epoch=2**48 - 1,
        committed_at=1_800_000_000,
        settle_by=2**64 - 1,
        verifier_block=1004,
        verifier_seed=b"\x13" * 32,
        verification_root=b"\x14" * 32,
        verifications=9,
        position_block=1009,
        position_seed=b"\x15" * 32,
        settlement_root=MerkleTree([settlement.record_leaf(record) for record in records]).root,
        debits_hash=settlement.lines_hash(debits),
        credits_hash=settlement.lines_hash(credits),
        total=sum(line.amount for line in debits),
        final_block=2000,
    )


def vectors() -> dict[str, Any]:
    """``records`` has one list per field over the records. What a record has several of is in one list for
    all: ``verifier_counts`` of each in ``verifiers`` and ``verdicts``, and two more in the links'."""
    records = sample_records()
    round = sample_round(records)
    tree = MerkleTree([settlement.record_leaf(record) for record in records])
    debits, credits = settlement.round_lines(records)
    return {
        "records": _columns(records),
        "leaves": [settlement.record_leaf(record) for record in records],
        "proof_of_2": list(tree.proof(2)),
        "debits": _lines(debits),
        "credits": _lines(credits),
        "round": {f.name: getattr(round, f.name) for f in fields(Round)},
        "round_hash": settlement.round_hash(round),
    }


def record_fields(record: SettlementRecord) -> dict[str, Any]:
    """A record's fields, with its links as two lists. Amounts are strings, so that lists are of one type."""
    values = asdict(record)
    links = values.pop("links")
    for name in ("worker_fee", "verifier_fee", "scheduler_fee"):
        values[name] = str(values[name])
    return values | {
        "link_previous": [link["previous"] for link in links],
        "link_totals": [str(link["total"]) for link in links],
    }


def _columns(records: Sequence[SettlementRecord]) -> dict[str, Any]:
    rows = [record_fields(record) for record in records]
    several = ("verifiers", "verdicts", "link_previous", "link_totals")
    columns = {name: [row[name] for row in rows] for name in rows[0] if name not in several}
    lists = {name: [item for row in rows for item in row[name]] for name in several}
    return columns | lists | {"verifier_counts": [len(record.verifiers) for record in records]}


def _lines(lines: Sequence[Line]) -> dict[str, Any]:
    return {
        "accounts": [line.account for line in lines],
        "last_jobs": [line.last_job for line in lines],
        "amounts": [str(line.amount) for line in lines],
        "hash": settlement.lines_hash(lines),
    }
