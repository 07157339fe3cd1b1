// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Jury} from "../../src/Jury.sol";
import {Juries} from "../../src/libraries/Juries.sol";
import {Tags} from "../../src/libraries/Tags.sol";
import {CommitmentProof, Round, ROLE_VERIFIER, ROLE_WORKER, RowOpening} from "../../src/Types.sol";
import {HandlerChallenges} from "./HandlerChallenges.sol";
import {Transcripts} from "./Transcripts.sol";

/// @notice Disputes between worker and verifier of a divergent job, with juries that vote as the dice fall.
abstract contract HandlerDisputes is HandlerChallenges {
    using Transcripts for Transcripts.Transcript;

    uint256 internal constant ALL = type(uint256).max;
    bytes32 private constant SALT = "salt";

    uint256[] internal disputes;
    /// @dev By dispute, level and juror: 1 + the row of `_rowOf` that it committed to.
    mapping(uint256 disputeId => mapping(uint256 level => mapping(address juror => uint256))) private _votes;
    mapping(uint256 disputeId => mapping(uint256 level => bool)) private _asked;

    function openDispute(uint256 seed) external action(seed) {
        uint256 id = someRound(Stage.Verified);
        for (uint256 i; i < plans[id].length && disputes.length < 4; ++i) {
            Plan memory p = plans[id][i];
            if (p.kind != Kind.Divergent || p.verifiers == 0) continue;
            uint256 v = roll(p.verifiers);
            CommitmentProof memory first = workerProof(id, i);
            CommitmentProof memory second = verifierProof(id, i, v);
            (address a, address b) = (first.commitment.operator, second.commitment.operator);
            if (court.disputed(court.pairKey(id, first.commitment.jobId, a, b))) continue;
            RowOpening memory firstRow = transcriptOf(p.kind, ROLE_WORKER).open(0, 1);
            RowOpening memory secondRow = transcriptOf(p.kind, ROLE_VERIFIER).open(0, 1);
            Round memory round = at(id);
            vm.prank(chance(60) ? challenger : chance(50) ? a : b);
            disputes.push(court.openDispute(id, round, first, firstRow, second, secondRow));
            owedByCourts += params.disputeBond;
            return did("disputed");
        }
    }

    function stepDispute(uint256 seed) external action(seed) {
        if (disputes.length == 0) return;
        stepDispute(roll(disputes.length), false);
    }

    /// @dev With `last`, the step is taken whatever time must pass, nobody appeals, and all seats are settled.
    function stepDispute(uint256 i, bool last) internal {
        uint256 id = disputes[i];
        Jury.Dispute memory d = court.dispute(id);
        params = parameters.at(d.paramsVersion);
        if (d.state == Jury.State.AwaitingJury) {
            _seat(id, d);
        } else if (d.state == Jury.State.Voting) {
            _vote(id, d);
        } else {
            bool appealable = d.state == Jury.State.Appealable && vm.getBlockNumber() <= d.appealDeadline;
            if (appealable && !last && chance(60)) return _appeal(id, d);
            if (appealable) passBlock(d.appealDeadline);
            _resolve(i, d, last);
        }
    }

    function _seat(uint256 id, Jury.Dispute memory d) private {
        if (randomness.expired(d.targetBlock)) {
            court.requeueJury(id);
            did("jury requeued");
        } else {
            court.drawJury(id, reach(d.targetBlock));
            d = court.dispute(id);
            did(d.state == Jury.State.Voting ? "jury seated" : "no jury");
            if (d.state == Jury.State.Voting && chance(70)) _vote(id, d);
        }
    }

    // --- votes ---

    /// @dev First, who is there commits; the next step reveals and counts.
    function _vote(uint256 id, Jury.Dispute memory d) private {
        address[] memory jurors = court.jurors(id, d.level);
        if (!_asked[id][d.level] && vm.getBlockNumber() <= d.commitDeadline) {
            _asked[id][d.level] = true;
            for (uint256 i; i < jurors.length; ++i) {
                _commit(id, d.level, jurors[i]);
            }
            return did("votes committed");
        }
        if (!_allAnswered(id, d.level)) passBlock(d.commitDeadline);
        for (uint256 i; i < jurors.length && vm.getBlockNumber() <= d.revealDeadline; ++i) {
            uint256 choice = _votes[id][d.level][jurors[i]];
            if (choice == 0 || chance(10)) continue;
            vm.prank(jurors[i]);
            court.revealVote(id, _rowOf(choice - 1), SALT, workerRow(), otherRow());
        }
        Juries.Level memory level = court.jury(id, d.level);
        if (level.revealed < level.committed) passBlock(d.revealDeadline);
        court.tally(id);
        did("tallied");
    }

    function _commit(uint256 id, uint8 level, address juror) private {
        if (chance(10)) return; // a no-show
        if (chance(10)) {
            vm.prank(juror);
            court.declareUnable(id);
            return;
        }
        // Most jurors of a dispute agree.
        uint256 choice = chance(70) ? id % 2 : roll(4);
        _votes[id][level][juror] = 1 + choice;
        bytes memory head = abi.encodePacked(Tags.JURY_VOTE, block.chainid, address(court), id, level, juror);
        bytes32 row = keccak256(_rowOf(choice));
        vm.prank(juror);
        court.commitVote(id, keccak256(bytes.concat(head, row, SALT)));
    }

    /// @dev The worker's, the verifier's, one near both, one far from both.
    function _rowOf(uint256 choice) private pure returns (bytes memory) {
        if (choice == 0) return workerRow();
        if (choice == 1) return otherRow();
        return choice == 2 ? Transcripts.unit(1, 0x3f84) : Transcripts.unit(5, Transcripts.ONE);
    }

    function _allAnswered(uint256 id, uint8 level) private view returns (bool) {
        Juries.Level memory l = court.jury(id, level);
        return l.committed + l.unable == l.drawn;
    }

    // --- the end ---

    function _appeal(uint256 id, Jury.Dispute memory d) private {
        address appellant = chance(50) ? challenger : chance(50) ? d.first.operator : d.second.operator;
        vm.prank(appellant);
        court.appeal(id);
        owedByCourts += uint256(params.disputeBond) << (d.level + 1);
        did("appealed");
    }

    function _resolve(uint256 i, Jury.Dispute memory d, bool last) private {
        uint256 id = disputes[i];
        if (d.state == Jury.State.Settling) owedByCourts -= _unsettledShares(id, d);
        else owedByCourts -= uint256(params.disputeBond) * ((2 << d.level) - 1);
        court.resolve(id, last ? ALL : roll(4));
        d = court.dispute(id);
        if (d.state == Jury.State.Settling) {
            owedByCourts += _unsettledShares(id, d);
            return did("resolved in part");
        }
        did(d.standing == 0 ? "dispute without end" : "dispute decided");
        disputes[i] = disputes[disputes.length - 1];
        disputes.pop();
    }

    /// @dev What jurors on the winning side, whose seats are not settled yet, still get.
    function _unsettledShares(uint256 id, Jury.Dispute memory d) private view returns (uint256 sum) {
        uint256 seat;
        for (uint256 level; level <= d.level; ++level) {
            address[] memory jurors = court.jurors(id, level);
            for (uint256 j; j < jurors.length; ++j) {
                if (seat++ < d.settled || d.standing == 0) continue;
                Juries.Seat memory s = court.vote(id, level, jurors[j]);
                if (s.revealed && s.near == d.standing) sum += d.share;
            }
        }
    }
}
