// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TimelockController} from "@openzeppelin/contracts/governance/TimelockController.sol";

/// @notice OpenZeppelin's timelock, owner of `Parameters`: who may propose, may execute after `delaySeconds`.
contract Timelock is TimelockController {
    constructor(uint256 delaySeconds, address[] memory proposers)
        TimelockController(delaySeconds, proposers, proposers, address(0))
    {}
}
