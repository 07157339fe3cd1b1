// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {stdError} from "forge-std/Test.sol";
import {Bank} from "../src/Bank.sol";
import {Courts} from "../src/Courts.sol";
import {Rounds} from "../src/Rounds.sol";
import {IRandomness} from "../src/interfaces/IRandomness.sol";
import {Records} from "../src/libraries/Records.sol";
import {Line, Params, RecordProof, Round, SCHEDULER_POOL, SettlementRecord} from "../src/Types.sol";
import {Books} from "./helpers/Books.sol";
import {Headers} from "./helpers/Headers.sol";
import {Ledgers} from "./helpers/Ledgers.sol";

contract RoundsTest is Books {
    uint256 private constant ROUND_WORDS = 19;
    uint256 private constant HORIZON = 256;

    // --- who may open a round ---

    function test_a_paused_network_takes_no_new_round() public {
        _pause();
        vm.prank(scheduler);
        vm.expectRevert(Rounds.RoundsPaused.selector);
        rounds.commitRound(modelId, "root", 1);
    }

    function test_a_round_under_way_is_paid_while_paused() public {
        uint256 id = commitRound("root", 1);
        _pause();
        verifyRound(id, "verifications", 1);
        Book memory b = draft(1, 1, 0);
        settleRound(id, Ledgers.root(b.records), b.debits, b.credits);
        passWindow(id);
        rounds.payRound(id, at(id), b.credits, b.credits.length);
        assertEq(rounds.balances(b.records[0].worker), b.records[0].workerFee);
        vm.prank(b.records[0].worker);
        assertEq(rounds.withdraw(), b.records[0].workerFee);
    }

    function test_only_a_staked_scheduler_commits() public {
        vm.expectRevert(abi.encodeWithSelector(Rounds.SchedulerNotStaked.selector, address(this)));
        rounds.commitRound(modelId, "root", 1);
        vm.startPrank(scheduler);
        staking.requestUnbond(SCHEDULER_POOL, STAKE);
        vm.expectRevert(abi.encodeWithSelector(Rounds.SchedulerNotStaked.selector, scheduler));
        rounds.commitRound(modelId, "root", 1);
    }

    function test_a_round_has_1_to_65536_jobs() public {
        uint256 limit = rounds.MAX_JOBS();
        vm.startPrank(scheduler);
        vm.expectRevert(abi.encodeWithSelector(Rounds.JobCountInvalid.selector, 0, limit));
        rounds.commitRound(modelId, "root", 0);
        vm.expectRevert(abi.encodeWithSelector(Rounds.JobCountInvalid.selector, limit + 1, limit));
        rounds.commitRound(modelId, "root", uint32(limit + 1));
        assertEq(rounds.commitRound(modelId, "root", uint32(limit)), 1);
    }

    function test_the_chain_keeps_the_hash_of_what_the_event_says() public {
        uint256 id = commitRound("root", 5);
        assertEq(rounds.stateOf(id), keccak256(abi.encode(at(id))));
        assertEq(rounds.roundCount(), id);
    }

    // --- the round that a call brings ---

    function testFuzz_a_round_with_any_changed_field_is_refused(uint256 bit) public {
        Book memory b = _posted(3);
        bit %= 32; // every field has 32 bits
        for (uint256 field; field < ROUND_WORDS; ++field) {
            bytes memory words = abi.encode(at(b.roundId));
            assembly ("memory-safe") {
                let word := add(words, mul(add(field, 1), 32))
                mstore(word, xor(mload(word), shl(bit, 1)))
            }
            vm.expectRevert(abi.encodeWithSelector(Rounds.RoundMismatch.selector, b.roundId));
            rounds.check(b.roundId, abi.decode(words, (Round)));
        }
    }

    function test_every_call_checks_the_round() public {
        Book memory b = _posted(1);
        Round memory wrong = at(b.roundId);
        wrong.total += 1;
        bytes memory mismatch = abi.encodeWithSelector(Rounds.RoundMismatch.selector, b.roundId);
        vm.startPrank(scheduler);
        vm.expectRevert(mismatch);
        rounds.commitVerifications(b.roundId, wrong, "root", 1, "");
        vm.expectRevert(mismatch);
        rounds.settleRound(b.roundId, wrong, "root", b.debits, b.credits, "");
        vm.expectRevert(mismatch);
        rounds.requeue(b.roundId, wrong);
        vm.expectRevert(mismatch);
        rounds.payRound(b.roundId, wrong, b.credits, 1);
        vm.expectRevert(mismatch);
        rounds.deductJob(b.roundId, wrong, prove(b, 0), b.debits, b.credits);
        vm.expectRevert(mismatch);
        rounds.refundRound(b.roundId, wrong, b.debits, 1);
    }

    function test_a_round_that_nobody_committed_is_unknown() public {
        uint256 id = commitRound("root", 1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundUnknown.selector, id + 1));
        rounds.check(id + 1, at(id));
    }

    // --- phases ---

    function test_only_its_scheduler_takes_a_round_on() public {
        uint256 id = commitRound("root", 1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.NotRoundScheduler.selector, address(this)));
        rounds.commitVerifications(id, at(id), "root", 1, "");
        verifyRound(id, "root", 1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.NotRoundScheduler.selector, address(this)));
        rounds.settleRound(id, at(id), "root", new Line[](0), new Line[](0), "");
    }

    function test_phases_follow_each_other_once() public {
        Book memory b = draft(1, 1, 0);
        uint256 id = commitRound("root", 1);
        bytes memory wrongPhase = abi.encodeWithSelector(Rounds.WrongPhase.selector, id);
        vm.startPrank(scheduler);
        vm.expectRevert(wrongPhase);
        rounds.settleRound(id, at(id), "root", b.debits, b.credits, "");
        vm.stopPrank();
        verifyRound(id, "root", 1);
        vm.startPrank(scheduler);
        vm.expectRevert(wrongPhase);
        rounds.commitVerifications(id, at(id), "root", 1, "");
        vm.expectRevert(wrongPhase);
        rounds.payRound(id, at(id), b.credits, b.credits.length);
        vm.stopPrank();
        settleRound(id, Ledgers.root(b.records), b.debits, b.credits);
        vm.startPrank(scheduler);
        vm.expectRevert(wrongPhase);
        rounds.commitVerifications(id, at(id), "root", 1, "");
        vm.expectRevert(wrongPhase);
        rounds.settleRound(id, at(id), "root", b.debits, b.credits, "");
        vm.expectRevert(wrongPhase);
        rounds.requeue(id, at(id));
    }

    // --- seeds ---

    function test_a_seed_is_refused_before_its_block_is_over() public {
        uint256 id = commitRound("root", 1);
        uint64 target = at(id).verifierBlock;
        bytes memory header = Headers.build(target, seedOf(target));
        vm.startPrank(scheduler);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.NotKnown.selector, target));
        rounds.commitVerifications(id, at(id), "root", 1, "");
        vm.roll(target);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.TooEarly.selector, target));
        rounds.commitVerifications(id, at(id), "root", 1, header);
    }

    function test_a_header_of_another_block_is_refused() public {
        uint256 id = commitRound("root", 1);
        uint64 target = at(id).verifierBlock;
        bytes32 expected = keccak256(reach(target));
        bytes memory other = Headers.build(target + 1, seedOf(target + 1));
        vm.prank(scheduler);
        vm.expectRevert(abi.encodeWithSelector(IRandomness.WrongHeader.selector, target, expected));
        rounds.commitVerifications(id, at(id), "root", 1, other);
    }

    function test_a_poked_seed_serves_without_a_header_however_late() public {
        uint256 id = commitRound("root", 1);
        Round memory r = at(id);
        randomness.poke(r.verifierBlock, reach(r.verifierBlock));
        vm.roll(r.settleBy);
        vm.prank(scheduler);
        rounds.commitVerifications(id, r, "verifications", 1, "");
        r.verifierSeed = seedOf(r.verifierBlock);
        (r.verificationRoot, r.verifications) = ("verifications", 1);
        r.positionBlock = uint64(vm.getBlockNumber() + params.randomnessDelayBlocks);
        rounds.check(id, r);
    }

    function test_no_requeue_while_the_seed_can_be_shown() public {
        uint256 id = commitRound("root", 1);
        uint64 target = at(id).verifierBlock;
        bytes memory available = abi.encodeWithSelector(Rounds.SeedStillAvailable.selector, target);
        vm.expectRevert(available);
        rounds.requeue(id, at(id));
        vm.roll(target + HORIZON);
        vm.expectRevert(available);
        rounds.requeue(id, at(id));
    }

    /// @dev A scheduler that dislikes a seed cannot wait for another: one stranger is enough to keep it.
    function test_no_requeue_once_anybody_has_poked() public {
        uint256 id = commitRound("root", 1);
        uint64 target = at(id).verifierBlock;
        bytes memory header = reach(target);
        vm.prank(makeAddr("stranger"));
        randomness.poke(target, header);
        vm.roll(target + 10 * HORIZON);
        vm.prank(scheduler);
        vm.expectRevert(abi.encodeWithSelector(Rounds.SeedStillAvailable.selector, target));
        rounds.requeue(id, at(id));
    }

    function test_an_expired_verifier_seed_moves_the_same_commitment_to_a_new_block() public {
        uint256 id = commitRound("root", 1);
        Round memory r = at(id);
        vm.roll(r.verifierBlock + HORIZON + 1);
        rounds.requeue(id, r);
        r.verifierBlock = uint64(vm.getBlockNumber() + params.randomnessDelayBlocks);
        rounds.check(id, r);
    }

    function test_an_expired_position_seed_keeps_verifiers_and_verifications() public {
        uint256 id = commitRound("root", 1);
        verifyRound(id, "verifications", 1);
        Round memory r = at(id);
        vm.roll(r.positionBlock + HORIZON + 1);
        rounds.requeue(id, r);
        r.positionBlock = uint64(vm.getBlockNumber() + params.randomnessDelayBlocks);
        rounds.check(id, r);
    }

    // --- settlement ---

    function test_credits_above_debits_are_refused() public {
        Book memory b = draft(1, 2, 0);
        uint128 total;
        for (uint256 i; i < b.debits.length; ++i) {
            total += b.debits[i].amount;
        }
        b.credits = new Line[](1);
        b.credits[0] = Line(worker, 0, total + 1);
        _expectNoSettlement(b, abi.encodeWithSelector(Rounds.CreditsExceedDebits.selector, total + 1, total));
    }

    function test_lines_are_sorted_and_name_an_account_once() public {
        Line[] memory sorted = _lines(address(1), address(2));
        for (uint256 i; i < 3; ++i) {
            Book memory b = draft(1, 1, 0);
            uint256 place = i == 2 ? 0 : 1;
            Line[] memory wrong = i == 0
                ? _lines(address(2), address(1))
                : i == 1 ? _lines(address(2), address(2)) : _lines(address(0), address(1));
            bytes memory unsorted = abi.encodeWithSelector(Rounds.LinesNotSorted.selector, place);
            (b.debits, b.credits) = (wrong, sorted);
            _expectNoSettlement(b, unsorted);
            (b.debits, b.credits) = (sorted, wrong);
            _expectNoSettlement(b, unsorted);
        }
    }

    function test_a_sum_that_overflows_is_refused() public {
        Book memory b = draft(1, 1, 0);
        b.debits = _lines(address(1), address(2));
        (b.debits[0].amount, b.debits[1].amount) = (type(uint128).max, 1);
        _expectNoSettlement(b, stdError.arithmeticError);
    }

    function test_no_verifications_after_the_last_block_for_settlement() public {
        uint256 id = commitRound("root", 1);
        bytes memory header = reach(at(id).verifierBlock);
        uint256 settleBy = at(id).settleBy;
        vm.roll(settleBy + 1);
        vm.prank(scheduler);
        vm.expectRevert(abi.encodeWithSelector(Rounds.SettleTooLate.selector, id, settleBy));
        rounds.commitVerifications(id, at(id), "root", 1, header);
    }

    function test_no_settlement_after_its_last_block() public {
        Book memory b = draft(1, 1, 0);
        uint256 id = commitRound("root", 1);
        verifyRound(id, "root", 1);
        randomness.poke(at(id).positionBlock, reach(at(id).positionBlock));
        uint256 settleBy = at(id).settleBy;
        vm.roll(settleBy + 1);
        vm.prank(scheduler);
        vm.expectRevert(abi.encodeWithSelector(Rounds.SettleTooLate.selector, id, settleBy));
        rounds.settleRound(id, at(id), "root", b.debits, b.credits, "");
        vm.roll(settleBy);
        vm.prank(scheduler);
        rounds.settleRound(id, at(id), "root", b.debits, b.credits, "");
    }

    /// @dev One client without money does not cost the others theirs.
    function test_short_escrow_stops_the_whole_settlement_and_leaves_room_for_another() public {
        Book memory b = draft(7, 4, 0);
        address poor = b.debits[0].account;
        uint128 need = b.debits[0].amount;
        vm.prank(poor);
        rounds.requestEscrowWithdrawal(scheduler, DEPOSIT - need + 1);
        vm.roll(vm.getBlockNumber() + params.escrowDelayBlocks);
        vm.prank(poor);
        rounds.withdrawEscrow(scheduler);
        _expectNoSettlement(b, abi.encodeWithSelector(Bank.EscrowInsufficient.selector, poor, need, need - 1));
        uint256 id = rounds.roundCount();
        (b.debits, b.credits) = (new Line[](0), new Line[](0));
        settleRound(id, "other records", b.debits, b.credits);
        assertEq(at(id).total, 0);
        assertEq(escrowOf(poor), need - 1);
    }

    function testFuzz_a_settlement_draws_its_lines_and_never_more_than_the_escrow(
        uint128[3] memory amounts,
        uint128 earned
    ) public {
        Book memory b = draft(1, 1, 0);
        b.debits = _clientLines(amounts);
        uint256 total;
        bool covered = true;
        for (uint256 i; i < CLIENTS; ++i) {
            // One in five above the escrow.
            b.debits[i].amount = uint128(bound(b.debits[i].amount, 0, DEPOSIT * 5 / 4));
            total += b.debits[i].amount;
            covered = covered && b.debits[i].amount <= DEPOSIT;
        }
        b.credits = new Line[](1);
        b.credits[0] = Line(worker, 0, uint128(bound(earned, 0, total + 1)));
        uint256 id = commitRound("root", 1);
        verifyRound(id, "root", 1);
        if (!covered || b.credits[0].amount > total) {
            bytes memory header = reach(at(id).positionBlock);
            vm.prank(scheduler);
            vm.expectRevert();
            rounds.settleRound(id, at(id), "root", b.debits, b.credits, header);
            for (uint256 i; i < CLIENTS; ++i) {
                assertEq(escrowOf(clientAt(i)), DEPOSIT);
            }
            return;
        }
        settleRound(id, "root", b.debits, b.credits);
        for (uint256 i; i < CLIENTS; ++i) {
            assertEq(escrowOf(b.debits[i].account), DEPOSIT - b.debits[i].amount);
        }
        passWindow(id);
        rounds.payRound(id, at(id), b.credits, 1);
        assertEq(rounds.balances(worker), b.credits[0].amount);
        assertEq(rounds.balances(scheduler), total - b.credits[0].amount);
        assertEq(owed(), token.balanceOf(address(rounds)));
    }

    function test_escrow_that_is_leaving_still_pays() public {
        Book memory b = draft(3, 3, 0);
        for (uint256 i; i < CLIENTS; ++i) {
            vm.prank(clientAt(i));
            rounds.requestEscrowWithdrawal(scheduler, DEPOSIT);
        }
        post(b);
        vm.roll(vm.getBlockNumber() + params.escrowDelayBlocks);
        for (uint256 i; i < b.debits.length; ++i) {
            vm.prank(b.debits[i].account);
            assertEq(rounds.withdrawEscrow(scheduler), DEPOSIT - b.debits[i].amount);
        }
    }

    function test_a_client_gets_its_money_when_the_scheduler_vanishes() public {
        uint256 id = commitRound("root", 1);
        vm.prank(client);
        rounds.requestEscrowWithdrawal(scheduler, DEPOSIT);
        vm.roll(vm.getBlockNumber() + params.escrowDelayBlocks);
        assertGt(vm.getBlockNumber(), at(id).settleBy);
        vm.prank(client);
        assertEq(rounds.withdrawEscrow(scheduler), DEPOSIT);
        assertEq(token.balanceOf(client), DEPOSIT);
    }

    function test_a_scheduler_draws_on_no_escrow_of_another() public {
        Book memory b = draft(1, 1, 0);
        address own = scheduler;
        scheduler = makeAddr("second scheduler");
        fund(scheduler, STAKE, address(staking));
        vm.prank(scheduler);
        staking.registerScheduler(STAKE, "http://second", VRF_KEY);
        _expectNoSettlement(
            b,
            abi.encodeWithSelector(
                Bank.EscrowInsufficient.selector, b.debits[0].account, b.debits[0].amount, 0
            )
        );
        // Each goes on with its own clients: the two rounds share neither holds nor voids.
        uint256 idle = rounds.roundCount();
        settleRound(idle, "root", new Line[](0), new Line[](0));
        scheduler = own;
        post(b);
        _asCourt();
        rounds.hold(idle);
        rounds.voidJob(idle, 0);
        vm.stopPrank();
        passWindow(b.roundId);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundHeld.selector, idle));
        rounds.payRound(idle, at(idle), new Line[](0), 0);
    }

    // --- pay ---

    function test_no_pay_in_the_challenge_window() public {
        Book memory b = _posted(1);
        uint256 last = at(b.roundId).finalBlock;
        assertEq(last, vm.getBlockNumber() + params.challengeWindowBlocks);
        vm.roll(last);
        vm.expectRevert(abi.encodeWithSelector(Rounds.WindowOpen.selector, b.roundId, last));
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        vm.roll(last + 1);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
    }

    function test_other_lines_are_not_paid() public {
        Book memory b = _posted(1);
        passWindow(b.roundId);
        b.credits[0].amount -= 1;
        vm.expectRevert(abi.encodeWithSelector(Rounds.LinesMismatch.selector, b.roundId));
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
    }

    function test_a_page_goes_forward_and_not_past_the_end() public {
        Book memory b = _posted(8);
        uint256 lines = b.credits.length;
        passWindow(b.roundId);
        vm.expectRevert(abi.encodeWithSelector(Rounds.CursorInvalid.selector, lines + 1, lines));
        rounds.payRound(b.roundId, at(b.roundId), b.credits, lines + 1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.CursorInvalid.selector, 0, lines));
        rounds.payRound(b.roundId, at(b.roundId), b.credits, 0);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, 2);
        assertEq(rounds.pending(b.roundId).cursor, 2);
        vm.expectRevert(abi.encodeWithSelector(Rounds.CursorInvalid.selector, 2, lines));
        rounds.payRound(b.roundId, at(b.roundId), b.credits, 2);
        vm.expectRevert(abi.encodeWithSelector(Rounds.CursorInvalid.selector, 1, lines));
        rounds.payRound(b.roundId, at(b.roundId), b.credits, 1);
    }

    function test_a_round_is_paid_once() public {
        Book memory b = _posted(1);
        passWindow(b.roundId);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundClosed.selector, b.roundId));
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        assertFalse(rounds.checkAny(b.roundId, at(b.roundId)));
    }

    function test_a_round_waits_for_every_hold() public {
        Book memory b = _posted(1);
        _asCourt();
        rounds.hold(b.roundId);
        rounds.hold(b.roundId);
        rounds.release(b.roundId);
        vm.stopPrank();
        passWindow(b.roundId);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundHeld.selector, b.roundId));
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        vm.prank(address(audit));
        rounds.release(b.roundId);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
    }

    function test_voids_are_deducted_before_pay() public {
        Book memory b = _posted(2);
        _void(b.roundId, 0);
        _void(b.roundId, 0); // once is enough
        passWindow(b.roundId);
        vm.expectRevert(abi.encodeWithSelector(Rounds.VoidsNotDeducted.selector, b.roundId, 1));
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
    }

    function test_a_refuted_round_is_not_paid() public {
        Book memory b = _posted(1);
        _refute(b.roundId);
        passWindow(b.roundId);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundIsRefuted.selector, b.roundId));
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
    }

    function test_a_round_of_rejected_jobs_closes_without_pay() public {
        Book memory b = draft(1, 2, 1);
        assertEq(b.credits.length, 0);
        post(b);
        passWindow(b.roundId);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, 0);
        assertEq(rounds.balances(scheduler), 0);
        assertFalse(rounds.checkAny(b.roundId, at(b.roundId)));
    }

    function testFuzz_any_split_into_pages_pays_the_same(uint256 seed, uint256 splits) public {
        Book memory b = draft(seed, 8, 3);
        post(b);
        passWindow(b.roundId);
        for (uint256 upTo = 1; upTo < b.credits.length; ++upTo) {
            if ((splits >> upTo) & 1 == 1) {
                rounds.payRound(b.roundId, at(b.roundId), b.credits, upTo);
            }
        }
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        assertPaid(b, 0);
    }

    // --- voided jobs ---

    function test_only_a_voided_job_is_deducted_and_only_once() public {
        Book memory b = _posted(2);
        RecordProof memory proof = prove(b, 1);
        bytes memory notVoided = abi.encodeWithSelector(Rounds.JobNotVoided.selector, 1);
        vm.expectRevert(notVoided);
        rounds.deductJob(b.roundId, at(b.roundId), proof, b.debits, b.credits);
        _void(b.roundId, 1);
        rounds.deductJob(b.roundId, at(b.roundId), proof, b.debits, b.credits);
        vm.expectRevert(notVoided);
        rounds.deductJob(b.roundId, at(b.roundId), proof, b.debits, b.credits);
        _void(b.roundId, 1); // no way back from deducted
        vm.expectRevert(notVoided);
        rounds.deductJob(b.roundId, at(b.roundId), proof, b.debits, b.credits);
    }

    function test_a_record_that_is_not_of_the_round_is_not_deducted() public {
        Book memory b = _posted(2);
        _void(b.roundId, 1);
        RecordProof memory proof = prove(b, 1);
        proof.record.schedulerFee += 1;
        vm.expectRevert(abi.encodeWithSelector(Records.RecordNotSettled.selector, 1));
        rounds.deductJob(b.roundId, at(b.roundId), proof, b.debits, b.credits);
    }

    function test_other_lines_are_not_deducted_from() public {
        Book memory b = _posted(2);
        _void(b.roundId, 1);
        bytes memory mismatch = abi.encodeWithSelector(Rounds.LinesMismatch.selector, b.roundId);
        b.debits[0].amount += 1;
        vm.expectRevert(mismatch);
        rounds.deductJob(b.roundId, at(b.roundId), prove(b, 1), b.debits, b.credits);
        b.debits[0].amount -= 1;
        b.credits[0].amount += 1;
        vm.expectRevert(mismatch);
        rounds.deductJob(b.roundId, at(b.roundId), prove(b, 1), b.debits, b.credits);
    }

    function test_a_job_voided_before_settlement_is_deducted_after_it() public {
        Book memory b = draft(1, 1, 0);
        uint256 id = commitRound("root", 1);
        _void(id, 0);
        vm.expectRevert(abi.encodeWithSelector(Records.RecordNotSettled.selector, 0));
        rounds.deductJob(id, at(id), prove(b, 0), b.debits, b.credits);
        verifyRound(id, "root", 1);
        settleRound(id, Ledgers.root(b.records), b.debits, b.credits);
        rounds.deductJob(id, at(id), prove(b, 0), b.debits, b.credits);
        assertEq(escrowOf(b.jobs[0].client), DEPOSIT);
    }

    function testFuzz_voided_jobs_are_refunded_to_the_wei_and_never_paid(
        uint256 seed,
        uint256 voids,
        uint256 order
    ) public {
        Book memory b = draft(seed, 6, 4);
        post(b);
        voids &= 63;
        for (uint256 i; i < 6; ++i) {
            // 5 and 6 are coprime: every job once, in one of several orders.
            uint256 index = (i * (order & 1 == 1 ? 5 : 1) + order / 2 % 6) % 6;
            if ((voids >> index) & 1 == 0) continue;
            _void(b.roundId, index);
            rounds.deductJob(b.roundId, at(b.roundId), prove(b, index), b.debits, b.credits);
            assertFalse(rounds.pending(b.roundId).refuted);
        }
        passWindow(b.roundId);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        assertPaid(b, voids);
    }

    /// @dev Each line in turn is one wei short of the record, and the same amounts refund the round.
    function test_lines_that_do_not_cover_a_voided_job_refute_the_round() public {
        for (uint256 party; party < 4; ++party) {
            Book memory b = draft(5, 1, 0);
            SettlementRecord memory r = b.records[0];
            if (party == 0) {
                b.debits[0].amount -= 1;
            } else if (party == 1) {
                _line(b.credits, r.worker).amount -= 1;
            } else if (party == 2) {
                _line(b.credits, r.verifiers[0]).amount -= 1;
            } else {
                b.credits[0].amount += 1; // at the scheduler's cost
            }
            post(b);
            _void(b.roundId, 0);
            rounds.deductJob(b.roundId, at(b.roundId), prove(b, 0), b.debits, b.credits);
            assertTrue(rounds.pending(b.roundId).refuted);
            rounds.refundRound(b.roundId, at(b.roundId), b.debits, 1);
            assertEq(escrowOf(b.debits[0].account), DEPOSIT);
            assertEq(owed(), token.balanceOf(address(rounds)));
        }
    }

    function test_a_line_that_is_missing_refutes_the_round() public {
        Book memory b = draft(5, 1, 0);
        b.credits = new Line[](0);
        post(b);
        _void(b.roundId, 0);
        rounds.deductJob(b.roundId, at(b.roundId), prove(b, 0), b.debits, b.credits);
        assertTrue(rounds.pending(b.roundId).refuted);
    }

    function test_nothing_is_deducted_from_a_refuted_round() public {
        Book memory b = _posted(1);
        _void(b.roundId, 0);
        _refute(b.roundId);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundIsRefuted.selector, b.roundId));
        rounds.deductJob(b.roundId, at(b.roundId), prove(b, 0), b.debits, b.credits);
    }

    // --- refuted rounds ---

    function test_only_a_refuted_round_is_refunded_and_only_once() public {
        Book memory b = _posted(1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.NotRefuted.selector, b.roundId));
        rounds.refundRound(b.roundId, at(b.roundId), b.debits, 1);
        _refute(b.roundId);
        rounds.refundRound(b.roundId, at(b.roundId), b.debits, 1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundClosed.selector, b.roundId));
        rounds.refundRound(b.roundId, at(b.roundId), b.debits, 1);
        assertEq(escrowOf(b.debits[0].account), DEPOSIT);
    }

    function test_other_lines_are_not_refunded() public {
        Book memory b = _posted(1);
        _refute(b.roundId);
        b.debits[0].amount += 1;
        vm.expectRevert(abi.encodeWithSelector(Rounds.LinesMismatch.selector, b.roundId));
        rounds.refundRound(b.roundId, at(b.roundId), b.debits, 1);
    }

    function test_a_refund_page_goes_forward_and_not_past_the_end() public {
        Book memory b = _posted(8);
        uint256 lines = b.debits.length;
        _refute(b.roundId);
        vm.expectRevert(abi.encodeWithSelector(Rounds.CursorInvalid.selector, lines + 1, lines));
        rounds.refundRound(b.roundId, at(b.roundId), b.debits, lines + 1);
        rounds.refundRound(b.roundId, at(b.roundId), b.debits, 1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.CursorInvalid.selector, 1, lines));
        rounds.refundRound(b.roundId, at(b.roundId), b.debits, 1);
    }

    function testFuzz_a_refuted_round_returns_every_wei_also_after_deductions(
        uint256 seed,
        uint256 voids,
        uint256 splits
    ) public {
        Book memory b = draft(seed, 6, 4);
        post(b);
        for (uint256 i; i < 6; ++i) {
            if ((voids >> i) & 1 == 0) continue;
            _void(b.roundId, i);
            rounds.deductJob(b.roundId, at(b.roundId), prove(b, i), b.debits, b.credits);
        }
        _refute(b.roundId);
        for (uint256 upTo = 1; upTo < b.debits.length; ++upTo) {
            if ((splits >> upTo) & 1 == 1) rounds.refundRound(b.roundId, at(b.roundId), b.debits, upTo);
        }
        rounds.refundRound(b.roundId, at(b.roundId), b.debits, b.debits.length);
        for (uint256 i; i < CLIENTS; ++i) {
            assertEq(escrowOf(clientAt(i)), DEPOSIT);
        }
        assertEq(owed(), token.balanceOf(address(rounds)));
        assertEq(rounds.balances(scheduler), 0);
    }

    // --- versions of the parameters ---

    function test_a_round_keeps_the_parameters_under_which_it_began() public {
        Book memory b = draft(2, 1, 0);
        uint256 id = commitRound("root", 1);
        Params memory next = params;
        next.challengeWindowBlocks += 5;
        next.randomnessDelayBlocks += 1;
        next.settleBlocks -= 10;
        parameters.publish(next);
        verifyRound(id, "root", 1); // by the delay of version 1
        settleRound(id, Ledgers.root(b.records), b.debits, b.credits); // by its window
        rounds.check(id, at(id));
        params = next;
        uint256 second = commitRound("root", 1);
        assertEq(at(second).paramsVersion, 2);
        rounds.check(second, at(second));
    }

    function test_a_requeue_keeps_the_delay_under_which_the_round_began() public {
        uint256 id = commitRound("root", 1);
        Params memory next = params;
        next.randomnessDelayBlocks += 1;
        parameters.publish(next);
        Round memory r = at(id);
        vm.roll(r.verifierBlock + HORIZON + 1);
        rounds.requeue(id, r);
        r.verifierBlock = uint64(vm.getBlockNumber() + params.randomnessDelayBlocks);
        rounds.check(id, r);
    }

    // --- courts ---

    function test_only_courts_hold_void_and_refute() public {
        Book memory b = _posted(1);
        bytes memory notCourt = abi.encodeWithSelector(Courts.NotCourt.selector, scheduler);
        vm.startPrank(scheduler);
        vm.expectRevert(notCourt);
        rounds.hold(b.roundId);
        vm.expectRevert(notCourt);
        rounds.release(b.roundId);
        vm.expectRevert(notCourt);
        rounds.voidJob(b.roundId, 0);
        vm.expectRevert(notCourt);
        rounds.refute(b.roundId);
    }

    function test_courts_are_named_once_and_by_the_deployer() public {
        address[] memory courts = new address[](1);
        courts[0] = scheduler;
        vm.expectRevert(Courts.CourtsAlreadySet.selector);
        rounds.setCourts(courts);
        bytes memory arguments = abi.encode(token, staking, randomness, parameters);
        Rounds fresh = Rounds(deployCode("Rounds.sol:Rounds", arguments));
        vm.prank(scheduler);
        vm.expectRevert(Courts.CourtsAlreadySet.selector);
        fresh.setCourts(courts);
        vm.expectEmit(address(fresh));
        emit Courts.CourtNamed(scheduler);
        fresh.setCourts(courts);
        assertTrue(fresh.isCourt(scheduler));
    }

    function test_a_hold_that_is_not_there_cannot_be_released() public {
        uint256 id = commitRound("root", 1);
        vm.prank(address(audit));
        vm.expectRevert(stdError.arithmeticError);
        rounds.release(id);
    }

    // --- helpers ---

    function _posted(uint256 jobs) private returns (Book memory b) {
        b = draft(11, jobs, 0);
        post(b);
    }

    function _pause() private {
        vm.prank(guardian);
        parameters.setPaused(true);
    }

    function _asCourt() private {
        vm.startPrank(address(audit));
    }

    function _void(uint256 roundId, uint256 index) private {
        vm.prank(address(audit));
        rounds.voidJob(roundId, index);
    }

    function _refute(uint256 roundId) private {
        vm.prank(address(audit));
        rounds.refute(roundId);
    }

    /// @dev A round that is ready to be settled refuses the book with this error, and keeps its state.
    function _expectNoSettlement(Book memory b, bytes memory reason) private {
        uint256 id = commitRound("root", 1);
        verifyRound(id, "root", 1);
        bytes memory header = reach(at(id).positionBlock);
        vm.prank(scheduler);
        vm.expectRevert(reason);
        rounds.settleRound(id, at(id), "root", b.debits, b.credits, header);
        rounds.check(id, at(id));
    }

    function _line(Line[] memory lines, address account) private pure returns (Line memory) {
        uint256 i;
        while (lines[i].account != account) ++i;
        return lines[i];
    }

    function _lines(address first, address second) private pure returns (Line[] memory lines) {
        lines = new Line[](2);
        (lines[0].account, lines[1].account) = (first, second);
    }

    /// @dev A line for each client, sorted by account.
    function _clientLines(uint128[3] memory amounts) private pure returns (Line[] memory lines) {
        lines = new Line[](CLIENTS);
        for (uint256 i; i < CLIENTS; ++i) {
            uint256 smaller;
            for (uint256 j; j < CLIENTS; ++j) {
                if (clientAt(j) < clientAt(i)) ++smaller;
            }
            lines[smaller] = Line(clientAt(i), 0, amounts[i]);
        }
    }
}

