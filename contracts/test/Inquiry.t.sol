// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Inquiry} from "../src/Inquiry.sol";
import {Judge} from "../src/Judge.sol";
import {Rounds} from "../src/Rounds.sol";
import {Records} from "../src/libraries/Records.sol";
import {VrfProof} from "../src/libraries/Vrf.sol";
import {
    BPS,
    BURN,
    CommitmentProof,
    Job,
    Line,
    RecordProof,
    ROLE_VERIFIER,
    ROLE_WORKER,
    Round,
    SCHEDULER_POOL,
    SettlementRecord,
    Verdict,
    VERDICT_ACCEPT,
    VERDICT_REJECT
} from "../src/Types.sol";
import {Ledgers} from "./helpers/Ledgers.sol";
import {Transcripts} from "./helpers/Transcripts.sol";
import {Trees} from "./helpers/Trees.sol";
import {VrfProver} from "./helpers/VrfProver.sol";
import {World} from "./helpers/World.sol";

/// @dev Rounds of two jobs whose workers and verifiers were really drawn, unless a test asks for others.
abstract contract InquiryWorld is World {
    uint256 internal constant JOBS = 2;
    uint256 internal constant VRF_SECRET = 1; // of World's VRF_KEY

    /// @notice How the parties of all jobs depart from the draw.
    struct Departure {
        bool worker;
        bool verifier;
        uint32 attempt;
        uint48 epochsBack;
    }

    struct Case {
        uint256 roundId;
        Job[] jobs;
        CommitmentProof[] workers;
        CommitmentProof[] verifiers;
        SettlementRecord[] records;
    }

    Departure internal honest;

    function setUp() public override {
        super.setUp();
        // Both the round's epoch and the one before have stakes and keys.
        vm.roll(vm.getBlockNumber() + params.epochBlocks);
    }

    // --- rounds ---

    /// @notice A round up to its verifications; the records are those to settle.
    function openCase(Departure memory by) internal returns (Case memory c) {
        (c.jobs, c.records) = (new Job[](JOBS), new SettlementRecord[](JOBS));
        (c.workers, c.verifiers) = (new CommitmentProof[](JOBS), new CommitmentProof[](JOBS));
        for (uint256 i; i < JOBS; ++i) {
            c.jobs[i] = newJob(i);
            _work(c, i, by);
        }
        c.roundId = commitRound(_place(c.workers), uint32(JOBS));
        for (uint256 i; i < JOBS; ++i) {
            _verify(c, i, by.verifier);
        }
        verifyRound(c.roundId, _place(c.verifiers), uint32(JOBS));
    }

    function settledCase(Departure memory by) internal returns (Case memory c) {
        c = openCase(by);
        settleRound(c.roundId, c.records);
    }

    function workerAlpha(Case memory c, uint256 index, uint48 epoch) internal view returns (bytes32) {
        uint32 attempt = c.workers[index].commitment.attempt;
        return keccak256(abi.encodePacked(staking.epochSeed(epoch), rounds.jobId(c.jobs[index]), attempt));
    }

    function committeeAlpha(Case memory c, uint256 index) internal view returns (bytes32) {
        bytes32 seed = seedOf(at(c.roundId).verifierBlock);
        return keccak256(abi.encodePacked(seed, rounds.jobId(c.jobs[index])));
    }

    function prove(bytes32 alpha) internal view returns (VrfProof memory) {
        return VrfProver.prove(VRF_SECRET, abi.encodePacked(alpha));
    }

    function _work(Case memory c, uint256 i, Departure memory by) private view {
        c.workers[i].commitment.attempt = by.attempt;
        uint48 epoch = staking.epoch() - by.epochsBack;
        bytes32 alpha = workerAlpha(c, i, epoch);
        uint256 index = indexOf(_draw(alpha, epoch, 1, new address[](0))[0]);
        if (by.worker) index = (index + 1) % OPERATORS;
        CommitmentProof memory p = commit(c.jobs[i], Transcripts.honest(), ROLE_WORKER, index);
        p.commitment.attempt = by.attempt;
        p.signature = sign(digestOf(p.commitment), operatorKey(index));
        c.workers[i] = p;
        c.records[i] = newRecord(c.jobs[i], p.commitment.operator);
    }

    function _verify(Case memory c, uint256 i, bool departs) private view {
        address[] memory excluded = new address[](1);
        excluded[0] = c.records[i].worker;
        uint256 count = c.jobs[i].verifiers + params.verifierSpares;
        address[] memory drawn = _draw(committeeAlpha(c, i), at(c.roundId).epoch, count, excluded);
        address chosen = departs ? _stranger(drawn, excluded[0]) : drawn[drawn.length - 1];
        c.verifiers[i] = commit(c.jobs[i], Transcripts.honest(), ROLE_VERIFIER, indexOf(chosen));
        c.records[i].verifiers[0] = chosen;
    }

    /// @dev An operator that was not drawn and is not the worker.
    function _stranger(address[] memory drawn, address worker_) private pure returns (address) {
        for (uint256 i; i < OPERATORS; ++i) {
            address operator = vm.addr(operatorKey(i));
            bool taken = operator == worker_;
            for (uint256 j; j < drawn.length; ++j) {
                taken = taken || drawn[j] == operator;
            }
            if (!taken) return operator;
        }
        revert("all drawn");
    }

    function _draw(bytes32 alpha, uint48 epoch, uint256 count, address[] memory excluded)
        private
        view
        returns (address[] memory)
    {
        bytes32 beta = VrfProver.output(prove(alpha));
        return staking.draw(modelId, epoch, abi.encodePacked(beta), count, excluded);
    }

    /// @dev Give the commitments their leaves.
    function _place(CommitmentProof[] memory proofs) private view returns (bytes32) {
        bytes32[] memory leaves = new bytes32[](proofs.length);
        for (uint256 i; i < leaves.length; ++i) {
            leaves[i] = leafOf(proofs[i]);
        }
        for (uint256 i; i < leaves.length; ++i) {
            (proofs[i].leafIndex, proofs[i].leafProof) = (i, Trees.proof(leaves, i));
        }
        return Trees.root(leaves);
    }

    function indexOf(address operator) internal pure returns (uint256 index) {
        while (vm.addr(operatorKey(index)) != operator) ++index;
    }

    // --- demands ---

    function demand(Case memory c, Inquiry.Matter matter, uint32 index)
        internal
        returns (uint256 id, Inquiry.Demand memory d)
    {
        vm.prank(challenger);
        id = inquiry.demand(c.roundId, at(c.roundId), matter, index);
        uint64 deadline = uint64(vm.getBlockNumber() + params.openingDeadlineBlocks);
        d = Inquiry.Demand(c.roundId, matter, index, deadline, challenger);
    }

    /// @notice What the record of job `index` rests on.
    function groundsOf(Case memory c, uint256 index) internal view returns (Inquiry.Grounds memory g) {
        g.job = c.jobs[index];
        g.jobSignature = signJob(g.job, CLIENT_KEY);
        g.worker = c.workers[index];
        g.verifiers = new CommitmentProof[](1);
        g.verifiers[0] = c.verifiers[index];
        g.verdicts = new Verdict[](1);
        address operator = g.verifiers[0].commitment.operator;
        g.verdicts[0] = Verdict(c.records[index].jobId, VERDICT_ACCEPT, 0, 0, operator);
        g.verdictSignatures = new bytes[](1);
        signVerdict(g, operatorKey(indexOf(operator)));
    }

    function signVerdict(Inquiry.Grounds memory g, uint256 key) internal view {
        bytes32 hash = libraries.verdictHash(g.verdicts[0]);
        bytes32 digest = MessageHashUtils.toTypedDataHash(rounds.domainSeparator(), hash);
        g.verdictSignatures[0] = sign(digest, key);
    }

    function proofOf(Case memory c, uint32 index) internal pure returns (RecordProof memory) {
        return Ledgers.prove(c.records, index);
    }

    // --- ends ---

    function assertAnswered(Case memory c) internal {
        assertEq(rounds.balances(scheduler), params.disputeBond);
        assertEq(rounds.reserve(), 0);
        assertEq(rounds.pending(c.roundId).holds, 0);
        assertEq(staking.stakeOf(SCHEDULER_POOL, scheduler), STAKE);
        passWindow(c.roundId);
        Line[] memory credits = Ledgers.credits(c.records);
        rounds.payRound(c.roundId, at(c.roundId), credits, credits.length);
        uint256 share = c.records[0].schedulerFee + c.records[1].schedulerFee;
        assertEq(rounds.balances(scheduler), params.disputeBond + share);
        assertEq(escrow(), 1000 ether - feesOf(c.records[0]) - feesOf(c.records[1]));
    }

    function assertIgnored(Case memory c) internal view {
        uint256 taken = STAKE * params.slashBpsSettlement / BPS;
        uint256 reward = taken * params.challengerShareBps / BPS;
        assertEq(staking.stakeOf(SCHEDULER_POOL, scheduler), STAKE - taken);
        assertEq(rounds.balances(challenger), params.disputeBond + reward);
        assertEq(token.balanceOf(BURN), taken - reward);
        assertEq(rounds.reserve(), 0);
        assertEq(rounds.pending(c.roundId).holds, 0);
    }

    function escrow() internal view returns (uint256) {
        (uint256 available,) = rounds.escrowOf(client, scheduler);
        return available;
    }
}

