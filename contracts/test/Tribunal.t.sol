// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Judge} from "../src/Judge.sol";
import {Rounds} from "../src/Rounds.sol";
import {Tribunal} from "../src/Tribunal.sol";
import {Opening} from "../src/libraries/Opening.sol";
import {CommitmentProof, Job, ROLE_VERIFIER, ROLE_WORKER, SettlementRecord} from "../src/Types.sol";
import {Transcripts} from "./helpers/Transcripts.sol";
import {World} from "./helpers/World.sol";

contract TribunalTest is World {
    using Transcripts for Transcripts.Transcript;

    Job private job;
    Transcripts.Transcript private t;

    function setUp() public override {
        super.setUp();
        job = newJob(1);
        t = Transcripts.honest();
    }

    // --- token fraud ---

    function test_a_greedy_token_that_scores_less_is_fraud() public {
        t.tokens[2] = 5; // logit 2, while token 3 has 4
        Tribunal.TokenFraud memory f = _fraud(3);
        vm.prank(challenger);
        tribunal.proveTokenFraud(f);
        uint256 taken = STAKE * params.slashBpsTokenFraud / 10_000;
        uint256 reward = taken * params.challengerShareBps / 10_000;
        assertEq(staking.stakeOf(modelId, worker), STAKE - taken);
        assertEq(tribunal.rewards(challenger), reward);
        assertEq(token.balanceOf(BURN), taken - reward);
        assertTrue(rounds.voided(scheduler, rounds.jobId(job)));
        vm.expectRevert(Tribunal.AlreadyPunished.selector);
        tribunal.proveTokenFraud(f);
    }

    function test_an_honest_token_is_refused() public {
        Tribunal.TokenFraud memory f = _fraud(5);
        vm.expectRevert(
            abi.encodeWithSelector(Tribunal.TokenFollows.selector, -(int256(2) << 24), MARGIN_Q24)
        );
        tribunal.proveTokenFraud(f);
    }

    function test_a_gap_within_the_margin_is_no_fraud() public {
        t.rows[1][1] = Transcripts.row([0, 0, 0, 0x4080, 0, 0x4070, 0, 0]); // 4 and 3.75
        t.tokens[2] = 5;
        Tribunal.TokenFraud memory f = _fraud(3);
        vm.expectRevert(abi.encodeWithSelector(Tribunal.TokenFollows.selector, int256(1) << 22, MARGIN_Q24));
        tribunal.proveTokenFraud(f);
    }

    /// @dev With noise the best score decides: every other token than the best is fraud, the best one is not.
    function testFuzz_at_a_temperature_only_the_best_score_is_honest(uint64 seed, uint8 claimed) public {
        job.temperaturePpm = 1_500_000;
        job.seed = seed;
        t.rows[1][1] = Transcripts.row([0, 0x3f80, 0, 0x4000, 0, 0x3f80, 0, 0]);
        t.tokens[2] = claimed % Transcripts.VOCAB;
        (uint32 best, int256 gap) = _bestScore(t.rows[1][1], 1, t.tokens[2]);
        Tribunal.TokenFraud memory f = _fraud(best);
        if (gap <= int256(uint256(MARGIN_Q24))) {
            vm.expectRevert(abi.encodeWithSelector(Tribunal.TokenFollows.selector, gap, MARGIN_Q24));
        } else {
            vm.expectEmit(address(tribunal));
            emit Tribunal.TokenFraudProven(rounds.jobId(job), worker, 2, t.tokens[2], best, gap);
        }
        tribunal.proveTokenFraud(f);
    }

    function test_masked_sampling_needs_a_jury() public {
        t.tokens[2] = 5;
        (job.temperaturePpm, job.topK) = (1_000_000, 40);
        _expectFraudReverts(Tribunal.MaskedSamplingNeedsJury.selector);
        (job.topK, job.topPPpm) = (0, 999_999);
        _expectFraudReverts(Tribunal.MaskedSamplingNeedsJury.selector);
    }

    function test_fraud_needs_the_final_boundary_an_output_token_and_committed_values() public {
        t.tokens[2] = 5;
        Tribunal.TokenFraud memory f = _fraud(3);
        f.finalRow = t.open(0, 1);
        vm.expectRevert(abi.encodeWithSelector(Tribunal.FinalBoundaryNeeded.selector, 0));
        tribunal.proveTokenFraud(f);
        f.finalRow = t.open(1, 0);
        vm.expectRevert(abi.encodeWithSelector(Tribunal.NotAnOutputToken.selector, 0));
        tribunal.proveTokenFraud(f);
        f.finalRow = t.open(1, 1);
        f.finalRow.row = Transcripts.unit(0, Transcripts.ONE);
        vm.expectRevert(abi.encodeWithSelector(Opening.RowNotCommitted.selector, 1, 1));
        tribunal.proveTokenFraud(f);
        f.finalRow = t.open(1, 1);
        f.better.row = Transcripts.unit(3, 0x4380); // 256 instead of 1
        vm.expectRevert(abi.encodeWithSelector(Opening.WeightsNotInModel.selector, 3));
        tribunal.proveTokenFraud(f);
        f.better = Transcripts.weights(3);
        (f.claimedToken, f.claimed) = (6, Transcripts.weights(6));
        vm.expectRevert(abi.encodeWithSelector(Opening.TokenNotCommitted.selector, 2));
        tribunal.proveTokenFraud(f);
        f.claimedToken = 5;
        vm.expectRevert(Tribunal.RowMismatch.selector);
        tribunal.proveTokenFraud(f);
    }

    function test_fraud_is_judged_by_the_job_that_was_committed() public {
        t.tokens[2] = 5;
        Tribunal.TokenFraud memory f = _fraud(3);
        f.job.temperaturePpm = 9;
        vm.expectRevert(abi.encodeWithSelector(Judge.JobMismatch.selector, rounds.jobId(job)));
        tribunal.proveTokenFraud(f);
    }

    function test_a_verifier_commits_no_tokens() public {
        t.tokens[2] = 5;
        Tribunal.TokenFraud memory f = _fraud(3);
        CommitmentProof memory ofVerifier = commit(job, t, ROLE_VERIFIER, 1);
        verifyRound(f.roundId, leafOf(ofVerifier), 1);
        f.worker = ofVerifier;
        vm.expectRevert(abi.encodeWithSelector(Judge.NotInRound.selector, verifier));
        tribunal.proveTokenFraud(f);
    }

    // --- withheld openings ---

    function test_an_answered_demand_pays_the_bond_to_the_operator() public {
        (uint256 demandId, CommitmentProof memory p) = _demand(ROLE_WORKER, 0);
        vm.expectRevert(Tribunal.OpeningMismatch.selector);
        tribunal.answerOpening(demandId, p.parts, t.open(0, 2));
        uint256 deadline = tribunal.demand(demandId).deadline;
        vm.roll(deadline);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooEarly.selector, deadline));
        tribunal.slashWithheld(demandId);
        tribunal.answerOpening(demandId, p.parts, t.open(0, 1));
        assertEq(tribunal.rewards(worker), params.disputeBond);
        assertEq(rounds.holds(scheduler, rounds.jobId(job)), 0);
        assertEq(staking.stakeOf(modelId, worker), STAKE);
        vm.roll(deadline + 1);
        vm.expectRevert(abi.encodeWithSelector(Tribunal.DemandUnknown.selector, demandId));
        tribunal.slashWithheld(demandId);
    }

    function test_a_withheld_opening_is_slashed_and_voids_the_workers_job() public {
        (uint256 demandId, CommitmentProof memory p) = _demand(ROLE_WORKER, 0);
        assertEq(rounds.holds(scheduler, rounds.jobId(job)), 1);
        uint256 deadline = tribunal.demand(demandId).deadline;
        vm.roll(deadline + 1);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooLate.selector, deadline));
        tribunal.answerOpening(demandId, p.parts, t.open(0, 1));
        tribunal.slashWithheld(demandId);
        uint256 taken = STAKE * params.slashBpsWithheld / 10_000;
        uint256 reward = taken * params.challengerShareBps / 10_000;
        assertEq(staking.stakeOf(modelId, worker), STAKE - taken);
        assertEq(tribunal.rewards(challenger), params.disputeBond + reward);
        assertEq(token.balanceOf(BURN), taken - reward);
        assertTrue(rounds.voided(scheduler, rounds.jobId(job)));
        assertEq(rounds.holds(scheduler, rounds.jobId(job)), 0);
    }

    function test_a_verifier_that_withholds_is_slashed_but_the_job_stands() public {
        (uint256 demandId,) = _demand(ROLE_VERIFIER, 1);
        vm.roll(uint256(tribunal.demand(demandId).deadline) + 1);
        tribunal.slashWithheld(demandId);
        assertLt(staking.stakeOf(modelId, verifier), STAKE);
        assertFalse(rounds.voided(scheduler, rounds.jobId(job)));
    }

    function test_only_rows_that_exist_are_demanded() public {
        CommitmentProof memory p = commit(job, t, ROLE_WORKER, 0);
        uint256 roundId = openRound(p);
        vm.startPrank(challenger);
        vm.expectRevert(Tribunal.OpeningMismatch.selector);
        tribunal.demandOpening(roundId, p, 2, 0);
        vm.expectRevert(Tribunal.OpeningMismatch.selector);
        tribunal.demandOpening(roundId, p, 0, 3);
        tribunal.demandOpening(roundId, p, 1, 2);
    }

    /// @dev Anyone with a stake may open rounds, and put there whatever an accomplice signed.
    function test_a_strangers_round_can_neither_hold_nor_void_a_job() public {
        address stranger = makeAddr("stranger");
        fund(stranger, STAKE, address(staking));
        vm.prank(stranger);
        staking.registerScheduler(STAKE, "", new bytes(33));
        SettlementRecord memory record = newRecord(job, worker);
        uint256 honest = honestRound(job);
        settleRound(honest, record, feesOf(record));
        passWindow(honest);
        t.tokens[2] = 5;
        CommitmentProof memory accomplice = commit(job, t, ROLE_WORKER, 3);
        bytes32 root = leafOf(accomplice);
        vm.prank(stranger);
        uint256 roundId = rounds.commitRound(modelId, root, 1);
        vm.prank(challenger);
        tribunal.demandOpening(roundId, accomplice, 0, 1);
        Tribunal.TokenFraud memory f = _fraud(3);
        (f.roundId, f.worker) = (roundId, accomplice);
        tribunal.proveTokenFraud(f);
        assertEq(staking.stakeOf(modelId, vm.addr(operatorKey(3))), 0);
        rounds.claim(honest, 0, record, none(), job, signJob(job, CLIENT_KEY));
        assertEq(rounds.balances(worker), record.workerFee);
    }

    // --- settlements ---

    function test_a_record_that_charges_too_much_costs_the_scheduler_its_stake() public {
        SettlementRecord memory record = newRecord(job, worker);
        record.workerFee += 1;
        (uint256 roundId, CommitmentProof memory p) = _settle(record);
        vm.prank(challenger);
        tribunal.challengeSettlement(roundId, 0, record, none(), job, p);
        assertEq(staking.stakeOf(staking.SCHEDULER_POOL(), scheduler), 0);
        assertEq(tribunal.rewards(challenger), STAKE * params.challengerShareBps / 10_000);
        assertTrue(rounds.voided(scheduler, record.jobId));
        vm.expectRevert(Tribunal.AlreadyPunished.selector);
        tribunal.challengeSettlement(roundId, 0, record, none(), job, p);
    }

    function test_a_record_with_other_counts_than_the_worker_signed_is_false() public {
        SettlementRecord memory record = newRecord(job, worker);
        record.outputTokens = 1; // fees follow, but two tokens were committed
        record.workerFee -= OUTPUT_PRICE;
        record.verifierFee = uint128(record.workerFee * params.verifierFeeBps / 10_000);
        record.schedulerFee = uint128(record.workerFee * params.schedulerFeeBps / 10_000);
        _assertRefuted(record);
    }

    function test_a_record_that_pays_another_worker_is_false() public {
        _assertRefuted(newRecord(job, verifier));
    }

    function test_a_record_whose_outcome_contradicts_its_verdicts_is_false() public {
        SettlementRecord memory record = newRecord(job, worker);
        record.verdicts[0] = 2;
        _assertRefuted(record);
    }

    function test_a_record_with_more_verifiers_than_were_ordered_is_false() public {
        job.verifiers = 0;
        _assertRefuted(newRecord(job, worker));
    }

    function test_a_true_record_stands() public {
        SettlementRecord memory record = newRecord(job, worker);
        (uint256 roundId, CommitmentProof memory p) = _settle(record);
        vm.expectRevert(Tribunal.SettlementFollows.selector);
        tribunal.challengeSettlement(roundId, 0, record, none(), job, p);
        record.workerFee += 1;
        vm.expectRevert(abi.encodeWithSelector(Rounds.RecordNotSettled.selector, 0));
        tribunal.challengeSettlement(roundId, 0, record, none(), job, p);
    }

    // --- helpers ---

    function _fraud(uint32 better) private returns (Tribunal.TokenFraud memory f) {
        f.worker = commit(job, t, ROLE_WORKER, 0);
        f.roundId = openRound(f.worker);
        f.job = job;
        f.finalRow = t.open(1, 1);
        f.claimedToken = t.tokens[2];
        f.tokenProof = t.tokenProof(2);
        f.claimed = Transcripts.weights(f.claimedToken);
        f.better = Transcripts.weights(better);
    }

    function _expectFraudReverts(bytes4 reason) private {
        Tribunal.TokenFraud memory f = _fraud(3);
        vm.expectRevert(reason);
        tribunal.proveTokenFraud(f);
    }

    /// @dev The formula of docs/protocol.md section 2 over all tokens.
    function _bestScore(bytes memory row, uint32 position, uint32 claimed)
        private
        view
        returns (uint32 best, int256 gap)
    {
        int256[8] memory scores;
        for (uint32 v; v < Transcripts.VOCAB; ++v) {
            int256 noise = libraries.noiseQ24(libraries.noiseWord(job.seed, position, v));
            scores[v] = libraries.logitQ24(row, 1, Transcripts.unit(v, Transcripts.ONE), 1, 8);
            scores[v] += (noise * 3 - (noise * 3 % 2 + 2) % 2) / 2; // floor(1.5 noise)
            if (scores[v] > scores[best]) best = v;
        }
        gap = scores[best] - scores[claimed];
    }

    function _demand(uint8 role, uint256 operator)
        private
        returns (uint256 demandId, CommitmentProof memory p)
    {
        p = commit(job, t, role, operator);
        uint256 roundId = role == ROLE_WORKER ? openRound(p) : openRound(commit(job, t, ROLE_WORKER, 0), p);
        vm.prank(challenger);
        demandId = tribunal.demandOpening(roundId, p, 0, 1);
        assertEq(token.balanceOf(address(tribunal)), params.disputeBond);
    }

    function _settle(SettlementRecord memory record)
        private
        returns (uint256 roundId, CommitmentProof memory p)
    {
        p = commit(job, t, ROLE_WORKER, 0);
        roundId = openRound(p, commit(job, t, ROLE_VERIFIER, 1));
        settleRound(roundId, record, feesOf(record));
    }

    function _assertRefuted(SettlementRecord memory record) private {
        (uint256 roundId, CommitmentProof memory p) = _settle(record);
        tribunal.challengeSettlement(roundId, 0, record, none(), job, p);
        assertEq(staking.stakeOf(staking.SCHEDULER_POOL(), scheduler), 0);
    }
}
