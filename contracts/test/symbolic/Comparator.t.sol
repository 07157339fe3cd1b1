// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Comparator} from "../../src/libraries/Comparator.sol";

/// @notice Rows of one value. Squares of symbolic numbers are hard for a solver, so the symmetry is shown for every
/// low byte (mantissa and last exponent bit) of values whose high byte is fixed: near, far apart, of either sign.
contract ComparatorSymbolic {
    uint8 private constant BF16 = 1;
    uint8 private constant FP32 = 3;

    function check_symmetric_same_exponent(bytes1 a, bytes1 b) external view {
        _symmetric(abi.encodePacked(a, hex"3f"), abi.encodePacked(b, hex"3f"));
    }

    function check_symmetric_opposite_signs(bytes1 a, bytes1 b) external view {
        _symmetric(abi.encodePacked(a, hex"3f"), abi.encodePacked(b, hex"bf"));
    }

    function check_symmetric_far_apart(bytes1 a, bytes1 b) external view {
        _symmetric(abi.encodePacked(a, hex"3f"), abi.encodePacked(b, hex"42"));
    }

    function check_a_row_never_diverges_from_itself(bytes4 a, uint64 tolerance) external view {
        bytes memory row = abi.encodePacked(a);
        for (uint8 dtype = BF16; dtype <= FP32; ++dtype) {
            try this.diverges(row, row, dtype, tolerance) returns (bool diverged) {
                assert(!diverged);
            } catch {}
        }
    }

    function statistics(bytes calldata a, bytes calldata b) external pure returns (uint256, uint256) {
        return Comparator.statistics(Comparator.load(a, BF16), Comparator.load(b, BF16));
    }

    function diverges(bytes calldata a, bytes calldata b, uint8 dtype, uint256 tolerance)
        external
        pure
        returns (bool)
    {
        return Comparator.diverges(Comparator.load(a, dtype), Comparator.load(b, dtype), tolerance);
    }

    function _symmetric(bytes memory a, bytes memory b) private view {
        (uint256 difference, uint256 norm) = this.statistics(a, b);
        (uint256 swapped, uint256 sameNorm) = this.statistics(b, a);
        assert(difference == swapped && norm == sameNorm);
    }
}
