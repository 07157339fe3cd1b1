// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20Errors} from "@openzeppelin/contracts/interfaces/draft-IERC6093.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Bank} from "../src/Bank.sol";
import {Court} from "../src/Court.sol";
import {Judge} from "../src/Judge.sol";
import {Jury} from "../src/Jury.sol";
import {Rounds} from "../src/Rounds.sol";
import {IRandomness} from "../src/interfaces/IRandomness.sol";
import {Juries} from "../src/libraries/Juries.sol";
import {Opening} from "../src/libraries/Opening.sol";
import {Rows} from "../src/libraries/Rows.sol";
import {BPS, CommitmentProof, ROLE_VERIFIER, ROLE_WORKER, Round, SettlementRecord} from "../src/Types.sol";
import {CourtCase} from "./helpers/CourtCase.sol";
import {Ledgers} from "./helpers/Ledgers.sol";
import {Transcripts} from "./helpers/Transcripts.sol";
import {FeeToken} from "./mocks/FeeToken.sol";
import {ReentrantToken} from "./mocks/ReentrantToken.sol";

/// @notice Which rows can be disputed, by whom, and at what cost.
contract CourtOpeningTest is CourtCase {
    using Transcripts for Transcripts.Transcript;

    function setUp() public override {
        super.setUp();
        join(0, 3);
    }

    function test_a_dispute_takes_a_bond_and_holds_the_round() public {
        begin();
        assertEq(rounds.reserve(), params.disputeBond);
        assertEq(token.balanceOf(challenger), 10_000 ether - params.disputeBond);
        Jury.Dispute memory d = court.dispute(disputeId);
        assertState(Jury.State.AwaitingJury);
        assertEq(d.first.operator, worker);
        assertTrue(d.first.isWorker);
        assertEq(d.second.operator, verifier);
        assertFalse(d.second.isWorker);
        assertEq(d.targetBlock, vm.getBlockNumber() + params.randomnessDelayBlocks);
        assertEq(court.jury(disputeId, 0).opener, challenger);
        settle();
        passWindow(roundId);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundHeld.selector, roundId));
        this.pay();
    }

    function test_without_the_bond_there_is_no_dispute() public {
        commitJob();
        vm.expectRevert(
            abi.encodeWithSelector(
                IERC20Errors.ERC20InsufficientAllowance.selector, rounds, 0, params.disputeBond
            )
        );
        this.openBy(makeAddr("poor"));
        assertEq(rounds.pending(roundId).holds, 0);
    }

    function test_a_token_that_takes_a_fee_is_refused() public {
        commitJob();
        vm.etch(address(token), address(new FeeToken()).code);
        vm.expectRevert(Bank.TransferFeeNotSupported.selector);
        this.openBy(challenger);
    }

    function test_a_pair_is_disputed_once() public {
        begin();
        vm.expectRevert(Court.DisputeExists.selector);
        this.openBy(appellant);
        // Nor the other way round.
        vm.expectRevert(Court.DisputeExists.selector);
        court.openDispute(
            roundId, at(roundId), byVerifier, ofVerifier.open(0, 1), byWorker, ofWorker.open(0, 1)
        );
        assertTrue(court.disputed(court.pairKey(roundId, rounds.jobId(job), verifier, worker)));
        // Another verifier's quarrel with the worker is another dispute.
        assertEq(open(challenger, bySecond), disputeId + 1);
        assertEq(rounds.pending(roundId).holds, 2);
    }

    function test_rows_that_agree_are_no_dispute() public {
        refused(ofWorker, ofWorker, Court.RowsAgree.selector);
    }

    function test_rows_of_other_tokens_are_no_dispute() public {
        Transcripts.Transcript memory t = ofVerifier;
        t.tokens[3] = 5;
        refused(ofWorker, t, Court.TokensDiffer.selector);
    }

    function test_rows_at_different_places_are_no_dispute() public {
        commitJob();
        vm.expectRevert(Court.RowsAtDifferentPlaces.selector);
        court.openDispute(
            roundId, at(roundId), byWorker, ofWorker.open(0, 1), byVerifier, ofVerifier.open(0, 2)
        );
        vm.expectRevert(Court.RowsAtDifferentPlaces.selector);
        court.openDispute(
            roundId, at(roundId), byWorker, ofWorker.open(1, 1), byVerifier, ofVerifier.open(0, 1)
        );
    }

    function test_rows_that_nobody_committed_are_no_dispute() public {
        commitJob(ofWorker, ofWorker);
        vm.expectRevert(abi.encodeWithSelector(Opening.RowNotCommitted.selector, 0, 1));
        this.openBy(challenger);
    }

    function test_commitments_of_two_jobs_are_no_dispute() public {
        CommitmentProof memory other = commit(newJob(2), ofVerifier, ROLE_VERIFIER, 1);
        commitProofs(commit(job, ofWorker, ROLE_WORKER, 0), other, other);
        vm.expectRevert(abi.encodeWithSelector(Judge.JobMismatch.selector, other.commitment.jobId));
        this.openBy(challenger);
    }

    function test_commitments_outside_the_round_are_refused() public {
        commitJob();
        byVerifier.leafIndex = 1;
        vm.expectRevert(abi.encodeWithSelector(Judge.NotInRound.selector, verifier));
        this.openBy(challenger);
    }

    function test_a_forged_commitment_is_refused() public {
        commitJob();
        byVerifier.signature = sign(digestOf(byVerifier.commitment), operatorKey(2));
        vm.expectRevert(abi.encodeWithSelector(Judge.SignatureInvalid.selector, verifier));
        this.openBy(challenger);
    }

    function test_one_operator_is_no_dispute() public {
        CommitmentProof memory other = commit(job, ofVerifier, ROLE_VERIFIER, 0);
        commitProofs(commit(job, ofWorker, ROLE_WORKER, 0), other, other);
        vm.expectRevert(abi.encodeWithSelector(Court.SameParty.selector, worker));
        this.openBy(challenger);
    }

    function test_after_the_window_a_round_is_final() public {
        commitJob();
        settle();
        passWindow(roundId);
        vm.expectRevert(abi.encodeWithSelector(Judge.RoundIsFinal.selector, roundId));
        this.openBy(challenger);
    }

    function test_a_round_told_otherwise_is_refused() public {
        commitJob();
        Round memory other = at(roundId);
        other.epoch += 1;
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundMismatch.selector, roundId));
        court.openDispute(roundId, other, byWorker, ofWorker.open(0, 1), byVerifier, ofVerifier.open(0, 1));
    }

    function openRows(Transcripts.Transcript memory a, Transcripts.Transcript memory b) external {
        court.openDispute(roundId, at(roundId), byWorker, a.open(0, 1), byVerifier, b.open(0, 1));
    }

    function refused(Transcripts.Transcript memory a, Transcripts.Transcript memory b, bytes4 reason)
        private
    {
        commitJob(a, b);
        vm.expectRevert(reason);
        this.openRows(a, b);
    }
}

