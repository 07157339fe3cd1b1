// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Audit} from "../src/Audit.sol";
import {Judge} from "../src/Judge.sol";
import {Rounds} from "../src/Rounds.sol";
import {Records} from "../src/libraries/Records.sol";
import {
    BPS,
    BURN,
    CommitmentProof,
    Job,
    Line,
    Link,
    NO_JOB,
    RecordProof,
    ROLE_VERIFIER,
    Round,
    SCHEDULER_POOL,
    SettlementRecord,
    VERDICT_ACCEPT,
    VERDICT_REJECT,
    VERDICT_UNABLE
} from "../src/Types.sol";
import {Books} from "./helpers/Books.sol";
import {Ledgers} from "./helpers/Ledgers.sol";
import {Transcripts} from "./helpers/Transcripts.sol";

/// @dev The challenges as an outsider tries them; what a lying scheduler did to a book.
abstract contract AuditWorld is Books {
    uint256 internal constant RECORD_FAULTS = 15;
    uint256 internal constant JOB_FAULTS = 6;

    // --- calls ---

    function challengeRecord(Book memory b, uint256 index) internal returns (bool) {
        return _try(
            abi.encodeCall(
                Audit.challengeRecord,
                (b.roundId, at(b.roundId), prove(b, index), b.jobs[index], b.workers[index])
            )
        );
    }

    function challengeChain(Book memory b, uint256 index, uint256 slot, bool atFirst, uint256 earlier)
        internal
        returns (bool)
    {
        return _tryChain(b.roundId, prove(b, index), slot, atFirst, prove(b, earlier));
    }

    function challengeLine(Book memory b, bool paying, address account, uint256 index)
        internal
        returns (bool)
    {
        return _tryLine(b.roundId, paying ? b.debits : b.credits, paying, account, prove(b, index));
    }

    /// @notice Try every challenge of sums with all arguments that the book gives.
    function challengeAnySum(Book memory b) internal returns (bool) {
        RecordProof[] memory proofs = new RecordProof[](b.records.length);
        for (uint256 i; i < proofs.length; ++i) {
            proofs[i] = prove(b, i);
        }
        for (uint256 i; i < proofs.length; ++i) {
            for (uint256 slot; slot < b.records[i].verifiers.length + 2; ++slot) {
                if (_tryChain(b.roundId, proofs[i], slot, true, proofs[0])) return true;
                for (uint256 j; j < proofs.length; ++j) {
                    if (_tryChain(b.roundId, proofs[i], slot, false, proofs[j])) return true;
                }
            }
            if (_tryAnyLine(b.roundId, b.debits, true, proofs[i])) return true;
            if (_tryAnyLine(b.roundId, b.credits, false, proofs[i])) return true;
        }
        return false;
    }

    function challengeAnyRecord(Book memory b) internal returns (bool) {
        for (uint256 i; i < b.records.length; ++i) {
            if (challengeRecord(b, i)) return true;
        }
        return false;
    }

    /// @dev Accounts of the lines, and everybody else that the tests know.
    function _tryAnyLine(uint256 roundId, Line[] memory lines, bool paying, RecordProof memory job)
        private
        returns (bool)
    {
        for (uint256 k; k < lines.length; ++k) {
            if (_tryLine(roundId, lines, paying, lines[k].account, job)) return true;
        }
        for (uint256 k; k < CLIENTS; ++k) {
            if (_tryLine(roundId, lines, paying, clientAt(k), job)) return true;
        }
        for (uint256 k; k < OPERATORS; ++k) {
            if (_tryLine(roundId, lines, paying, operatorAt(k), job)) return true;
        }
        return _tryLine(roundId, lines, paying, scheduler, job);
    }

    function _tryChain(
        uint256 roundId,
        RecordProof memory job,
        uint256 slot,
        bool atFirst,
        RecordProof memory earlier
    ) private returns (bool) {
        return _try(abi.encodeCall(Audit.challengeChain, (roundId, at(roundId), job, slot, atFirst, earlier)));
    }

    function _tryLine(
        uint256 roundId,
        Line[] memory lines,
        bool paying,
        address account,
        RecordProof memory job
    ) private returns (bool) {
        return _try(abi.encodeCall(Audit.challengeLine, (roundId, at(roundId), lines, paying, account, job)));
    }

    function _try(bytes memory data) private returns (bool success) {
        vm.prank(challenger);
        (success,) = address(audit).call(data);
    }

    // --- faults ---

    /// @notice Settle something else than what job `index` and its worker's commitment say.
    function corrupt(Book memory b, uint256 index, uint256 fault) internal pure {
        SettlementRecord memory r = b.records[index];
        if (fault == 0) {
            r.workerFee += 1;
        } else if (fault == 1) {
            r.verifierFee += 1;
        } else if (fault == 2) {
            r.schedulerFee += 1;
        } else if (fault == 3) {
            _reject(r); // and pay
        } else if (fault == 4) {
            (r.outcome, r.workerFee, r.verifierFee, r.schedulerFee) = (VERDICT_REJECT, 0, 0, 0);
        } else if (fault == 5) {
            r.worker = address(0xBAD);
        } else if (fault == 6) {
            r.promptTokens += 1;
        } else if (fault == 7) {
            r.outputTokens -= 1;
        } else if (fault == 8) {
            r.client = clientAt(r.client == clientAt(0) ? 1 : 0);
        } else if (fault == 9) {
            r.jobId = "another job";
        } else if (fault == 10) {
            r.verifiers[r.verifiers.length - 1] = r.worker;
        } else if (fault == 11) {
            r.outcome = VERDICT_UNABLE;
        } else if (fault == 12) {
            r.verdicts = new uint8[](r.verdicts.length + 1);
        } else if (fault == 13) {
            _repeat(r);
        }
        reckon(b);
        if (fault == 14) r.links = new Link[](r.links.length + 1);
    }

    /// @notice A job that no scheduler may settle as accepted.
    function corruptJob(Book memory b, uint256 index, uint256 fault) internal view {
        Job memory job = b.jobs[index];
        if (fault == 0) job.scheduler = address(0xBAD);
        else if (fault == 1) job.modelId = "another model";
        else if (fault == 2) job.deadline = uint64(vm.getBlockTimestamp() - 1);
        else if (fault == 3) job.verifiers = 0;
        else if (fault == 4) job.maxOutputTokens = Transcripts.OUTPUT - 1;
        else job.inputPrice += 1;
        b.records[index].jobId = rounds.jobId(job);
    }

    function _reject(SettlementRecord memory r) private pure {
        for (uint256 i; i < r.verdicts.length; ++i) {
            r.verdicts[i] = VERDICT_REJECT;
        }
    }

    function repeats(SettlementRecord memory r) internal pure returns (bool) {
        for (uint256 i; i < r.verifiers.length; ++i) {
            if (r.verifiers[i] == r.worker || (i > 0 && r.verifiers[i] == r.verifiers[0])) return true;
        }
        return false;
    }

    /// @dev One verifier as two, who both accept.
    function _repeat(SettlementRecord memory r) private pure {
        address twice = r.verifiers[0];
        (r.verifiers, r.verdicts) = (new address[](2), new uint8[](2));
        (r.verifiers[0], r.verifiers[1]) = (twice, twice);
        (r.verdicts[0], r.verdicts[1]) = (VERDICT_ACCEPT, VERDICT_ACCEPT);
    }

    // --- ends ---

    function assertSlashed(uint256 bps) internal view {
        uint256 taken = STAKE * bps / BPS;
        uint256 reward = taken * params.challengerShareBps / BPS;
        assertEq(staking.stakeOf(SCHEDULER_POOL, scheduler), STAKE - taken);
        assertEq(rounds.balances(challenger), reward);
        assertEq(token.balanceOf(BURN), taken - reward);
        assertEq(rounds.reserve(), 0);
    }

    /// @notice The settlement is void: every client gets everything back, and nobody is paid.
    function assertRefunded(Book memory b) internal {
        assertTrue(rounds.pending(b.roundId).refuted);
        rounds.refundRound(b.roundId, at(b.roundId), b.debits, b.debits.length);
        for (uint256 i; i < CLIENTS; ++i) {
            assertEq(escrowOf(clientAt(i)), DEPOSIT);
        }
        assertEq(rounds.balances(scheduler), 0);
        assertEq(owed(), token.balanceOf(address(rounds)));
    }

    /// @notice One job is void: its client gets its money back, and everybody else is paid.
    function assertVoided(Book memory b, uint256 index) internal {
        assertEq(uint8(rounds.jobState(b.roundId, index)), uint8(Rounds.JobState.Voided));
        rounds.deductJob(b.roundId, at(b.roundId), prove(b, index), b.debits, b.credits);
        if (rounds.pending(b.roundId).refuted) return assertRefunded(b);
        passWindow(b.roundId);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        assertPaid(b, 1 << index);
    }
}

