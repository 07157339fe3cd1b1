// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    BPS,
    CommitmentProof,
    Job,
    Line,
    RecordProof,
    ROLE_WORKER,
    SettlementRecord,
    VERDICT_ACCEPT,
    VERDICT_REJECT
} from "../../src/Types.sol";
import {Ledgers} from "./Ledgers.sol";
import {Transcripts} from "./Transcripts.sol";
import {Trees} from "./Trees.sol";
import {World} from "./World.sol";

/// @notice Rounds of several jobs: three clients, all operators as workers and verifiers of each other.
abstract contract Books is World {
    uint256 internal constant CLIENTS = 3;
    uint256 internal constant DEPOSIT = 1000 ether;

    /// @notice A round's jobs and its settlement; `workers` is empty unless a test needs their signatures.
    struct Book {
        uint256 roundId;
        Job[] jobs;
        CommitmentProof[] workers;
        SettlementRecord[] records;
        Line[] debits;
        Line[] credits;
    }

    function setUp() public virtual override {
        super.setUp();
        for (uint256 i = 1; i < CLIENTS; ++i) {
            fund(clientAt(i), DEPOSIT, address(rounds));
            vm.prank(clientAt(i));
            rounds.depositEscrow(scheduler, DEPOSIT);
        }
    }

    function clientAt(uint256 index) internal pure returns (address) {
        return vm.addr(CLIENT_KEY + index);
    }

    function operatorAt(uint256 index) internal pure returns (address) {
        return vm.addr(operatorKey(index % OPERATORS));
    }

    /// @notice Jobs, parties and prices as `seed` has them, and the honest settlement of them.
    /// @param rejecting the share of rejected jobs, one of so many; 0 for none
    function draft(uint256 seed, uint256 count, uint256 rejecting) internal view returns (Book memory b) {
        b.jobs = new Job[](count);
        b.records = new SettlementRecord[](count);
        for (uint256 i; i < count; ++i) {
            _add(b, i, uint256(keccak256(abi.encode(seed, i))), rejecting);
        }
        reckon(b);
    }

    /// @notice Links and lines as they follow from the records.
    function reckon(Book memory b) internal pure {
        Ledgers.link(b.records);
        (b.debits, b.credits) = (Ledgers.debits(b.records), Ledgers.credits(b.records));
    }

    /// @notice Have every worker sign for its job.
    function signWorkers(Book memory b) internal view {
        bytes32[] memory leaves = new bytes32[](b.jobs.length);
        b.workers = new CommitmentProof[](b.jobs.length);
        for (uint256 i; i < leaves.length; ++i) {
            uint256 index;
            while (operatorAt(index) != b.records[i].worker) ++index;
            b.workers[i] = commit(b.jobs[i], Transcripts.honest(), ROLE_WORKER, index);
            leaves[i] = leafOf(b.workers[i]);
        }
        for (uint256 i; i < leaves.length; ++i) {
            (b.workers[i].leafIndex, b.workers[i].leafProof) = (i, Trees.proof(leaves, i));
        }
    }

    /// @notice Take the book's round through all its phases, as it stands.
    function post(Book memory b) internal {
        b.roundId = commitRound(commitRootOf(b), uint32(b.records.length));
        verifyRound(b.roundId, 0, 0);
        settleRound(b.roundId, Ledgers.root(b.records), b.debits, b.credits);
    }

    function prove(Book memory b, uint256 index) internal pure returns (RecordProof memory) {
        return Ledgers.prove(b.records, uint32(index));
    }

    function escrowOf(address client_) internal view returns (uint256) {
        (uint256 available, uint256 leaving) = rounds.escrowOf(client_, scheduler);
        return available + leaving;
    }

    /// @notice All that `Rounds` owes to the parties of these tests.
    function owed() internal view returns (uint256 sum) {
        for (uint256 i; i < CLIENTS; ++i) {
            sum += escrowOf(clientAt(i)) + rounds.balances(clientAt(i));
        }
        for (uint256 i; i < OPERATORS; ++i) {
            sum += rounds.balances(operatorAt(i));
        }
        sum += rounds.balances(scheduler) + rounds.balances(challenger) + rounds.reserve();
    }

    /// @notice Everybody has what the records say, of the jobs that are not in the bit set `voids`.
    function assertPaid(Book memory b, uint256 voids) internal view {
        uint256 share;
        for (uint256 account; account < CLIENTS + OPERATORS; ++account) {
            bool paying = account < CLIENTS;
            address who = paying ? clientAt(account) : operatorAt(account - CLIENTS);
            uint256 sum;
            for (uint256 i; i < b.records.length; ++i) {
                if ((voids >> i) & 1 == 1) continue;
                SettlementRecord memory r = b.records[i];
                if (account == 0) share += r.schedulerFee;
                if (paying && r.client == who) sum += feesOf(r);
                for (uint256 k; !paying && k <= r.verifiers.length; ++k) {
                    if (k == 0 && r.worker == who) sum += r.workerFee;
                    if (k > 0 && r.verifiers[k - 1] == who) sum += r.verifierFee;
                }
            }
            assertEq(paying ? DEPOSIT - escrowOf(who) : rounds.balances(who), sum);
        }
        assertEq(rounds.balances(scheduler), share);
        assertEq(owed(), token.balanceOf(address(rounds)));
    }

    function commitRootOf(Book memory b) internal view returns (bytes32) {
        if (b.workers.length == 0) return "commitments";
        bytes32[] memory leaves = new bytes32[](b.workers.length);
        for (uint256 i; i < leaves.length; ++i) {
            leaves[i] = leafOf(b.workers[i]);
        }
        return Trees.root(leaves);
    }

    function _add(Book memory b, uint256 index, uint256 word, uint256 rejecting) private view {
        Job memory job = newJob(index);
        job.client = clientAt(word % CLIENTS);
        job.inputPrice = uint128(1 + (word >> 8) % 3 ether);
        job.outputPrice = uint128(1 + (word >> 80) % 3 ether);
        job.verifiers = uint8(OPERATORS - 1);
        b.jobs[index] = job;
        SettlementRecord memory r = newRecord(job, operatorAt(word >> 208));
        b.records[index] = r;
        bool rejected = rejecting != 0 && (word >> 200) % rejecting == 0;
        _judge(r, word >> 208, rejected ? VERDICT_REJECT : VERDICT_ACCEPT);
        _price(r, rejected ? 0 : 2 * uint256(job.inputPrice) + 2 * uint256(job.outputPrice));
    }

    /// @dev One to three verifiers, none of them the worker, that all say the same.
    function _judge(SettlementRecord memory r, uint256 word, uint8 verdict) private pure {
        uint256 count = 1 + (word >> 8) % 3;
        (r.verifiers, r.verdicts) = (new address[](count), new uint8[](count));
        for (uint256 k; k < count; ++k) {
            r.verifiers[k] = operatorAt(word % OPERATORS + 1 + ((word >> 16) + k) % (OPERATORS - 1));
            r.verdicts[k] = verdict;
        }
        r.outcome = verdict;
    }

    function _price(SettlementRecord memory r, uint256 fee) private view {
        r.workerFee = uint128(fee);
        r.verifierFee = uint128(fee * params.verifierFeeBps / BPS);
        r.schedulerFee = uint128(fee * params.schedulerFeeBps / BPS);
    }
}
