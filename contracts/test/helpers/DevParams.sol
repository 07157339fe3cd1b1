// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";
import {Params} from "../../src/Types.sol";

/// @notice The devnet profile of verillm/params.json, the one home of the parameters.
library DevParams {
    Vm private constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    function load() internal view returns (Params memory p) {
        string memory json = vm.readFile("verillm/params.json");
        p.minStake = uint128(_get(json, "min_stake"));
        p.disputeBond = uint128(_get(json, "dispute_bond"));
        p.epochBlocks = uint32(_get(json, "epoch_blocks"));
        p.unbondingBlocks = uint32(_get(json, "unbonding_blocks"));
        p.escrowDelayBlocks = uint32(_get(json, "escrow_delay_blocks"));
        p.randomnessDelayBlocks = uint32(_get(json, "randomness_delay_blocks"));
        p.settleBlocks = uint32(_get(json, "settle_blocks"));
        p.challengeWindowBlocks = uint32(_get(json, "challenge_window_blocks"));
        p.openingDeadlineBlocks = uint32(_get(json, "opening_deadline_blocks"));
        p.juryCommitBlocks = uint32(_get(json, "jury_commit_blocks"));
        p.juryRevealBlocks = uint32(_get(json, "jury_reveal_blocks"));
        p.appealBlocks = uint32(_get(json, "appeal_blocks"));
        p.jurySize = uint16(_get(json, "jury_size"));
        p.maxAppeals = uint16(_get(json, "max_appeals"));
        p.maxAttempts = uint16(_get(json, "max_attempts"));
        p.verifierSpares = uint16(_get(json, "verifier_spares"));
        p.openedPositions = uint16(_get(json, "opened_positions"));
        p.slashBpsDivergence = uint16(_get(json, "slash_bps_divergence"));
        p.slashBpsTokenFraud = uint16(_get(json, "slash_bps_token_fraud"));
        p.slashBpsWithheld = uint16(_get(json, "slash_bps_withheld"));
        p.slashBpsSettlement = uint16(_get(json, "slash_bps_settlement"));
        p.slashBpsNoShow = uint16(_get(json, "slash_bps_no_show"));
        p.challengerShareBps = uint16(_get(json, "challenger_share_bps"));
        p.jurorShareBps = uint16(_get(json, "juror_share_bps"));
        p.verifierFeeBps = uint16(_get(json, "verifier_fee_bps"));
        p.schedulerFeeBps = uint16(_get(json, "scheduler_fee_bps"));
    }

    function _get(string memory json, string memory key) private pure returns (uint256) {
        return vm.parseJsonUint(json, string.concat(".devnet.", key));
    }
}
