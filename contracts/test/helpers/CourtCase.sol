// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Jury} from "../../src/Jury.sol";
import {Tags} from "../../src/libraries/Tags.sol";
import {
    BURN,
    CommitmentProof,
    Job,
    Line,
    ModelSpec,
    ROLE_VERIFIER,
    ROLE_WORKER,
    SettlementRecord
} from "../../src/Types.sol";
import {Ledgers} from "./Ledgers.sol";
import {Transcripts} from "./Transcripts.sol";
import {Trees} from "./Trees.sol";
import {World} from "./World.sol";

/// @notice A dispute on a model whose pool the test fills: operator 0 is the worker, 1 and 2 are verifiers of one job.
/// The worker's row at boundary 0, position 1 is e1; that of both verifiers is 1.0625 * e1.
/// A jury is played by a letter for each seat: w or v reveals the worker's or the verifiers' row, b one close to both,
/// x one far from both; c commits and does not reveal, u declares itself unable, - stays away.
abstract contract CourtCase is World {
    using Transcripts for Transcripts.Transcript;

    bytes32 internal constant SALT = "salt";
    uint256 internal constant ALL = type(uint256).max;

    address internal appellant = makeAddr("appellant");
    Job internal job;
    Transcripts.Transcript internal ofWorker;
    Transcripts.Transcript internal ofVerifier;
    bytes internal workerRow = Transcripts.unit(1, Transcripts.ONE);
    bytes internal verifierRow = Transcripts.unit(1, 0x3f88);
    bytes internal between = Transcripts.unit(1, 0x3f84);
    bytes internal far = Transcripts.unit(5, 0x4000);
    CommitmentProof internal byWorker;
    CommitmentProof internal byVerifier;
    CommitmentProof internal bySecond;
    uint256 internal roundId;
    uint256 internal disputeId;

    function setUp() public virtual override {
        super.setUp();
        ModelSpec memory spec = Transcripts.spec(MARGIN_Q24, TOLERANCE_Q40);
        spec.manifestHash = "disputed";
        modelId = staking.registerModel(spec);
        fund(challenger, 9000 ether, address(rounds));
        fund(appellant, 10_000 ether, address(rounds));
        job = newJob(1);
        Transcripts.Transcript memory t = Transcripts.honest();
        ofWorker = t;
        t.rows[0][1] = verifierRow;
        ofVerifier = t;
    }

    /// @notice Operators `from` to `to - 1` stake in the model's pool.
    function join(uint256 from, uint256 to) internal {
        for (uint256 i = from; i < to; ++i) {
            fund(vm.addr(operatorKey(i)), STAKE, address(staking));
            vm.prank(vm.addr(operatorKey(i)));
            staking.registerOperator(modelId, STAKE, "http://operator");
        }
        vm.roll(vm.getBlockNumber() + params.epochBlocks);
    }

    function pass(uint256 deadline) internal {
        vm.roll(deadline + 1);
    }

    // --- opening ---

    function commitJob() internal {
        commitJob(ofWorker, ofVerifier);
    }

    function commitJob(Transcripts.Transcript memory a, Transcripts.Transcript memory b) internal {
        commitProofs(
            commit(job, a, ROLE_WORKER, 0), commit(job, b, ROLE_VERIFIER, 1), commit(job, b, ROLE_VERIFIER, 2)
        );
    }

    /// @notice Commit and verify a round of one worker's and two verifiers' commitments.
    function commitProofs(CommitmentProof memory a, CommitmentProof memory b, CommitmentProof memory c)
        internal
    {
        roundId = commitRound(leafOf(a), 1);
        bytes32[] memory leaves = new bytes32[](2);
        (leaves[0], leaves[1]) = (leafOf(b), leafOf(c));
        verifyRound(roundId, Trees.root(leaves), 2);
        (b.leafProof, c.leafProof) = (Trees.proof(leaves, 0), Trees.proof(leaves, 1));
        c.leafIndex = 1;
        (byWorker, byVerifier, bySecond) = (a, b, c);
    }

    function open(address by) internal returns (uint256) {
        return open(by, byVerifier);
    }

    function open(address by, CommitmentProof memory ofOther) internal returns (uint256) {
        vm.prank(by);
        return court.openDispute(
            roundId, at(roundId), byWorker, ofWorker.open(0, 1), ofOther, ofVerifier.open(0, 1)
        );
    }

    function openBy(address by) external returns (uint256) {
        return open(by);
    }

    function begin() internal {
        beginBy(challenger);
    }

    function beginBy(address by) internal {
        commitJob();
        disputeId = open(by);
    }

    /// @notice Settle the round by the record of its job, which one verifier accepted.
    function settle() internal {
        settleRound(roundId, settledRecords());
    }

    function settledRecords() internal view returns (SettlementRecord[] memory records) {
        records = new SettlementRecord[](1);
        records[0] = newRecord(job, worker);
        Ledgers.link(records);
    }

    function pay() public {
        Line[] memory credits = Ledgers.credits(settledRecords());
        rounds.payRound(roundId, at(roundId), credits, credits.length);
    }

    // --- juries ---

    function level() internal view returns (uint8) {
        return court.dispute(disputeId).level;
    }

    function seat() internal returns (address[] memory) {
        court.drawJury(disputeId, reach(court.dispute(disputeId).targetBlock));
        return court.jurors(disputeId, level());
    }

    function voteHash(address juror, bytes memory row) internal view returns (bytes32) {
        bytes memory head =
            abi.encodePacked(Tags.JURY_VOTE, block.chainid, address(court), disputeId, level(), juror);
        return keccak256(abi.encodePacked(head, keccak256(row), SALT));
    }

    function commitVote(address juror, bytes memory row) internal {
        bytes32 commitment = voteHash(juror, row);
        vm.prank(juror);
        court.commitVote(disputeId, commitment);
    }

    function reveal(address juror, bytes memory row) internal {
        vm.prank(juror);
        court.revealVote(disputeId, row, SALT, workerRow, verifierRow);
    }

    /// @notice Draw the awaited jury, which must have a seat for each letter; let it vote, and count.
    function play(bytes memory letters) internal returns (address[] memory jurors) {
        jurors = seat();
        assertEq(jurors.length, letters.length, "seats");
        (bool stays, bool hides) = (false, false);
        for (uint256 i; i < letters.length; ++i) {
            if (letters[i] == "-") {
                stays = true;
            } else if (letters[i] == "u") {
                vm.prank(jurors[i]);
                court.declareUnable(disputeId);
            } else {
                hides = hides || letters[i] == "c";
                commitVote(jurors[i], rowOf(letters[i]));
            }
        }
        if (stays) pass(court.dispute(disputeId).commitDeadline);
        for (uint256 i; i < letters.length; ++i) {
            if (rowOf(letters[i]).length > 0) reveal(jurors[i], rowOf(letters[i]));
        }
        if (hides) pass(court.dispute(disputeId).revealDeadline);
        court.tally(disputeId);
    }

    function rowOf(bytes1 letter) internal view returns (bytes memory) {
        if (letter == "w") return workerRow;
        if (letter == "v") return verifierRow;
        if (letter == "b") return between;
        if (letter == "x") return far;
        return "";
    }

    function appeal() internal {
        vm.prank(appellant);
        court.appeal(disputeId);
    }

    /// @notice Let the last chance to appeal pass, and resolve all.
    function finish() internal {
        uint256 deadline = court.dispute(disputeId).appealDeadline;
        if (vm.getBlockNumber() <= deadline) pass(deadline);
        uint256 holds = rounds.pending(roundId).holds;
        court.resolve(disputeId, ALL);
        assertState(Jury.State.Ended);
        assertEq(rounds.pending(roundId).holds, holds - 1, "holds");
    }

    // --- expectations ---

    function assertState(Jury.State state) internal view {
        assertEq(uint256(court.dispute(disputeId).state), uint256(state), "state");
    }

    function assertStake(address who, uint256 lost) internal view {
        assertEq(staking.stakeOf(modelId, who), STAKE - lost, "stake");
    }

    /// @param marks for each seat: + earns the share, - pays the fine, anything else neither.
    function assertJurors(address[] memory jurors, bytes memory marks, uint256 share) internal view {
        uint256 fine = STAKE * params.slashBpsNoShow / 10_000;
        assertEq(jurors.length, marks.length, "marks");
        for (uint256 i; i < jurors.length; ++i) {
            assertStake(jurors[i], marks[i] == "-" ? fine : 0);
            assertEq(rounds.balances(jurors[i]), marks[i] == "+" ? share : 0, "juror");
        }
    }

    /// @notice What these accounts and the burn address have is all that the dispute moved, to the wei.
    function assertLedger(uint256 ofChallenger, uint256 ofAppellant, uint256 burned) internal view {
        assertLedger(ofChallenger, ofAppellant, burned, 0);
    }

    /// @param unpaid what clients paid for settled rounds that wait.
    function assertLedger(uint256 ofChallenger, uint256 ofAppellant, uint256 burned, uint256 unpaid)
        internal
        view
    {
        assertEq(rounds.balances(challenger), ofChallenger, "challenger");
        assertEq(rounds.balances(appellant), ofAppellant, "appellant");
        assertEq(token.balanceOf(BURN), burned, "burned");
        assertEq(rounds.reserve(), 0, "reserve");
        assertEq(token.balanceOf(address(court)), 0, "court");
        uint256 balances = ofChallenger + ofAppellant;
        uint256 stakes = (OPERATORS + 1) * STAKE; // the other model's pool, and the scheduler's
        uint256 pool = staking.poolSize(modelId);
        for (uint256 i; i < pool; ++i) {
            address operator = staking.operatorAt(modelId, i);
            balances += rounds.balances(operator);
            stakes += staking.stakeOf(modelId, operator);
        }
        (uint256 escrow,) = rounds.escrowOf(client, scheduler);
        assertEq(token.balanceOf(address(rounds)), balances + escrow + unpaid, "rounds");
        assertEq(token.balanceOf(address(staking)), stakes, "staking");
    }
}
