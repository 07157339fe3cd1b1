// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Rows} from "./Rows.sol";

/// @notice Logits in fixed point: values as Q40 (towards zero, saturated at +-2^64), exact integer sums, logit Q24.
library FixedDot {
    int256 private constant LIMIT = int256(1) << 104; // 2^64 as Q40

    function logitQ24(
        bytes calldata row,
        uint8 rowDtype,
        bytes calldata weights,
        uint8 weightDtype,
        uint256 size
    ) internal pure returns (int256) {
        int256 sum;
        uint256 rowScale = Rows.scale(rowDtype);
        uint256 weightScale = Rows.scale(weightDtype);
        unchecked {
            for (uint256 i; i < size; ++i) {
                sum += _q40(row, rowDtype, i, rowScale) * _q40(weights, weightDtype, i, weightScale);
            }
        }
        return sum >> 56;
    }

    function _q40(bytes calldata row, uint8 dtype, uint256 i, uint256 scale) private pure returns (int256) {
        (bool negative, uint256 exponent, uint256 significand) = Rows.decode(row, dtype, i);
        int256 value;
        unchecked {
            value = exponent + 40 >= scale
                ? int256(significand << (exponent + 40 - scale))
                : int256(significand >> (scale - exponent - 40));
        }
        if (value > LIMIT) value = LIMIT;
        return negative ? -value : value;
    }
}
