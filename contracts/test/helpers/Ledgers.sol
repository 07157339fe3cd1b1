// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Line, Link, NO_JOB, RecordProof, SettlementRecord} from "../../src/Types.sol";
import {Trees} from "./Trees.sol";

/// @notice Builds a settlement from its records, as verillm/settlement.py does: links, lines and leaves.
library Ledgers {
    /// @notice Give every record its links: client, worker, verifiers.
    function link(SettlementRecord[] memory records) internal pure {
        for (uint32 i; i < records.length; ++i) {
            SettlementRecord memory r = records[i];
            r.links = new Link[](r.verifiers.length + 2);
            for (uint256 slot; slot < r.links.length; ++slot) {
                (address account, uint128 amount) = party(r, slot);
                r.links[slot] = _last(records, i, account, slot == 0);
                r.links[slot].total += amount;
            }
        }
    }

    function debits(SettlementRecord[] memory records) internal pure returns (Line[] memory) {
        return _lines(records, true);
    }

    function credits(SettlementRecord[] memory records) internal pure returns (Line[] memory) {
        return _lines(records, false);
    }

    function root(SettlementRecord[] memory records) internal pure returns (bytes32) {
        return Trees.root(_leaves(records));
    }

    function prove(SettlementRecord[] memory records, uint32 index)
        internal
        pure
        returns (RecordProof memory)
    {
        return RecordProof(index, records[index], Trees.proof(_leaves(records), index));
    }

    function party(SettlementRecord memory r, uint256 slot)
        internal
        pure
        returns (address account, uint128 amount)
    {
        if (slot == 0) {
            return (r.client, uint128(r.workerFee + r.verifierFee * r.verifiers.length + r.schedulerFee));
        }
        if (slot == 1) return (r.worker, r.workerFee);
        return (r.verifiers[slot - 2], r.verifierFee);
    }

    /// @dev The account's link in the last record before `end` that has it, as (index, total).
    function _last(SettlementRecord[] memory records, uint32 end, address account, bool paying)
        private
        pure
        returns (Link memory)
    {
        for (uint32 i = end; i > 0; --i) {
            SettlementRecord memory r = records[i - 1];
            uint256 slots = paying ? 1 : r.verifiers.length + 2;
            for (uint256 slot = paying ? 0 : 1; slot < slots; ++slot) {
                (address there,) = party(r, slot);
                if (there == account) return Link(i - 1, r.links[slot].total);
            }
        }
        return Link(NO_JOB, 0);
    }

    function _lines(SettlementRecord[] memory records, bool paying) private pure returns (Line[] memory) {
        Line[] memory all = new Line[](records.length * 16);
        uint256 count;
        for (uint256 i; i < records.length; ++i) {
            uint256 slots = paying ? 1 : records[i].verifiers.length + 2;
            for (uint256 slot = paying ? 0 : 1; slot < slots; ++slot) {
                (address account,) = party(records[i], slot);
                count = _insert(all, count, account);
            }
        }
        Line[] memory lines = new Line[](count);
        uint256 kept;
        for (uint256 i; i < count; ++i) {
            Link memory l = _last(records, uint32(records.length), all[i].account, paying);
            if (l.total > 0) lines[kept++] = Line(all[i].account, l.previous, l.total);
        }
        assembly ("memory-safe") {
            mstore(lines, kept)
        }
        return lines;
    }

    function _insert(Line[] memory sorted, uint256 count, address account) private pure returns (uint256) {
        uint256 at;
        while (at < count && sorted[at].account < account) ++at;
        if (at < count && sorted[at].account == account) return count;
        for (uint256 i = count; i > at; --i) {
            sorted[i] = sorted[i - 1];
        }
        sorted[at] = Line(account, 0, 0);
        return count + 1;
    }

    function _leaves(SettlementRecord[] memory records) private pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](records.length);
        for (uint256 i; i < records.length; ++i) {
            leaves[i] = Trees.recordLeaf(records[i]);
        }
    }
}
