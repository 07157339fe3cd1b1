// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRandomness} from "./interfaces/IRandomness.sol";
import {BlockHeader} from "./libraries/BlockHeader.sol";

/// @notice prevrandao (EIP-4399) of a block that its user fixed in advance, proven by the block's header.
contract Randomness is IRandomness {
    mapping(uint256 blockNumber => bytes32) private _values;

    /// @inheritdoc IRandomness
    function poke(uint256 blockNumber, bytes calldata header) external {
        if (_values[blockNumber] != 0) revert AlreadyKnown(blockNumber);
        bytes32 seed = prove(blockNumber, header);
        _values[blockNumber] = seed;
        emit Known(blockNumber, seed);
    }

    /// @inheritdoc IRandomness
    function prove(uint256 blockNumber, bytes calldata header) public view returns (bytes32 seed) {
        if (block.number <= blockNumber) revert TooEarly(blockNumber);
        bytes32 expected = blockhash(blockNumber);
        if (expected == 0) revert Expired(blockNumber);
        if (keccak256(header) != expected) revert WrongHeader(blockNumber, expected);
        seed = BlockHeader.mixHash(header);
    }

    /// @inheritdoc IRandomness
    function valueOf(uint256 blockNumber) external view returns (bytes32 seed) {
        seed = _values[blockNumber];
        if (seed == 0) revert NotKnown(blockNumber);
    }

    /// @inheritdoc IRandomness
    function known(uint256 blockNumber) external view returns (bool) {
        return _values[blockNumber] != 0;
    }

    /// @inheritdoc IRandomness
    function expired(uint256 blockNumber) external view returns (bool) {
        return block.number > blockNumber && blockhash(blockNumber) == 0 && _values[blockNumber] == 0;
    }
}
