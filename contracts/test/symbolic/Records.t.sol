// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Records} from "../../src/libraries/Records.sol";
import {Job, Link, Params, Round, SettlementRecord, VERDICT_ACCEPT} from "../../src/Types.sol";

/// @notice Fees of one accepted job with one verifier, for all prices and amounts that the types allow.
contract RecordsSymbolic {
    uint16 private constant FEE_BPS = 500;

    /// @notice The fee formula, which grows with prices and counts, does not revert at their largest.
    function check_fees_never_overflow(uint8 below) external view {
        (Job memory job, SettlementRecord memory record) = _accepted(type(uint32).max, type(uint32).max);
        (job.inputPrice, job.outputPrice) = (type(uint128).max - below, type(uint128).max);
        Round memory round;
        try this.follows(job, round, record) {}
        catch {
            assert(false);
        }
    }

    /// @notice Shares of the worker's fee round down, by less than one wei: every remainder by 10,000 occurs.
    function check_shares_round_in_the_payers_favour(
        uint16 workerFee,
        uint128 verifierFee,
        uint128 schedulerFee
    ) external view {
        (Job memory job, SettlementRecord memory record) = _accepted(1, 0);
        job.inputPrice = workerFee;
        (record.workerFee, record.verifierFee, record.schedulerFee) = (workerFee, verifierFee, schedulerFee);
        Round memory round;
        if (!this.follows(job, round, record)) return;
        assert(_isShare(verifierFee, workerFee) && _isShare(schedulerFee, workerFee));
    }

    /// @custom:halmos --default-array-lengths 0,1,2 --loop 3
    function check_total_is_what_the_record_pays(SettlementRecord calldata record) external pure {
        uint256 sum = uint256(record.workerFee) + record.schedulerFee;
        for (uint256 i; i < record.verifiers.length; ++i) {
            sum += record.verifierFee;
        }
        assert(Records.total(record) == sum);
    }

    function follows(Job calldata job, Round calldata round, SettlementRecord calldata record)
        external
        pure
        returns (bool)
    {
        Params memory params;
        (params.verifierFeeBps, params.schedulerFeeBps) = (FEE_BPS, FEE_BPS);
        return Records.follows(job, round, record, params);
    }

    function _accepted(uint32 promptTokens, uint32 outputTokens)
        private
        pure
        returns (Job memory job, SettlementRecord memory record)
    {
        (job.promptTokens, job.maxOutputTokens, job.verifiers) = (promptTokens, outputTokens, 1);
        (record.promptTokens, record.outputTokens) = (promptTokens, outputTokens);
        (record.verifiers, record.verdicts) = (new address[](1), new uint8[](1));
        (record.verifiers[0], record.links) = (address(1), new Link[](3));
        (record.outcome, record.verdicts[0]) = (VERDICT_ACCEPT, VERDICT_ACCEPT);
    }

    function _isShare(uint256 share, uint256 fee) private pure returns (bool) {
        unchecked {
            uint256 exact = fee * FEE_BPS; // < 2^137
            return share * 10_000 <= exact && exact < (share + 1) * 10_000;
        }
    }
}
