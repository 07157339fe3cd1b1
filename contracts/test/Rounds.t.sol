// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Randomness} from "../src/Randomness.sol";
import {Rounds} from "../src/Rounds.sol";
import {Job, SettlementRecord, VERDICT_REJECT, VERDICT_UNABLE} from "../src/Types.sol";
import {Trees} from "./helpers/Trees.sol";
import {World} from "./helpers/World.sol";

contract RoundsTest is World {
    Job private job;
    bytes private signature;
    SettlementRecord private record;

    function setUp() public override {
        super.setUp();
        job = newJob(1);
        signature = signJob(job, CLIENT_KEY);
        record = newRecord(job, worker);
    }

    // --- escrow ---

    function test_escrow_leaves_after_its_delay_and_not_before() public {
        vm.startPrank(client);
        vm.expectRevert(abi.encodeWithSelector(Rounds.EscrowInsufficient.selector, 1001 ether, 1000 ether));
        rounds.requestEscrowWithdrawal(scheduler, 1001 ether);
        vm.expectRevert(Rounds.NothingToWithdraw.selector);
        rounds.withdrawEscrow(scheduler);
        rounds.requestEscrowWithdrawal(scheduler, 400 ether);
        (uint256 available, uint256 leaving) = rounds.escrowOf(client, scheduler);
        assertEq(available, 600 ether);
        assertEq(leaving, 400 ether);
        uint256 release = block.number + params.escrowDelayBlocks;
        vm.roll(release - 1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.WindowOpen.selector, 0, release));
        rounds.withdrawEscrow(scheduler);
        vm.roll(release);
        assertEq(rounds.withdrawEscrow(scheduler), 400 ether);
        assertEq(token.balanceOf(client), 400 ether);
    }

    function test_escrow_that_is_leaving_still_pays() public {
        vm.prank(client);
        rounds.requestEscrowWithdrawal(scheduler, 1000 ether);
        uint256 roundId = _settled(record, feesOf(record));
        _claim(roundId);
        vm.roll(block.number + params.escrowDelayBlocks);
        vm.prank(client);
        assertEq(rounds.withdrawEscrow(scheduler), 1000 ether - feesOf(record));
    }

    // --- phases ---

    function test_only_a_staked_scheduler_commits() public {
        vm.expectRevert(abi.encodeWithSelector(Rounds.SchedulerNotStaked.selector, address(this)));
        rounds.commitRound(modelId, "root", 1);
        vm.startPrank(scheduler);
        staking.requestUnbond(staking.SCHEDULER_POOL(), 1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.SchedulerNotStaked.selector, scheduler));
        rounds.commitRound(modelId, "root", 1);
    }

    function test_a_round_has_1_to_1000_jobs() public {
        vm.startPrank(scheduler);
        vm.expectRevert(abi.encodeWithSelector(Rounds.JobCountInvalid.selector, 0, 1000));
        rounds.commitRound(modelId, "root", 0);
        vm.expectRevert(abi.encodeWithSelector(Rounds.JobCountInvalid.selector, 1001, 1000));
        rounds.commitRound(modelId, "root", 1001);
        rounds.commitRound(modelId, "root", 1000);
    }

    function test_phases_follow_each_other_and_only_their_scheduler_takes_them() public {
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundUnknown.selector, 1));
        rounds.round(1);
        vm.startPrank(scheduler);
        uint256 roundId = rounds.commitRound(modelId, "root", 1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.WrongPhase.selector, roundId));
        rounds.settleRound(roundId, "root", 0);
        uint256 request = rounds.round(roundId).randomnessVerifiers;
        vm.expectRevert(abi.encodeWithSelector(Randomness.NotKnown.selector, request));
        rounds.commitVerifications(roundId, "root", 1);
        vm.stopPrank();
        poke(request);
        vm.expectRevert(abi.encodeWithSelector(Rounds.NotRoundScheduler.selector, address(this)));
        rounds.commitVerifications(roundId, "root", 1);
        vm.startPrank(scheduler);
        rounds.commitVerifications(roundId, "root", 1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.WrongPhase.selector, roundId));
        rounds.commitVerifications(roundId, "root", 1);
        request = rounds.round(roundId).randomnessPositions;
        vm.expectRevert(abi.encodeWithSelector(Randomness.NotKnown.selector, request));
        rounds.settleRound(roundId, "root", 0);
        vm.stopPrank();
        settleRound(roundId, "root", 0);
        vm.prank(scheduler);
        vm.expectRevert(abi.encodeWithSelector(Rounds.WrongPhase.selector, roundId));
        rounds.settleRound(roundId, "another root", 0);
    }

    // --- claims ---

    function test_a_claim_pays_everybody_to_the_wei() public {
        uint256 roundId = _settled(record, feesOf(record));
        _claim(roundId);
        assertEq(rounds.balances(worker), 16 ether);
        assertEq(rounds.balances(verifier), 1.6 ether);
        assertEq(rounds.balances(scheduler), 0.32 ether);
        (uint256 available,) = rounds.escrowOf(client, scheduler);
        assertEq(available, 1000 ether - 17.92 ether);
        vm.prank(worker);
        assertEq(rounds.withdraw(), 16 ether);
        assertEq(token.balanceOf(worker), 16 ether);
        vm.prank(worker);
        vm.expectRevert(Rounds.NothingToWithdraw.selector);
        rounds.withdraw();
    }

    function test_a_rejected_job_costs_nothing() public {
        record.verdicts[0] = VERDICT_REJECT;
        record.outcome = VERDICT_REJECT;
        (record.workerFee, record.verifierFee, record.schedulerFee) = (0, 0, 0);
        _claim(_settled(record, 0));
        (uint256 available,) = rounds.escrowOf(client, scheduler);
        assertEq(available, 1000 ether);
    }

    function test_no_claim_before_the_window_has_passed() public {
        uint256 roundId = honestRound(job);
        bytes memory wrongPhase = abi.encodeWithSelector(Rounds.WrongPhase.selector, roundId);
        _expectClaimReverts(roundId, wrongPhase);
        settleRound(roundId, record, feesOf(record));
        uint256 finalBlock = rounds.round(roundId).finalBlock;
        vm.roll(finalBlock);
        _expectClaimReverts(roundId, abi.encodeWithSelector(Rounds.WindowOpen.selector, roundId, finalBlock));
    }

    function test_a_job_is_paid_once() public {
        uint256 first = _settled(record, feesOf(record));
        _claim(first);
        bytes memory used = abi.encodeWithSelector(Rounds.NonceUsed.selector, client, job.nonce);
        _expectClaimReverts(first, used);
        _expectClaimReverts(_settled(record, feesOf(record)), used);
    }

    function test_a_nonce_pays_one_job() public {
        _claim(_settled(record, feesOf(record)));
        job.seed = 8;
        signature = signJob(job, CLIENT_KEY);
        record = newRecord(job, worker);
        uint256 roundId = _settled(record, feesOf(record));
        _expectClaimReverts(roundId, abi.encodeWithSelector(Rounds.NonceUsed.selector, client, job.nonce));
    }

    function test_only_the_client_can_sign_for_its_escrow() public {
        signature = signJob(job, operatorKey(0));
        uint256 roundId = _settled(record, feesOf(record));
        _expectClaimReverts(roundId, abi.encodeWithSelector(Rounds.SignatureInvalid.selector, client));
    }

    function test_the_signed_job_cannot_be_changed() public {
        uint256 roundId = _settled(record, feesOf(record));
        job.outputPrice += 1;
        bytes32 other = rounds.jobId(job);
        _expectClaimReverts(roundId, abi.encodeWithSelector(Rounds.JobMismatch.selector, other));
    }

    function test_a_job_for_another_scheduler_is_refused() public {
        job.scheduler = makeAddr("another scheduler");
        signature = signJob(job, CLIENT_KEY);
        record = newRecord(job, worker);
        uint256 roundId = _settled(record, feesOf(record));
        _expectClaimReverts(roundId, abi.encodeWithSelector(Rounds.JobMismatch.selector, record.jobId));
    }

    function test_a_record_outside_the_settlement_is_refused() public {
        uint256 roundId = _settled(record, feesOf(record));
        record.worker = verifier;
        _expectClaimReverts(roundId, abi.encodeWithSelector(Rounds.RecordNotSettled.selector, 0));
    }

    function test_fees_that_do_not_follow_are_refused() public {
        bytes memory refused = abi.encodeWithSelector(Rounds.RecordDoesNotFollow.selector, record.jobId);
        record.workerFee += 1;
        _expectClaimReverts(_settled(record, 1000 ether), refused);
        record.workerFee -= 1;
        record.schedulerFee += 1;
        _expectClaimReverts(_settled(record, 1000 ether), refused);
        record.schedulerFee -= 1;
        record.outputTokens += 1;
        record.workerFee += OUTPUT_PRICE;
        _expectClaimReverts(_settled(record, 1000 ether), refused);
    }

    function test_a_round_never_pays_more_than_it_announced() public {
        uint256 roundId = _settled(record, feesOf(record) - 1);
        _expectClaimReverts(roundId, abi.encodeWithSelector(Rounds.TotalExceeded.selector, roundId));
    }

    function test_an_empty_escrow_pays_nothing() public {
        vm.startPrank(client);
        rounds.requestEscrowWithdrawal(scheduler, 990 ether);
        vm.roll(block.number + params.escrowDelayBlocks);
        rounds.withdrawEscrow(scheduler);
        vm.stopPrank();
        uint256 roundId = _settled(record, feesOf(record));
        _expectClaimReverts(
            roundId, abi.encodeWithSelector(Rounds.EscrowInsufficient.selector, feesOf(record), 10 ether)
        );
    }

    function test_each_job_of_a_larger_round_is_claimed_with_its_own_proof() public {
        Job[3] memory jobs;
        SettlementRecord[3] memory records;
        bytes32[] memory leaves = new bytes32[](3);
        for (uint256 i; i < 3; ++i) {
            jobs[i] = newJob(10 + i);
            records[i] = newRecord(jobs[i], vm.addr(operatorKey(2 + i)));
            leaves[i] = Trees.recordLeaf(records[i]);
        }
        vm.prank(scheduler);
        uint256 roundId = rounds.commitRound(modelId, "root", 3);
        verifyRound(roundId, "root", 3);
        settleRound(roundId, Trees.root(leaves), 3 * feesOf(records[0]));
        passWindow(roundId);
        for (uint256 i; i < 3; ++i) {
            bytes memory signed = signJob(jobs[i], CLIENT_KEY);
            rounds.claim(roundId, i, records[i], Trees.proof(leaves, i), jobs[i], signed);
            assertEq(rounds.balances(records[i].worker), 16 ether);
        }
        assertEq(rounds.balances(verifier), 3 * 1.6 ether);
    }

    // --- courts ---

    function test_only_courts_hold_and_void() public {
        bytes memory refused = abi.encodeWithSelector(Rounds.NotCourt.selector, address(this));
        vm.expectRevert(refused);
        rounds.hold(scheduler, record.jobId);
        vm.expectRevert(refused);
        rounds.release(scheduler, record.jobId);
        vm.expectRevert(refused);
        rounds.voidJob(scheduler, record.jobId);
        vm.expectRevert(Rounds.CourtsAlreadySet.selector);
        rounds.setCourts(address(this), address(this));
    }

    function test_a_voided_job_is_never_paid() public {
        uint256 roundId = _settled(record, feesOf(record));
        vm.prank(address(court));
        rounds.voidJob(scheduler, record.jobId);
        _expectClaimReverts(roundId, abi.encodeWithSelector(Rounds.JobIsVoided.selector, record.jobId));
    }

    function test_a_held_job_is_paid_when_its_last_hold_is_released() public {
        uint256 roundId = _settled(record, feesOf(record));
        bytes memory held = abi.encodeWithSelector(Rounds.JobIsHeld.selector, record.jobId);
        vm.startPrank(address(court));
        rounds.hold(scheduler, record.jobId);
        rounds.hold(scheduler, record.jobId);
        rounds.release(scheduler, record.jobId);
        vm.stopPrank();
        _expectClaimReverts(roundId, held);
        vm.prank(address(tribunal));
        rounds.release(scheduler, record.jobId);
        _claim(roundId);
        assertEq(rounds.balances(worker), 16 ether);
    }

    function test_outcome_of_verdicts() public view {
        uint8[] memory verdicts = new uint8[](3);
        (verdicts[0], verdicts[1], verdicts[2]) = (1, 2, 1);
        assertEq(libraries.outcome(verdicts), 1);
        verdicts[2] = 3;
        assertEq(libraries.outcome(verdicts), VERDICT_REJECT, "as many reject");
        (verdicts[0], verdicts[1]) = (3, 3);
        assertEq(libraries.outcome(verdicts), VERDICT_UNABLE);
        assertEq(libraries.outcome(new uint8[](0)), VERDICT_UNABLE);
    }

    function _settled(SettlementRecord memory r, uint128 total) private returns (uint256 roundId) {
        roundId = honestRound(job);
        settleRound(roundId, r, total);
        passWindow(roundId);
    }

    function _claim(uint256 roundId) private {
        rounds.claim(roundId, 0, record, none(), job, signature);
    }

    function _expectClaimReverts(uint256 roundId, bytes memory reason) private {
        vm.expectRevert(reason);
        rounds.claim(roundId, 0, record, none(), job, signature);
    }
}