/// @notice How a jury is seated and votes.
contract CourtVotingTest is CourtCase {
    function setUp() public override {
        super.setUp();
        join(0, 12);
    }

    function test_no_state_takes_the_step_of_another() public {
        bytes memory wrong = abi.encodeWithSelector(Jury.WrongState.selector, 1);
        vm.expectRevert(wrong);
        court.drawJury(1, "");
        vm.expectRevert(wrong);
        court.resolve(1, ALL);
        begin();
        vm.expectRevert(wrong);
        court.commitVote(1, "vote");
        vm.expectRevert(wrong);
        court.declareUnable(1);
        vm.expectRevert(wrong);
        court.revealVote(1, "", 0, "", "");
        vm.expectRevert(wrong);
        court.tally(1);
        vm.expectRevert(wrong);
        court.appeal(1);
        vm.expectRevert(wrong);
        court.resolve(1, ALL);
        seat();
        vm.expectRevert(wrong);
        court.drawJury(1, "");
        vm.expectRevert(wrong);
        court.requeueJury(1);
        vm.expectRevert(wrong);
        court.resolve(1, ALL);
    }

    // --- seating ---

    function test_a_jury_waits_for_its_block() public {
        begin();
        uint256 target = court.dispute(disputeId).targetBlock;
        vm.expectRevert(abi.encodeWithSelector(IRandomness.NotKnown.selector, target));
        court.drawJury(disputeId, "");
        vm.expectRevert(abi.encodeWithSelector(IRandomness.TooEarly.selector, target));
        court.drawJury(disputeId, "header");
        vm.expectRevert(abi.encodeWithSelector(Jury.SeedStillAvailable.selector, target));
        court.requeueJury(disputeId);
        randomness.poke(target, reach(target));
        court.drawJury(disputeId, "");
        assertState(Jury.State.Voting);
    }

    function test_a_jury_excludes_the_parties_and_nobody_sits_twice() public {
        begin();
        address[] memory jurors = seat();
        assertEq(jurors.length, params.jurySize);
        for (uint256 i; i < jurors.length; ++i) {
            assertTrue(jurors[i] != worker && jurors[i] != verifier);
            assertTrue(jurors[i] != jurors[(i + 1) % jurors.length]);
            assertEq(court.vote(disputeId, 0, jurors[i]).juror, jurors[i]);
        }
        vm.expectRevert(abi.encodeWithSelector(Juries.NotJuror.selector, worker));
        court.vote(disputeId, 0, worker);
    }

    function test_a_block_that_nobody_showed_is_replaced() public {
        begin();
        uint256 target = court.dispute(disputeId).targetBlock;
        vm.roll(target + 300);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.Expired.selector, target));
        court.drawJury(disputeId, "header");
        vm.prank(makeAddr("anyone"));
        court.requeueJury(disputeId);
        assertEq(court.dispute(disputeId).targetBlock, vm.getBlockNumber() + params.randomnessDelayBlocks);
        play("vvv");
        finish();
        assertStake(worker, STAKE / 2);
    }

    // --- committing ---

    function test_only_jurors_vote() public {
        begin();
        seat();
        bytes memory reason = abi.encodeWithSelector(Juries.NotJuror.selector, worker);
        vm.startPrank(worker);
        vm.expectRevert(reason);
        court.commitVote(disputeId, "vote");
        vm.expectRevert(reason);
        court.declareUnable(disputeId);
        pass(court.dispute(disputeId).commitDeadline);
        vm.expectRevert(reason);
        court.revealVote(disputeId, workerRow, SALT, workerRow, verifierRow);
    }

    function test_a_juror_answers_once() public {
        begin();
        address[] memory jurors = seat();
        vm.startPrank(jurors[0]);
        vm.expectRevert(Jury.VoteEmpty.selector);
        court.commitVote(disputeId, 0);
        court.commitVote(disputeId, "vote");
        vm.expectRevert(abi.encodeWithSelector(Jury.AlreadyAnswered.selector, jurors[0]));
        court.commitVote(disputeId, "other");
        vm.expectRevert(abi.encodeWithSelector(Jury.AlreadyAnswered.selector, jurors[0]));
        court.declareUnable(disputeId);
        vm.stopPrank();
        vm.startPrank(jurors[1]);
        court.declareUnable(disputeId);
        vm.expectRevert(abi.encodeWithSelector(Jury.AlreadyAnswered.selector, jurors[1]));
        court.declareUnable(disputeId);
        vm.expectRevert(abi.encodeWithSelector(Jury.AlreadyAnswered.selector, jurors[1]));
        court.commitVote(disputeId, "vote");
    }

    function test_after_the_commit_deadline_nobody_answers() public {
        begin();
        address[] memory jurors = seat();
        uint256 deadline = court.dispute(disputeId).commitDeadline;
        vm.roll(deadline);
        commitVote(jurors[0], workerRow);
        pass(deadline);
        vm.startPrank(jurors[1]);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooLate.selector, deadline));
        court.commitVote(disputeId, "vote");
        vm.expectRevert(abi.encodeWithSelector(Judge.TooLate.selector, deadline));
        court.declareUnable(disputeId);
    }

    // --- revealing ---

    function test_nobody_reveals_while_others_may_commit() public {
        begin();
        address[] memory jurors = seat();
        commitVote(jurors[0], workerRow);
        commitVote(jurors[1], workerRow);
        bytes memory early =
            abi.encodeWithSelector(Judge.TooEarly.selector, court.dispute(disputeId).commitDeadline);
        vm.prank(jurors[0]);
        vm.expectRevert(early);
        court.revealVote(disputeId, workerRow, SALT, workerRow, verifierRow);
        vm.prank(jurors[2]);
        court.declareUnable(disputeId);
        reveal(jurors[0], workerRow);
        assertEq(court.vote(disputeId, 0, jurors[0]).near, 1);
    }

    function test_after_the_reveal_deadline_nobody_reveals() public {
        begin();
        address[] memory jurors = seat();
        commitVote(jurors[0], workerRow);
        commitVote(jurors[1], workerRow);
        uint256 deadline = court.dispute(disputeId).revealDeadline;
        vm.roll(deadline);
        reveal(jurors[0], workerRow);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooEarly.selector, deadline));
        court.tally(disputeId);
        pass(deadline);
        vm.prank(jurors[1]);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooLate.selector, deadline));
        court.revealVote(disputeId, workerRow, SALT, workerRow, verifierRow);
        court.tally(disputeId);
    }

    function test_a_copied_vote_cannot_be_revealed() public {
        begin();
        address[] memory jurors = seat();
        bytes32 original = voteHash(jurors[0], workerRow);
        for (uint256 i; i < 3; ++i) {
            vm.prank(jurors[i]);
            court.commitVote(disputeId, original);
        }
        reveal(jurors[0], workerRow);
        for (uint256 i; i < 3; ++i) {
            vm.prank(jurors[i]);
            vm.expectRevert(Jury.VoteMismatch.selector);
            court.revealVote(disputeId, workerRow, SALT, workerRow, verifierRow);
        }
    }

    function test_a_vote_is_bound_to_row_and_salt_and_shows_the_disputed_rows() public {
        begin();
        address[] memory jurors = seat();
        for (uint256 i; i < 3; ++i) {
            commitVote(jurors[i], workerRow);
        }
        vm.startPrank(jurors[0]);
        vm.expectRevert(Jury.VoteMismatch.selector);
        court.revealVote(disputeId, verifierRow, SALT, workerRow, verifierRow);
        vm.expectRevert(Jury.VoteMismatch.selector);
        court.revealVote(disputeId, workerRow, "sugar", workerRow, verifierRow);
        vm.expectRevert(Jury.RowMismatch.selector);
        court.revealVote(disputeId, workerRow, SALT, verifierRow, verifierRow);
        vm.expectRevert(Jury.RowMismatch.selector);
        court.revealVote(disputeId, workerRow, SALT, workerRow, workerRow);
    }

    function test_a_row_of_another_size_is_no_vote() public {
        begin();
        address[] memory jurors = seat();
        for (uint256 i; i < 3; ++i) {
            commitVote(jurors[i], hex"803f");
        }
        vm.expectRevert(abi.encodeWithSelector(Rows.RowSizeWrong.selector, 2, 16));
        vm.prank(jurors[0]);
        court.revealVote(disputeId, hex"803f", SALT, workerRow, verifierRow);
    }

    function test_a_row_supports_whom_it_is_close_to() public {
        begin();
        address[] memory first = play("wvx");
        assertEq(court.vote(disputeId, 0, first[0]).near, 1);
        assertEq(court.vote(disputeId, 0, first[1]).near, 2);
        assertEq(court.vote(disputeId, 0, first[2]).near, 0);
        appeal();
        address[] memory second = play("bbbwwv");
        assertEq(court.vote(disputeId, 1, second[0]).near, 3);
        assertEq(court.jury(disputeId, 1).votesFirst, 2);
        assertEq(court.jury(disputeId, 1).votesSecond, 1);
    }

    function test_a_vote_is_bound_to_its_level() public {
        params.jurySize = 5; // all others sit at once, so they sit again on appeal
        parameters.publish(params);
        begin();
        address[] memory jurors = play("vvvvv");
        bytes32 old = court.vote(disputeId, 0, jurors[0]).commitment;
        appeal();
        seat();
        vm.prank(jurors[0]);
        court.commitVote(disputeId, old);
        pass(court.dispute(disputeId).commitDeadline);
        vm.prank(jurors[0]);
        vm.expectRevert(Jury.VoteMismatch.selector);
        court.revealVote(disputeId, verifierRow, SALT, workerRow, verifierRow);
    }
}

