// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice Seats of a dispute's juries and what follows from their votes. A side is 0 nobody, 1 first, 2 second.
library Juries {
    /// @dev `near` has bit 1 if the juror's row is close to the first party's, bit 2 if to the second's.
    struct Seat {
        address juror;
        bool unable;
        bool revealed;
        uint8 near;
        bytes32 commitment;
    }

    /// @notice One level of a dispute. Its seats are `start` to `start + drawn - 1` of the dispute's.
    /// @dev `opener` paid the level's bond, when `contested` was the side that stood.
    struct Level {
        address opener;
        uint8 contested;
        uint8 drawn;
        uint8 committed;
        uint8 unable;
        uint8 revealed;
        uint8 votesFirst;
        uint8 votesSecond;
        uint16 start;
    }

    error NotJuror(address caller);

    /// @notice A jury of nominal size `size` decides if more than half of it can agree, or did vote.
    function isQuorum(uint256 votes, uint256 size) internal pure returns (bool) {
        return 2 * votes > size;
    }

    function majority(Level storage level) internal view returns (uint8) {
        (uint8 first, uint8 second) = (level.votesFirst, level.votesSecond);
        return first > second ? 1 : second > first ? 2 : 0;
    }

    function votesFor(Level storage level, uint8 side) internal view returns (uint256) {
        if (side == 0) return 0;
        return side == 1 ? level.votesFirst : level.votesSecond;
    }

    /// @notice Nobody can commit any more.
    function allAnswered(Level storage level) internal view returns (bool) {
        return uint256(level.committed) + level.unable == level.drawn;
    }

    /// @notice The juror's seat of this level.
    function seatOf(Level storage level, Seat[] storage seats, address juror)
        internal
        view
        returns (Seat storage)
    {
        (uint256 from, uint256 count) = (level.start, level.drawn);
        for (uint256 i = from; i < from + count; ++i) {
            if (seats[i].juror == juror) return seats[i];
        }
        revert NotJuror(juror);
    }

    /// @notice Jurors of the seats `from` to `to - 1`.
    function jurors(Seat[] storage seats, uint256 from, uint256 to)
        internal
        view
        returns (address[] memory list)
    {
        list = new address[](to - from);
        for (uint256 i; i < list.length; ++i) {
            list[i] = seats[from + i].juror;
        }
    }

    function concat(address[] memory a, address[] memory b) internal pure returns (address[] memory list) {
        list = new address[](a.length + b.length);
        for (uint256 i; i < list.length; ++i) {
            list[i] = i < a.length ? a[i] : b[i - a.length];
        }
    }
}
