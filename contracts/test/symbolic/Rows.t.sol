// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Rows} from "../../src/libraries/Rows.sol";

/// @notice Rows.load works on whole words; here it is compared with decoding one value after the other, for any two
/// neighbours of each dtype, with zeros before them. It reverts exactly if one of the two is NaN or infinite.
contract RowsSymbolic {
    /// @custom:halmos --loop 17
    function check_bf16_first_values(uint16 a, uint16 b) external view {
        _check(a, b, 0, Rows.BF16, 16, 7);
    }

    /// @custom:halmos --loop 17
    function check_bf16_values_of_two_words(uint16 a, uint16 b) external view {
        _check(a, b, 15, Rows.BF16, 16, 7);
    }

    /// @custom:halmos --loop 17
    function check_fp16_first_values(uint16 a, uint16 b) external view {
        _check(a, b, 0, Rows.FP16, 16, 10);
    }

    /// @custom:halmos --loop 17
    function check_fp32_values_of_two_words(uint32 a, uint32 b) external view {
        _check(a, b, 7, Rows.FP32, 32, 23);
    }

    function load(bytes calldata row, uint8 dtype) external pure returns (Rows.Row memory) {
        return Rows.load(row, dtype, type(uint256).max);
    }

    /// @param zeros values before the two
    /// @param lane bits of a value, of which `fraction` are the fraction's
    function _check(uint256 a, uint256 b, uint256 zeros, uint8 dtype, uint256 lane, uint256 fraction)
        private
        view
    {
        bool finite = true;
        uint256 top;
        uint256[] memory words = new uint256[](4);
        uint256 special = (1 << (lane - 1 - fraction)) - 1;
        for (uint256 i; i < 2; ++i) {
            uint256 bits = i == 0 ? a : b;
            uint256 biased = (bits >> fraction) & special;
            uint256 significand = bits & ((1 << fraction) - 1);
            uint256 exponent;
            if (biased == special) finite = false;
            if (biased > 0) (significand, exponent) = (significand + (1 << fraction), biased - 1);
            if (bits >> (lane - 1) != 0) significand = ((1 << lane) - significand) & ((1 << lane) - 1);
            if (exponent > top) top = exponent;
            uint256 at = zeros + i;
            uint256 shift = 256 - lane - lane * at % 256;
            words[2 * (lane * at / 256)] |= significand << shift;
            words[2 * (lane * at / 256) + 1] |= exponent << shift;
        }
        bytes memory row = bytes.concat(new bytes(zeros * lane / 8), _encode(a, lane), _encode(b, lane));
        try this.load(row, dtype) returns (Rows.Row memory loaded) {
            assert(finite && loaded.top == top);
            for (uint256 i; i < loaded.words.length; ++i) {
                assert(loaded.words[i] == words[i]);
            }
        } catch {
            assert(!finite);
        }
    }

    function _encode(uint256 value, uint256 lane) private pure returns (bytes memory) {
        if (lane == 16) return abi.encodePacked(uint8(value), uint8(value >> 8));
        return abi.encodePacked(uint8(value), uint8(value >> 8), uint8(value >> 16), uint8(value >> 24));
    }
}