/// @notice How disputes end, and who has what then, to the wei. Bonds are 100, 200 and 400; the loser's slash is 500,
/// of which challenger and jurors have 150 each; a juror's fine is 10.
contract CourtOutcomeTest is CourtCase {
    using Transcripts for Transcripts.Transcript;

    uint256 private constant SLASH = 500 ether;

    function setUp() public override {
        super.setUp();
        join(0, 24);
    }

    function test_a_jury_against_the_worker_slashes_it_and_voids_the_job() public {
        begin();
        settle();
        address[] memory jurors = play("vvv");
        vm.expectRevert(
            abi.encodeWithSelector(Judge.TooEarly.selector, court.dispute(disputeId).appealDeadline)
        );
        court.resolve(disputeId, ALL);
        finish();
        assertStake(worker, SLASH);
        assertStake(verifier, 0);
        assertJurors(jurors, "+++", 50 ether);
        assertLedger(250 ether, 0, 200 ether, at(roundId).total);
        assertEq(uint256(rounds.jobState(roundId, 0)), uint256(Rounds.JobState.Voided));
        vm.expectRevert(abi.encodeWithSelector(Jury.WrongState.selector, disputeId));
        court.resolve(disputeId, ALL);
        vm.expectRevert(Court.DisputeExists.selector);
        this.openBy(challenger);
        passWindow(roundId);
        vm.expectRevert(abi.encodeWithSelector(Rounds.VoidsNotDeducted.selector, roundId, 1));
        this.pay();
        SettlementRecord[] memory records = settledRecords();
        rounds.deductJob(
            roundId, at(roundId), Ledgers.prove(records, 0), Ledgers.debits(records), Ledgers.credits(records)
        );
        pay();
        assertEq(rounds.balances(worker), 0);
        (uint256 escrow,) = rounds.escrowOf(client, scheduler);
        assertEq(escrow, 1000 ether);
    }

    function test_a_jury_against_the_verifier_slashes_it_and_the_job_is_paid() public {
        begin();
        settle();
        address[] memory jurors = play("wvw");
        finish();
        assertStake(verifier, SLASH);
        assertStake(worker, 0);
        assertJurors(jurors, "+-+", 75 ether);
        assertLedger(250 ether, 0, 210 ether, at(roundId).total);
        passWindow(roundId);
        pay();
        assertEq(rounds.balances(worker), 16 ether);
        assertEq(rounds.balances(verifier), 1.6 ether);
        assertEq(rounds.balances(scheduler), 0.32 ether);
    }

    function test_what_cannot_be_shared_evenly_is_burned() public {
        params.jurorShareBps = 3001;
        parameters.publish(params);
        begin();
        address[] memory jurors = play("vvv");
        finish();
        uint256 share = SLASH * 3001 / BPS / 3;
        assertEq(share, 50_016_666_666_666_666_666);
        assertJurors(jurors, "+++", share);
        assertLedger(250 ether, 0, SLASH - 150 ether - 3 * share);
    }

    function test_far_from_a_clear_majority_costs_and_close_to_both_does_not() public {
        params.jurySize = 5;
        parameters.publish(params);
        begin();
        address[] memory jurors = play("vvvxb");
        finish();
        assertJurors(jurors, "+++- ", 50 ether);
        assertLedger(250 ether, 0, 210 ether);
    }

    function test_a_tie_has_no_loser() public {
        begin();
        address[] memory jurors = play("wvx");
        finish();
        assertJurors(jurors, "   ", 0);
        assertNoLoser(0);
    }

    function test_one_vote_of_three_is_no_quorum() public {
        begin();
        address[] memory jurors = play("vux");
        finish();
        assertJurors(jurors, "   ", 0);
        assertNoLoser(0);
    }

    function test_two_votes_of_three_are_a_quorum() public {
        begin();
        address[] memory jurors = play("vvu");
        finish();
        assertStake(worker, SLASH);
        assertJurors(jurors, "++ ", 75 ether);
        assertLedger(250 ether, 0, 200 ether);
    }

    function test_no_shows_pay_and_nobody_loses() public {
        begin();
        address[] memory jurors = play("---");
        finish();
        assertJurors(jurors, "---", 0);
        assertNoLoser(30 ether);
    }

    function test_who_commits_and_does_not_reveal_is_a_no_show() public {
        begin();
        address[] memory jurors = play("vvc");
        finish();
        assertJurors(jurors, "++-", 75 ether);
        assertLedger(250 ether, 0, 210 ether);
    }

    function test_if_all_are_unable_nobody_loses_and_nobody_pays() public {
        begin();
        address[] memory jurors = play("uuu");
        finish();
        assertJurors(jurors, "   ", 0);
        assertNoLoser(0);
    }

    // --- bonds of parties ---

    function test_a_challenger_that_loses_shares_out_its_bond_too() public {
        fund(verifier, 100 ether, address(rounds));
        beginBy(verifier);
        address[] memory jurors = play("www");
        finish();
        // 600 lost: 180 for the jurors, nothing for the challenger.
        assertStake(verifier, SLASH);
        assertEq(rounds.balances(verifier), 0);
        assertJurors(jurors, "+++", 60 ether);
        assertLedger(0, 0, 420 ether);
    }

    function test_a_party_that_rightly_challenges_is_rewarded() public {
        fund(verifier, 100 ether, address(rounds));
        beginBy(verifier);
        play("vvv");
        finish();
        assertEq(rounds.balances(verifier), 250 ether);
        assertLedger(0, 0, 200 ether);
    }

    /// @dev This contract has no function that takes a payment.
    function test_a_contract_that_challenges_is_credited_and_can_withdraw() public {
        fund(address(this), 100 ether, address(rounds));
        beginBy(address(this));
        play("vvv");
        finish();
        assertEq(rounds.withdraw(), 250 ether);
        assertEq(token.balanceOf(address(this)), 250 ether);
        assertLedger(0, 0, 200 ether);
    }

    // --- appeals ---

    function test_an_appeal_that_changes_the_outcome_takes_the_challengers_share() public {
        begin();
        address[] memory first = play("vvw");
        appeal();
        assertEq(rounds.reserve(), 300 ether);
        address[] memory second = play("wwwwwv");
        assertDisjoint(first, second);
        finish();
        // 150 shared by one juror of the first jury and five of the second.
        assertStake(verifier, SLASH);
        assertStake(worker, 0);
        assertJurors(first, "--+", 25 ether);
        assertJurors(second, "+++++-", 25 ether);
        assertLedger(100 ether, 350 ether, 230 ether);
        assertEq(uint256(rounds.jobState(roundId, 0)), uint256(Rounds.JobState.Standing));
    }

    function test_an_appeal_that_changes_nothing_pays_the_jurors() public {
        begin();
        address[] memory first = play("vvv");
        appeal();
        address[] memory second = play("vvvvvw");
        finish();
        // 150 of the slash and the bond of 200 shared by eight.
        assertStake(worker, SLASH);
        assertJurors(first, "+++", 43.75 ether);
        assertJurors(second, "+++++-", 43.75 ether);
        assertLedger(250 ether, 0, 210 ether);
    }

    function test_an_appeal_to_a_jury_without_quorum_changes_nothing() public {
        begin();
        address[] memory first = play("vvv");
        appeal();
        address[] memory second = play("wwwuu-");
        finish();
        assertStake(worker, SLASH);
        assertJurors(first, "+++", 350 ether / uint256(3));
        assertJurors(second, "---  -", 0);
        assertLedger(250 ether, 0, 700 ether + 40 ether - 150 ether - 3 * (350 ether / uint256(3)));
    }

    function test_an_appeal_that_ends_in_a_tie_saves_the_loser() public {
        begin();
        address[] memory first = play("vvw");
        appeal();
        address[] memory second = play("vvwwxu");
        finish();
        assertJurors(first, "   ", 0);
        assertJurors(second, "      ", 0);
        assertStake(worker, 0);
        assertLedger(100 ether, 200 ether, 0);
    }

    function test_an_appeal_against_no_loser_finds_one() public {
        begin();
        address[] memory first = play("uuv");
        appeal();
        address[] memory second = play("vvvvvv");
        finish();
        assertStake(worker, SLASH);
        assertJurors(first, "  +", 150 ether / uint256(7));
        assertJurors(second, "++++++", 150 ether / uint256(7));
        assertLedger(100 ether, 350 ether, SLASH - 150 ether - 7 * (150 ether / uint256(7)));
    }

    function test_an_appeal_against_no_loser_that_finds_none_burns_its_bond() public {
        begin();
        play("wvu");
        appeal();
        play("wwwvvv");
        finish();
        assertStake(worker, 0);
        assertStake(verifier, 0);
        assertLedger(100 ether, 0, 200 ether);
    }

    function test_a_second_appeal_restores_the_first_outcome() public {
        begin();
        address[] memory first = play("vvv");
        appeal();
        address[] memory second = play("wwwwww");
        vm.prank(challenger);
        court.appeal(disputeId);
        assertEq(rounds.reserve(), 700 ether);
        address[] memory third = play("vvvvvvvvvvvw");
        assertDisjoint(first, third);
        assertDisjoint(second, third);
        court.resolve(disputeId, ALL); // no appeal is left to wait for
        // The first appeal failed: its 200 and 150 of the slash are shared by 3 + 11.
        assertStake(worker, SLASH);
        assertJurors(first, "+++", 25 ether);
        assertJurors(second, "------", 0);
        assertJurors(third, "+++++++++++-", 25 ether);
        assertLedger(100 ether + 400 ether + 150 ether, 0, 200 ether + 70 ether);
    }

    function test_a_loser_that_appealed_in_vain_loses_that_bond_too() public {
        fund(worker, 200 ether, address(rounds));
        begin();
        play("vvv");
        vm.prank(worker);
        court.appeal(disputeId);
        play("vvvvvv");
        finish();
        assertEq(rounds.balances(worker), 0);
        assertStake(worker, SLASH);
        // 350 shared by nine.
        assertLedger(250 ether, 0, 700 ether - 150 ether - 9 * (350 ether / uint256(9)));
    }

    function test_a_party_whose_appeal_finds_itself_the_loser_is_not_paid() public {
        fund(worker, 200 ether, address(rounds));
        begin();
        play("uuu");
        vm.prank(worker);
        court.appeal(disputeId);
        address[] memory jurors = play("vvvvvv");
        finish();
        // 700 lost: 210 for six jurors, nothing for the appellant.
        assertEq(rounds.balances(worker), 0);
        assertJurors(jurors, "++++++", 35 ether);
        assertLedger(100 ether, 0, 490 ether);
    }

    function test_appeals_have_a_deadline_a_price_and_an_end() public {
        begin();
        play("vvv");
        vm.prank(makeAddr("poor"));
        vm.expectRevert(
            abi.encodeWithSelector(IERC20Errors.ERC20InsufficientAllowance.selector, rounds, 0, 200 ether)
        );
        court.appeal(disputeId);
        vm.roll(court.dispute(disputeId).appealDeadline);
        appeal();
        vm.prank(challenger);
        vm.expectRevert(abi.encodeWithSelector(Jury.WrongState.selector, disputeId));
        court.appeal(disputeId);
        play("vvvvvv");
        appeal();
        play("vvvvvvvvvvvv");
        assertEq(court.dispute(disputeId).appealDeadline, 0);
        vm.prank(appellant);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooLate.selector, 0));
        court.appeal(disputeId);
        finish();
    }

    function test_after_its_deadline_nobody_appeals() public {
        begin();
        play("vvv");
        uint256 deadline = court.dispute(disputeId).appealDeadline;
        pass(deadline);
        vm.prank(appellant);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooLate.selector, deadline));
        court.appeal(disputeId);
    }

    // --- several disputes, long silence, many calls ---

    function test_an_operator_is_slashed_once_for_a_job() public {
        begin();
        play("vvv");
        uint256 first = disputeId;
        disputeId = open(appellant, bySecond);
        address[] memory jurors = play("vvv");
        finish();
        disputeId = first;
        finish();
        assertStake(worker, SLASH);
        assertTrue(court.slashedFor(rounds.jobId(job), worker));
        assertEq(rounds.pending(roundId).voids, 1);
        for (uint256 i; i < 3; ++i) {
            assertStake(jurors[i], 0);
        }
        // The first dispute to be resolved was rewarded; the other got its bond back.
        assertLedger(100 ether, 250 ether, 200 ether);
    }

    function test_a_dispute_that_all_forgot_can_still_be_ended_by_anyone() public {
        begin();
        settle();
        address[] memory jurors = seat();
        commitVote(jurors[0], workerRow);
        vm.roll(vm.getBlockNumber() + 10_000);
        vm.startPrank(makeAddr("anyone"));
        court.tally(disputeId);
        vm.roll(vm.getBlockNumber() + 10_000);
        court.resolve(disputeId, ALL);
        vm.stopPrank();
        assertState(Jury.State.Ended);
        assertJurors(jurors, "---", 0);
        pay();
        assertEq(rounds.balances(worker), 16 ether);
    }

    function test_seats_are_settled_a_few_at_a_time() public {
        begin();
        settle();
        address[] memory jurors = play("vxv");
        pass(court.dispute(disputeId).appealDeadline);
        court.resolve(disputeId, 0);
        assertState(Jury.State.Settling);
        assertStake(worker, SLASH);
        assertJurors(jurors, "   ", 0);
        court.resolve(disputeId, 1);
        assertJurors(jurors, "+  ", 75 ether);
        court.resolve(disputeId, 1);
        assertJurors(jurors, "+- ", 75 ether);
        assertEq(rounds.pending(roundId).holds, 1);
        vm.expectRevert(abi.encodeWithSelector(Jury.WrongState.selector, disputeId));
        court.appeal(disputeId);
        court.resolve(disputeId, ALL);
        assertState(Jury.State.Ended);
        assertJurors(jurors, "+-+", 75 ether);
        assertEq(rounds.pending(roundId).holds, 0);
        assertLedger(250 ether, 0, 210 ether, at(roundId).total);
    }

    function test_a_juror_that_left_with_its_stake_does_not_block_the_end() public {
        begin();
        address[] memory jurors = seat();
        vm.prank(jurors[0]);
        staking.requestUnbond(modelId, STAKE);
        vm.roll(vm.getBlockNumber() + params.unbondingBlocks);
        vm.prank(jurors[0]);
        staking.withdrawUnbonded(modelId);
        court.tally(disputeId);
        finish();
        assertEq(staking.stakeOf(modelId, jurors[0]), 0);
        assertStake(jurors[1], 10 ether);
        assertLedger(100 ether, 0, 20 ether);
    }

    function test_stake_that_is_leaving_pays_the_slash() public {
        begin();
        vm.prank(worker);
        staking.requestUnbond(modelId, STAKE);
        play("vvv");
        finish();
        assertStake(worker, SLASH);
        assertLedger(250 ether, 0, 200 ether);
    }

    function test_changed_parameters_do_not_touch_an_open_dispute() public {
        begin();
        params.slashBpsDivergence = 10_000;
        params.disputeBond = 1;
        params.jurySize = 1;
        params.slashBpsNoShow = 10_000;
        parameters.publish(params);
        play("vv-");
        appeal();
        play("vvvvvv");
        finish();
        assertStake(worker, SLASH);
        // 350 shared by eight.
        assertLedger(250 ether, 0, 200 ether + 10 ether);
    }

    // --- hostile tokens ---

    function test_a_token_that_calls_back_does_not_resolve_twice() public {
        begin();
        play("vv-");
        pass(court.dispute(disputeId).appealDeadline);
        ReentrantToken hostile = makeHostile();
        hostile.arm(address(court), abi.encodeCall(Court.resolve, (disputeId, ALL)));
        vm.expectRevert(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector);
        court.resolve(disputeId, ALL);
        hostile.arm(address(0), "");
        finish();
        assertLedger(250 ether, 0, 210 ether);
    }

    function test_a_token_that_calls_back_does_not_appeal_or_open_twice() public {
        ReentrantToken hostile = makeHostile();
        commitJob();
        bytes memory again = abi.encodeCall(
            Court.openDispute,
            (roundId, at(roundId), byWorker, ofWorker.open(0, 1), bySecond, ofVerifier.open(0, 1))
        );
        hostile.arm(address(court), again);
        vm.expectRevert(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector);
        this.openBy(challenger);
        hostile.arm(address(0), "");
        disputeId = open(challenger);
        play("vvv");
        hostile.arm(address(court), abi.encodeCall(Jury.appeal, (disputeId)));
        vm.prank(appellant);
        vm.expectRevert(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector);
        court.appeal(disputeId);
    }

    // --- helpers ---

    function makeHostile() private returns (ReentrantToken) {
        vm.etch(address(token), address(new ReentrantToken()).code);
        return ReentrantToken(address(token));
    }

    function assertDisjoint(address[] memory a, address[] memory b) private pure {
        for (uint256 i; i < a.length; ++i) {
            for (uint256 j; j < b.length; ++j) {
                assertTrue(a[i] != b[j], "sits again");
            }
        }
    }

    function assertNoLoser(uint256 burned) private view {
        assertStake(worker, 0);
        assertStake(verifier, 0);
        assertLedger(params.disputeBond, 0, burned);
        assertEq(uint256(rounds.jobState(roundId, 0)), uint256(Rounds.JobState.Standing));
    }
}

