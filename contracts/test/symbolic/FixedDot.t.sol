// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {FixedDot} from "../../src/libraries/FixedDot.sol";

/// @notice Rows of one value against the weight 1.0, so that the logit is the value itself in Q24.
contract FixedDotSymbolic {
    uint8 private constant BF16 = 1;
    uint8 private constant FP32 = 3;
    int256 private constant SATURATED = int256(1) << 88; // 2^64 as Q24

    function check_bf16_saturates(bytes2 value) external view {
        int256 logit = _logit(abi.encodePacked(value), BF16);
        assert(-SATURATED <= logit && logit <= SATURATED);
    }

    function check_fp32_saturates(bytes4 value) external view {
        int256 logit = _logit(abi.encodePacked(value), FP32);
        assert(-SATURATED <= logit && logit <= SATURATED);
    }

    /// @notice Values are cut towards zero, the sum towards minus infinity: x and -x differ by at most one unit.
    function check_bf16_negation(uint16 bits) external view {
        int256 logit = _logit(_bf16(bits & 0x7fff), BF16);
        int256 sum = logit + _logit(_bf16(bits | 0x8000), BF16);
        assert(logit >= 0 && (sum == 0 || sum == -1));
    }

    /// @notice Finite non-negative bf16 values are ordered as their bits are; so are their logits.
    function check_bf16_monotone(uint16 smaller, uint16 larger) external view {
        if (smaller > larger || larger > 0x7fff) return;
        assert(_logit(_bf16(smaller), BF16) <= _logit(_bf16(larger), BF16));
    }

    function logitQ24(bytes calldata row, uint8 rowDtype, bytes calldata weights, uint8 weightDtype)
        external
        pure
        returns (int256)
    {
        return FixedDot.logitQ24(FixedDot.q40(row, rowDtype), weights, weightDtype);
    }

    /// @dev Reverts, which ends the check without a verdict, where the value is not finite.
    function _logit(bytes memory row, uint8 dtype) private view returns (int256) {
        return this.logitQ24(row, dtype, hex"803f", BF16);
    }

    function _bf16(uint16 bits) private pure returns (bytes memory) {
        return abi.encodePacked(uint8(bits), uint8(bits >> 8));
    }
}
