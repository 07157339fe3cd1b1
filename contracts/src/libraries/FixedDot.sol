// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Rows} from "./Rows.sol";

/// @notice Logits in fixed point: values as Q40 (towards zero, saturated at +-2^64), exact integer sums, logit Q24.
library FixedDot {
    /// @dev Biased exponent of 2^64 in bf16 and fp32, where values saturate; fp16 ends far below.
    uint256 private constant SATURATED = 191;

    /// @notice The values of a row [d] as Q40, to be used with several rows of weights.
    function q40(bytes calldata row, uint8 dtype) internal pure returns (int256[] memory values) {
        uint256 size = row.length / Rows.itemSize(dtype);
        values = new int256[](size + 1); // _walk stores pairs
        assembly ("memory-safe") {
            mstore(values, size)
        }
        _walk(Rows.load(row, dtype, SATURATED), values, false);
    }

    /// @param values Q40 [d] of the row after the final norm.
    /// @param weights A row of the output matrix, of the same d.
    function logitQ24(int256[] memory values, bytes calldata weights, uint8 dtype)
        internal
        pure
        returns (int256)
    {
        Rows.checkSize(weights, dtype, values.length);
        return _walk(Rows.load(weights, dtype, SATURATED), values, true) >> 56;
    }

    /// @dev Multiplies the row with `values`, or stores it there. `multiply` is a literal in both calls, so the compiler
    /// makes two functions without the branch.
    /// The sum cannot overflow: |value| <= 2^104, so d products are at most d * 2^208, far below 2^255 for d <= 8192.
    function _walk(Rows.Row memory row, int256[] memory values, bool multiply) private pure returns (int256) {
        (uint256 lane, uint256 fractionBits, uint256 special) = Rows.layout(row.dtype);
        // A value is significand * 2^(exponent + 1 - bias - fractionBits), with the exponent less 1. Its Q40 number is
        // (significand << exponent) / divisor << left, of at most 24 + 190 bits; only fp16 needs left.
        bool fp16 = row.dtype == Rows.FP16;
        uint256 divisor = fp16 ? 1 : 1 << ((special >> 1) + fractionBits - 41);
        uint256 left = fp16 ? 16 : 0;
        uint256[] memory words = row.words;
        int256 sum;
        assembly ("memory-safe") {
            let drop := sub(256, lane)
            let end := add(add(words, 32), shl(5, mload(words)))
            let start := add(values, 32)
            for { let from := add(words, 32) } lt(from, end) { from := add(from, 64) } {
                let exponents := mload(add(from, 32))
                let at := start
                // Two lanes at a time. Lanes that are 0 to the end of the word add nothing, and fresh memory holds
                // their value.
                for { let significands := mload(from) } significands { at := add(at, 64) } {
                    let value := sdiv(shl(shr(drop, exponents), sar(drop, significands)), divisor)
                    significands := shl(lane, significands)
                    exponents := shl(lane, exponents)
                    let second := sdiv(shl(shr(drop, exponents), sar(drop, significands)), divisor)
                    significands := shl(lane, significands)
                    exponents := shl(lane, exponents)
                    switch multiply
                    case 0 {
                        mstore(at, shl(left, value))
                        mstore(add(at, 32), shl(left, second))
                    }
                    default {
                        sum := add(sum, add(mul(mload(at), value), mul(mload(add(at, 32)), second)))
                    }
                }
                start := add(start, div(8192, lane))
            }
        }
        return sum << left;
    }
}
