// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {Merkle} from "../src/libraries/Merkle.sol";
import {Records} from "../src/libraries/Records.sol";
import {
    BPS,
    Commitment,
    Job,
    Line,
    Link,
    Params,
    RecordProof,
    Round,
    SettlementRecord,
    VERDICT_ACCEPT,
    VERDICT_REJECT,
    VERDICT_UNABLE
} from "../src/Types.sol";
import {Trees} from "./helpers/Trees.sol";

/// @notice Gives the library an outside: it reads calldata.
contract RecordsCaller {
    function stateHash(Round calldata round) external pure returns (bytes32) {
        return Records.stateHash(round);
    }

    function check(Round calldata round, RecordProof calldata job) external pure {
        Records.check(round, job);
    }

    function outcome(uint8[] calldata verdicts) external pure returns (uint8) {
        return Records.outcome(verdicts);
    }

    function follows(
        Job calldata job,
        Round calldata round,
        SettlementRecord calldata record,
        Params memory params
    ) external pure returns (bool) {
        return Records.follows(job, round, record, params);
    }

    function matches(SettlementRecord calldata record, Commitment calldata c) external pure returns (bool) {
        return Records.matches(record, c);
    }

    function party(SettlementRecord calldata record, uint256 slot) external pure returns (address, uint256) {
        return Records.party(record, slot);
    }

    function slotOf(SettlementRecord calldata record, address account, bool paying)
        external
        pure
        returns (bool, uint256)
    {
        return Records.slotOf(record, account, paying);
    }

    function lineOf(Line[] calldata lines, address account) external pure returns (bool, Line memory) {
        return Records.lineOf(lines, account);
    }

    function amountOf(Line[] calldata lines, address account) external pure returns (uint128) {
        return Records.amountOf(lines, account);
    }
}