/// @notice Pools that are too small for what is asked of them.
contract CourtSmallPoolTest is CourtCase {
    function test_a_pool_of_the_parties_alone_ends_without_a_loser() public {
        join(0, 2);
        commitPair();
        assertUnseated();
        finish();
        assertLedger(100 ether, 0, 0);
    }

    function test_one_juror_for_three_seats_ends_without_a_loser() public {
        join(0, 3);
        begin();
        assertUnseated();
        finish();
        assertLedger(100 ether, 0, 0);
        vm.expectRevert(abi.encodeWithSelector(Jury.WrongState.selector, disputeId));
        court.appeal(disputeId);
    }

    function test_nobody_appeals_to_a_pool_that_seated_nobody() public {
        join(0, 3);
        begin();
        assertUnseated();
        vm.prank(appellant);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooLate.selector, 0));
        court.appeal(disputeId);
    }

    function test_two_jurors_for_three_seats_decide_if_they_agree() public {
        join(0, 4);
        begin();
        address[] memory jurors = play("vv");
        finish();
        assertStake(worker, STAKE / 2);
        assertJurors(jurors, "++", 75 ether);
        assertLedger(250 ether, 0, 200 ether);
    }

    function test_earlier_jurors_fill_what_the_pool_leaves_empty() public {
        join(0, 7); // five beside the parties: three, then six seats
        begin();
        address[] memory first = play("vvv");
        appeal();
        address[] memory second = play("wwwww");
        for (uint256 i; i < 2; ++i) {
            for (uint256 j; j < 3; ++j) {
                assertTrue(second[i] != first[j], "the fresh ones come first");
            }
        }
        finish();
        assertStake(verifier, STAKE / 2);
        // Who sat on both juries earns by the second vote and pays for the first.
        for (uint256 j; j < 3; ++j) {
            assertStake(first[j], 10 ether);
            assertEq(rounds.balances(first[j]), 30 ether);
        }
        assertLedger(100 ether, 350 ether, 200 ether + 30 ether);
    }

    function test_an_appeal_that_no_jury_can_hear_leaves_the_outcome_and_returns_the_bond() public {
        join(0, 5); // three beside the parties, for six seats
        begin();
        address[] memory jurors = play("vvv");
        appeal();
        assertUnseated();
        assertEq(court.jurors(disputeId, 1).length, 0);
        finish();
        assertStake(worker, STAKE / 2);
        assertJurors(jurors, "+++", 50 ether);
        assertLedger(250 ether, 200 ether, 200 ether);
    }

    function test_stake_that_came_later_does_not_sit() public {
        join(0, 2);
        commitPair();
        join(2, 8);
        assertUnseated();
    }

    function commitPair() private {
        CommitmentProof memory other = commit(job, ofVerifier, ROLE_VERIFIER, 1);
        commitProofs(commit(job, ofWorker, ROLE_WORKER, 0), other, other);
        disputeId = open(challenger);
    }

    function assertUnseated() private {
        seat();
        assertState(Jury.State.Appealable);
        assertEq(court.dispute(disputeId).appealDeadline, 0);
    }
}
