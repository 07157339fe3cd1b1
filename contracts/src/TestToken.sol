// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @notice The token of dev chains: anyone mints. Never deploy it where money is real.
contract TestToken is ERC20("VeriLLM test token", "tVERI") {
    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }
}
