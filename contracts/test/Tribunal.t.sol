// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20Errors} from "@openzeppelin/contracts/interfaces/draft-IERC6093.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Judge} from "../src/Judge.sol";
import {Rounds} from "../src/Rounds.sol";
import {Tribunal} from "../src/Tribunal.sol";
import {Opening} from "../src/libraries/Opening.sol";
import {
    BURN,
    CommitmentProof,
    Job,
    Params,
    ROLE_VERIFIER,
    ROLE_WORKER,
    Round,
    RowOpening,
    SettlementRecord,
    Verdict,
    VERDICT_ACCEPT,
    VERDICT_REJECT
} from "../src/Types.sol";
import {Ledgers} from "./helpers/Ledgers.sol";
import {Transcripts} from "./helpers/Transcripts.sol";
import {Trees} from "./helpers/Trees.sol";
import {World} from "./helpers/World.sol";

contract TribunalTest is World {
    using Transcripts for Transcripts.Transcript;

    uint256 private constant ESCROW = 1000 ether;
    uint32 private constant TRUE_TOKEN = 3;
    uint32 private constant FALSE_TOKEN = 5;
    uint16 private constant NAN = 0x7fc0;

    Job private job;
    Transcripts.Transcript private t;

    function setUp() public override {
        super.setUp();
        job = newJob(1);
        t = Transcripts.honest();
    }

    // --- token fraud: what is refused ---

    function test_an_honest_token_is_refused() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _fraud(FALSE_TOKEN);
        vm.expectRevert(
            abi.encodeWithSelector(Tribunal.TokenFollows.selector, -(int256(2) << 24), MARGIN_Q24)
        );
        tribunal.proveTokenFraud(id, at(id), f);
    }

    function test_a_gap_within_the_margin_is_no_fraud() public {
        t.rows[1][1] = Transcripts.row([0, 0, 0, 0x4080, 0, 0x4070, 0, 0]); // 4 and 3.75
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        vm.expectRevert(abi.encodeWithSelector(Tribunal.TokenFollows.selector, int256(1) << 22, MARGIN_Q24));
        tribunal.proveTokenFraud(id, at(id), f);
    }

    function test_masked_sampling_needs_a_jury() public {
        (job.temperaturePpm, job.topK) = (1_000_000, 40);
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        vm.expectRevert(Tribunal.MaskedSamplingNeedsJury.selector);
        tribunal.proveTokenFraud(id, at(id), f);
        (job.topK, job.topPPpm) = (0, 999_999);
        (id, f) = _falseToken();
        vm.expectRevert(Tribunal.MaskedSamplingNeedsJury.selector);
        tribunal.proveTokenFraud(id, at(id), f);
    }

    function test_fraud_needs_the_final_boundary_and_an_output_token() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        f.finalRow = t.open(0, 1);
        vm.expectRevert(abi.encodeWithSelector(Tribunal.FinalBoundaryNeeded.selector, 0));
        tribunal.proveTokenFraud(id, at(id), f);
        f.finalRow = t.open(1, 0);
        vm.expectRevert(abi.encodeWithSelector(Tribunal.NotAnOutputToken.selector, 0));
        tribunal.proveTokenFraud(id, at(id), f);
    }

    function test_fraud_needs_values_that_were_committed() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        f.finalRow.row = Transcripts.unit(0, Transcripts.ONE);
        vm.expectRevert(abi.encodeWithSelector(Opening.RowNotCommitted.selector, 1, 1));
        tribunal.proveTokenFraud(id, at(id), f);
        f.finalRow = t.open(1, 1);
        f.better.row = Transcripts.unit(TRUE_TOKEN, 0x4380); // 256 instead of 1
        vm.expectRevert(abi.encodeWithSelector(Opening.WeightsNotInModel.selector, TRUE_TOKEN));
        tribunal.proveTokenFraud(id, at(id), f);
        f.better = Transcripts.weights(TRUE_TOKEN);
        (f.claimedToken, f.claimed) = (6, Transcripts.weights(6));
        vm.expectRevert(abi.encodeWithSelector(Opening.TokenNotCommitted.selector, 2));
        tribunal.proveTokenFraud(id, at(id), f);
        f.claimedToken = FALSE_TOKEN;
        vm.expectRevert(abi.encodeWithSelector(Tribunal.RowMismatch.selector));
        tribunal.proveTokenFraud(id, at(id), f);
        f.claimed = Transcripts.weights(FALSE_TOKEN);
        f.worker.parts.boundaries = 1;
        vm.expectRevert(
            abi.encodeWithSelector(Opening.PartsNotCommitted.selector, f.worker.commitment.jobRoot)
        );
        tribunal.proveTokenFraud(id, at(id), f);
    }

    function test_fraud_is_judged_by_the_job_that_was_committed() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        f.job.temperaturePpm = 9;
        vm.expectRevert(abi.encodeWithSelector(Judge.JobMismatch.selector, rounds.jobId(job)));
        tribunal.proveTokenFraud(id, at(id), f);
    }

    function test_fraud_needs_the_workers_signature() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        f.worker.signature = sign(digestOf(f.worker.commitment), operatorKey(2));
        vm.expectRevert(abi.encodeWithSelector(Judge.SignatureInvalid.selector, worker));
        tribunal.proveTokenFraud(id, at(id), f);
    }

    function test_a_verifier_commits_no_tokens() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        f.worker = commit(job, t, ROLE_VERIFIER, 1);
        verifyRound(id, leafOf(f.worker), 1);
        vm.expectRevert(abi.encodeWithSelector(Judge.NotInRound.selector, verifier));
        tribunal.proveTokenFraud(id, at(id), f);
    }

    function test_fraud_is_judged_in_the_round_that_has_the_commitment() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        uint256 other = honestRound(newJob(2));
        vm.expectRevert(abi.encodeWithSelector(Judge.NotInRound.selector, worker));
        tribunal.proveTokenFraud(other, at(other), f);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundMismatch.selector, other));
        tribunal.proveTokenFraud(other, at(id), f);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundUnknown.selector, 99));
        tribunal.proveTokenFraud(99, at(id), f);
    }

    // --- token fraud: what it costs ---

    function test_a_greedy_token_that_scores_less_is_fraud() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        vm.expectEmit(address(tribunal));
        emit Tribunal.TokenFraudProven(rounds.jobId(job), worker, 2, FALSE_TOKEN, TRUE_TOKEN, int256(2) << 24);
        vm.prank(challenger);
        tribunal.proveTokenFraud(id, at(id), f);
        _assertSlashed(worker, params.slashBpsTokenFraud, 0);
        assertEq(uint8(rounds.jobState(id, 0)), uint8(Rounds.JobState.Voided));
        vm.expectRevert(Tribunal.AlreadyPunished.selector);
        tribunal.proveTokenFraud(id, at(id), f);
    }

    /// @dev With noise the best score decides: every other token than the best is fraud, the best one is not.
    function testFuzz_at_a_temperature_only_the_best_score_is_honest(uint64 seed, uint8 claimed) public {
        job.temperaturePpm = 1_500_000;
        job.seed = seed;
        t.rows[1][1] = Transcripts.row([0, 0x3f80, 0, 0x4000, 0, 0x3f80, 0, 0]);
        t.tokens[2] = claimed % Transcripts.VOCAB;
        (uint32 best, int256 gap) = _bestScore(t.rows[1][1], 1, t.tokens[2]);
        (uint256 id, Tribunal.TokenFraud memory f) = _fraud(best);
        if (gap <= int256(uint256(MARGIN_Q24))) {
            vm.expectRevert(abi.encodeWithSelector(Tribunal.TokenFollows.selector, gap, MARGIN_Q24));
        } else {
            vm.expectEmit(address(tribunal));
            emit Tribunal.TokenFraudProven(rounds.jobId(job), worker, 2, t.tokens[2], best, gap);
        }
        tribunal.proveTokenFraud(id, at(id), f);
    }

    function test_the_client_of_a_fraudulent_job_gets_all_back_and_nobody_is_paid() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        SettlementRecord[] memory records = _settle(id);
        vm.prank(challenger);
        tribunal.proveTokenFraud(id, at(id), f);
        rounds.deductJob(
            id, at(id), Ledgers.prove(records, 0), Ledgers.debits(records), Ledgers.credits(records)
        );
        passWindow(id);
        rounds.payRound(id, at(id), Ledgers.credits(records), 2);
        (uint256 available,) = rounds.escrowOf(client, scheduler);
        assertEq(available, ESCROW);
        assertEq(rounds.balances(worker) + rounds.balances(verifier) + rounds.balances(scheduler), 0);
        _assertSlashed(worker, params.slashBpsTokenFraud, 0);
    }

    /// @dev Otherwise a round that is never settled would launder the offence for the one that is.
    function test_fraud_voids_the_job_in_every_round_and_is_slashed_once() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        (uint256 second,) = _falseToken();
        vm.prank(challenger);
        tribunal.proveTokenFraud(id, at(id), f);
        _fundStake(worker);
        vm.prank(challenger);
        tribunal.proveTokenFraud(second, at(second), f);
        assertEq(staking.stakeOf(modelId, worker), STAKE, "the second time costs nothing");
        assertEq(uint8(rounds.jobState(second, 0)), uint8(Rounds.JobState.Voided));
        vm.expectRevert(Tribunal.AlreadyPunished.selector);
        tribunal.proveTokenFraud(second, at(second), f);
    }

    function test_only_the_fraudulent_job_of_a_round_is_void() public {
        t.tokens[2] = FALSE_TOKEN;
        CommitmentProof memory p = commit(job, t, ROLE_WORKER, 0);
        bytes32[] memory leaves = new bytes32[](3);
        leaves[0] = leafOf(commit(newJob(2), Transcripts.honest(), ROLE_WORKER, 1));
        leaves[1] = leafOf(p);
        leaves[2] = leafOf(commit(newJob(3), Transcripts.honest(), ROLE_WORKER, 2));
        uint256 id = commitRound(Trees.root(leaves), 3);
        (p.leafIndex, p.leafProof) = (1, Trees.proof(leaves, 1));
        tribunal.proveTokenFraud(id, at(id), _fraudOf(p, TRUE_TOKEN));
        for (uint256 i; i < 3; ++i) {
            Rounds.JobState expected = i == 1 ? Rounds.JobState.Voided : Rounds.JobState.Standing;
            assertEq(uint8(rounds.jobState(id, i)), uint8(expected));
        }
    }

    /// @dev Anyone with a stake may open rounds, and put there whatever an accomplice signed.
    function test_a_strangers_round_can_neither_hold_nor_void_a_job() public {
        uint256 honest = honestRound(job);
        SettlementRecord[] memory records = _settle(honest);
        passWindow(honest);
        scheduler = makeAddr("stranger");
        fund(scheduler, STAKE, address(staking));
        vm.prank(scheduler);
        staking.registerScheduler(STAKE, "", VRF_KEY);
        t.tokens[2] = FALSE_TOKEN;
        CommitmentProof memory accomplice = commit(job, t, ROLE_WORKER, 3);
        uint256 id = openRound(accomplice);
        vm.prank(challenger);
        vm.expectRevert(abi.encodeWithSelector(Judge.JobMismatch.selector, rounds.jobId(job)));
        tribunal.demandOpening(id, at(id), accomplice, job, 0, 1);
        tribunal.proveTokenFraud(id, at(id), _fraudOf(accomplice, TRUE_TOKEN));
        assertEq(staking.stakeOf(modelId, vm.addr(operatorKey(3))), 0);
        rounds.payRound(honest, at(honest), Ledgers.credits(records), 2);
        assertEq(rounds.balances(worker), records[0].workerFee);
    }

    // --- rows that are no numbers ---

    function test_a_finite_row_is_valid() public {
        CommitmentProof memory p = commit(job, t, ROLE_WORKER, 0);
        uint256 id = openRound(p);
        vm.expectRevert(Tribunal.RowIsFinite.selector);
        tribunal.proveInvalidRow(id, at(id), p, t.open(0, 1));
    }

    function test_an_invalid_row_must_be_the_one_that_was_committed() public {
        (uint256 id, CommitmentProof memory p) = _invalidRow(ROLE_WORKER, 0);
        RowOpening memory opening = t.open(0, 1);
        opening.row = Transcripts.unit(2, NAN);
        vm.expectRevert(abi.encodeWithSelector(Opening.RowNotCommitted.selector, 0, 1));
        tribunal.proveInvalidRow(id, at(id), p, opening);
        p.parts.boundaries = 1;
        vm.expectRevert(abi.encodeWithSelector(Opening.PartsNotCommitted.selector, p.commitment.jobRoot));
        tribunal.proveInvalidRow(id, at(id), p, t.open(0, 1));
        p.commitment.jobRoot = 0;
        vm.expectRevert(abi.encodeWithSelector(Judge.SignatureInvalid.selector, worker));
        tribunal.proveInvalidRow(id, at(id), p, t.open(0, 1));
    }

    function test_a_workers_invalid_row_is_slashed_and_voids_its_job_in_every_round() public {
        (uint256 id, CommitmentProof memory p) = _invalidRow(ROLE_WORKER, 0);
        uint256 second = openRound(p);
        vm.expectEmit(address(tribunal));
        emit Tribunal.InvalidRowProven(rounds.jobId(job), worker, 0, 1);
        vm.prank(challenger);
        tribunal.proveInvalidRow(id, at(id), p, t.open(0, 1));
        _assertSlashed(worker, params.slashBpsDivergence, 0);
        tribunal.proveInvalidRow(second, at(second), p, t.open(0, 1));
        _assertSlashed(worker, params.slashBpsDivergence, 0);
        assertEq(uint8(rounds.jobState(id, 0)), uint8(Rounds.JobState.Voided));
        assertEq(uint8(rounds.jobState(second, 0)), uint8(Rounds.JobState.Voided));
        vm.expectRevert(Tribunal.AlreadyPunished.selector);
        tribunal.proveInvalidRow(id, at(id), p, t.open(0, 1));
    }

    function test_a_verifiers_invalid_row_is_slashed_once_but_the_job_stands() public {
        (uint256 id, CommitmentProof memory p) = _invalidRow(ROLE_VERIFIER, 1);
        vm.prank(challenger);
        tribunal.proveInvalidRow(id, at(id), p, t.open(0, 1));
        _assertSlashed(verifier, params.slashBpsDivergence, 0);
        assertEq(uint8(rounds.jobState(id, 0)), uint8(Rounds.JobState.Standing));
        vm.expectRevert(Tribunal.AlreadyPunished.selector);
        tribunal.proveInvalidRow(id, at(id), p, t.open(0, 1));
    }

    // --- rounds that end ---

    function test_a_final_or_closed_round_is_not_challenged() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        SettlementRecord[] memory records = _settle(id);
        passWindow(id);
        vm.expectRevert(abi.encodeWithSelector(Judge.RoundIsFinal.selector, id));
        tribunal.proveTokenFraud(id, at(id), f);
        vm.expectRevert(abi.encodeWithSelector(Judge.RoundIsFinal.selector, id));
        tribunal.demandOpening(id, at(id), f.worker, job, 0, 1);
        rounds.payRound(id, at(id), Ledgers.credits(records), 2);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundClosed.selector, id));
        tribunal.proveTokenFraud(id, at(id), f);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundClosed.selector, id));
        tribunal.demandOpening(id, at(id), f.worker, job, 0, 1);
    }

    function test_the_last_block_of_the_window_still_counts() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        _settle(id);
        vm.roll(at(id).finalBlock);
        tribunal.proveTokenFraud(id, at(id), f);
    }

    function test_a_round_can_be_challenged_while_a_void_job_waits() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        SettlementRecord[] memory records = _settle(id);
        tribunal.proveTokenFraud(id, at(id), f);
        passWindow(id);
        vm.prank(challenger);
        tribunal.demandOpening(id, at(id), f.worker, job, 0, 1);
        rounds.deductJob(
            id, at(id), Ledgers.prove(records, 0), Ledgers.debits(records), Ledgers.credits(records)
        );
        vm.prank(challenger);
        vm.expectRevert(abi.encodeWithSelector(Judge.RoundIsFinal.selector, id));
        tribunal.demandOpening(id, at(id), f.worker, job, 0, 2);
    }

    // --- withheld openings ---

    function test_only_rows_that_exist_are_demanded() public {
        CommitmentProof memory p = commit(job, t, ROLE_WORKER, 0);
        uint256 id = openRound(p);
        Round memory round = at(id);
        vm.startPrank(challenger);
        vm.expectRevert(Tribunal.OpeningMismatch.selector);
        tribunal.demandOpening(id, round, p, job, 2, 0);
        vm.expectRevert(Tribunal.OpeningMismatch.selector);
        tribunal.demandOpening(id, round, p, job, 0, 3);
        tribunal.demandOpening(id, round, p, job, 1, 2);
    }

    /// @dev Otherwise a stranger could demand rows that nobody has to keep any more.
    function test_only_rows_of_the_rounds_own_live_jobs_are_demanded() public {
        CommitmentProof memory p = commit(job, t, ROLE_WORKER, 0);
        uint256 id = openRound(p);
        Round memory round = at(id);
        bytes memory refused = abi.encodeWithSelector(Judge.JobMismatch.selector, p.commitment.jobId);
        Job memory other = newJob(2);
        vm.expectRevert(refused);
        tribunal.demandOpening(id, round, p, other, 0, 1);
        for (uint256 i; i < 3; ++i) {
            other = newJob(3 + i);
            if (i == 0) other.scheduler = makeAddr("another scheduler");
            if (i == 1) other.modelId = keccak256("another model");
            if (i == 2) other.deadline = uint64(vm.getBlockTimestamp() - 1);
            p = commit(other, t, ROLE_WORKER, 0);
            id = openRound(p);
            round = at(id);
            vm.expectRevert(abi.encodeWithSelector(Judge.JobMismatch.selector, p.commitment.jobId));
            tribunal.demandOpening(id, round, p, other, 0, 1);
        }
    }

    function test_many_withheld_rows_are_one_offence() public {
        (uint256 demandId, Tribunal.Demand memory d, CommitmentProof memory p) = _demand(ROLE_WORKER, 0);
        Round memory round = at(d.roundId);
        vm.prank(challenger);
        uint256 second = tribunal.demandOpening(d.roundId, round, p, job, 0, 2);
        Tribunal.Demand memory e = Tribunal.Demand(d.roundId, 0, 0, 2, d.deadline, challenger, p.commitment);
        vm.roll(uint256(d.deadline) + 1);
        tribunal.slashWithheld(demandId, d, round);
        uint256 left = staking.stakeOf(modelId, worker);
        assertEq(left, STAKE - STAKE * params.slashBpsWithheld / 10_000);
        tribunal.slashWithheld(second, e, round);
        assertEq(staking.stakeOf(modelId, worker), left);
        assertEq(rounds.pending(d.roundId).holds, 0);
    }

    function test_an_unsettled_round_is_challenged_until_it_can_no_longer_be_settled() public {
        (uint256 id, Tribunal.TokenFraud memory f) = _falseToken();
        vm.roll(uint256(at(id).settleBy) + 1);
        vm.expectRevert(abi.encodeWithSelector(Judge.RoundIsFinal.selector, id));
        tribunal.proveTokenFraud(id, at(id), f);
        vm.roll(at(id).settleBy);
        tribunal.proveTokenFraud(id, at(id), f);
    }

    function test_a_demand_costs_a_bond_and_is_about_a_commitment_of_the_round() public {
        CommitmentProof memory p = commit(job, t, ROLE_WORKER, 0);
        uint256 id = openRound(p);
        Round memory round = at(id);
        bytes memory refused = abi.encodeWithSelector(
            IERC20Errors.ERC20InsufficientAllowance.selector, rounds, 0, params.disputeBond
        );
        vm.prank(makeAddr("poor"));
        vm.expectRevert(refused);
        tribunal.demandOpening(id, round, p, job, 0, 1);
        p = commit(job, t, ROLE_WORKER, 2);
        vm.expectRevert(abi.encodeWithSelector(Judge.NotInRound.selector, p.commitment.operator));
        tribunal.demandOpening(id, round, p, job, 0, 1);
        p.commitment.role = 2;
        vm.expectRevert(abi.encodeWithSelector(Judge.NotInRound.selector, p.commitment.operator));
        tribunal.demandOpening(id, round, p, job, 0, 1);
    }

    function test_only_the_row_that_was_demanded_answers() public {
        (uint256 demandId, Tribunal.Demand memory d, CommitmentProof memory p) = _demand(ROLE_WORKER, 0);
        Round memory round = at(d.roundId);
        vm.expectRevert(Tribunal.OpeningMismatch.selector);
        tribunal.answerOpening(demandId, d, round, p.parts, t.open(0, 2));
        vm.expectRevert(Tribunal.OpeningMismatch.selector);
        tribunal.answerOpening(demandId, d, round, p.parts, t.open(1, 1));
        t.rows[0][1] = Transcripts.unit(6, Transcripts.ONE);
        vm.expectRevert(abi.encodeWithSelector(Opening.RowNotCommitted.selector, 0, 1));
        tribunal.answerOpening(demandId, d, round, p.parts, t.open(0, 1));
        vm.expectRevert(abi.encodeWithSelector(Opening.PartsNotCommitted.selector, p.commitment.jobRoot));
        tribunal.answerOpening(demandId, d, round, t.parts(), t.open(0, 1));
    }

    function test_a_demand_is_known_by_its_hash() public {
        (uint256 demandId, Tribunal.Demand memory d, CommitmentProof memory p) = _demand(ROLE_WORKER, 0);
        assertEq(tribunal.demandHash(demandId), keccak256(abi.encode(d)));
        d.challenger = worker;
        vm.expectRevert(abi.encodeWithSelector(Tribunal.DemandUnknown.selector, demandId));
        tribunal.answerOpening(demandId, d, at(d.roundId), p.parts, t.open(0, 1));
        vm.expectRevert(abi.encodeWithSelector(Tribunal.DemandUnknown.selector, demandId));
        tribunal.slashWithheld(demandId, d, at(d.roundId));
        vm.expectRevert(abi.encodeWithSelector(Tribunal.DemandUnknown.selector, demandId + 1));
        tribunal.slashWithheld(demandId + 1, d, at(d.roundId));
    }

    function test_an_answered_demand_pays_the_bond_to_the_operator() public {
        (uint256 demandId, Tribunal.Demand memory d, CommitmentProof memory p) = _demand(ROLE_WORKER, 0);
        uint256 paid = token.balanceOf(challenger);
        vm.roll(d.deadline);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooEarly.selector, d.deadline));
        tribunal.slashWithheld(demandId, d, at(d.roundId));
        tribunal.answerOpening(demandId, d, at(d.roundId), p.parts, t.open(0, 1));
        assertEq(rounds.balances(worker), params.disputeBond);
        assertEq(rounds.balances(challenger), 0);
        assertEq(token.balanceOf(challenger), paid);
        assertEq(rounds.reserve(), 0);
        assertEq(staking.stakeOf(modelId, worker), STAKE);
        assertEq(rounds.pending(d.roundId).holds, 0);
        vm.roll(uint256(d.deadline) + 1);
        vm.expectRevert(abi.encodeWithSelector(Tribunal.DemandUnknown.selector, demandId));
        tribunal.slashWithheld(demandId, d, at(d.roundId));
        vm.prank(worker);
        rounds.withdraw();
        assertEq(token.balanceOf(worker), params.disputeBond);
    }

    function test_a_withheld_opening_is_slashed_and_voids_the_workers_job() public {
        (uint256 demandId, Tribunal.Demand memory d, CommitmentProof memory p) = _demand(ROLE_WORKER, 0);
        assertEq(rounds.pending(d.roundId).holds, 1);
        vm.roll(uint256(d.deadline) + 1);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooLate.selector, d.deadline));
        tribunal.answerOpening(demandId, d, at(d.roundId), p.parts, t.open(0, 1));
        tribunal.slashWithheld(demandId, d, at(d.roundId));
        _assertSlashed(worker, params.slashBpsWithheld, params.disputeBond);
        assertEq(uint8(rounds.jobState(d.roundId, 0)), uint8(Rounds.JobState.Voided));
        assertEq(rounds.pending(d.roundId).holds, 0);
    }

    function test_a_verifier_that_withholds_is_slashed_but_the_job_stands() public {
        (uint256 demandId, Tribunal.Demand memory d,) = _demand(ROLE_VERIFIER, 1);
        vm.roll(uint256(d.deadline) + 1);
        tribunal.slashWithheld(demandId, d, at(d.roundId));
        _assertSlashed(verifier, params.slashBpsWithheld, params.disputeBond);
        assertEq(uint8(rounds.jobState(d.roundId, 0)), uint8(Rounds.JobState.Standing));
    }

    function test_a_demanded_round_is_paid_after_the_answer() public {
        (uint256 demandId, Tribunal.Demand memory d, CommitmentProof memory p) = _demand(ROLE_WORKER, 0);
        verifyRound(d.roundId, leafOf(commit(job, t, ROLE_VERIFIER, 1)), 1);
        SettlementRecord[] memory records = _settle(d.roundId);
        passWindow(d.roundId);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundHeld.selector, d.roundId));
        rounds.payRound(d.roundId, at(d.roundId), Ledgers.credits(records), 2);
        tribunal.answerOpening(demandId, d, at(d.roundId), p.parts, t.open(0, 1));
        rounds.payRound(d.roundId, at(d.roundId), Ledgers.credits(records), 2);
        assertEq(rounds.balances(worker), params.disputeBond + records[0].workerFee);
        assertEq(rounds.balances(verifier), records[0].verifierFee);
        assertEq(rounds.balances(scheduler), records[0].schedulerFee);
    }

    function test_a_demand_ends_after_its_round_was_refunded() public {
        (uint256 demandId, Tribunal.Demand memory d, CommitmentProof memory p) = _demand(ROLE_WORKER, 0);
        (uint256 silent, Tribunal.Demand memory other,) = _demand(ROLE_WORKER, 2);
        _refund(d.roundId);
        _refund(other.roundId);
        vm.roll(d.deadline);
        tribunal.answerOpening(demandId, d, at(d.roundId), p.parts, t.open(0, 1));
        assertEq(rounds.balances(worker), params.disputeBond);
        vm.roll(uint256(other.deadline) + 1);
        tribunal.slashWithheld(silent, other, at(other.roundId));
        uint256 reward = _share(STAKE * params.slashBpsWithheld / 10_000);
        assertEq(rounds.balances(challenger), params.disputeBond + reward);
        assertEq(rounds.reserve(), 0);
    }

    function test_a_round_keeps_the_parameters_under_which_it_began() public {
        CommitmentProof memory p = commit(job, t, ROLE_WORKER, 0);
        uint256 id = openRound(p);
        Params memory later = params;
        later.disputeBond *= 3;
        later.openingDeadlineBlocks += 1;
        later.slashBpsWithheld /= 2;
        later.challengerShareBps /= 2;
        parameters.publish(later);
        (uint256 demandId, Tribunal.Demand memory d) = _demandOf(id, p);
        assertEq(rounds.reserve(), params.disputeBond);
        vm.roll(uint256(d.deadline) + 1);
        tribunal.slashWithheld(demandId, d, at(id));
        _assertSlashed(worker, params.slashBpsWithheld, params.disputeBond);
    }

    // --- two verdicts ---

    function test_one_verdict_is_no_contradiction() public {
        Verdict memory v = _verdict(VERDICT_REJECT);
        bytes memory signature = _sign(v, 1);
        vm.expectRevert(Tribunal.VerdictsAgree.selector);
        tribunal.proveEquivocation(job, v, signature, v, signature);
    }

    function test_verdicts_of_two_jobs_do_not_contradict() public {
        (Verdict memory a, Verdict memory b) = (_verdict(VERDICT_ACCEPT), _verdict(VERDICT_REJECT));
        b.jobId = rounds.jobId(newJob(2));
        _expectEquivocationReverts(a, b, abi.encodeWithSelector(Judge.JobMismatch.selector, a.jobId));
        _expectEquivocationReverts(b, a, abi.encodeWithSelector(Judge.JobMismatch.selector, a.jobId));
        a.jobId = b.jobId;
        bytes32 own = rounds.jobId(job);
        _expectEquivocationReverts(a, b, abi.encodeWithSelector(Judge.JobMismatch.selector, own));
    }

    function test_verdicts_of_two_operators_do_not_contradict() public {
        (Verdict memory a, Verdict memory b) = (_verdict(VERDICT_ACCEPT), _verdict(VERDICT_REJECT));
        b.operator = worker;
        _expectEquivocationReverts(a, b, abi.encodeWithSelector(Judge.JobMismatch.selector, a.jobId));
    }

    function test_both_verdicts_need_the_operators_signature() public {
        (Verdict memory a, Verdict memory b) = (_verdict(VERDICT_ACCEPT), _verdict(VERDICT_REJECT));
        (bytes memory true_, bytes memory forged) = (_sign(a, 1), _sign(b, 2));
        vm.expectRevert(abi.encodeWithSelector(Judge.SignatureInvalid.selector, verifier));
        tribunal.proveEquivocation(job, a, true_, b, forged);
        vm.expectRevert(abi.encodeWithSelector(Judge.SignatureInvalid.selector, verifier));
        tribunal.proveEquivocation(job, b, forged, a, true_);
    }

    function test_accepting_and_rejecting_one_job_is_slashed_once() public {
        (Verdict memory a, Verdict memory b) = (_verdict(VERDICT_ACCEPT), _verdict(VERDICT_REJECT));
        (bytes memory first, bytes memory second) = (_sign(a, 1), _sign(b, 1));
        vm.expectEmit(address(tribunal));
        emit Tribunal.VerdictsContradict(a.jobId, verifier);
        vm.prank(challenger);
        tribunal.proveEquivocation(job, a, first, b, second);
        _assertSlashed(verifier, params.slashBpsWithheld, 0);
        vm.expectRevert(Tribunal.AlreadyPunished.selector);
        tribunal.proveEquivocation(job, b, second, a, first);
    }

    function test_rejecting_at_two_places_contradicts_too() public {
        (Verdict memory a, Verdict memory b) = (_verdict(VERDICT_REJECT), _verdict(VERDICT_REJECT));
        b.position = 1;
        (bytes memory first, bytes memory second) = (_sign(a, 1), _sign(b, 1));
        vm.prank(challenger);
        tribunal.proveEquivocation(job, a, first, b, second);
        _assertSlashed(verifier, params.slashBpsWithheld, 0);
    }

    function test_equivocation_of_an_operator_without_stake_mints_nothing() public {
        uint256 stranger = OPERATORS + 1;
        (Verdict memory a, Verdict memory b) = (_verdict(VERDICT_ACCEPT), _verdict(VERDICT_REJECT));
        (a.operator, b.operator) = (vm.addr(operatorKey(stranger)), vm.addr(operatorKey(stranger)));
        tribunal.proveEquivocation(job, a, _sign(a, stranger), b, _sign(b, stranger));
        assertEq(rounds.balances(address(this)), 0);
        assertEq(token.balanceOf(BURN), 0);
    }

    // --- helpers ---

    function _falseToken() private returns (uint256 id, Tribunal.TokenFraud memory f) {
        t.tokens[2] = FALSE_TOKEN; // logit 2, while TRUE_TOKEN has 4
        return _fraud(TRUE_TOKEN);
    }

    function _fraud(uint32 better) private returns (uint256 id, Tribunal.TokenFraud memory f) {
        f = _fraudOf(commit(job, t, ROLE_WORKER, 0), better);
        id = openRound(f.worker);
    }

    function _fraudOf(CommitmentProof memory p, uint32 better)
        private
        view
        returns (Tribunal.TokenFraud memory f)
    {
        f.worker = p;
        f.job = job;
        f.finalRow = t.open(1, 1);
        f.claimedToken = t.tokens[2];
        f.tokenProof = t.tokenProof(2);
        f.claimed = Transcripts.weights(f.claimedToken);
        f.better = Transcripts.weights(better);
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

    /// @dev A round of one job that says what the job's record should.
    function _settle(uint256 id) private returns (SettlementRecord[] memory records) {
        if (at(id).positionBlock == 0) verifyRound(id, bytes32(uint256(1)), 1);
        records = new SettlementRecord[](1);
        records[0] = newRecord(job, worker);
        settleRound(id, records);
    }

    function _refund(uint256 id) private {
        SettlementRecord[] memory records = _settle(id);
        vm.prank(address(audit));
        rounds.refute(id);
        rounds.refundRound(id, at(id), Ledgers.debits(records), 1);
    }

    function _invalidRow(uint8 role, uint256 operator)
        private
        returns (uint256 id, CommitmentProof memory p)
    {
        CommitmentProof memory honest = commit(job, t, ROLE_WORKER, 0);
        t.rows[0][1] = Transcripts.unit(1, NAN);
        p = commit(job, t, role, operator);
        id = role == ROLE_WORKER ? openRound(p) : openRound(honest, p);
    }

    function _demand(uint8 role, uint256 operator)
        private
        returns (uint256 demandId, Tribunal.Demand memory d, CommitmentProof memory p)
    {
        p = commit(job, t, role, operator);
        uint256 id = role == ROLE_WORKER ? openRound(p) : openRound(commit(job, t, ROLE_WORKER, 0), p);
        (demandId, d) = _demandOf(id, p);
    }

    /// @dev Row 1 of the first boundary is demanded.
    function _demandOf(uint256 id, CommitmentProof memory p)
        private
        returns (uint256 demandId, Tribunal.Demand memory d)
    {
        uint64 deadline = uint64(vm.getBlockNumber() + params.openingDeadlineBlocks);
        d = Tribunal.Demand(id, 0, 0, 1, deadline, challenger, p.commitment);
        Round memory round = at(id);
        vm.expectEmit(address(tribunal));
        emit Tribunal.OpeningDemanded(
            tribunal.demandCount() + 1, p.commitment.jobId, p.commitment.operator, d
        );
        vm.prank(challenger);
        demandId = tribunal.demandOpening(id, round, p, job, 0, 1);
    }

    function _verdict(uint8 verdict) private view returns (Verdict memory) {
        return Verdict(rounds.jobId(job), verdict, 0, 0, verifier);
    }

    function _sign(Verdict memory v, uint256 operator) private view returns (bytes memory) {
        bytes32 hash = libraries.verdictHash(v);
        return sign(MessageHashUtils.toTypedDataHash(rounds.domainSeparator(), hash), operatorKey(operator));
    }

    function _expectEquivocationReverts(Verdict memory a, Verdict memory b, bytes memory reason) private {
        (bytes memory first, bytes memory second) = (_sign(a, 1), _sign(b, 1));
        vm.expectRevert(reason);
        tribunal.proveEquivocation(job, a, first, b, second);
    }

    /// @dev The slash of one operator, of a challenger with that share of it and its bond back, is all that moved.
    function _assertSlashed(address operator, uint256 bps, uint256 bond) private view {
        uint256 taken = STAKE * bps / 10_000;
        uint256 reward = _share(taken);
        assertEq(staking.stakeOf(modelId, operator), STAKE - taken, "stake");
        assertEq(rounds.balances(challenger), reward + bond, "challenger");
        assertEq(token.balanceOf(BURN), taken - reward, "burned");
        assertEq(rounds.reserve(), 0, "reserve");
        assertEq(token.balanceOf(address(rounds)), ESCROW + reward + bond, "rounds");
        assertEq(token.balanceOf(address(staking)), (OPERATORS + 1) * STAKE - taken, "staking");
    }

    function _share(uint256 taken) private view returns (uint256) {
        return taken * params.challengerShareBps / 10_000;
    }

    function _fundStake(address operator) private {
        fund(operator, STAKE, address(staking));
        vm.prank(operator);
        staking.increaseStake(modelId, STAKE);
    }
}
