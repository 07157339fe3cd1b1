// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {History} from "../../src/libraries/History.sol";

/// @notice A number with up to five changes, at any rising epochs, to any values: every epoch keeps its value.
contract HistorySymbolic {
    using History for History.Number;

    History.Number private _number;

    /// @custom:halmos --loop 6
    function check_every_epoch_keeps_its_value(
        uint32[5] calldata epochs,
        uint96[5] calldata values,
        uint32 epoch
    ) external {
        uint256 expected;
        for (uint256 i; i < 5; ++i) {
            if (epochs[i] <= (i == 0 ? 0 : epochs[i - 1])) return;
            _number.set(epochs[i], values[i]);
            if (epochs[i] <= epoch) expected = values[i];
            assert(_number.at(epoch) == expected);
        }
    }
}
