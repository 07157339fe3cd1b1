// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Tags} from "./Tags.sol";

/// @notice The trees of docs/protocol.md section 1: RFC 9162 shape, an odd last node is promoted unchanged.
library Merkle {
    error ProofInvalid();

    /// @dev 65 bytes do not fit the scratch space; they are written behind the free memory pointer, which stays.
    function node(bytes32 left, bytes32 right) internal pure returns (bytes32 hash) {
        uint256 tag = Tags.NODE;
        assembly ("memory-safe") {
            let free := mload(0x40)
            mstore8(free, tag)
            mstore(add(free, 1), left)
            mstore(add(free, 33), right)
            hash := keccak256(free, 65)
        }
    }

    /// @notice Root that `leaf` at `index` of `count` leaves implies; reverts if the proof has the wrong length.
    function rootFrom(bytes32 leaf, uint256 index, uint256 count, bytes32[] calldata proof)
        internal
        pure
        returns (bytes32 root)
    {
        if (index >= count) revert ProofInvalid();
        root = leaf;
        uint256 last = count - 1;
        uint256 used;
        unchecked {
            for (; last > 0; last >>= 1) {
                bool isRight = index & 1 == 1;
                if (isRight || index < last) {
                    if (used == proof.length) revert ProofInvalid();
                    bytes32 sibling = proof[used++];
                    root = isRight ? node(sibling, root) : node(root, sibling);
                }
                index >>= 1;
            }
        }
        if (used != proof.length) revert ProofInvalid();
    }

    /// @notice Root of the chunk tree over the little-endian bytes of one row.
    /// @dev The row is copied once, behind the free memory pointer. The byte before what is hashed has been used
    /// already, so it takes the tag; hashes go to the start of the copy, over chunks or hashes that have been used.
    function chunkRoot(bytes calldata row) internal pure returns (bytes32 root) {
        if (row.length == 0) revert ProofInvalid();
        (uint256 chunkTag, uint256 nodeTag, uint256 size) = (Tags.CHUNK, Tags.NODE, Tags.CHUNK_BYTES);
        assembly ("memory-safe") {
            let base := add(mload(0x40), 32)
            calldatacopy(base, row.offset, row.length)
            let to := base
            let end := add(base, row.length)
            for { let from := base } lt(from, end) { from := add(from, size) } {
                let left := sub(end, from)
                if gt(left, size) { left := size }
                mstore8(sub(from, 1), chunkTag)
                mstore(to, keccak256(sub(from, 1), add(left, 1)))
                to := add(to, 32)
            }
            for { let count := shr(5, sub(to, base)) } gt(count, 1) { count := shr(5, sub(to, base)) } {
                to := base
                end := add(base, shl(6, shr(1, count)))
                for { let from := base } lt(from, end) { from := add(from, 64) } {
                    mstore8(sub(from, 1), nodeTag)
                    mstore(to, keccak256(sub(from, 1), 65))
                    to := add(to, 32)
                }
                if and(count, 1) {
                    mstore(to, mload(end))
                    to := add(to, 32)
                }
            }
            root := mload(base)
        }
    }
}
