"""Who works: the epoch's stakes, who of them answers, and VRF draws of workers and verifiers."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from eth_account.signers.local import LocalAccount

from node.log import NodeLog
from node.remote import Deadlines, RemoteWorker, WorkerFailed
from verillm import draw, vrf
from verillm.chain import ChainClient
from verillm.errors import VeriLLMError

ENDPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Draw:
    """The result of a draw and what proves it: ``proof`` is the VRF proof over the protocol's alpha."""

    operators: tuple[str, ...]
    epoch: int
    proof: bytes
    excluded: tuple[str, ...]


class Directory:
    """Connections to operators at the endpoints that they registered on chain."""

    def __init__(self, chain: ChainClient, deadlines: Deadlines, log: NodeLog) -> None:
        self._chain = chain
        self._deadlines = deadlines
        self._log = log
        self._workers: dict[str, RemoteWorker] = {}
        self._endpoints: dict[str, tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="liveness")

    def worker(self, operator: str) -> RemoteWorker:
        """A connection to ``operator``. Raises WorkerFailed if it registered no endpoint."""
        endpoint = self._endpoint(operator)
        with self._lock:
            known = self._workers.get(operator)
            if known is None or known.endpoint != endpoint:
                known = self._workers[operator] = RemoteWorker(operator, endpoint, self._deadlines)
            return known

    def _endpoint(self, operator: str) -> str:
        """From the chain's events, looked up again after ENDPOINT_SECONDS."""
        known = self._endpoints.get(operator)
        if known is not None and time.monotonic() - known[0] < ENDPOINT_SECONDS:
            return known[1]
        endpoint = self._chain.operator(operator).endpoint
        if not endpoint:
            raise WorkerFailed(f"worker {operator}: has no endpoint on chain")
        self._endpoints[operator] = (time.monotonic(), endpoint)
        return endpoint

    def dead(self, operators: Collection[str], model_id: bytes) -> set[str]:
        """Those of ``operators`` that do not answer Info, as themselves and with the model."""
        alive = self._pool.map(lambda operator: self._answers(operator, model_id), operators)
        return {operator for operator, answers in zip(operators, alive, strict=True) if not answers}

    def _answers(self, operator: str, model_id: bytes) -> bool:
        try:
            info = self.worker(operator).info()
        except VeriLLMError as error:
            self._log.info("not_live", operator=operator, reason=error)
            return False
        return info.address == bytes.fromhex(operator[2:]) and model_id in info.model_ids

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers.values():
            worker.close()


class Assigner:
    """Draws by stake with the scheduler's VRF key; operators that do not answer are passed over."""

    def __init__(self, chain: ChainClient, key: LocalAccount, directory: Directory) -> None:
        self._chain = chain
        self._secret = bytes(key.key)
        self._directory = directory

    def pool(self, model_id: bytes) -> tuple[int, Sequence[tuple[str, int]]]:
        """(epoch, stakes of the model's pool in it)."""
        epoch = self._chain.current_epoch()
        return epoch, self._chain.stakes(model_id, epoch)

    def worker(self, model_id: bytes, job_id: bytes, attempt: int, excluded: Collection[str]) -> Draw:
        """The worker of one attempt. Raises NotEnoughOperators."""
        epoch, stakes = self.pool(model_id)
        seed = draw.epoch_seed(self._chain.chain_id, self._chain.addresses.staking, epoch)
        return self._draw(draw.worker_alpha(seed, job_id, attempt), 1, model_id, epoch, stakes, excluded)

    def verifiers(
        self,
        model_id: bytes,
        job_id: bytes,
        epoch: int,
        randomness: bytes,
        count: int,
        excluded: Collection[str],
    ) -> Draw:
        """``count`` verifiers of a job; ``randomness`` is the round's first, ``epoch`` that in which it was
        committed. Raises NotEnoughOperators."""
        stakes = self._chain.stakes(model_id, epoch)
        return self._draw(draw.verifier_alpha(randomness, job_id), count, model_id, epoch, stakes, excluded)

    def _draw(
        self,
        alpha: bytes,
        count: int,
        model_id: bytes,
        epoch: int,
        stakes: Sequence[tuple[str, int]],
        excluded: Collection[str],
    ) -> Draw:
        proof = vrf.prove(self._secret, alpha)
        candidates = [operator for operator, stake in stakes if stake and operator not in excluded]
        barred = set(excluded) | self._directory.dead(candidates, model_id)
        chosen = draw.draw_operators(vrf.beta(proof), count, stakes, barred)
        return Draw(tuple(chosen), epoch, proof, tuple(sorted(barred)))
