// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    BPS,
    Commitment,
    Job,
    Line,
    Params,
    RecordProof,
    Round,
    SettlementRecord,
    VERDICT_ACCEPT,
    VERDICT_REJECT,
    VERDICT_UNABLE
} from "../Types.sol";
import {Merkle} from "./Merkle.sol";
import {Tags} from "./Tags.sol";

/// @notice What a settlement must say (verillm/settlement.py): each record given the job and the counts, and each sum
/// given the records.
library Records {
    error RecordNotSettled(uint256 index);

    /// @notice The round's hash: a struct of static members is its own abi encoding.
    function stateHash(Round calldata round) internal pure returns (bytes32 hash) {
        assembly ("memory-safe") {
            let p := mload(0x40)
            calldatacopy(p, round, 608) // 19 words
            hash := keccak256(p, 608)
        }
    }

    /// @notice Reverts unless the record is leaf `job.index` of the round's settlement.
    function check(Round calldata round, RecordProof calldata job) internal pure {
        bytes32 leaf = keccak256(bytes.concat(bytes1(Tags.SETTLEMENT_LEAF), abi.encode(job.record)));
        if (
            round.settlementRoot == 0
                || Merkle.rootFrom(leaf, job.index, round.jobs, job.proof) != round.settlementRoot
        ) revert RecordNotSettled(job.index);
    }

    function outcome(uint8[] calldata verdicts) internal pure returns (uint8) {
        uint256 accepts;
        uint256 rejects;
        for (uint256 i; i < verdicts.length; ++i) {
            if (verdicts[i] == VERDICT_ACCEPT) ++accepts;
            else if (verdicts[i] == VERDICT_REJECT) ++rejects;
        }
        if (accepts + rejects == 0) return VERDICT_UNABLE;
        return accepts > rejects ? VERDICT_ACCEPT : VERDICT_REJECT;
    }

    /// @notice Does the record follow from the signed job, by limits, outcome rule and fee formula? An outcome other
    /// than ACCEPT pays nothing.
    function follows(
        Job calldata job,
        Round calldata round,
        SettlementRecord calldata record,
        Params memory params
    ) internal pure returns (bool) {
        if (
            record.client != job.client || record.promptTokens != job.promptTokens
                || job.scheduler != round.scheduler || job.modelId != round.modelId
                || record.verifiers.length != record.verdicts.length
                || record.verifiers.length > job.verifiers || record.outcome != outcome(record.verdicts)
                || !sound(record)
        ) return false;
        uint256 fee;
        if (record.outcome == VERDICT_ACCEPT) {
            if (record.outputTokens > job.maxOutputTokens || round.committedAt > job.deadline) return false;
            fee = uint256(record.promptTokens) * job.inputPrice + uint256(record.outputTokens)
                * job.outputPrice;
        }
        return record.workerFee == fee && record.verifierFee == fee * params.verifierFeeBps / BPS
            && record.schedulerFee == fee * params.schedulerFeeBps / BPS;
    }

    /// @notice Does the record repeat what the worker committed to?
    function matches(SettlementRecord calldata record, Commitment calldata c) internal pure returns (bool) {
        return record.jobId == c.jobId && record.worker == c.operator && record.promptTokens == c.promptTokens
            && record.outputTokens == c.outputTokens;
    }

    /// @notice Can sums be followed through the record? It has one link for each party, and nobody earns in it as
    /// worker and verifier, or as verifier twice.
    function sound(SettlementRecord calldata record) internal pure returns (bool) {
        if (record.links.length != record.verifiers.length + 2) return false;
        for (uint256 i; i < record.verifiers.length; ++i) {
            if (record.verifiers[i] == record.worker) return false;
            for (uint256 j; j < i; ++j) {
                if (record.verifiers[i] == record.verifiers[j]) return false;
            }
        }
        return true;
    }

    /// @notice What the client pays for the job.
    function total(SettlementRecord calldata record) internal pure returns (uint256) {
        return uint256(record.workerFee) + uint256(record.verifierFee) * record.verifiers.length
            + record.schedulerFee;
    }

    /// @notice Party `slot` of a record: 0 the client, 1 the worker, 2 and on the verifiers; and what it pays or earns.
    function party(SettlementRecord calldata record, uint256 slot)
        internal
        pure
        returns (address account, uint256 amount)
    {
        if (slot == 0) return (record.client, total(record));
        if (slot == 1) return (record.worker, record.workerFee);
        return (record.verifiers[slot - 2], record.verifierFee);
    }

    /// @notice Slot of an account that earns (or, with `paying`, pays) in the record. A sound record has no account twice.
    function slotOf(SettlementRecord calldata record, address account, bool paying)
        internal
        pure
        returns (bool found, uint256 slot)
    {
        if (paying) return (record.client == account, 0);
        for (slot = 1; slot < record.verifiers.length + 2; ++slot) {
            if ((slot == 1 ? record.worker : record.verifiers[slot - 2]) == account) return (true, slot);
        }
    }

    /// @notice The account's line; lines are sorted by account.
    function lineOf(Line[] calldata lines, address account)
        internal
        pure
        returns (bool found, Line memory line)
    {
        (uint256 low, uint256 high) = (0, lines.length);
        while (low < high) {
            uint256 middle = (low + high) / 2;
            if (lines[middle].account < account) low = middle + 1;
            else high = middle;
        }
        if (low < lines.length && lines[low].account == account) return (true, lines[low]);
    }

    /// @notice What the account's line says, 0 if it has none.
    function amountOf(Line[] calldata lines, address account) internal pure returns (uint128) {
        (, Line memory line) = lineOf(lines, account);
        return line.amount;
    }
}