/// @notice What a round of one job costs in all, when its parties have been paid before.
contract RoundGasTest is Books {
    uint256 private constant LIMIT = 300_000;

    function setUp() public override {
        super.setUp();
        Book memory b = draft(1, 1, 0);
        post(b);
        passWindow(b.roundId);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
    }

    /// @dev Isolated, each call is a transaction of its own, with cold storage and the cost of its calldata.
    /// forge-config: default.isolate = true
    function test_a_round_of_one_costs_at_most_300k() public {
        Book memory b = draft(1, 1, 0);
        uint256 before = vm.snapshotState();
        vm.prank(scheduler);
        rounds.commitRound(modelId, "commitments", 1);
        uint256 gas = _last();
        vm.revertToState(before);
        b.roundId = commitRound("commitments", 1);
        verifyRound(b.roundId, "verifications", 1);
        gas += _last();
        settleRound(b.roundId, Ledgers.root(b.records), b.debits, b.credits);
        gas += _last();
        passWindow(b.roundId);
        Round memory r = at(b.roundId);
        rounds.payRound(b.roundId, r, b.credits, b.credits.length);
        gas += _last();
        emit log_named_uint("round of one, gas", gas);
        assertLe(gas, LIMIT);
    }

    function _last() private view returns (uint256) {
        uint256 used = vm.lastCallGas().gasTotalUsed;
        assertGt(used, 21_000, "not a transaction of its own");
        return used;
    }
}
