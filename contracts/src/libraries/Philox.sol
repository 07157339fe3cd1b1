// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC'11), as the sampler uses it (docs/protocol.md section 2).
library Philox {
    uint256 private constant MASK = 0xffffffff;

    /// @notice The noise word of vocabulary entry `token` for the row at `position`.
    function noiseWord(uint64 seed, uint32 position, uint32 token) internal pure returns (uint256) {
        unchecked {
            uint256 k0 = seed & MASK;
            uint256 k1 = seed >> 32;
            (uint256 c0, uint256 c1, uint256 c2, uint256 c3) = (position, token >> 2, 0, 0);
            for (uint256 i; i < 10; ++i) {
                uint256 p0 = 0xD2511F53 * c0;
                uint256 p1 = 0xCD9E8D57 * c2;
                (c0, c1, c2, c3) = ((p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK);
                k0 = (k0 + 0x9E3779B9) & MASK;
                k1 = (k1 + 0xBB67AE85) & MASK;
            }
            uint256 word = token & 3;
            return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
        }
    }
}
