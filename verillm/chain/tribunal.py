"""Calls of ``Tribunal``: token fraud, withheld openings, contradicting verdicts."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from verillm.chain.connection import Receipt
from verillm.chain.proofs import CommitmentProof, TokenFraudProof
from verillm.chain.roundlog import on_round
from verillm.chain.rounds import RoundsCalls
from verillm.commitment.opening import JobRootParts, RowOpening
from verillm.errors import ChainError
from verillm.settlement import round_values
from verillm.types import Job, SignedVerdict


class TribunalCalls(RoundsCalls):
    """Faults of operators that the contract decides alone. A demand costs ``params.dispute_bond``."""

    @on_round
    def prove_token_fraud(self, round_id: int, proof: TokenFraudProof) -> Receipt:
        """Show a token that scores higher than the claimed one; slashes the worker and voids the job."""
        info = self.round(round_id)
        return self._send("tribunal", "proveTokenFraud", round_id, round_values(info), astuple(proof))

    @on_round
    def prove_invalid_row(self, round_id: int, proof: CommitmentProof, row: RowOpening) -> Receipt:
        """Show a committed row with a NaN or an infinity; slashes its operator, and voids the job if that is
        the worker."""
        info = self.round(round_id)
        evidence = (astuple(proof), astuple(row))
        return self._send("tribunal", "proveInvalidRow", round_id, round_values(info), *evidence)

    @on_round
    def demand_opening(
        self, round_id: int, proof: CommitmentProof, job: Job, boundary: int, position: int
    ) -> int:
        """Make an operator publish a row or be slashed; pays the bond and returns the demand id."""
        info = self.round(round_id)
        arguments = (round_id, round_values(info), astuple(proof), astuple(job), boundary, position)
        bond = self.params_at(info.params_version).dispute_bond
        receipt = self._spend(bond, "tribunal", "demandOpening", *arguments)
        return self._emitted(receipt, "tribunal", "OpeningDemanded")["demandId"]

    @on_round
    def answer_opening(self, demand_id: int, parts: JobRootParts, opening: RowOpening) -> Receipt:
        """Publish a demanded row; the bond goes to its operator."""
        demand = self._opening_demand(demand_id)
        return self._send("tribunal", "answerOpening", *demand, astuple(parts), astuple(opening))

    @on_round
    def slash_withheld(self, demand_id: int) -> Receipt:
        """Slash an operator that let the deadline of a demand pass."""
        return self._send("tribunal", "slashWithheld", *self._opening_demand(demand_id))

    def opening_demanded(self, demand_id: int) -> bool:
        """Is the demand open: neither answered nor slashed?"""
        return self._call("tribunal", "demandHash", demand_id) != bytes(32)

    def prove_equivocation(self, job: Job, first: SignedVerdict, second: SignedVerdict) -> Receipt:
        """Show two different verdicts that one verifier signed on one job; slashes it."""
        words: list[Any] = [astuple(job)]
        for verdict in (first, second):
            words += [astuple(verdict)[:-1], verdict.signature]
        return self._send("tribunal", "proveEquivocation", *words)

    def _opening_demand(self, demand_id: int) -> tuple[Any, ...]:
        """(id, demand, round) as the contract takes them."""
        if not self.opening_demanded(demand_id):
            raise ChainError(f"demand: there is no open demand {demand_id}")
        event = self._newest("tribunal", "OpeningDemanded", demandId=demand_id)
        if event is None:
            raise ChainError(f"demand: the endpoint has no event of demand {demand_id}")
        demand = event.args["demand"]
        return demand_id, demand, round_values(self.round(demand["roundId"]))