contract InquiryDemandTest is InquiryWorld {
    // --- refused demands ---

    function test_nothing_is_demanded_of_a_round_that_is_not_settled() public {
        Case memory c = openCase(honest);
        vm.prank(challenger);
        vm.expectRevert(abi.encodeWithSelector(Inquiry.NotSettled.selector, c.roundId));
        inquiry.demand(c.roundId, at(c.roundId), Inquiry.Matter.Record, 0);
    }

    function test_only_jobs_of_the_round_are_demanded() public {
        Case memory c = settledCase(honest);
        vm.startPrank(challenger);
        vm.expectRevert(abi.encodeWithSelector(Inquiry.IndexInvalid.selector, JOBS, JOBS));
        inquiry.demand(c.roundId, at(c.roundId), Inquiry.Matter.Record, uint32(JOBS));
        Round memory wrong = at(c.roundId);
        wrong.jobs += 1;
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundMismatch.selector, c.roundId));
        inquiry.demand(c.roundId, wrong, Inquiry.Matter.Record, uint32(JOBS));
    }

    function test_nothing_is_demanded_of_a_final_round() public {
        Case memory c = settledCase(honest);
        passWindow(c.roundId);
        vm.prank(challenger);
        vm.expectRevert(abi.encodeWithSelector(Judge.RoundIsFinal.selector, c.roundId));
        inquiry.demand(c.roundId, at(c.roundId), Inquiry.Matter.Record, 0);
    }

    function test_a_demand_without_a_bond_is_refused() public {
        Case memory c = settledCase(honest);
        vm.expectRevert();
        inquiry.demand(c.roundId, at(c.roundId), Inquiry.Matter.Record, 0);
        assertEq(rounds.pending(c.roundId).holds, 0);
    }

    // --- the demand that a call brings ---

    function test_a_demand_that_differs_in_any_field_is_unknown() public {
        Case memory c = settledCase(honest);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Record, 0);
        vm.roll(d.deadline + 1);
        for (uint256 field; field < 6; ++field) {
            Inquiry.Demand memory wrong = abi.decode(abi.encode(d), (Inquiry.Demand));
            if (field == 0) wrong.roundId += 1;
            else if (field == 1) wrong.matter = Inquiry.Matter.Worker;
            else if (field == 2) wrong.index += 1;
            else if (field == 3) wrong.deadline -= 1;
            else if (field == 4) wrong.challenger = address(this);
            uint256 asked = field == 5 ? id + 1 : id;
            vm.expectRevert(abi.encodeWithSelector(Inquiry.DemandUnknown.selector, asked));
            inquiry.slashSilent(asked, wrong, at(c.roundId));
        }
    }

    function test_a_demand_is_about_its_own_round() public {
        Case memory c = settledCase(honest);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Record, 0);
        uint256 other = commitRound("root", 1);
        vm.roll(d.deadline + 1);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundMismatch.selector, c.roundId));
        inquiry.slashSilent(id, d, at(other));
    }

    function test_a_demand_is_answered_in_its_matter() public {
        Case memory c = settledCase(honest);
        bytes memory mismatch = abi.encodeWithSelector(Inquiry.AnswerMismatch.selector, "matter");
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Worker, 0);
        Inquiry.Grounds memory g = groundsOf(c, 0);
        RecordProof memory record = proofOf(c, 0);
        VrfProof memory proof;
        vm.expectRevert(mismatch);
        inquiry.answerRecord(id, d, at(c.roundId), record, g);
        vm.expectRevert(mismatch);
        inquiry.answerCommittee(id, d, at(c.roundId), record, c.jobs[0], proof);
        (id, d) = demand(c, Inquiry.Matter.Record, 0);
        vm.expectRevert(mismatch);
        inquiry.answerWorker(id, d, at(c.roundId), c.workers[0], 7, proof);
    }

    // --- time ---

    function test_an_answer_counts_up_to_the_deadline() public {
        Case memory c = settledCase(honest);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Record, 0);
        Inquiry.Grounds memory g = groundsOf(c, 0);
        vm.roll(d.deadline + 1);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooLate.selector, d.deadline));
        inquiry.answerRecord(id, d, at(c.roundId), proofOf(c, 0), g);
        vm.roll(d.deadline);
        vm.expectRevert(abi.encodeWithSelector(Judge.TooEarly.selector, d.deadline));
        inquiry.slashSilent(id, d, at(c.roundId));
        inquiry.answerRecord(id, d, at(c.roundId), proofOf(c, 0), g);
        assertAnswered(c);
    }

    function test_a_demand_ends_once() public {
        Case memory c = settledCase(honest);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Record, 0);
        Inquiry.Grounds memory g = groundsOf(c, 0);
        vm.roll(d.deadline + 1);
        inquiry.slashSilent(id, d, at(c.roundId));
        vm.expectRevert(abi.encodeWithSelector(Inquiry.DemandUnknown.selector, id));
        inquiry.slashSilent(id, d, at(c.roundId));
        vm.expectRevert(abi.encodeWithSelector(Inquiry.DemandUnknown.selector, id));
        inquiry.answerRecord(id, d, at(c.roundId), proofOf(c, 0), g);
    }

    function test_a_round_with_a_demand_is_not_paid() public {
        Case memory c = settledCase(honest);
        demand(c, Inquiry.Matter.Record, 0);
        passWindow(c.roundId);
        Line[] memory credits = Ledgers.credits(c.records);
        vm.expectRevert(abi.encodeWithSelector(Rounds.RoundHeld.selector, c.roundId));
        rounds.payRound(c.roundId, at(c.roundId), credits, credits.length);
    }

    // --- silence ---

    function test_silence_about_a_record_refunds_the_whole_round() public {
        Case memory c = settledCase(honest);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Record, 1);
        vm.roll(d.deadline + 1);
        inquiry.slashSilent(id, d, at(c.roundId));
        assertIgnored(c);
        Line[] memory debits = Ledgers.debits(c.records);
        rounds.refundRound(c.roundId, at(c.roundId), debits, debits.length);
        assertEq(escrow(), 1000 ether);
    }

    function test_silence_about_an_assignment_voids_the_job() public {
        for (uint256 matter = 1; matter < 3; ++matter) {
            uint256 before = vm.snapshotState();
            Case memory c = settledCase(honest);
            (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter(matter), 1);
            vm.roll(d.deadline + 1);
            inquiry.slashSilent(id, d, at(c.roundId));
            assertIgnored(c);
            Line[] memory debits = Ledgers.debits(c.records);
            Line[] memory credits = Ledgers.credits(c.records);
            rounds.deductJob(c.roundId, at(c.roundId), proofOf(c, 1), debits, credits);
            rounds.payRound(c.roundId, at(c.roundId), credits, credits.length);
            assertEq(escrow(), 1000 ether - feesOf(c.records[0]));
            assertEq(rounds.balances(scheduler), c.records[0].schedulerFee);
            vm.revertToState(before);
        }
    }

    /// @dev Perhaps only the scheduler knows the record of a voided job: it must show it, or refund everybody.
    function test_the_record_of_a_voided_job_is_demanded_after_the_window() public {
        Case memory c = settledCase(honest);
        vm.prank(address(tribunal));
        rounds.voidJob(c.roundId, 0);
        passWindow(c.roundId);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Record, 0);
        vm.roll(d.deadline + 1);
        inquiry.slashSilent(id, d, at(c.roundId));
        assertIgnored(c);
        Line[] memory debits = Ledgers.debits(c.records);
        rounds.refundRound(c.roundId, at(c.roundId), debits, debits.length);
        assertEq(escrow(), 1000 ether);
    }

    /// @dev A round may be refuted and refunded while a demand waits: the bond still has its two ends.
    function test_a_demand_on_a_refunded_round_ends_with_an_answer_or_a_slash() public {
        Case memory c = settledCase(honest);
        (uint256 first, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Record, 0);
        (uint256 second, Inquiry.Demand memory e) = demand(c, Inquiry.Matter.Record, 1);
        vm.prank(address(audit));
        rounds.refute(c.roundId);
        Line[] memory debits = Ledgers.debits(c.records);
        rounds.refundRound(c.roundId, at(c.roundId), debits, debits.length);
        inquiry.answerRecord(first, d, at(c.roundId), proofOf(c, 0), groundsOf(c, 0));
        assertEq(rounds.balances(scheduler), params.disputeBond);
        vm.roll(e.deadline + 1);
        inquiry.slashSilent(second, e, at(c.roundId));
        assertIgnored(c);
        assertEq(escrow(), 1000 ether);
    }
}