contract AuditRecordTest is AuditWorld {
    // --- refused ---

    function test_a_record_that_follows_is_refused() public {
        Book memory b = _signed(2);
        post(b);
        vm.expectRevert(abi.encodeWithSelector(Audit.RecordFollows.selector, 1));
        audit.challengeRecord(b.roundId, at(b.roundId), prove(b, 1), b.jobs[1], b.workers[1]);
    }

    function testFuzz_no_honest_record_can_be_challenged(uint256 seed, uint8 count) public {
        Book memory b = draft(seed, bound(count, 1, 8), 3);
        signWorkers(b);
        post(b);
        assertFalse(challengeAnyRecord(b));
        passWindow(b.roundId);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        assertPaid(b, 0);
    }

    function test_a_job_that_is_not_the_records_is_refused() public {
        Book memory b = _signed(2);
        post(b);
        vm.expectRevert(abi.encodeWithSelector(Judge.JobMismatch.selector, b.records[1].jobId));
        audit.challengeRecord(b.roundId, at(b.roundId), prove(b, 1), b.jobs[0], b.workers[1]);
    }

    function test_the_commitment_of_another_job_is_refused() public {
        Book memory b = _signed(2);
        post(b);
        vm.expectRevert(abi.encodeWithSelector(Audit.IndexInvalid.selector, 0, 2));
        audit.challengeRecord(b.roundId, at(b.roundId), prove(b, 1), b.jobs[1], b.workers[0]);
    }

    function test_a_commitment_that_is_not_in_the_round_is_refused() public {
        Book memory b = _signed(2);
        corrupt(b, 1, 0);
        post(b);
        CommitmentProof memory p = b.workers[1];
        p.commitment.role = ROLE_VERIFIER;
        bytes memory notInRound = abi.encodeWithSelector(Judge.NotInRound.selector, p.commitment.operator);
        vm.expectRevert(notInRound);
        audit.challengeRecord(b.roundId, at(b.roundId), prove(b, 1), b.jobs[1], p);
        p.commitment.role = 0;
        p.leafProof[0] = "another leaf";
        vm.expectRevert(notInRound);
        audit.challengeRecord(b.roundId, at(b.roundId), prove(b, 1), b.jobs[1], p);
    }

    function test_a_commitment_that_its_operator_did_not_sign_is_refused() public {
        Book memory b = _signed(2);
        post(b);
        CommitmentProof memory p = b.workers[1];
        p.commitment.outputTokens += 1; // would contradict the record
        p.signature = sign(digestOf(p.commitment), CLIENT_KEY);
        vm.expectRevert(abi.encodeWithSelector(Judge.SignatureInvalid.selector, p.commitment.operator));
        audit.challengeRecord(b.roundId, at(b.roundId), prove(b, 1), b.jobs[1], p);
    }

    function test_a_record_that_is_not_settled_is_refused() public {
        Book memory b = _signed(2);
        post(b);
        RecordProof memory p = prove(b, 1);
        p.record.workerFee += 1;
        vm.expectRevert(abi.encodeWithSelector(Records.RecordNotSettled.selector, 1));
        audit.challengeRecord(b.roundId, at(b.roundId), p, b.jobs[1], b.workers[1]);
    }

    function test_a_record_is_punished_once() public {
        Book memory b = _signed(2);
        corrupt(b, 1, 0);
        post(b);
        assertTrue(challengeRecord(b, 1));
        vm.expectRevert(Audit.AlreadyPunished.selector);
        audit.challengeRecord(b.roundId, at(b.roundId), prove(b, 1), b.jobs[1], b.workers[1]);
        assertVoided(b, 1);
    }

    function test_a_final_round_cannot_be_challenged() public {
        Book memory b = _signed(2);
        corrupt(b, 1, 0);
        post(b);
        passWindow(b.roundId);
        vm.expectRevert(abi.encodeWithSelector(Judge.RoundIsFinal.selector, b.roundId));
        audit.challengeRecord(b.roundId, at(b.roundId), prove(b, 1), b.jobs[1], b.workers[1]);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundClosed.selector, b.roundId));
        audit.challengeRecord(b.roundId, at(b.roundId), prove(b, 1), b.jobs[1], b.workers[1]);
    }

    /// @dev Or the window could be spent by voiding a job whose record nobody can show.
    function test_a_round_stays_open_to_challenges_while_a_void_waits() public {
        Book memory b = _signed(3);
        corrupt(b, 1, 0);
        post(b);
        vm.prank(address(tribunal));
        rounds.voidJob(b.roundId, 0);
        passWindow(b.roundId);
        assertTrue(challengeRecord(b, 1));
        rounds.deductJob(b.roundId, at(b.roundId), prove(b, 0), b.debits, b.credits);
        rounds.deductJob(b.roundId, at(b.roundId), prove(b, 1), b.debits, b.credits);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        assertPaid(b, 3);
    }

    // --- upheld ---

    function test_a_record_with_any_fault_is_void_and_costs_the_stake() public {
        for (uint256 fault; fault < RECORD_FAULTS; ++fault) {
            uint256 before = vm.snapshotState();
            Book memory b = _signed(3);
            corrupt(b, 1, fault);
            _assertUpheld(b, fault);
            vm.revertToState(before);
        }
    }

    function test_a_record_of_a_job_that_may_not_be_paid_is_void() public {
        for (uint256 fault; fault < JOB_FAULTS; ++fault) {
            uint256 before = vm.snapshotState();
            Book memory b = draft(4, 3, 0);
            corruptJob(b, 1, fault);
            signWorkers(b);
            _assertUpheld(b, fault);
            vm.revertToState(before);
        }
    }

    function testFuzz_a_fee_that_differs_by_any_amount_is_void(uint256 seed, uint8 field, uint128 by) public {
        Book memory b = draft(seed, 3, 0);
        signWorkers(b);
        by = uint128(bound(by, 1, 10 ether));
        SettlementRecord memory r = b.records[1];
        if (field % 3 == 0) r.workerFee += by;
        else if (field % 3 == 1) r.verifierFee += by;
        else r.schedulerFee += by;
        reckon(b);
        _assertUpheld(b, field % 3);
    }

    function _signed(uint256 count) private view returns (Book memory b) {
        b = draft(4, count, 0);
        signWorkers(b);
    }

    function _assertUpheld(Book memory b, uint256 fault) private {
        post(b);
        assertFalse(challengeRecord(b, 0));
        assertTrue(challengeRecord(b, 1), vm.toString(fault));
        assertSlashed(params.slashBpsSettlement);
        if (b.records[1].links.length == b.records[1].verifiers.length + 2 && !repeats(b.records[1])) {
            assertVoided(b, 1);
        } else {
            // The sums cannot be followed through this record, so that the round has no right end but this.
            assertTrue(challengeChain(b, 1, 0, true, 0));
            assertRefunded(b);
        }
    }
}

