// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BlockHeader} from "./libraries/BlockHeader.sol";

/// @notice prevrandao of a block that is fixed when the request is made. Whoever pokes, and when, does not change it.
contract Randomness {
    struct Request {
        uint64 targetBlock;
        bool known;
        bytes32 value;
    }

    uint256 public immutable delayBlocks;
    uint256 public count;
    mapping(uint256 id => Request) private _requests;

    event Requested(uint256 indexed id, uint256 targetBlock);
    event Requeued(uint256 indexed id, uint256 targetBlock);
    event Known(uint256 indexed id, bytes32 value);

    error RequestUnknown(uint256 id);
    error AlreadyKnown(uint256 id);
    error TooEarly(uint256 id, uint256 targetBlock);
    error WrongHeader(uint256 id, bytes32 expected);
    error NotKnown(uint256 id);

    constructor(uint256 delayBlocks_) {
        delayBlocks = delayBlocks_;
    }

    /// @notice Fix the block `delayBlocks` from now as the source. Ids start at 1.
    function request() external returns (uint256 id) {
        id = ++count;
        _target(id);
        emit Requested(id, _requests[id].targetBlock);
    }

    /// @notice Prove the header of the target block. Past the last 256 blocks the request moves to a new block.
    function poke(uint256 id, bytes calldata header) external {
        Request storage r = _requests[id];
        if (r.targetBlock == 0) revert RequestUnknown(id);
        if (r.known) revert AlreadyKnown(id);
        if (block.number <= r.targetBlock) revert TooEarly(id, r.targetBlock);
        bytes32 expected = blockhash(r.targetBlock);
        if (expected == 0) {
            _target(id);
            emit Requeued(id, r.targetBlock);
            return;
        }
        if (keccak256(header) != expected) revert WrongHeader(id, expected);
        r.value = BlockHeader.mixHash(header);
        r.known = true;
        emit Known(id, r.value);
    }

    function value(uint256 id) external view returns (bytes32) {
        if (!_requests[id].known) revert NotKnown(id);
        return _requests[id].value;
    }

    function known(uint256 id) external view returns (bool) {
        return _requests[id].known;
    }

    function targetBlock(uint256 id) external view returns (uint256) {
        return _requests[id].targetBlock;
    }

    function _target(uint256 id) private {
        _requests[id].targetBlock = uint64(block.number + delayBlocks);
    }
}
