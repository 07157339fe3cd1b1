// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test, console} from "forge-std/Test.sol";
import {Vrf, VrfProof} from "../src/libraries/Vrf.sol";

/// @notice Gives the library an outside: it reads calldata.
contract VrfCaller {
    function verify(bytes calldata key, bytes calldata alpha, VrfProof calldata proof)
        external
        pure
        returns (bytes32)
    {
        return Vrf.verify(key, alpha, proof);
    }

    function publicKeyAddress(bytes calldata key) external pure returns (address) {
        return Vrf.publicKeyAddress(key);
    }
}

/// @notice The proofs of tests/vectors/vrf.json, which verillm/vrf.py made, and what may not pass for one.
contract VrfTest is Test {
    uint256 private constant GAS_BASE = 24_000;
    uint256 private constant GAS_TRY = 4_000;

    struct Case {
        bytes key;
        bytes alpha;
        bytes32 beta;
        uint256 tries;
        VrfProof proof;
    }

    VrfCaller private caller = new VrfCaller();
    Case[] private cases;
    string private json = vm.readFile("tests/vectors/vrf.json");

    function setUp() public {
        for (uint256 i; vm.keyExistsJson(json, _item("hinted", i, "")); ++i) {
            Case storage c = cases.push();
            c.key = vm.parseJsonBytes(json, _item("hinted", i, ".pk"));
            c.alpha = vm.parseJsonBytes(json, _item("hinted", i, ".alpha"));
            c.beta = vm.parseJsonBytes32(json, _item("hinted", i, ".beta"));
            c.tries = vm.parseJsonUint(json, _item("hinted", i, ".tries"));
            c.proof = _proof(_item("hinted", i, ".hints"));
        }
        assertGe(cases.length, 20);
    }

    function test_every_bad_case_reverts_with_its_error() public {
        uint256 i;
        for (; vm.keyExistsJson(json, _item("bad", i, "")); ++i) {
            VrfProof memory proof = _proof(_item("bad", i, ".hints"));
            bytes memory key = vm.parseJsonBytes(json, _item("bad", i, ".pk"));
            bytes memory alpha = vm.parseJsonBytes(json, _item("bad", i, ".alpha"));
            string memory name = vm.parseJsonString(json, _item("bad", i, ".error"));
            vm.expectPartialRevert(bytes4(keccak256(bytes(name))));
            caller.verify(key, alpha, proof);
        }
        assertGe(i, 15);
    }

    function testFuzz_any_changed_field_reverts(uint256 index, uint256 field, uint256 change) public {
        Case memory c = cases[index % cases.length];
        field = bound(field, 0, 10);
        // The prefix and c are narrower than a word; what does not fit them is refused by the ABI.
        change =
            field == 0 ? 1 : field == 2 ? bound(change, 1, type(uint128).max) : bound(change, 1, ~uint256(0));
        bytes memory words = abi.encode(c.proof);
        assembly ("memory-safe") {
            let word := add(words, mul(add(field, 1), 32))
            mstore(word, xor(mload(word), change))
        }
        vm.expectRevert();
        caller.verify(c.key, c.alpha, abi.decode(words, (VrfProof)));
    }

    function testFuzz_any_changed_byte_of_key_or_input_reverts(uint256 index, uint256 offset, uint8 change)
        public
    {
        Case memory c = cases[index % cases.length];
        vm.assume(change != 0);
        offset = bound(offset, 0, c.key.length + c.alpha.length - 1);
        if (offset < c.key.length) c.key[offset] ^= bytes1(change);
        else c.alpha[offset - c.key.length] ^= bytes1(change);
        vm.expectRevert();
        caller.verify(c.key, c.alpha, c.proof);
    }

    function testFuzz_proof_of_another_case_reverts(uint256 index, uint256 other) public {
        (index, other) = (index % cases.length, other % cases.length);
        vm.assume(index != other);
        vm.expectRevert();
        caller.verify(cases[index].key, cases[index].alpha, cases[other].proof);
    }

    function testFuzz_prefix_or_c_wider_than_its_type_reverts(uint256 high) public {
        Case memory c = cases[0];
        bytes memory words = abi.encodeCall(VrfCaller.verify, (c.key, c.alpha, c.proof));
        // Selector, two offsets, then the proof: word 0 is the prefix, word 2 is c.
        uint256 offset = 4 + 64 + (high & 1) * 64 + 32;
        high = bound(high, 1, type(uint128).max) << 128;
        assembly ("memory-safe") {
            let word := add(words, offset)
            mstore(word, or(mload(word), high))
        }
        (bool success, bytes memory reason) = address(caller).call(words);
        assertFalse(success);
        assertEq(reason.length, 0, "refused by the library, not by the ABI");
    }

    /// @dev An ecrecover without gas must not look like an x without a point.
    function testFuzz_no_gas_limit_makes_a_later_try_count(uint256 gas) public {
        assertEq(vm.parseJsonString(json, _item("bad", 0, ".name")), "a later try of the input");
        bytes memory key = vm.parseJsonBytes(json, _item("bad", 0, ".pk"));
        bytes memory alpha = vm.parseJsonBytes(json, _item("bad", 0, ".alpha"));
        VrfProof memory proof = _proof(_item("bad", 0, ".hints"));
        gas = bound(gas, 0, GAS_BASE + GAS_TRY);
        vm.expectRevert();
        caller.verify{gas: gas}(key, alpha, proof);
    }

    function test_proofs_give_the_output_within_the_gas_limit() public view {
        uint256 highest;
        uint256 total;
        for (uint256 i; i < cases.length; ++i) {
            Case memory c = cases[i];
            assertEq(caller.verify(c.key, c.alpha, c.proof), c.beta, "beta");
            uint256 gas = _gas(c);
            assertLe(gas, GAS_BASE + GAS_TRY * c.tries, "gas");
            console.log("tries %d: gas %d, call data %d", c.tries, gas, _calldataGas(c));
            total += gas;
            if (gas > highest) highest = gas;
        }
        console.log("vrf check: mean gas %d, highest %d", total / cases.length, highest);
    }

    function test_a_public_key_has_the_address_of_its_account() public view {
        for (uint256 i; i < cases.length; ++i) {
            uint256 secret = vm.parseJsonUint(json, _item("hinted", i, ".sk"));
            assertEq(caller.publicKeyAddress(cases[i].key), vm.addr(secret));
        }
    }

    function test_what_is_not_a_public_key_has_no_address() public {
        bytes[7] memory bad = [
            bytes(""),
            new bytes(32),
            new bytes(33),
            new bytes(34),
            abi.encodePacked(uint8(4), uint256(1)), // 1 is the x of a point, but not after this prefix
            abi.encodePacked(uint8(2), uint256(5)), // no point has x = 5
            abi.encodePacked(uint8(2), ~uint256(0))
        ];
        for (uint256 i; i < bad.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(Vrf.VrfKeyInvalid.selector, bad[i]));
            caller.publicKeyAddress(bad[i]);
        }
    }

    function _gas(Case memory c) private view returns (uint256 gas) {
        gas = gasleft();
        caller.verify(c.key, c.alpha, c.proof);
        gas -= gasleft();
    }

    /// @dev 16 gas for a byte, 4 for a zero byte.
    function _calldataGas(Case memory c) private pure returns (uint256 gas) {
        bytes memory data = abi.encode(c.proof);
        for (uint256 i; i < data.length; ++i) {
            gas += data[i] == 0 ? 4 : 16;
        }
    }

    function _proof(string memory path) private view returns (VrfProof memory) {
        return VrfProof({
            gammaPrefix: uint8(vm.parseJsonUint(json, string.concat(path, ".gamma_prefix"))),
            gammaX: vm.parseJsonUint(json, string.concat(path, ".gamma_x")),
            c: uint128(vm.parseJsonUint(json, string.concat(path, ".c"))),
            s: vm.parseJsonUint(json, string.concat(path, ".s")),
            u: _point(string.concat(path, ".u")),
            sH: _point(string.concat(path, ".s_h")),
            cGamma: _point(string.concat(path, ".c_gamma")),
            slope: vm.parseJsonUint(json, string.concat(path, ".slope"))
        });
    }

    function _point(string memory path) private view returns (uint256[2] memory) {
        uint256[] memory values = vm.parseJsonUintArray(json, path);
        return [values[0], values[1]];
    }

    function _item(string memory list, uint256 i, string memory field) private pure returns (string memory) {
        return string.concat(".", list, "[", vm.toString(i), "]", field);
    }
}
