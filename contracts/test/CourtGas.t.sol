// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Court} from "../src/Court.sol";
import {Jury} from "../src/Jury.sol";
import {Tags} from "../src/libraries/Tags.sol";
import {
    Commitment,
    CommitmentProof,
    JobRootParts,
    ModelSpec,
    ROLE_VERIFIER,
    ROLE_WORKER,
    RowOpening
} from "../src/Types.sol";
import {CourtCase} from "./helpers/CourtCase.sol";
import {Trees} from "./helpers/Trees.sol";

/// @notice The largest disputes fit into blocks: rows of 576 bf16 values, juries of 7, 14 and 28.
contract CourtGasTest is CourtCase {
    uint32 private constant D = 576;
    /// @dev The most that one transaction may use (EIP-7825).
    uint256 private constant TRANSACTION = 1 << 24;

    function setUp() public override {
        params.jurySize = 7;
        super.setUp();
        ModelSpec memory spec;
        spec.manifestHash = "wide";
        (spec.hiddenSize, spec.vocabSize, spec.rowDtype, spec.weightDtype) = (D, 8, 1, 1);
        spec.rowToleranceQ40 = new uint64[](1);
        spec.rowToleranceQ40[0] = TOLERANCE_Q40;
        modelId = staking.registerModel(spec);
        join(0, 60);
        (workerRow, verifierRow) = (_row("worker"), _row("verifier"));
    }

    function test_a_vote_on_a_row_of_576_costs_less_than_a_million() public {
        _begin();
        address[] memory jurors = seat();
        for (uint256 i; i < jurors.length; ++i) {
            commitVote(jurors[i], workerRow);
        }
        uint256 dearest;
        for (uint256 i; i < jurors.length; ++i) {
            bytes memory vote =
                abi.encodeCall(Jury.revealVote, (disputeId, workerRow, SALT, workerRow, verifierRow));
            uint256 used = _measure(jurors[i], vote);
            if (used > dearest) dearest = used;
        }
        emit log_named_uint("revealVote", dearest);
        assertLt(dearest, 1_000_000);
    }

    function test_three_juries_of_no_shows_are_settled_ten_seats_at_a_time() public {
        _begin();
        for (uint256 n; n < 3; ++n) {
            if (n > 0) appeal();
            bytes memory header = reach(court.dispute(disputeId).targetBlock);
            bytes memory draw = abi.encodeCall(Jury.drawJury, (disputeId, header));
            emit log_named_uint("drawJury", _measure(appellant, draw));
            assertEq(court.jurors(disputeId, n).length, 7 << n);
            pass(court.dispute(disputeId).commitDeadline);
            court.tally(disputeId);
        }
        uint256 calls;
        for (; court.dispute(disputeId).state != Jury.State.Ended; ++calls) {
            uint256 used = _measure(appellant, abi.encodeCall(Court.resolve, (disputeId, 10)));
            emit log_named_uint("resolve, ten fines", used);
            assertLt(used, TRANSACTION / 2);
        }
        assertEq(calls, 5);
        assertEq(court.dispute(disputeId).settled, 49);
    }

    function test_three_unanimous_juries_are_settled_in_one_transaction() public {
        _begin();
        for (uint256 n; n < 3; ++n) {
            if (n > 0) appeal();
            address[] memory jurors = seat();
            for (uint256 i; i < jurors.length; ++i) {
                commitVote(jurors[i], workerRow);
            }
            for (uint256 i; i < jurors.length; ++i) {
                reveal(jurors[i], workerRow);
            }
            court.tally(disputeId);
        }
        uint256 used = _measure(appellant, abi.encodeCall(Court.resolve, (disputeId, ALL)));
        emit log_named_uint("resolve, 49 shares", used);
        assertLt(used, TRANSACTION / 2);
        assertState(Jury.State.Ended);
    }

    /// @dev Gas of a transaction's call into cold contracts, without what its data costs.
    function _measure(address from, bytes memory data) private returns (uint256 used) {
        vm.cool(address(court));
        vm.cool(address(staking));
        vm.cool(address(rounds));
        vm.cool(address(token));
        vm.prank(from);
        used = gasleft();
        (bool success,) = address(court).call(data);
        used -= gasleft();
        assertTrue(success);
    }

    function _begin() private {
        CommitmentProof memory other = _commit(1, ROLE_VERIFIER, verifierRow);
        commitProofs(_commit(0, ROLE_WORKER, workerRow), other, other);
        (RowOpening memory first, RowOpening memory second) = (_open(workerRow), _open(verifierRow));
        (CommitmentProof memory a, CommitmentProof memory b) = (byWorker, byVerifier);
        bytes memory opening = abi.encodeCall(Court.openDispute, (roundId, at(roundId), a, first, b, second));
        emit log_named_uint("openDispute", _measure(challenger, opening));
        disputeId = court.disputeCount();
    }

    /// @dev A job of one prompt token and one output token has one row at its one boundary.
    function _commit(uint256 index, uint8 role, bytes memory row)
        private
        view
        returns (CommitmentProof memory p)
    {
        p.parts = JobRootParts("tokens", 1, Trees.boundaryRoot(0, 1, D, 1, Trees.rowLeaf(0, 7, row)));
        bytes32 jobId = keccak256("job");
        bytes memory head = abi.encodePacked(
            Tags.JOB, jobId, vm.addr(operatorKey(index)), modelId, uint32(1), uint32(1), uint8(1)
        );
        bytes32 jobRoot =
            keccak256(abi.encodePacked(head, p.parts.tokenRoot, p.parts.boundaries, p.parts.boundariesRoot));
        p.commitment = Commitment(jobId, role, 0, jobRoot, 1, 1, 1, vm.addr(operatorKey(index)));
        p.signature = sign(digestOf(p.commitment), operatorKey(index));
    }

    function _open(bytes memory row) private pure returns (RowOpening memory) {
        return RowOpening(0, 0, 7, row, new bytes32[](0), new bytes32[](0));
    }

    /// @dev Values of either sign with exponents of -7 to 0.
    function _row(bytes32 seed) private pure returns (bytes memory row) {
        row = new bytes(2 * D);
        for (uint256 i; i < D; ++i) {
            uint256 random = uint256(keccak256(abi.encode(seed, i)));
            uint256 bits = (random & 0x807f) | ((120 + (random >> 16) % 8) << 7);
            (row[2 * i], row[2 * i + 1]) = (bytes1(uint8(bits)), bytes1(uint8(bits >> 8)));
        }
    }
}
