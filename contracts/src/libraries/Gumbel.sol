// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice Gumbel noise in integers, Q24. verillm/sampling/gumbel.py defines it; every step is repeated here.
library Gumbel {
    int256 private constant LN2_Q40 = 762_123_384_786;

    function noiseQ24(uint256 word) internal pure returns (int256) {
        unchecked {
            int256 u = int256(2 * word + 1);
            int256 g;
            if (u < 1 << 29) {
                int256 acc = 306_783_378;
                acc = 357_913_941 + ((acc * u) >> 33);
                acc = 429_496_730 + ((acc * u) >> 33);
                acc = 536_870_912 + ((acc * u) >> 33);
                acc = 715_827_883 + ((acc * u) >> 33);
                acc = 1_073_741_824 + ((acc * u) >> 33);
                acc = 2_147_483_648 + ((acc * u) >> 33);
                g = 64 * LN2_Q40 - _lnQ40(u * acc);
            } else {
                g = 40 * LN2_Q40 - _lnQ40(33 * LN2_Q40 - _lnQ40(8_589_934_592 - u));
            }
            return (g + 32_768) >> 16;
        }
    }

    function _lnQ40(int256 x) private pure returns (int256) {
        unchecked {
            uint256 y = uint256(x);
            uint256 k;
            for (uint256 step = 32; step > 0; step >>= 1) {
                if (y >> step != 0) {
                    y >>= step;
                    k += step;
                }
            }
            int256 f = (k >= 31 ? x >> (k - 31) : x << (31 - k)) - 2_147_483_648;
            int256 acc = -6_993_020;
            acc = 42_750_303 + ((acc * f) >> 31);
            acc = -122_544_438 + ((acc * f) >> 31);
            acc = 227_939_599 + ((acc * f) >> 31);
            acc = -328_819_756 + ((acc * f) >> 31);
            acc = 422_584_350 + ((acc * f) >> 31);
            acc = -535_895_071 + ((acc * f) >> 31);
            acc = 715_756_387 + ((acc * f) >> 31);
            acc = -1_073_739_762 + ((acc * f) >> 31);
            acc = 2_147_483_638 + ((acc * f) >> 31);
            return int256(k) * LN2_Q40 + (((acc * f) >> 31) << 9);
        }
    }
}