contract InquiryRecordTest is InquiryWorld {
    /// @notice A case whose first record was demanded.
    struct Asked {
        Case c;
        uint256 id;
        Inquiry.Demand d;
    }

    function _ask(Case memory c) private returns (Asked memory a) {
        a.c = c;
        (a.id, a.d) = demand(c, Inquiry.Matter.Record, 0);
    }

    function _refused(Asked memory a, Inquiry.Grounds memory g, bytes memory reason) private {
        RecordProof memory record = proofOf(a.c, 0);
        vm.expectRevert(reason);
        inquiry.answerRecord(a.id, a.d, at(a.c.roundId), record, g);
    }

    function _mismatch(string memory field) private pure returns (bytes memory) {
        return abi.encodeWithSelector(Inquiry.AnswerMismatch.selector, field);
    }

    function test_the_record_of_another_job_is_no_answer() public {
        Asked memory a = _ask(settledCase(honest));
        Case memory c = a.c;
        Inquiry.Grounds memory g = groundsOf(c, 1);
        vm.expectRevert(_mismatch("index"));
        inquiry.answerRecord(a.id, a.d, at(c.roundId), proofOf(c, 1), g);
        RecordProof memory p = proofOf(c, 0);
        p.record.schedulerFee += 1;
        vm.expectRevert(abi.encodeWithSelector(Records.RecordNotSettled.selector, 0));
        inquiry.answerRecord(a.id, a.d, at(c.roundId), p, g);
    }

    function test_a_job_that_its_client_did_not_sign_is_no_answer() public {
        Asked memory a = _ask(settledCase(honest));
        Case memory c = a.c;
        Inquiry.Grounds memory g = groundsOf(c, 0);
        g.jobSignature = signJob(g.job, operatorKey(0));
        _refused(a, g, abi.encodeWithSelector(Judge.SignatureInvalid.selector, client));
        g.job = c.jobs[1];
        g.jobSignature = signJob(g.job, CLIENT_KEY);
        _refused(a, g, abi.encodeWithSelector(Judge.JobMismatch.selector, c.records[1].jobId));
    }

    function test_a_record_that_does_not_follow_has_no_answer() public {
        Case memory wrong = openCase(honest);
        wrong.records[0].schedulerFee += 1;
        settleRound(wrong.roundId, wrong.records);
        _refused(_ask(wrong), groundsOf(wrong, 0), _mismatch("record"));
    }

    function test_the_workers_commitment_must_be_of_the_job_and_signed() public {
        Asked memory a = _ask(settledCase(honest));
        Case memory c = a.c;
        Inquiry.Grounds memory g = groundsOf(c, 0);
        g.worker = c.workers[1];
        _refused(a, g, _mismatch("worker"));
        g.worker = c.verifiers[0];
        _refused(a, g, abi.encodeWithSelector(Judge.NotInRound.selector, g.worker.commitment.operator));
        g.worker = c.workers[0];
        g.worker.signature = sign(digestOf(g.worker.commitment), CLIENT_KEY);
        _refused(a, g, abi.encodeWithSelector(Judge.SignatureInvalid.selector, g.worker.commitment.operator));
    }

    function test_a_record_of_another_worker_has_no_answer() public {
        Case memory wrong = openCase(honest);
        address operator = wrong.records[0].worker;
        uint256 other = indexOf(operator);
        while (
            vm.addr(operatorKey(other)) == operator
                || vm.addr(operatorKey(other)) == wrong.records[0].verifiers[0]
        ) {
            other = (other + 1) % OPERATORS;
        }
        wrong.records[0].worker = vm.addr(operatorKey(other));
        settleRound(wrong.roundId, wrong.records);
        _refused(_ask(wrong), groundsOf(wrong, 0), _mismatch("worker"));
    }

    function test_the_verifiers_commitment_must_be_of_the_job_and_in_the_round() public {
        Asked memory a = _ask(settledCase(honest));
        Case memory c = a.c;
        Inquiry.Grounds memory g = groundsOf(c, 0);
        g.verifiers[0] = c.verifiers[1]; // of the other job
        _refused(a, g, _mismatch("verifier"));
        g.verifiers[0] = c.workers[0];
        _refused(a, g, abi.encodeWithSelector(Judge.NotInRound.selector, c.workers[0].commitment.operator));
        g.verifiers[0] = c.verifiers[0];
        g.verifiers[0].leafProof[0] = "another leaf";
        _refused(a, g, abi.encodeWithSelector(Judge.NotInRound.selector, c.verifiers[0].commitment.operator));
        g.verifiers = new CommitmentProof[](0);
        vm.expectRevert();
        inquiry.answerRecord(a.id, a.d, at(c.roundId), proofOf(c, 0), g);
    }

    function test_the_verdict_must_be_the_records() public {
        Asked memory a = _ask(settledCase(honest));
        Case memory c = a.c;
        for (uint256 field; field < 3; ++field) {
            Inquiry.Grounds memory g = groundsOf(c, 0);
            if (field == 0) g.verdicts[0].operator = client;
            else if (field == 1) g.verdicts[0].jobId = c.records[1].jobId;
            else g.verdicts[0].verdict = VERDICT_REJECT;
            signVerdict(g, operatorKey(indexOf(c.records[0].verifiers[0])));
            _refused(a, g, _mismatch("verdict"));
        }
    }

    function test_a_verdict_that_its_verifier_did_not_sign_is_no_answer() public {
        Asked memory a = _ask(settledCase(honest));
        Case memory c = a.c;
        Inquiry.Grounds memory g = groundsOf(c, 0);
        signVerdict(g, CLIENT_KEY);
        _refused(a, g, abi.encodeWithSelector(Judge.SignatureInvalid.selector, c.records[0].verifiers[0]));
    }

    function test_the_record_and_its_signatures_earn_the_bond() public {
        Asked memory a = _ask(settledCase(honest));
        Case memory c = a.c;
        Inquiry.Grounds memory g = groundsOf(c, 0);
        vm.expectEmit(address(inquiry));
        emit Inquiry.DemandAnswered(a.id);
        inquiry.answerRecord(a.id, a.d, at(c.roundId), proofOf(c, 0), g);
        assertAnswered(c);
    }
}

