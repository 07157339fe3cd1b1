// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Merkle} from "../../src/libraries/Merkle.sol";

/// @notice Trees of up to 8 leaves, every index, every proof of up to 4 hashes; keccak256 is any injective function.
contract MerkleSymbolic {
    uint256 private constant MAX_COUNT = 8;

    /// @notice A root comes out exactly if the leaf exists and the proof is as long as its audit path.
    /// @custom:halmos --array-lengths proof={0,1,2,3,4} --loop 5
    function check_only_a_proof_of_the_right_length_gives_a_root(
        bytes32 leaf,
        uint256 index,
        uint256 count,
        bytes32[] calldata proof
    ) external view {
        if (count > MAX_COUNT) return;
        bool fits = index < count && proof.length == _pathLength(index, count);
        try this.rootFrom(leaf, index, count, proof) {
            assert(fits);
        } catch {
            assert(!fits);
        }
    }

    /// @custom:halmos --array-lengths proof={0,1,2,3,4} --loop 5
    function check_two_leaves_never_share_a_root(
        bytes32 leaf,
        bytes32 other,
        uint256 index,
        uint256 count,
        bytes32[] calldata proof
    ) external pure {
        if (count > MAX_COUNT || leaf == other) return;
        assert(Merkle.rootFrom(leaf, index, count, proof) != Merkle.rootFrom(other, index, count, proof));
    }

    /// @custom:halmos --array-lengths proof={1,2,3},other={1,2,3} --loop 5
    function check_two_proofs_never_share_a_root(
        bytes32 leaf,
        uint256 index,
        uint256 count,
        bytes32[] calldata proof,
        bytes32[] calldata other
    ) external pure {
        if (count > MAX_COUNT || proof.length != other.length) return;
        bool same = true;
        for (uint256 i; i < proof.length; ++i) {
            same = same && proof[i] == other[i];
        }
        if (same) return;
        assert(Merkle.rootFrom(leaf, index, count, proof) != Merkle.rootFrom(leaf, index, count, other));
    }

    function rootFrom(bytes32 leaf, uint256 index, uint256 count, bytes32[] calldata proof)
        external
        pure
        returns (bytes32)
    {
        return Merkle.rootFrom(leaf, index, count, proof);
    }

    /// @dev Length of the audit path by RFC 9162's top-down definition: split at the largest power of two < count.
    function _pathLength(uint256 index, uint256 count) private pure returns (uint256 length) {
        for (; count > 1; ++length) {
            uint256 left = count > 4 ? 4 : count > 2 ? 2 : 1;
            (index, count) = index < left ? (index, left) : (index - left, count - left);
        }
    }
}
