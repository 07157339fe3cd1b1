// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Comparator} from "./libraries/Comparator.sol";
import {Juries} from "./libraries/Juries.sol";
import {Opening} from "./libraries/Opening.sol";
import {Rows} from "./libraries/Rows.sol";
import {Jury} from "./Jury.sol";
import {Rounds} from "./Rounds.sol";
import {Staking} from "./Staking.sol";
import {BPS, CommitmentProof, ModelSpec, Params, ROLE_WORKER, Round, RowOpening} from "./Types.sol";

/// @notice Divergence of two committed rows: how a dispute begins, and what follows from its juries' decision.
contract Court is Jury {
    using Juries for Juries.Level;

    uint256 public disputeCount;
    /// @notice By `pairKey`: pairs of operators that have, or had, a dispute on a job of a round.
    mapping(bytes32 pair => bool) public disputed;
    mapping(bytes32 jobId => mapping(address operator => bool)) public slashedFor;

    event DisputeOpened(
        uint256 indexed disputeId,
        uint256 indexed roundId,
        bytes32 indexed jobId,
        address first,
        address second,
        uint16 boundary,
        uint32 position,
        bytes firstRow,
        bytes secondRow
    );
    event DisputeResolved(uint256 indexed disputeId, address loser, uint256 slashed, uint256 share);
    event DisputeEnded(uint256 indexed disputeId);

    error SameParty(address operator);
    error TokensDiffer();
    error RowsAtDifferentPlaces();
    error RowsAgree();
    error DisputeExists();

    constructor(Staking staking_, Rounds rounds_) Jury(staking_, rounds_) {}

    // --- opening ---

    /// @notice Two operators committed to different rows at the same place of the same tokens. Costs a bond, which
    /// comes back unless the challenger itself is the one who loses.
    function openDispute(
        uint256 roundId,
        Round calldata round,
        CommitmentProof calldata first,
        RowOpening calldata firstRow,
        CommitmentProof calldata second,
        RowOpening calldata secondRow
    ) external nonReentrant returns (uint256 disputeId) {
        _checkChallengeable(roundId, round);
        _checkCommitment(round, first, first.commitment.role);
        _checkCommitment(round, second, second.commitment.role);
        bytes32 jobId = first.commitment.jobId;
        _claimPair(roundId, jobId, first.commitment.operator, second.commitment.operator);
        disputeId = ++disputeCount;
        Dispute storage d = _disputes[disputeId];
        (d.rowDtype, d.toleranceQ40) = _checkDivergence(first, firstRow, second, secondRow, round.modelId);
        (d.boundary, d.position) = (firstRow.boundary, firstRow.position);
        (d.paramsVersion, d.epoch) = (round.paramsVersion, staking.epoch());
        (d.roundId, d.jobId, d.modelId) = (uint128(roundId), jobId, round.modelId);
        d.tokenRoot = first.parts.tokenRoot;
        (d.first, d.second) = (_party(first), _party(second));
        (d.firstRowHash, d.secondRowHash) = (keccak256(firstRow.row), keccak256(secondRow.row));
        emit DisputeOpened(
            disputeId,
            roundId,
            jobId,
            d.first.operator,
            d.second.operator,
            firstRow.boundary,
            firstRow.position,
            firstRow.row,
            secondRow.row
        );
        // Calls nobody; the round is held before the bond is pulled.
        // slither-disable-next-line reentrancy-no-eth
        rounds.hold(roundId);
        _openLevel(disputeId, d, 0, _params(round));
    }

    // --- the end ---

    /// @notice Once nobody can appeal: slash the loser, share out, void the loser's job, and settle up to `count` of
    /// the jurors' seats; call again until all are. The last call lets go of the round.
    function resolve(uint256 disputeId, uint256 count) external nonReentrant {
        Dispute storage d = _disputes[disputeId];
        if (d.state != State.Appealable && d.state != State.Settling) revert WrongState(disputeId);
        Params memory params = parameters.at(d.paramsVersion);
        if (d.state == State.Appealable) {
            if (block.number <= d.appealDeadline) revert TooEarly(d.appealDeadline);
            d.state = State.Settling;
            // The calls go to our own contracts and the token, and no other function acts on a settling dispute.
            // slither-disable-next-line reentrancy-no-eth
            _decide(disputeId, d, params);
        }
        if (!_settleSeats(disputeId, d, count, params.slashBpsNoShow)) return;
        d.state = State.Ended;
        rounds.release(d.roundId);
        emit DisputeEnded(disputeId);
    }

    function pairKey(uint256 roundId, bytes32 jobId, address a, address b) public pure returns (bytes32) {
        return
            a < b ? keccak256(abi.encode(roundId, jobId, a, b)) : keccak256(abi.encode(roundId, jobId, b, a));
    }

    // --- internals ---

    function _claimPair(uint256 roundId, bytes32 jobId, address first, address second) private {
        if (first == second) revert SameParty(first);
        bytes32 pair = pairKey(roundId, jobId, first, second);
        if (disputed[pair]) revert DisputeExists();
        disputed[pair] = true;
    }

    /// @dev Both rows are committed, at one place of one job's tokens, and further apart than the model allows.
    function _checkDivergence(
        CommitmentProof calldata first,
        RowOpening calldata firstRow,
        CommitmentProof calldata second,
        RowOpening calldata secondRow,
        bytes32 modelId
    ) private view returns (uint8 dtype, uint64 tolerance) {
        if (first.commitment.jobId != second.commitment.jobId) {
            revert JobMismatch(second.commitment.jobId);
        }
        if (first.parts.tokenRoot != second.parts.tokenRoot) revert TokensDiffer();
        if (firstRow.boundary != secondRow.boundary || firstRow.position != secondRow.position) {
            revert RowsAtDifferentPlaces();
        }
        ModelSpec memory spec = staking.model(modelId);
        Opening.checkRow(first.commitment, first.parts, spec, firstRow);
        Opening.checkRow(second.commitment, second.parts, spec, secondRow);
        (dtype, tolerance) = (spec.rowDtype, spec.rowToleranceQ40[firstRow.boundary]);
        Rows.Row memory values = Comparator.load(firstRow.row, dtype);
        if (!Comparator.diverges(values, Comparator.load(secondRow.row, dtype), tolerance)) {
            revert RowsAgree();
        }
    }

    function _party(CommitmentProof calldata p) private pure returns (Party memory) {
        return Party(p.commitment.operator, p.commitment.role == ROLE_WORKER, uint32(p.leafIndex));
    }

    /// @dev What stands now is final. The loser's slash, and its bonds if it opened a level, are split as every slash;
    /// the jurors also share the bonds of appeals that changed nothing.
    function _decide(uint256 disputeId, Dispute storage d, Params memory params) private {
        uint8 side = d.standing;
        address loser;
        uint256 slashed;
        // As in resolve.
        // slither-disable-next-line reentrancy-no-eth
        if (side != 0) (loser, slashed) = _slashLoser(d, params);
        uint256 winners;
        uint256 forfeited;
        uint256 lost = slashed;
        for (uint256 level; level <= d.level; ++level) {
            Juries.Level storage j = _levels[disputeId][level];
            winners += j.votesFor(side);
            uint256 bond = uint256(params.disputeBond) << level;
            if (level > 0 && j.drawn > 0 && j.contested == side) forfeited += bond;
            else if (j.opener == loser) lost += bond;
            else rounds.credit(j.opener, bond);
        }
        address finder = _levels[disputeId][d.winningLevel].opener;
        uint256 paid = finder == loser ? 0 : lost * params.challengerShareBps / BPS;
        if (paid > 0) rounds.credit(finder, paid);
        if (winners > 0) d.share = uint128((lost * params.jurorShareBps / BPS + forfeited) / winners);
        paid += d.share * winners;
        if (lost + forfeited > paid) rounds.burn(lost + forfeited - paid);
        emit DisputeResolved(disputeId, loser, slashed, d.share);
    }

    /// @dev Several disputes may be about the same wrong rows; they are one offence.
    function _slashLoser(Dispute storage d, Params memory params)
        private
        returns (address loser, uint256 slashed)
    {
        Party memory party = d.standing == 1 ? d.second : d.first;
        loser = party.operator;
        if (party.isWorker) rounds.voidJob(d.roundId, party.leafIndex);
        if (slashedFor[d.jobId][loser]) return (loser, 0);
        slashedFor[d.jobId][loser] = true;
        slashed = staking.slash(d.modelId, loser, params.slashBpsDivergence);
    }

    /// @dev Jurors near the side that stands earn their share. Those who stayed away pay, and if a side stands, so do
    /// those whose row is far from it. True once no seat is left.
    function _settleSeats(uint256 disputeId, Dispute storage d, uint256 count, uint256 fineBps)
        private
        returns (bool)
    {
        Juries.Seat[] storage seats = _seats[disputeId];
        (uint256 from, uint8 side, uint256 share) = (d.settled, d.standing, d.share);
        uint256 left = seats.length - from;
        uint256 to = from + (count < left ? count : left);
        d.settled = uint16(to);
        uint256 fines;
        for (uint256 i = from; i < to; ++i) {
            Juries.Seat memory seat = seats[i];
            if (seat.unable) continue;
            if (!seat.revealed || (side != 0 && seat.near & side == 0)) {
                fines += staking.slash(d.modelId, seat.juror, fineBps);
            } else if (seat.near == side && share > 0) {
                rounds.credit(seat.juror, share);
            }
        }
        if (fines > 0) rounds.burn(fines);
        return to == seats.length;
    }
}
