// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Job, Params, SettlementRecord, VERDICT_ACCEPT, VERDICT_REJECT, VERDICT_UNABLE} from "../Types.sol";

/// @notice What a settlement record must say, given the job and the counts (verillm/settlement.py).
library SettlementRules {
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

    /// @notice Does the record follow from the signed job, by outcome rule, limits and fee formula?
    function follows(Job calldata job, SettlementRecord calldata record, Params memory params)
        internal
        pure
        returns (bool)
    {
        if (
            record.client != job.client || record.promptTokens != job.promptTokens
                || record.outputTokens > job.maxOutputTokens
                || record.verifiers.length != record.verdicts.length
                || record.verifiers.length > job.verifiers || record.outcome != outcome(record.verdicts)
        ) return false;
        uint256 fee;
        if (record.outcome == VERDICT_ACCEPT) {
            fee = uint256(record.promptTokens) * job.inputPrice + uint256(record.outputTokens)
                * job.outputPrice;
        }
        return record.workerFee == fee && record.verifierFee == fee * params.verifierFeeBps / 10_000
            && record.schedulerFee == fee * params.schedulerFeeBps / 10_000;
    }

    function total(SettlementRecord calldata record) internal pure returns (uint256) {
        return uint256(record.workerFee) + uint256(record.verifierFee) * record.verifiers.length
            + record.schedulerFee;
    }
}
