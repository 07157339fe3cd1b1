// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

/// @notice Randomness of fixed later blocks: the `mixHash` (prevrandao) of a block header.
interface IRandomness {
    event RandomnessRequested(uint256 indexed id, uint256 blockNumber);
    /// @notice The block left the 256-block horizon unread; the request now waits for `blockNumber`.
    event RandomnessMoved(uint256 indexed id, uint256 blockNumber);
    event RandomnessKnown(uint256 indexed id, bytes32 value);

    error UnknownRequest(uint256 id);
    error BlockNotLater(uint256 blockNumber, uint256 current);
    error BlockNotYet(uint256 blockNumber, uint256 current);
    error WrongHeader(bytes32 expected, bytes32 got);
    error AlreadyKnown(uint256 id);
    error NotKnown(uint256 id);

    /// @notice Ask for the randomness of a block after this one. Ids start at 1.
    function request(uint256 blockNumber) external returns (uint256 id);

    /// @notice Anyone: deliver the RLP header of the request's block once it is mined. If the block is older
    /// than 256 blocks, `header` is ignored and the request moves to a new block.
    function poke(uint256 id, bytes calldata header) external;

    /// @notice The value; reverts with NotKnown until poked.
    function value(uint256 id) external view returns (bytes32);

    /// @notice True once `value` can be read.
    function known(uint256 id) external view returns (bool);

    /// @notice The block that the request waits for or was read from.
    function blockOf(uint256 id) external view returns (uint256);
}
