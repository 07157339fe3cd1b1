"""Parties that do not open their rows are made to on chain, and slashed if they let the deadline pass."""

from __future__ import annotations

from collections.abc import Sequence

from node.committee import Member
from node.log import NodeLog
from node.roundview import RoundState
from verillm.chain import ChainClient
from verillm.errors import ChainError
from verillm.types import Job


def demand_openings(
    chain: ChainClient, state: RoundState, job: Job, parties: Sequence[Member], position: int, log: NodeLog
) -> None:
    """Demand the row at boundary 0 and ``position`` from each party; each costs a bond until it ends."""
    for party in parties:
        job_id = party.signed.commitment.job_id
        try:
            demand = chain.demand_opening(state.round_id, party.proof, job, 0, position)
        except ChainError as error:
            log.warning("demand_refused", job=job_id, party=party.operator, reason=error)
            continue
        deadline = chain.block_number() + chain.params.opening_deadline_blocks + 1
        state.demands.append([demand, deadline])
        log.info("opening_demanded", job=job_id, party=party.operator, demand=demand)


def slash_withheld(chain: ChainClient, state: RoundState, log: NodeLog) -> None:
    """Slash where a demand's deadline passed; forget demands that have ended."""
    block = chain.block_number()
    for demand, deadline in list(state.demands):
        if not chain.opening_demanded(demand):
            state.demands.remove([demand, deadline])
        elif deadline <= block:
            chain.slash_withheld(demand)
            log.info("withheld_slashed", demand=demand)
            state.demands.remove([demand, deadline])