contract AuditSumsTest is AuditWorld {
    // --- refused ---

    /// forge-config: default.fuzz.runs = 24
    function testFuzz_no_honest_sum_can_be_challenged(uint256 seed, uint8 count) public {
        Book memory b = draft(seed, bound(count, 1, 8), 3);
        post(b);
        assertFalse(challengeAnySum(b));
        passWindow(b.roundId);
        rounds.payRound(b.roundId, at(b.roundId), b.credits, b.credits.length);
        assertPaid(b, 0);
    }

    function test_a_chain_that_follows_is_refused() public {
        Book memory b = _chained();
        post(b);
        bytes memory follows = abi.encodeWithSelector(Audit.ChainFollows.selector, 2);
        vm.expectRevert(follows);
        audit.challengeChain(b.roundId, at(b.roundId), prove(b, 2), 0, false, prove(b, 1));
        vm.expectRevert(follows);
        audit.challengeChain(b.roundId, at(b.roundId), prove(b, 2), 0, true, prove(b, 1));
        vm.expectRevert(follows); // before the one that the link names
        audit.challengeChain(b.roundId, at(b.roundId), prove(b, 2), 0, false, prove(b, 0));
    }

    function test_a_slot_or_an_earlier_record_that_is_not_there_is_refused() public {
        Book memory b = _chained();
        post(b);
        vm.expectRevert(abi.encodeWithSelector(Audit.IndexInvalid.selector, 3, 3));
        audit.challengeChain(b.roundId, at(b.roundId), prove(b, 2), 3, false, prove(b, 1));
        vm.expectRevert(abi.encodeWithSelector(Audit.IndexInvalid.selector, 2, 2));
        audit.challengeChain(b.roundId, at(b.roundId), prove(b, 2), 0, false, prove(b, 2));
        RecordProof memory foreign = prove(b, 1);
        RecordProof memory known = prove(b, 2);
        foreign.record.links[0].total += 1;
        vm.expectRevert(abi.encodeWithSelector(Records.RecordNotSettled.selector, 1));
        audit.challengeChain(b.roundId, at(b.roundId), known, 0, false, foreign);
        vm.expectRevert(abi.encodeWithSelector(Records.RecordNotSettled.selector, 1));
        audit.challengeChain(b.roundId, at(b.roundId), foreign, 0, true, known);
    }

    function test_a_line_that_follows_or_is_not_the_rounds_is_refused() public {
        Book memory b = _chained();
        post(b);
        vm.expectRevert(abi.encodeWithSelector(Audit.LineFollows.selector, client));
        audit.challengeLine(b.roundId, at(b.roundId), b.debits, true, client, prove(b, 3));
        vm.expectRevert(abi.encodeWithSelector(Audit.LineFollows.selector, client)); // it earns nothing
        audit.challengeLine(b.roundId, at(b.roundId), b.credits, false, client, prove(b, 3));
        vm.expectRevert(abi.encodeWithSelector(Rounds.LinesMismatch.selector, b.roundId));
        audit.challengeLine(b.roundId, at(b.roundId), b.credits, true, client, prove(b, 3));
        b.debits[0].amount -= 1;
        vm.expectRevert(abi.encodeWithSelector(Rounds.LinesMismatch.selector, b.roundId));
        audit.challengeLine(b.roundId, at(b.roundId), b.debits, true, client, prove(b, 3));
    }

    function test_a_settlement_is_refuted_once_and_not_after_its_window() public {
        Book memory b = _chained();
        b.debits[0].amount += 1;
        post(b);
        uint256 open = vm.snapshotState();
        passWindow(b.roundId);
        vm.expectRevert(abi.encodeWithSelector(Judge.RoundIsFinal.selector, b.roundId));
        audit.challengeLine(b.roundId, at(b.roundId), b.debits, true, client, prove(b, 3));
        vm.expectRevert(abi.encodeWithSelector(Judge.RoundIsFinal.selector, b.roundId));
        audit.challengeChain(b.roundId, at(b.roundId), prove(b, 0), 0, true, prove(b, 0));
        vm.revertToState(open);
        assertTrue(challengeLine(b, true, client, 3));
        vm.expectRevert(Audit.AlreadyPunished.selector);
        audit.challengeLine(b.roundId, at(b.roundId), b.debits, true, client, prove(b, 3));
        assertRefunded(b);
    }

    // --- chains ---

    function test_a_wrong_first_total_refutes() public {
        for (uint256 slot; slot < 3; ++slot) {
            for (uint256 less; less < 2; ++less) {
                Book memory b = _chained();
                if (less == 0) b.records[0].links[slot].total += 1;
                else b.records[0].links[slot].total -= 1;
                _assertChainRefuted(b, 0, slot, true, 0);
            }
        }
    }

    function test_a_wrong_later_total_refutes() public {
        for (uint256 slot; slot < 3; ++slot) {
            Book memory b = _chained();
            b.records[2].links[slot].total -= 1;
            _assertChainRefuted(b, 2, slot, false, 1);
        }
    }

    function test_a_skipped_job_refutes() public {
        for (uint256 slot; slot < 3; ++slot) {
            Book memory b = _chained();
            uint128 amount = b.records[0].links[slot].total;
            b.records[2].links[slot] = Link(0, 2 * amount);
            _assertChainRefuted(b, 2, slot, false, 1);
        }
    }

    function test_a_job_called_the_first_that_is_not_refutes() public {
        for (uint256 slot; slot < 3; ++slot) {
            Book memory b = _chained();
            b.records[3].links[slot] = Link(NO_JOB, b.records[0].links[slot].total);
            _assertChainRefuted(b, 3, slot, false, 2);
        }
    }

    function test_a_link_that_points_to_itself_or_forward_refutes() public {
        for (uint32 to = 1; to < 6; ++to) {
            Book memory b = _chained();
            b.records[1].links[0].previous = to;
            _assertChainRefuted(b, 1, 0, to % 2 == 0, 0);
        }
    }

    function test_a_link_to_a_job_without_the_account_refutes() public {
        Book memory b = _chained();
        b.records[1].worker = operatorAt(4);
        reckon(b);
        b.records[2].links[1].previous = 1;
        _assertChainRefuted(b, 2, 1, false, 1);
    }

    /// @dev Without links no sum could be refuted: not their amounts but their number is the fault.
    function test_a_record_with_links_for_others_than_its_parties_refutes() public {
        for (uint256 links; links < 5; ++links) {
            if (links == 3) continue;
            Book memory b = _chained();
            b.records[3].links = new Link[](links);
            b.debits[0].amount += 100 ether;
            _assertChainRefuted(b, 3, 7, true, 0);
        }
    }

    /// @dev Its lines cannot hold both amounts: deducting the job would take what the account earned elsewhere.
    function test_a_record_that_pays_an_account_twice_refutes() public {
        for (uint256 as_; as_ < 2; ++as_) {
            Book memory b = _chained();
            SettlementRecord memory r = b.records[2];
            (r.verifiers, r.verdicts) = (new address[](2), new uint8[](2));
            (r.verifiers[0], r.verifiers[1]) = (verifier, as_ == 0 ? verifier : worker);
            reckon(b);
            _assertChainRefuted(b, 2, 0, false, 1);
        }
    }

    // --- lines ---

    function test_a_line_too_large_or_too_small_refutes() public {
        for (uint256 kind; kind < 6; ++kind) {
            Book memory b = _chained();
            Line memory line = kind < 2 ? b.debits[0] : b.credits[kind / 2 - 1];
            // A debit must still cover the credits, a credit must still be covered.
            if (kind % 2 == 0) line.amount += 1;
            else line.amount -= 1;
            _assertLineRefuted(b, kind < 2, line.account, 3);
        }
    }

    function test_a_line_that_is_missing_refutes() public {
        Book memory b = _chained();
        address account = b.credits[1].account;
        Line[] memory credits = new Line[](1);
        credits[0] = b.credits[0];
        b.credits = credits;
        _assertLineRefuted(b, false, account, 0);
    }

    function test_a_line_that_ends_before_the_last_job_refutes() public {
        Book memory b = _chained();
        b.credits[0].lastJob = 1;
        b.credits[0].amount /= 2;
        _assertLineRefuted(b, false, b.credits[0].account, 3);
    }

    function test_a_line_that_names_a_job_out_of_range_refutes() public {
        Book memory b = _chained();
        b.debits[0].lastJob = 4;
        _assertLineRefuted(b, true, client, 0);
        b = _chained();
        b.credits[0].lastJob = NO_JOB;
        _assertLineRefuted(b, false, b.credits[0].account, 0);
    }

    function test_a_line_for_an_account_without_jobs_refutes() public {
        Book memory b = _chained();
        b.credits = new Line[](1);
        b.credits[0] = Line(scheduler, 2, 1 ether);
        _assertLineRefuted(b, false, scheduler, 2);
        b = _chained();
        b.debits = _debitsOfStranger(b.debits[0]);
        _assertLineRefuted(b, true, clientAt(1), 2);
    }

    // --- anything ---

    /// @dev An auditor that tries everything finds the fault, unless it was refused at once.
    /// forge-config: default.fuzz.runs = 64
    function testFuzz_a_settlement_with_any_fault_can_be_refuted(uint256 seed, uint256 where, uint128 by)
        public
    {
        Book memory b = draft(seed, 1 + seed % 5, 0);
        signWorkers(b);
        by = uint128(bound(by, 1, 1 ether));
        _falsify(b, where, by);
        b.roundId = commitRound(commitRootOf(b), uint32(b.records.length));
        verifyRound(b.roundId, 0, 0);
        if (_settlementRefused(b)) return;
        assertTrue(challengeAnyRecord(b) || challengeAnySum(b));
        assertSlashed(params.slashBpsSettlement);
    }

    function _falsify(Book memory b, uint256 where, uint128 by) private pure {
        SettlementRecord memory r = b.records[(where >> 8) % b.records.length];
        Link memory l = r.links[(where >> 16) % r.links.length];
        Line memory line = b.credits[(where >> 24) % b.credits.length];
        Line memory debit = b.debits[(where >> 24) % b.debits.length];
        uint256 kind = where % 12;
        if (kind == 0) r.workerFee += by;
        else if (kind == 1) r.verifierFee -= by % r.verifierFee + 1;
        else if (kind == 2) r.schedulerFee += by;
        else if (kind == 3) l.total += by;
        else if (kind == 4) l.total -= by % l.total + 1;
        else if (kind == 5) l.previous ^= uint32(1 + by % 8);
        else if (kind == 6) line.amount += by;
        else if (kind == 7) line.amount -= by % line.amount + 1;
        else if (kind == 8) line.lastJob ^= uint32(1 + by % 8);
        else if (kind == 9) debit.amount += by;
        else if (kind == 10) debit.amount -= by % debit.amount + 1;
        else debit.lastJob ^= uint32(1 + by % 8);
    }

    function _settlementRefused(Book memory b) private returns (bool) {
        bytes32 root = Ledgers.root(b.records);
        try this.settle(b.roundId, root, b.debits, b.credits) {
            return false;
        } catch (bytes memory reason) {
            assertEq(bytes4(reason), Rounds.CreditsExceedDebits.selector);
            return true;
        }
    }

    function settle(uint256 roundId, bytes32 root, Line[] calldata debits, Line[] calldata credits) external {
        settleRound(roundId, root, debits, credits);
    }

    // --- helpers ---

    /// @dev Four jobs of one client with the same worker and verifier.
    function _chained() private view returns (Book memory b) {
        b.jobs = new Job[](4);
        b.records = new SettlementRecord[](4);
        for (uint256 i; i < 4; ++i) {
            b.jobs[i] = newJob(i);
            b.records[i] = newRecord(b.jobs[i], worker);
        }
        reckon(b);
    }

    function _debitsOfStranger(Line memory known) private pure returns (Line[] memory debits) {
        Line memory other = Line(clientAt(1), 2, 1 ether);
        bool first = other.account < known.account;
        debits = new Line[](2);
        (debits[0], debits[1]) = first ? (other, known) : (known, other);
    }

    function _assertChainRefuted(Book memory b, uint256 index, uint256 slot, bool atFirst, uint256 earlier)
        private
    {
        uint256 before = vm.snapshotState();
        post(b);
        assertTrue(challengeChain(b, index, slot, atFirst, earlier));
        assertSlashed(params.slashBpsSettlement);
        assertRefunded(b);
        vm.revertToState(before);
    }

    function _assertLineRefuted(Book memory b, bool paying, address account, uint256 index) private {
        uint256 before = vm.snapshotState();
        post(b);
        assertTrue(challengeLine(b, paying, account, index));
        assertSlashed(params.slashBpsSettlement);
        assertRefunded(b);
        vm.revertToState(before);
    }
}

