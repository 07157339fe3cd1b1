// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";
import {Params} from "../../src/Types.sol";

/// @notice The devnet profile of verillm/params.json, the one home of the parameters.
library DevParams {
    Vm private constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    function load() internal view returns (Params memory p) {
        string memory json = vm.readFile("verillm/params.json");
        p.epochBlocks = _get(json, "epoch_blocks");
        p.unbondingBlocks = _get(json, "unbonding_blocks");
        p.escrowDelayBlocks = _get(json, "escrow_delay_blocks");
        p.randomnessDelayBlocks = _get(json, "randomness_delay_blocks");
        p.challengeWindowBlocks = _get(json, "challenge_window_blocks");
        p.openingDeadlineBlocks = _get(json, "opening_deadline_blocks");
        p.juryCommitBlocks = _get(json, "jury_commit_blocks");
        p.juryRevealBlocks = _get(json, "jury_reveal_blocks");
        p.jurySize = _get(json, "jury_size");
        p.minStake = _get(json, "min_stake");
        p.disputeBond = _get(json, "dispute_bond");
        p.slashBpsDivergence = _get(json, "slash_bps_divergence");
        p.slashBpsTokenFraud = _get(json, "slash_bps_token_fraud");
        p.slashBpsWithheld = _get(json, "slash_bps_withheld");
        p.slashBpsSettlement = _get(json, "slash_bps_settlement");
        p.slashBpsNoShow = _get(json, "slash_bps_no_show");
        p.challengerShareBps = _get(json, "challenger_share_bps");
        p.jurorShareBps = _get(json, "juror_share_bps");
        p.verifierFeeBps = _get(json, "verifier_fee_bps");
        p.schedulerFeeBps = _get(json, "scheduler_fee_bps");
        p.openedPositions = _get(json, "opened_positions");
    }

    function _get(string memory json, string memory key) private pure returns (uint256) {
        return vm.parseJsonUint(json, string.concat(".devnet.", key));
    }
}
