// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Court} from "../src/Court.sol";
import {Judge} from "../src/Judge.sol";
import {Rounds} from "../src/Rounds.sol";
import {Opening} from "../src/libraries/Opening.sol";
import {Tags} from "../src/libraries/Tags.sol";
import {CommitmentProof, Job, ROLE_VERIFIER, ROLE_WORKER, SettlementRecord} from "../src/Types.sol";
import {Transcripts} from "./helpers/Transcripts.sol";
import {World} from "./helpers/World.sol";

/// @notice The worker's row at boundary 0, position 1 is e1; the verifier's is 2*e1; everything else agrees.
contract CourtTest is World {
    using Transcripts for Transcripts.Transcript;

    bytes32 private constant SALT = "salt";

    Job private job;
    Transcripts.Transcript private ofWorker;
    Transcripts.Transcript private ofVerifier;
    bytes private workerRow;
    bytes private verifierRow;

    function setUp() public override {
        super.setUp();
        job = newJob(1);
        Transcripts.Transcript memory t = Transcripts.honest();
        ofWorker = t;
        workerRow = t.rows[0][1];
        verifierRow = Transcripts.unit(1, 0x4000);
        t.rows[0][1] = verifierRow;
        ofVerifier = t;
    }

    // --- opening ---

    function test_a_dispute_takes_a_bond_and_holds_the_job() public {
        (uint256 disputeId, uint256 roundId) = _dispute();
        assertEq(token.balanceOf(address(court)), params.disputeBond);
        Court.Dispute memory d = court.dispute(disputeId);
        assertEq(d.first, worker);
        assertEq(d.second, verifier);
        SettlementRecord memory record = newRecord(job, worker);
        settleRound(roundId, record, feesOf(record));
        passWindow(roundId);
        bytes memory signature = signJob(job, CLIENT_KEY);
        vm.expectRevert(abi.encodeWithSelector(Rounds.JobIsHeld.selector, record.jobId));
        rounds.claim(roundId, 0, record, none(), job, signature);
    }

    function test_a_pair_is_disputed_once() public {
        (, uint256 roundId) = _dispute();
        _expectOpenReverts(
            roundId, ofWorker, ofVerifier, abi.encodeWithSelector(Court.DisputeExists.selector)
        );
    }

    function test_rows_that_agree_are_no_dispute() public {
        _expectRefused(ofWorker, ofWorker, abi.encodeWithSelector(Court.RowsAgree.selector));
    }

    function test_rows_of_other_tokens_are_no_dispute() public {
        Transcripts.Transcript memory t = ofVerifier;
        t.tokens[3] = 5;
        _expectRefused(ofWorker, t, abi.encodeWithSelector(Court.TokensDiffer.selector));
    }

    function test_rows_at_different_places_are_no_dispute() public {
        (CommitmentProof memory a, CommitmentProof memory b) = _commitments(ofWorker, ofVerifier);
        uint256 roundId = openRound(a, b);
        vm.expectRevert(Court.RowsAtDifferentPlaces.selector);
        court.openDispute(roundId, a, ofWorker.open(0, 1), b, ofVerifier.open(0, 2));
    }

    function test_rows_that_nobody_committed_are_no_dispute() public {
        (CommitmentProof memory a, CommitmentProof memory b) = _commitments(ofWorker, ofWorker);
        uint256 roundId = openRound(a, b);
        vm.expectRevert(abi.encodeWithSelector(Opening.RowNotCommitted.selector, 0, 1));
        court.openDispute(roundId, a, ofWorker.open(0, 1), b, ofVerifier.open(0, 1));
    }

    function test_commitments_outside_the_round_are_refused() public {
        (CommitmentProof memory a, CommitmentProof memory b) = _commitments(ofWorker, ofVerifier);
        uint256 roundId = openRound(a, a);
        vm.expectRevert(abi.encodeWithSelector(Judge.NotInRound.selector, verifier));
        court.openDispute(roundId, a, ofWorker.open(0, 1), b, ofVerifier.open(0, 1));
    }

    function test_a_forged_commitment_is_refused() public {
        (CommitmentProof memory a, CommitmentProof memory b) = _commitments(ofWorker, ofVerifier);
        b.signature = sign(digestOf(b.commitment), operatorKey(2));
        uint256 roundId = openRound(a, b);
        vm.expectRevert(abi.encodeWithSelector(Judge.SignatureInvalid.selector, verifier));
        court.openDispute(roundId, a, ofWorker.open(0, 1), b, ofVerifier.open(0, 1));
    }

    function test_one_operator_is_no_dispute() public {
        CommitmentProof memory a = commit(job, ofWorker, ROLE_WORKER, 0);
        CommitmentProof memory b = commit(job, ofVerifier, ROLE_VERIFIER, 0);
        uint256 roundId = openRound(a, b);
        vm.expectRevert(abi.encodeWithSelector(Court.SameParty.selector, worker));
        court.openDispute(roundId, a, ofWorker.open(0, 1), b, ofVerifier.open(0, 1));
    }

    function test_after_the_window_a_round_is_final() public {
        (CommitmentProof memory a, CommitmentProof memory b) = _commitments(ofWorker, ofVerifier);
        uint256 roundId = openRound(a, b);
        settleRound(roundId, "root", 0);
        passWindow(roundId);
        vm.expectRevert(abi.encodeWithSelector(Judge.RoundIsFinal.selector, roundId));
        court.openDispute(roundId, a, ofWorker.open(0, 1), b, ofVerifier.open(0, 1));
    }

    // --- the vote ---

    function test_the_jury_excludes_the_parties() public {
        (uint256 disputeId,) = _dispute();
        vm.expectRevert();
        court.drawJury(disputeId); // randomness is not known yet
        address[] memory jurors = _draw(disputeId);
        assertEq(jurors.length, params.jurySize);
        for (uint256 i; i < jurors.length; ++i) {
            assertTrue(jurors[i] != worker && jurors[i] != verifier);
            assertTrue(jurors[i] != jurors[(i + 1) % jurors.length]);
        }
        vm.expectRevert(abi.encodeWithSelector(Court.WrongState.selector, disputeId));
        court.drawJury(disputeId);
    }

    function test_a_jury_against_the_worker_slashes_it_and_voids_the_job() public {
        (uint256 disputeId,) = _dispute();
        address[] memory jurors = _draw(disputeId);
        _vote(disputeId, jurors, [verifierRow, verifierRow, verifierRow]);
        court.resolve(disputeId);

        uint256 taken = STAKE * params.slashBpsDivergence / 10_000;
        uint256 each = taken * params.jurorShareBps / 10_000 / 3;
        assertEq(staking.stakeOf(modelId, worker), STAKE - taken);
        assertEq(staking.stakeOf(modelId, verifier), STAKE);
        assertTrue(rounds.voided(scheduler, rounds.jobId(job)));
        assertEq(rounds.holds(scheduler, rounds.jobId(job)), 0);
        uint256 forChallenger = taken * params.challengerShareBps / 10_000;
        assertEq(court.rewards(challenger), params.disputeBond + forChallenger);
        for (uint256 i; i < 3; ++i) {
            assertEq(court.rewards(jurors[i]), each);
        }
        assertEq(token.balanceOf(BURN), taken - forChallenger - 3 * each);
        assertEq(token.balanceOf(address(court)), params.disputeBond + forChallenger + 3 * each);
        vm.prank(challenger);
        assertEq(court.withdrawRewards(), params.disputeBond + forChallenger);
        vm.prank(challenger);
        vm.expectRevert(Judge.NothingToWithdraw.selector);
        court.withdrawRewards();
        vm.expectRevert(abi.encodeWithSelector(Court.WrongState.selector, disputeId));
        court.resolve(disputeId);
    }

    function test_a_jury_against_the_verifier_slashes_it_and_the_job_is_paid() public {
        (uint256 disputeId, uint256 roundId) = _dispute();
        address[] memory jurors = _draw(disputeId);
        _vote(disputeId, jurors, [workerRow, verifierRow, workerRow]);
        court.resolve(disputeId);
        assertEq(staking.stakeOf(modelId, verifier), STAKE / 2);
        assertEq(staking.stakeOf(modelId, worker), STAKE);
        // The juror whose values are far from the majority's pays as if it had not come.
        assertEq(staking.stakeOf(modelId, jurors[1]), STAKE - STAKE * params.slashBpsNoShow / 10_000);
        assertEq(court.rewards(jurors[1]), 0);
        assertFalse(rounds.voided(scheduler, rounds.jobId(job)));
        SettlementRecord memory record = newRecord(job, worker);
        settleRound(roundId, record, feesOf(record));
        passWindow(roundId);
        rounds.claim(roundId, 0, record, none(), job, signJob(job, CLIENT_KEY));
        assertEq(rounds.balances(worker), record.workerFee);
    }

    function test_a_tie_slashes_nobody() public {
        (uint256 disputeId,) = _dispute();
        bytes memory neither = Transcripts.unit(5, 0x4000);
        _vote(disputeId, _draw(disputeId), [workerRow, verifierRow, neither]);
        court.resolve(disputeId);
        _assertNobodySlashed();
    }

    function test_no_shows_pay_and_the_bond_comes_back() public {
        (uint256 disputeId,) = _dispute();
        address[] memory jurors = _draw(disputeId);
        uint256 end = court.dispute(disputeId).revealDeadline;
        vm.roll(end);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooEarly.selector, end));
        court.resolve(disputeId);
        vm.roll(end + 1);
        court.resolve(disputeId);
        uint256 fine = STAKE * params.slashBpsNoShow / 10_000;
        for (uint256 i; i < jurors.length; ++i) {
            assertEq(staking.stakeOf(modelId, jurors[i]), STAKE - fine);
        }
        assertEq(token.balanceOf(BURN), jurors.length * fine);
        assertEq(court.rewards(challenger), params.disputeBond);
        assertEq(staking.stakeOf(modelId, worker), STAKE);
    }

    function test_too_few_jurors_end_the_dispute_without_a_loser() public {
        for (uint256 i = 2; i < OPERATORS; ++i) {
            vm.prank(vm.addr(operatorKey(i)));
            staking.requestUnbond(modelId, STAKE);
        }
        vm.roll(block.number + params.epochBlocks);
        (uint256 disputeId,) = _dispute();
        poke(court.dispute(disputeId).randomnessId);
        court.drawJury(disputeId);
        assertEq(uint256(court.dispute(disputeId).state), uint256(Court.State.Resolved));
        _assertNobodySlashed();
    }

    /// @dev Whoever calls chooses the gas; a draw that runs out of it must not count as a pool that is too small.
    function test_a_draw_starved_of_gas_does_not_end_the_dispute() public {
        (uint256 disputeId,) = _dispute();
        poke(court.dispute(disputeId).randomnessId);
        vm.mockCallRevert(address(staking), abi.encodeWithSelector(staking.draw.selector), "");
        vm.expectRevert(Court.DrawFailed.selector);
        court.drawJury(disputeId);
        vm.clearMockedCalls();
        court.drawJury(disputeId);
        assertEq(uint256(court.dispute(disputeId).state), uint256(Court.State.Voting));
    }

    function test_only_jurors_vote_and_only_in_time() public {
        (uint256 disputeId,) = _dispute();
        address[] memory jurors = _draw(disputeId);
        vm.prank(worker);
        vm.expectRevert(abi.encodeWithSelector(Court.NotJuror.selector, worker));
        court.commitVote(disputeId, "vote");
        uint256 end = court.dispute(disputeId).commitDeadline;
        _commitVote(disputeId, jurors[0], workerRow);
        vm.prank(jurors[0]);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooEarly.selector, end));
        court.revealVote(disputeId, workerRow, SALT, workerRow, verifierRow);
        vm.roll(end + 1);
        vm.prank(jurors[1]);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooLate.selector, end));
        court.commitVote(disputeId, "vote");
        end = court.dispute(disputeId).revealDeadline;
        vm.roll(end + 1);
        vm.prank(jurors[0]);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooLate.selector, end));
        court.revealVote(disputeId, workerRow, SALT, workerRow, verifierRow);
    }

    function test_a_copied_vote_cannot_be_revealed() public {
        (uint256 disputeId,) = _dispute();
        address[] memory jurors = _draw(disputeId);
        bytes32 original = _voteHash(disputeId, jurors[0], workerRow);
        for (uint256 i; i < 3; ++i) {
            vm.prank(jurors[i]);
            court.commitVote(disputeId, original);
        }
        vm.prank(jurors[0]);
        court.revealVote(disputeId, workerRow, SALT, workerRow, verifierRow);
        vm.prank(jurors[1]);
        vm.expectRevert(Court.VoteMismatch.selector);
        court.revealVote(disputeId, workerRow, SALT, workerRow, verifierRow);
        vm.prank(jurors[0]);
        vm.expectRevert(Court.VoteMismatch.selector);
        court.revealVote(disputeId, workerRow, SALT, workerRow, verifierRow);
    }

    function test_a_vote_cannot_be_committed_again_once_rows_are_known() public {
        (uint256 disputeId,) = _dispute();
        address[] memory jurors = _draw(disputeId);
        for (uint256 i; i < 3; ++i) {
            _commitVote(disputeId, jurors[i], workerRow);
        }
        vm.prank(jurors[0]);
        court.revealVote(disputeId, workerRow, SALT, workerRow, verifierRow);
        bytes32 copied = _voteHash(disputeId, jurors[1], verifierRow);
        vm.prank(jurors[1]);
        vm.expectRevert(abi.encodeWithSelector(Court.AlreadyCommitted.selector, jurors[1]));
        court.commitVote(disputeId, copied);
    }

    function test_a_vote_must_show_the_disputed_rows() public {
        (uint256 disputeId,) = _dispute();
        address[] memory jurors = _draw(disputeId);
        for (uint256 i; i < 3; ++i) {
            _commitVote(disputeId, jurors[i], workerRow);
        }
        vm.startPrank(jurors[0]);
        vm.expectRevert(Court.VoteMismatch.selector);
        court.revealVote(disputeId, verifierRow, SALT, workerRow, verifierRow);
        vm.expectRevert(Court.RowMismatch.selector);
        court.revealVote(disputeId, workerRow, SALT, verifierRow, workerRow);
    }

    // --- helpers ---

    function _commitments(Transcripts.Transcript memory a, Transcripts.Transcript memory b)
        private
        view
        returns (CommitmentProof memory, CommitmentProof memory)
    {
        return (commit(job, a, ROLE_WORKER, 0), commit(job, b, ROLE_VERIFIER, 1));
    }

    function _dispute() private returns (uint256 disputeId, uint256 roundId) {
        (CommitmentProof memory a, CommitmentProof memory b) = _commitments(ofWorker, ofVerifier);
        roundId = openRound(a, b);
        vm.prank(challenger);
        disputeId = court.openDispute(roundId, a, ofWorker.open(0, 1), b, ofVerifier.open(0, 1));
    }

    function _expectRefused(
        Transcripts.Transcript memory a,
        Transcripts.Transcript memory b,
        bytes memory reason
    ) private {
        (CommitmentProof memory first, CommitmentProof memory second) = _commitments(a, b);
        _expectOpenReverts(openRound(first, second), a, b, reason);
    }

    function _expectOpenReverts(
        uint256 roundId,
        Transcripts.Transcript memory a,
        Transcripts.Transcript memory b,
        bytes memory reason
    ) private {
        (CommitmentProof memory first, CommitmentProof memory second) = _commitments(a, b);
        vm.prank(challenger);
        vm.expectRevert(reason);
        court.openDispute(roundId, first, a.open(0, 1), second, b.open(0, 1));
    }

    function _draw(uint256 disputeId) private returns (address[] memory) {
        poke(court.dispute(disputeId).randomnessId);
        court.drawJury(disputeId);
        return court.dispute(disputeId).jurors;
    }

    function _voteHash(uint256 disputeId, address juror, bytes memory row) private view returns (bytes32) {
        return keccak256(
            abi.encodePacked(
                Tags.JURY_VOTE, block.chainid, address(court), disputeId, juror, keccak256(row), SALT
            )
        );
    }

    function _commitVote(uint256 disputeId, address juror, bytes memory row) private {
        bytes32 commitment = _voteHash(disputeId, juror, row);
        vm.prank(juror);
        court.commitVote(disputeId, commitment);
    }

    function _vote(uint256 disputeId, address[] memory jurors, bytes[3] memory rows) private {
        for (uint256 i; i < 3; ++i) {
            _commitVote(disputeId, jurors[i], rows[i]);
        }
        for (uint256 i; i < 3; ++i) {
            vm.prank(jurors[i]);
            court.revealVote(disputeId, rows[i], SALT, workerRow, verifierRow);
        }
    }

    function _assertNobodySlashed() private view {
        for (uint256 i; i < OPERATORS; ++i) {
            assertEq(staking.stakeOf(modelId, vm.addr(operatorKey(i))), STAKE);
        }
        assertEq(court.rewards(challenger), params.disputeBond);
        assertEq(rounds.holds(scheduler, rounds.jobId(job)), 0);
        assertFalse(rounds.voided(scheduler, rounds.jobId(job)));
    }
}
