// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

/// @notice A number with its history by epoch. The two latest values share one slot: a change made now counts from
/// the next epoch, so the value of the current epoch is always one of them.
library History {
    using SafeCast for uint256;

    /// @dev `since` are first epochs of a value, from 1 on; 0 stands for none. What is `older` is kept by rising
    /// epoch as `since << 96 | value`, two to a slot, the earlier one in the lower half.
    struct Number {
        uint96 value;
        uint32 since;
        uint96 valueBefore;
        uint32 sinceBefore;
        uint256 older;
        mapping(uint256 index => uint256) pairs;
    }

    /// @dev Pairs at the end that are searched on their own: a long history does not make recent epochs dearer.
    uint256 private constant _RECENT = 4;

    error EpochGoesBack(uint256 epoch, uint256 latest);

    /// @notice Give the number `value` from `epoch` >= 1 on.
    function set(Number storage number, uint256 epoch, uint256 value) internal {
        uint32 since = number.since;
        if (epoch < since) revert EpochGoesBack(epoch, since);
        if (epoch > since) {
            _archive(number, uint256(number.sinceBefore) << 96 | number.valueBefore);
            (number.valueBefore, number.sinceBefore) = (number.value, since);
            number.since = epoch.toUint32();
        }
        number.value = value.toUint96();
    }

    function latest(Number storage number) internal view returns (uint256) {
        return number.value;
    }

    function at(Number storage number, uint256 epoch) internal view returns (uint256) {
        if (number.since <= epoch) return number.value;
        if (number.sinceBefore <= epoch) return number.valueBefore;
        return _atOlder(number, epoch);
    }

    function _archive(Number storage number, uint256 entry) private {
        if (entry == 0) return; // before the first two changes
        uint256 older = number.older++;
        number.pairs[older >> 1] |= entry << (128 * (older & 1));
    }

    function _atOlder(Number storage number, uint256 epoch) private view returns (uint256) {
        uint256 found; // the last pair that begins at `epoch` or before
        uint256 low;
        uint256 high = (number.older + 1) >> 1;
        uint256 middle = high > _RECENT ? high - _RECENT : high >> 1;
        for (; low < high; middle = (low + high) >> 1) {
            uint256 pair = number.pairs[middle];
            if (uint128(pair) >> 96 > epoch) high = middle;
            else (found, low) = (pair, middle + 1);
        }
        uint256 later = found >> 128;
        return uint96(later != 0 && later >> 96 <= epoch ? later : found);
    }
}