contract RecordsTest is Test {
    RecordsCaller private caller = new RecordsCaller();

    /// @notice A job, its round and what its honest record is.
    struct Case {
        Job job;
        Round round;
        SettlementRecord record;
        Params params;
    }

    // --- a record follows from its job ---

    function testFuzz_the_honest_record_follows(uint256 seed) public view {
        Case memory c = _case(seed);
        assertTrue(_follows(c));
    }

    function testFuzz_a_record_with_a_changed_field_does_not_follow(uint256 seed, uint256 by) public view {
        bool paid = _case(seed).record.outcome == VERDICT_ACCEPT;
        uint256 changes = paid ? 18 : 16; // the last two need a job that is paid
        for (uint256 field; field < changes; ++field) {
            Case memory c = _case(seed);
            _change(c, field, by);
            assertFalse(_follows(c), vm.toString(field));
        }
    }

    /// @dev Counts and time limits bind only what is paid.
    function testFuzz_an_unpaid_job_follows_past_its_limits(uint256 seed) public view {
        Case memory c = _case(seed);
        vm.assume(c.record.outcome != VERDICT_ACCEPT);
        (c.record.outputTokens, c.round.committedAt) = (type(uint32).max, type(uint64).max);
        assertTrue(_follows(c));
    }

    /// @dev A fee beyond 128 bits has no record; least of all the one with the low 128 bits of it.
    function testFuzz_no_record_follows_when_the_fee_has_no_room(
        uint256 seed,
        uint128 inputPrice,
        uint128 claimed
    ) public view {
        Case memory c = _case(seed);
        vm.assume(c.record.outcome == VERDICT_ACCEPT && c.job.promptTokens > 1);
        uint256 tooMuch = uint256(type(uint128).max) / c.job.promptTokens + 1;
        c.job.inputPrice = uint128(bound(inputPrice, tooMuch, type(uint128).max));
        uint256 fee = _fee(c);
        assertGt(fee, type(uint128).max);
        (c.record.workerFee, c.record.verifierFee, c.record.schedulerFee) = (uint128(fee), 0, 0);
        assertFalse(_follows(c));
        c.record.verifierFee = uint128(fee * c.params.verifierFeeBps / BPS);
        c.record.schedulerFee = uint128(fee * c.params.schedulerFeeBps / BPS);
        assertFalse(_follows(c));
        c.record.workerFee = claimed;
        assertFalse(_follows(c));
    }

    function test_the_largest_prices_and_counts_are_refused_without_a_revert() public view {
        Case memory c = _case(1);
        (c.job.inputPrice, c.job.outputPrice) = (type(uint128).max, type(uint128).max);
        (c.job.promptTokens, c.record.promptTokens) = (type(uint32).max, type(uint32).max);
        (c.job.maxOutputTokens, c.record.outputTokens) = (type(uint32).max, type(uint32).max);
        (c.record.verdicts[0], c.record.outcome) = (VERDICT_ACCEPT, VERDICT_ACCEPT);
        assertFalse(_follows(c));
    }

    function test_fees_round_down() public view {
        Case memory c = _case(1);
        c.record.verifiers = new address[](1);
        c.record.verdicts = new uint8[](1);
        c.record.links = new Link[](3);
        (c.record.verdicts[0], c.record.outcome) = (VERDICT_ACCEPT, VERDICT_ACCEPT);
        (c.job.inputPrice, c.job.outputPrice) = (1, 0);
        (c.job.promptTokens, c.record.promptTokens) = (9999, 9999);
        (c.params.verifierFeeBps, c.params.schedulerFeeBps) = (1000, 1);
        (c.record.workerFee, c.record.verifierFee, c.record.schedulerFee) = (9999, 999, 0);
        assertTrue(_follows(c));
    }

    function testFuzz_a_record_matches_its_own_commitment_only(uint256 seed, uint256 by) public view {
        SettlementRecord memory r = _case(seed).record;
        Commitment memory c;
        (c.jobId, c.operator) = (r.jobId, r.worker);
        (c.promptTokens, c.outputTokens) = (r.promptTokens, r.outputTokens);
        assertTrue(caller.matches(r, c));
        by = bound(by, 1, type(uint32).max);
        c.jobId ^= bytes32(by);
        assertFalse(caller.matches(r, c));
        (c.jobId, c.operator) = (r.jobId, address(uint160(r.worker) ^ uint160(by)));
        assertFalse(caller.matches(r, c));
        (c.operator, c.promptTokens) = (r.worker, r.promptTokens ^ uint32(by));
        assertFalse(caller.matches(r, c));
        (c.promptTokens, c.outputTokens) = (r.promptTokens, r.outputTokens ^ uint32(by));
        assertFalse(caller.matches(r, c));
    }

    // --- outcome ---

    function test_the_outcome_of_each_kind_of_committee() public view {
        assertEq(caller.outcome(new uint8[](0)), VERDICT_UNABLE);
        assertEq(caller.outcome(_verdicts(VERDICT_UNABLE, VERDICT_UNABLE)), VERDICT_UNABLE);
        assertEq(caller.outcome(_verdicts(0, 255)), VERDICT_UNABLE);
        assertEq(caller.outcome(_verdicts(VERDICT_ACCEPT, VERDICT_UNABLE)), VERDICT_ACCEPT);
        assertEq(caller.outcome(_verdicts(VERDICT_REJECT, VERDICT_UNABLE)), VERDICT_REJECT);
        assertEq(caller.outcome(_verdicts(VERDICT_ACCEPT, VERDICT_REJECT)), VERDICT_REJECT);
    }

    // --- where a record is ---

    function test_a_round_that_is_not_settled_has_no_record() public {
        Case memory c = _case(1);
        vm.expectRevert(abi.encodeWithSelector(Records.RecordNotSettled.selector, 0));
        caller.check(c.round, RecordProof(0, c.record, new bytes32[](0)));
    }

    function testFuzz_a_record_is_found_in_its_place_only(uint256 seed, uint8 count, uint8 place) public {
        count = uint8(bound(count, 2, 9));
        place = uint8(bound(place, 0, count - 1));
        bytes32[] memory leaves = new bytes32[](count);
        for (uint256 i; i < count; ++i) {
            leaves[i] = Trees.recordLeaf(_case(seed ^ i).record);
        }
        Case memory c = _case(seed ^ place);
        (c.round.settlementRoot, c.round.jobs) = (Trees.root(leaves), count);
        RecordProof memory p = RecordProof(place, c.record, Trees.proof(leaves, place));
        caller.check(c.round, p);
        p.index = (place + 1) % count;
        vm.expectRevert();
        caller.check(c.round, p);
        p.index = count;
        vm.expectRevert(Merkle.ProofInvalid.selector);
        caller.check(c.round, p);
        p.index = place;
        p.record.workerFee ^= 1;
        vm.expectRevert(abi.encodeWithSelector(Records.RecordNotSettled.selector, place));
        caller.check(c.round, p);
    }

    function testFuzz_the_hash_of_a_round_is_that_of_its_encoding(Round calldata round) public view {
        assertEq(caller.stateHash(round), keccak256(abi.encode(round)));
    }

    /// @dev Bits above a narrow field are ignored by nobody: they make another hash.
    function testFuzz_bits_above_a_field_change_the_hash(Round calldata round, uint8 bit) public view {
        bytes memory data = abi.encodeCall(RecordsCaller.stateHash, (round));
        uint256 dirty = 1 << bound(bit, 160, 255);
        assembly ("memory-safe") {
            let word := add(data, 36) // the scheduler, behind the selector
            mstore(word, xor(mload(word), dirty))
        }
        (bool success, bytes memory result) = address(caller).staticcall(data);
        if (success) assertNotEq(abi.decode(result, (bytes32)), keccak256(abi.encode(round)));
    }

    // --- parties and lines ---

    function testFuzz_each_party_is_found_in_its_slot_with_its_amount(uint256 seed) public view {
        SettlementRecord memory r = _case(seed).record;
        uint256 all;
        for (uint256 slot; slot < r.verifiers.length + 2; ++slot) {
            (address account, uint256 amount) = caller.party(r, slot);
            (bool found, uint256 where) = caller.slotOf(r, account, slot == 0);
            assertTrue(found);
            assertEq(where, slot);
            (found,) = caller.slotOf(r, account, slot != 0);
            assertFalse(found); // in these cases the client does not earn
            if (slot > 0) all += amount;
        }
        (, uint256 paid) = caller.party(r, 0);
        assertEq(paid, all + r.schedulerFee);
        (bool stranger,) = caller.slotOf(r, address(this), false);
        assertFalse(stranger);
    }

    function testFuzz_a_line_is_found_where_a_plain_search_finds_it(uint256 seed, uint8 count) public view {
        Line[] memory lines = new Line[](bound(count, 0, 20));
        uint160 account;
        for (uint256 i; i < lines.length; ++i) {
            account += 1 + uint160(uint256(keccak256(abi.encode(seed, i))) % 3);
            lines[i] = Line(address(account), uint32(i), uint128(i + 1));
        }
        for (uint160 a; a <= account + 1; ++a) {
            uint256 expected; // amount, or 0 for none
            for (uint256 i; i < lines.length; ++i) {
                if (lines[i].account == address(a)) expected = lines[i].amount;
            }
            (bool found, Line memory line) = caller.lineOf(lines, address(a));
            assertEq(found, expected != 0);
            assertEq(line.amount, expected);
            assertEq(caller.amountOf(lines, address(a)), expected);
        }
    }

    // --- helpers ---

    function _follows(Case memory c) private view returns (bool) {
        return caller.follows(c.job, c.round, c.record, c.params);
    }

    function _fee(Case memory c) private pure returns (uint256) {
        return uint256(c.record.promptTokens) * c.job.inputPrice + uint256(c.record.outputTokens)
            * c.job.outputPrice;
    }

    function _word(uint256 seed, uint256 index) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed, index)));
    }

    /// @dev One to four verifiers, verdicts that mostly accept, prices below 2^64.
    function _case(uint256 seed) private pure returns (Case memory c) {
        (c.job.client, c.job.scheduler) = (address(0xC), address(0x5C));
        (c.job.modelId, c.job.promptTokens) = (bytes32(_word(seed, 0)), uint32(_word(seed, 1)) | 1);
        (c.job.inputPrice, c.job.outputPrice) = (uint64(_word(seed, 2)), uint64(_word(seed, 3)));
        c.job.maxOutputTokens = uint32(bound(_word(seed, 4), 0, type(uint32).max - 1));
        c.job.deadline = uint64(bound(_word(seed, 5), 0, type(uint64).max - 1));
        (c.round.scheduler, c.round.modelId) = (c.job.scheduler, c.job.modelId);
        c.round.committedAt = uint64(_word(seed, 6) % (uint256(c.job.deadline) + 1));
        c.params.verifierFeeBps = uint16(_word(seed, 7) % (BPS + 1));
        c.params.schedulerFeeBps = uint16(_word(seed, 8) % (BPS + 1));
        SettlementRecord memory r = c.record;
        (r.jobId, r.client, r.worker) = (bytes32(_word(seed, 9)), c.job.client, address(0xA0));
        r.promptTokens = c.job.promptTokens;
        r.outputTokens = uint32(_word(seed, 10) % (uint256(c.job.maxOutputTokens) + 1));
        _judge(r, seed);
        c.job.verifiers = uint8(r.verifiers.length + _word(seed, 11) % 3);
        if (r.outcome == VERDICT_ACCEPT) _price(c);
    }

    function _price(Case memory c) private pure {
        c.record.workerFee = uint128(_fee(c));
        c.record.verifierFee = uint128(_fee(c) * c.params.verifierFeeBps / BPS);
        c.record.schedulerFee = uint128(_fee(c) * c.params.schedulerFeeBps / BPS);
    }

    function _judge(SettlementRecord memory r, uint256 seed) private pure {
        uint256 count = 1 + _word(seed, 12) % 4;
        (r.verifiers, r.verdicts) = (new address[](count), new uint8[](count));
        r.links = new Link[](count + 2);
        int256 balance;
        bool able;
        for (uint256 i; i < count; ++i) {
            r.verifiers[i] = address(uint160(0xB0 + i));
            uint256 word = _word(seed, 20 + i) % 6;
            r.verdicts[i] = word == 0 ? VERDICT_REJECT : word == 1 ? VERDICT_UNABLE : VERDICT_ACCEPT;
            able = able || word != 1;
            balance += word == 0 ? -1 : word == 1 ? int256(0) : int256(1);
        }
        r.outcome = !able ? VERDICT_UNABLE : balance > 0 ? VERDICT_ACCEPT : VERDICT_REJECT;
    }

    /// @dev Change number `field` of all that a record or its job can have wrong.
    function _change(Case memory c, uint256 field, uint256 by) private pure {
        SettlementRecord memory r = c.record;
        uint128 amount = uint128(bound(by, 1, type(uint128).max));
        if (field == 0) r.client = address(uint160(r.client) ^ uint160(amount));
        else if (field == 1) r.promptTokens ^= uint32(1 + by % type(uint32).max);
        else if (field == 2) r.outcome ^= uint8(1 + by % 255);
        else if (field == 3) r.workerFee ^= amount;
        else if (field == 4) r.verifierFee ^= amount;
        else if (field == 5) r.schedulerFee ^= amount;
        else if (field == 6) r.links = new Link[](r.links.length + 1);
        else if (field == 7) r.links = new Link[](r.links.length - 1);
        else if (field == 8) r.links = new Link[](0);
        else if (field == 9) r.verdicts = new uint8[](r.verdicts.length + 1);
        else if (field == 10) r.verifiers = new address[](r.verifiers.length + 1);
        else if (field == 11) r.verifiers[by % r.verifiers.length] = r.worker;
        else if (field == 12) c.job.verifiers = uint8(r.verifiers.length - 1);
        else if (field == 13) c.job.scheduler = address(uint160(amount) | 1 << 159);
        else if (field == 14) c.job.modelId = ~c.job.modelId;
        else if (field == 15) _repeat(c);
        else if (field == 17) c.round.committedAt = c.job.deadline + 1;
        if (field != 16) return;
        r.outputTokens = c.job.maxOutputTokens + 1;
        _price(c);
    }

    /// @dev Every verifier once more, with the verdict that it gave.
    function _repeat(Case memory c) private pure {
        SettlementRecord memory r = c.record;
        c.job.verifiers = type(uint8).max;
        uint256 count = r.verifiers.length;
        address[] memory verifiers = new address[](count * 2);
        uint8[] memory verdicts = new uint8[](count * 2);
        for (uint256 i; i < count * 2; ++i) {
            (verifiers[i], verdicts[i]) = (r.verifiers[i % count], r.verdicts[i % count]);
        }
        (r.verifiers, r.verdicts, r.links) = (verifiers, verdicts, new Link[](count * 2 + 2));
    }

    function _verdicts(uint8 first, uint8 second) private pure returns (uint8[] memory verdicts) {
        verdicts = new uint8[](2);
        (verdicts[0], verdicts[1]) = (first, second);
    }
}
