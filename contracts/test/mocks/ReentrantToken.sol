// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {Address} from "@openzeppelin/contracts/utils/Address.sol";

/// @notice A token that is an account of its own and, once armed, calls back in the middle of a transfer.
contract ReentrantToken is ERC20("Reentrant", "RE") {
    using Address for address;

    address private _target;
    bytes private _data;

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function arm(address target, bytes calldata data) external {
        (_target, _data) = (target, data);
    }

    /// @notice Call as the token.
    function act(address target, bytes calldata data) external returns (bytes memory) {
        return target.functionCall(data);
    }

    function _update(address from, address to, uint256 amount) internal override {
        address target = _target;
        if (target != address(0)) {
            _target = address(0);
            target.functionCall(_data);
        }
        super._update(from, to, amount);
    }
}