contract InquiryDrawTest is InquiryWorld {
    function _mismatch(string memory field) private pure returns (bytes memory) {
        return abi.encodeWithSelector(Inquiry.AnswerMismatch.selector, field);
    }

    // --- the worker ---

    function test_another_jobs_commitment_or_a_verifiers_is_no_answer() public {
        Case memory c = settledCase(honest);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Worker, 0);
        VrfProof memory proof;
        vm.expectRevert(_mismatch("worker"));
        inquiry.answerWorker(id, d, at(c.roundId), c.workers[1], at(c.roundId).epoch, proof);
        vm.expectRevert(abi.encodeWithSelector(Judge.NotInRound.selector, c.verifiers[0].commitment.operator));
        inquiry.answerWorker(id, d, at(c.roundId), c.verifiers[0], at(c.roundId).epoch, proof);
    }

    function test_a_worker_is_drawn_in_the_rounds_epoch_or_the_one_before() public {
        Case memory c = settledCase(honest);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Worker, 0);
        VrfProof memory proof;
        uint48 epoch = at(c.roundId).epoch;
        vm.expectRevert(_mismatch("epoch"));
        inquiry.answerWorker(id, d, at(c.roundId), c.workers[0], epoch + 1, proof);
        vm.expectRevert(_mismatch("epoch"));
        inquiry.answerWorker(id, d, at(c.roundId), c.workers[0], epoch - 2, proof);
    }

    function test_a_worker_is_drawn_in_one_of_the_first_attempts() public {
        Departure memory by;
        by.attempt = params.maxAttempts;
        Case memory c = settledCase(by);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Worker, 0);
        uint48 epoch = at(c.roundId).epoch;
        VrfProof memory proof = prove(workerAlpha(c, 0, epoch));
        vm.expectRevert(_mismatch("attempt"));
        inquiry.answerWorker(id, d, at(c.roundId), c.workers[0], epoch, proof);
    }

    function test_a_worker_who_was_not_drawn_has_no_answer() public {
        Departure memory by;
        by.worker = true;
        Case memory c = settledCase(by);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Worker, 0);
        uint48 epoch = at(c.roundId).epoch;
        VrfProof memory proof = prove(workerAlpha(c, 0, epoch));
        vm.expectRevert(_mismatch("operator"));
        inquiry.answerWorker(id, d, at(c.roundId), c.workers[0], epoch, proof);
        // Nor does the proof of another draw help.
        proof = prove(workerAlpha(c, 1, epoch));
        vm.expectRevert();
        inquiry.answerWorker(id, d, at(c.roundId), c.workers[0], epoch, proof);
    }

    function test_the_proof_of_the_workers_draw_earns_the_bond() public {
        for (uint48 back; back < 2; ++back) {
            uint256 before = vm.snapshotState();
            Departure memory by = Departure(false, false, uint32(back) * 3, back);
            Case memory c = settledCase(by);
            (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Worker, 1);
            uint48 epoch = at(c.roundId).epoch - back;
            VrfProof memory proof = prove(workerAlpha(c, 1, epoch));
            inquiry.answerWorker(id, d, at(c.roundId), c.workers[1], epoch, proof);
            assertAnswered(c);
            vm.revertToState(before);
        }
    }

    // --- the committee ---

    function test_another_record_or_job_is_no_answer_about_the_committee() public {
        Case memory c = settledCase(honest);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Committee, 0);
        VrfProof memory proof = prove(committeeAlpha(c, 0));
        vm.expectRevert(_mismatch("index"));
        inquiry.answerCommittee(id, d, at(c.roundId), proofOf(c, 1), c.jobs[1], proof);
        vm.expectRevert(abi.encodeWithSelector(Judge.JobMismatch.selector, c.records[0].jobId));
        inquiry.answerCommittee(id, d, at(c.roundId), proofOf(c, 0), c.jobs[1], proof);
        RecordProof memory p = proofOf(c, 0);
        p.record.verifiers[0] = client;
        vm.expectRevert(abi.encodeWithSelector(Records.RecordNotSettled.selector, 0));
        inquiry.answerCommittee(id, d, at(c.roundId), p, c.jobs[0], proof);
        proof = prove(committeeAlpha(c, 1));
        vm.expectRevert();
        inquiry.answerCommittee(id, d, at(c.roundId), proofOf(c, 0), c.jobs[0], proof);
    }

    function test_a_verifier_who_was_not_drawn_has_no_answer() public {
        Departure memory by;
        by.verifier = true;
        Case memory c = settledCase(by);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Committee, 0);
        VrfProof memory proof = prove(committeeAlpha(c, 0));
        vm.expectRevert(_mismatch("verifier"));
        inquiry.answerCommittee(id, d, at(c.roundId), proofOf(c, 0), c.jobs[0], proof);
    }

    function test_a_worker_cannot_be_on_its_own_committee() public {
        Case memory c = openCase(honest);
        c.records[0].verifiers[0] = c.records[0].worker;
        settleRound(c.roundId, c.records);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Committee, 0);
        VrfProof memory proof = prove(committeeAlpha(c, 0));
        vm.expectRevert(_mismatch("verifier"));
        inquiry.answerCommittee(id, d, at(c.roundId), proofOf(c, 0), c.jobs[0], proof);
    }

    /// @dev The last of the drawn, a spare, may stand in as well.
    function test_the_proof_of_the_committees_draw_earns_the_bond() public {
        Case memory c = settledCase(honest);
        (uint256 id, Inquiry.Demand memory d) = demand(c, Inquiry.Matter.Committee, 1);
        VrfProof memory proof = prove(committeeAlpha(c, 1));
        inquiry.answerCommittee(id, d, at(c.roundId), proofOf(c, 1), c.jobs[1], proof);
        assertAnswered(c);
    }
}