contract AuditRoundTest is AuditWorld {
    // --- duplicates ---

    function test_the_same_job_twice_in_a_round_is_paid_once() public {
        Book memory b = _repeating();
        post(b);
        assertTrue(_challengeDuplicate(b, 0, b, 2));
        assertSlashed(params.slashBpsSettlement);
        assertVoided(b, 2);
    }

    function test_two_jobs_with_one_nonce_are_paid_once() public {
        Book memory b = _repeating();
        b.jobs[2].promptHash = "another prompt";
        b.records[2].jobId = rounds.jobId(b.jobs[2]);
        reckon(b);
        post(b);
        assertTrue(_challengeDuplicate(b, 0, b, 2));
        assertVoided(b, 2);
    }

    function test_a_job_of_a_round_that_was_paid_is_not_paid_again() public {
        Book memory first = draft(4, 2, 0);
        post(first);
        passWindow(first.roundId);
        rounds.payRound(first.roundId, at(first.roundId), first.credits, first.credits.length);
        uint256 held = escrowOf(first.jobs[1].client);
        Book memory second = draft(4, 2, 0);
        second.jobs[0].nonce = 77;
        second.records[0].jobId = rounds.jobId(second.jobs[0]);
        reckon(second);
        post(second);
        assertFalse(_challengeDuplicate(second, 1, first, 1)); // the first one stays
        assertTrue(_challengeDuplicate(first, 1, second, 1));
        assertSlashed(params.slashBpsSettlement);
        rounds.deductJob(second.roundId, at(second.roundId), prove(second, 1), second.debits, second.credits);
        passWindow(second.roundId);
        rounds.payRound(second.roundId, at(second.roundId), second.credits, second.credits.length);
        uint256 other = first.jobs[0].client == first.jobs[1].client ? feesOf(second.records[0]) : 0;
        assertEq(escrowOf(first.jobs[1].client), held - other);
        assertEq(owed(), token.balanceOf(address(rounds)));
    }

    function test_a_duplicate_is_punished_once() public {
        Book memory b = _repeating();
        post(b);
        assertTrue(_challengeDuplicate(b, 0, b, 2));
        vm.expectRevert(Audit.AlreadyPunished.selector);
        _callDuplicate(b, 0, b, 2);
    }

    function test_what_is_no_duplicate_is_refused() public {
        Book memory b = _repeating();
        post(b);
        vm.expectRevert(Audit.NotDuplicates.selector); // itself
        _callDuplicate(b, 2, b, 2);
        vm.expectRevert(Audit.NotDuplicates.selector); // the later one is the duplicate
        _callDuplicate(b, 2, b, 0);
        vm.expectRevert(Audit.NotDuplicates.selector); // another nonce
        _callDuplicate(b, 0, b, 1);
    }

    function test_the_nonce_of_another_client_is_no_duplicate() public {
        Book memory b = _repeating();
        b.jobs[2].client = clientAt(b.jobs[0].client == clientAt(0) ? 1 : 0);
        (b.records[2].client, b.records[2].jobId) = (b.jobs[2].client, rounds.jobId(b.jobs[2]));
        reckon(b);
        post(b);
        vm.expectRevert(Audit.NotDuplicates.selector);
        _callDuplicate(b, 0, b, 2);
    }

    /// @dev Otherwise a scheduler could settle a job as undecided until the drawn committee suits it.
    function test_a_job_stands_in_one_record_even_if_it_pays_nothing() public {
        uint256 fresh = vm.snapshotState();
        for (uint256 which; which < 3; which += 2) {
            vm.revertToState(fresh);
            Book memory b = _repeating();
            SettlementRecord memory r = b.records[which];
            (r.outcome, r.workerFee, r.verifierFee, r.schedulerFee) = (VERDICT_REJECT, 0, 0, 0);
            reckon(b);
            post(b);
            assertTrue(_challengeDuplicate(b, 0, b, 2));
        }
    }

    function test_a_nonce_may_serve_again_if_its_first_job_paid_nothing() public {
        Book memory b = _repeating();
        b.jobs[2].seed += 1;
        b.records[2].jobId = rounds.jobId(b.jobs[2]);
        SettlementRecord memory r = b.records[0];
        (r.outcome, r.workerFee, r.verifierFee, r.schedulerFee) = (VERDICT_REJECT, 0, 0, 0);
        reckon(b);
        post(b);
        vm.expectRevert(Audit.NotDuplicates.selector);
        _callDuplicate(b, 0, b, 2);
    }

    /// @dev Two schedulers cannot know of each other's jobs; the client signs for one of them.
    function test_the_nonce_with_another_scheduler_is_no_duplicate() public {
        Book memory b = draft(4, 1, 0);
        post(b);
        address known = scheduler;
        scheduler = _secondScheduler();
        vm.startPrank(b.jobs[0].client);
        token.mint(b.jobs[0].client, DEPOSIT);
        rounds.depositEscrow(scheduler, DEPOSIT);
        vm.stopPrank();
        Book memory c = draft(4, 1, 0);
        c.jobs[0].scheduler = scheduler;
        c.records[0].jobId = rounds.jobId(c.jobs[0]);
        post(c);
        vm.expectRevert(Audit.NotDuplicates.selector);
        _callDuplicate(b, 0, c, 0);
        scheduler = known;
    }

    function test_jobs_and_rounds_of_a_duplicate_are_checked() public {
        Book memory b = _repeating();
        post(b);
        Round memory wrong = at(b.roundId);
        wrong.total += 1;
        bytes memory mismatch = abi.encodeWithSelector(Rounds.RoundMismatch.selector, b.roundId);
        uint256[2] memory ids = [b.roundId, b.roundId];
        RecordProof[2] memory proofs = [prove(b, 0), prove(b, 2)];
        Job[2] memory jobs = [b.jobs[0], b.jobs[2]];
        vm.expectRevert(mismatch);
        audit.challengeDuplicate(ids, [wrong, at(b.roundId)], proofs, jobs);
        vm.expectRevert(mismatch);
        audit.challengeDuplicate(ids, [at(b.roundId), wrong], proofs, jobs);
        jobs[0] = b.jobs[1];
        vm.expectRevert(abi.encodeWithSelector(Judge.JobMismatch.selector, b.records[0].jobId));
        audit.challengeDuplicate(ids, [at(b.roundId), at(b.roundId)], proofs, jobs);
        proofs[1].record.workerFee += 1;
        jobs[0] = b.jobs[0];
        vm.expectRevert(abi.encodeWithSelector(Records.RecordNotSettled.selector, 2));
        audit.challengeDuplicate(ids, [at(b.roundId), at(b.roundId)], proofs, jobs);
    }

    function test_a_duplicate_in_a_final_round_is_refused() public {
        Book memory b = _repeating();
        post(b);
        passWindow(b.roundId);
        vm.expectRevert(abi.encodeWithSelector(Judge.RoundIsFinal.selector, b.roundId));
        _callDuplicate(b, 0, b, 2);
    }

    // --- abandoned rounds ---

    function test_a_round_is_not_abandoned_before_its_last_block_or_once_settled() public {
        uint256 id = commitRound("root", 1);
        bytes memory inTime = abi.encodeWithSelector(Audit.SettledInTime.selector, id);
        vm.roll(at(id).settleBy);
        vm.expectRevert(inTime);
        audit.slashAbandoned(id, at(id));
        Book memory b = draft(4, 1, 0);
        post(b);
        vm.roll(at(b.roundId).settleBy + 1);
        vm.expectRevert(abi.encodeWithSelector(Audit.SettledInTime.selector, b.roundId));
        audit.slashAbandoned(b.roundId, at(b.roundId));
    }

    function test_an_abandoned_round_costs_its_scheduler_a_part_of_the_stake_once() public {
        uint256 id = commitRound("root", 1);
        verifyRound(id, "root", 1);
        vm.roll(at(id).settleBy + 1);
        vm.prank(challenger);
        audit.slashAbandoned(id, at(id));
        assertSlashed(params.slashBpsWithheld);
        vm.expectRevert(Audit.AlreadyPunished.selector);
        audit.slashAbandoned(id, at(id));
        for (uint256 i; i < CLIENTS; ++i) {
            assertEq(escrowOf(clientAt(i)), DEPOSIT);
        }
    }

    function test_a_round_that_is_not_as_it_stands_cannot_be_abandoned() public {
        uint256 id = commitRound("root", 1);
        Round memory wrong = at(id);
        wrong.settleBy = 0;
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundMismatch.selector, id));
        audit.slashAbandoned(id, wrong);
    }

    // --- helpers ---

    /// @dev Three jobs, of which the last is the first once more, by another worker.
    function _repeating() private view returns (Book memory b) {
        b = draft(4, 3, 0);
        b.jobs[2] = draft(4, 1, 0).jobs[0];
        SettlementRecord memory r = draft(4, 1, 0).records[0];
        uint256 other;
        while (operatorAt(other) == r.worker || _verifies(r, operatorAt(other))) ++other;
        r.worker = operatorAt(other);
        b.records[2] = r;
        reckon(b);
    }

    function _verifies(SettlementRecord memory r, address account) private pure returns (bool) {
        for (uint256 i; i < r.verifiers.length; ++i) {
            if (r.verifiers[i] == account) return true;
        }
        return false;
    }

    function _secondScheduler() private returns (address second) {
        second = makeAddr("second scheduler");
        fund(second, STAKE, address(staking));
        vm.prank(second);
        staking.registerScheduler(STAKE, "http://second", VRF_KEY);
    }

    function _challengeDuplicate(Book memory a, uint256 i, Book memory b, uint256 j) private returns (bool) {
        vm.prank(challenger);
        try audit.challengeDuplicate(
            [a.roundId, b.roundId],
            [at(a.roundId), at(b.roundId)],
            [prove(a, i), prove(b, j)],
            [a.jobs[i], b.jobs[j]]
        ) {
            return true;
        } catch {
            return false;
        }
    }

    function _callDuplicate(Book memory a, uint256 i, Book memory b, uint256 j) private {
        audit.challengeDuplicate(
            [a.roundId, b.roundId],
            [at(a.roundId), at(b.roundId)],
            [prove(a, i), prove(b, j)],
            [a.jobs[i], b.jobs[j]]
        );
    }
}
