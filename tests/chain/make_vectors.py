"""Write tests/vectors/{eip712,vrf,draw,settlement}.json: ``python -m tests.chain.make_vectors``.

Integers above 2^53 are decimal strings and bytes are 0x-hex, so that forge's JSON cheatcodes read them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.chain import settlement_cases, vrf_cases
from tests.chain.settlement_cases import KEY, sample_job
from verillm import draw, eip712, settlement, vrf
from verillm.constants import FinishReason, Role, Verdict
from verillm.params import load_params
from verillm.types import Commitment, ModelSpec, SignedVerdict

VECTORS = Path(__file__).parents[1] / "vectors"
PUBLISHED = [
    # secret, alpha, pi, beta: github.com/atikayda/ecvrf vectors/vectors.json (RFC 9381 construction).
    (
        "0000000000000000000000000000000000000000000000000000000000000001",
        "",
        "024192220588c4ef502f5d2ab75552edfbe0256cebb0424efb9c4c58f438c3dcb43740e701a78589f13a3577908db37b1d"
        "db55edaf0706552da59a41b69be3740878407cf6d13675cd94802a33b5e629f7",
        "6bf7eda22a89f87fb8c8e17fa111727ca02d0a23db29fdcbe7ac84280e8bde24",
    ),
    (
        "07ae54391b81d1f1cbbeaf1389935d132295c2ac16e90f8742ee9c08cdacbf0e",
        "",
        "032e7686ba8b2cd61b75ccce93ae49cd97ff5d65009586d9db7fb0d1420f3d087b520b88c0422a7b4dbd97471b79a50393"
        "cc4400324f49c38bb308fef58fca7f81dd94f86aa0861a604fe544ab13bd7706",
        "816255bf4c87656e41e4c1c0e40ecc6e11ee86d996da843f74d49c1f80cdbcc3",
    ),
    (
        "9828d8ebfd85e5ddd819e7a87515a882f7b0c2b664e852949eaa4028f5d83934",
        "ff",
        "0246439bccdfaa7d87334563225583c47bf283327e0456cb66ea974a179a98389bea519f7b06285a99fe10589873f741c5"
        "704b6cd1a2d39c9e0922ee0838f64fa1b2fb039a0f591010d5fd2323239c981e",
        "01a95d35b4cc18fa06fc8321ff134350a03fb1e30288a6b0d12608868483ac94",
    ),
    (
        "9828d8ebfd85e5ddd819e7a87515a882f7b0c2b664e852949eaa4028f5d83934",
        "30312d303030303033",
        "036dd09336079d5d29ec14212e5455e7f437102335f907dd4a3310108b9a5139c2e0014dbd2836b79f5c2a9cc4daf4c0e7"
        "370f7e807e496763e2397658a3de31473e3262c9efecbc488ff9a1491336bdc4",
        "c83abaac553b1748ea424b32848101a9b76b507c3e4c16f21cef472327db562d",
    ),
]


def plain(value: Any) -> Any:
    """JSON form of a dataclass field."""
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, int) and value >= 2**53:
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def eip712_vectors() -> dict[str, Any]:
    domain = eip712.domain(31337, "0x" + "c0" * 20)
    job = sample_job()
    job_id = eip712.job_id(job, domain)
    commitment = Commitment(job_id, Role.WORKER, 1, b"\x33" * 32, 64, 200, FinishReason.EOS, KEY.address)
    verdict = SignedVerdict(job_id, Verdict.REJECT, 4, 77, KEY.address)
    spec = ModelSpec(b"\x44" * 32, b"\x55" * 32, 576, 49152, 3, 1, 2**26, (10, 20, 2**40))
    params = load_params("devnet")
    priced = sample_job(output_price=3 * 10**13)
    verifiers = ["0x" + "a1" * 20, "0x" + "b2" * 20]
    record = settlement.make_record(
        priced, job_id, KEY.address, 64, 200, verifiers, [Verdict.ACCEPT, Verdict.UNABLE], params
    )
    (record,) = settlement.link_records([record])
    digest = eip712.commitment_digest(commitment, domain)
    return {
        "chain_id": domain.chain_id,
        "contract": domain.contract,
        "separator": domain.separator,
        "private_key": bytes(KEY.key),
        "job": asdict(job),
        "job_id": job_id,
        "job_signature": eip712.sign_job(job, KEY, domain),
        "commitment": asdict(commitment),
        "commitment_digest": digest,
        "commitment_signature": eip712.sign_commitment(commitment, KEY, domain),
        "verdict": asdict(verdict),
        "verdict_digest": eip712.verdict_digest(verdict, domain),
        "verdict_signature": eip712.sign_verdict(verdict, KEY, domain),
        "spec": asdict(spec),
        "model_id": eip712.model_id(spec),
        "stop": ["\n\n", "é"],
        "stop_hash": job.stop_hash,
        "record": settlement_cases.record_fields(record),
        "record_leaf": settlement.record_leaf(record),
        "round_leaf": settlement.round_leaf(digest, KEY.address),
    }


def vrf_vectors() -> dict[str, Any]:
    names = ("sk", "alpha", "pi", "beta")
    published = [dict(zip(names, map(bytes.fromhex, row), strict=True)) for row in PUBLISHED]
    own = []
    for i in range(4):
        sk, alpha = bytes(31) + bytes([i + 2]), bytes(range(16 * i))
        pi = vrf.prove(sk, alpha)
        own.append({"sk": sk, "alpha": alpha, "pi": pi, "beta": vrf.verify(vrf.public_key(sk), alpha, pi)})
    for row in published + own:
        row["pk"] = vrf.public_key(row["sk"])
    return {
        "published": published,
        "own": own,
        "hinted": vrf_cases.good_cases(published),
        "bad": vrf_cases.bad_cases(),
    }


def draw_vectors() -> dict[str, Any]:
    operators = ["0x" + f"{i + 1:02x}" * 20 for i in range(8)]
    stakes = [10**21 * (i % 4) for i in range(8)]
    job_id, staking = b"\x66" * 32, "0x" + "57" * 20
    seed = draw.epoch_seed(31337, staking, 12)
    draws = [
        {
            "beta": beta,
            "count": 3,
            "excluded": [operators[1]],
            "drawn": draw.draw_operators(beta, 3, list(zip(operators, stakes, strict=True)), [operators[1]]),
        }
        for beta in (bytes([i]) * 32 for i in range(4))
    ]
    positions = [
        {
            "randomness": b"\x77" * 32,
            "n": n,
            "count": 8,
            "positions": draw.opened_positions(b"\x77" * 32, job_id, n, 8),
        }
        for n in (1, 8, 9, 319, 8191)
    ]
    return {
        "chain_id": 31337,
        "staking": staking,
        "epoch": 12,
        "epoch_seed": seed,
        "job_id": job_id,
        "attempt": 1,
        "worker_alpha": draw.worker_alpha(seed, job_id, 1),
        "round_randomness": b"\x88" * 32,
        "verifier_alpha": draw.verifier_alpha(b"\x88" * 32, job_id),
        "operators": operators,
        "stakes": [str(stake) for stake in stakes],
        "draws": draws,
        "positions": positions,
    }


def build() -> dict[str, Any]:
    """File name to content, as it is written."""
    return {
        "eip712.json": plain(eip712_vectors()),
        "vrf.json": plain(vrf_vectors()),
        "draw.json": plain(draw_vectors()),
        "settlement.json": plain(settlement_cases.vectors()),
    }


if __name__ == "__main__":
    for name, content in build().items():
        (VECTORS / name).write_text(json.dumps(content, indent=1) + "\n")
