// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {Rounds} from "../src/Rounds.sol";
import {Staking} from "../src/Staking.sol";
import {TestToken} from "../src/TestToken.sol";
import {Records} from "../src/libraries/Records.sol";
import {Commitment, Line, ModelSpec, Params, Round, SettlementRecord} from "../src/Types.sol";
import {DevParams} from "./helpers/DevParams.sol";
import {Json} from "./helpers/Json.sol";
import {Ledgers} from "./helpers/Ledgers.sol";
import {Libraries} from "./helpers/Libraries.sol";
import {Trees} from "./helpers/Trees.sol";

/// @notice The Python side wrote these vectors; both sides must agree on every value of them.
contract VectorsTest is Test {
    Libraries private libraries = Libraries(deployCode("Libraries.sol:Libraries"));
    Params private params = DevParams.load();

    function test_noise_words_and_gumbel_values() public view {
        string memory json = Json.load("sampling");
        uint256[] memory seeds = vm.parseJsonUintArray(json, ".seed");
        uint256[] memory positions = vm.parseJsonUintArray(json, ".position");
        uint256[] memory tokens = vm.parseJsonUintArray(json, ".token");
        uint256[] memory words = vm.parseJsonUintArray(json, ".word");
        int256[] memory gumbels = vm.parseJsonIntArray(json, ".gumbelQ24");
        assertGt(seeds.length, 100);
        for (uint256 i; i < seeds.length; ++i) {
            uint256 word = libraries.noiseWord(uint64(seeds[i]), uint32(positions[i]), uint32(tokens[i]));
            assertEq(word, words[i], "word");
            assertEq(libraries.noiseQ24(word), gumbels[i], "gumbel");
        }
        words = vm.parseJsonUintArray(json, ".edgeWord");
        gumbels = vm.parseJsonIntArray(json, ".edgeGumbelQ24");
        for (uint256 i; i < words.length; ++i) {
            assertEq(libraries.noiseQ24(words[i]), gumbels[i], "edge gumbel");
        }
    }

    function test_row_comparisons() public view {
        string memory json = Json.load("comparator");
        uint256[] memory dtypes = vm.parseJsonUintArray(json, ".dtype");
        bytes[] memory a = vm.parseJsonBytesArray(json, ".a");
        bytes[] memory b = vm.parseJsonBytesArray(json, ".b");
        uint256[] memory differences = vm.parseJsonUintArray(json, ".d");
        uint256[] memory norms = vm.parseJsonUintArray(json, ".n");
        uint256[] memory tolerances = vm.parseJsonUintArray(json, ".toleranceQ40");
        bool[] memory verdicts = vm.parseJsonBoolArray(json, ".diverges");
        assertGt(a.length, 50);
        for (uint256 i; i < a.length; ++i) {
            uint8 dtype = uint8(dtypes[i]);
            (uint256 difference, uint256 norm) = libraries.statistics(a[i], b[i], dtype);
            assertEq(difference, differences[i], "D");
            assertEq(norm, norms[i], "N");
            assertEq(libraries.diverges(a[i], b[i], dtype, tolerances[i]), verdicts[i], "diverges");
        }
    }

    function test_signed_messages_and_leaves() public {
        string memory json = Json.load("eip712");
        vm.chainId(vm.parseJsonUint(json, ".chain_id"));
        Rounds rounds = Rounds(vm.parseJsonAddress(json, ".contract"));
        deployCodeTo(
            "Rounds.sol:Rounds",
            abi.encode(address(1), address(2), address(3), _parameters()),
            address(rounds)
        );
        bytes32 separator = rounds.domainSeparator();
        assertEq(separator, vm.parseJsonBytes32(json, ".separator"), "separator");

        bytes32 jobId = rounds.jobId(Json.job(json, ".job"));
        assertEq(jobId, vm.parseJsonBytes32(json, ".job_id"), "job id");
        _assertSigned(json, ".job_signature", jobId);

        Commitment memory c = Json.commitment(json, ".commitment");
        bytes32 digest = MessageHashUtils.toTypedDataHash(separator, libraries.commitmentHash(c));
        assertEq(digest, vm.parseJsonBytes32(json, ".commitment_digest"), "commitment");
        _assertSigned(json, ".commitment_signature", digest);
        assertEq(Trees.roundLeaf(digest, c.operator), vm.parseJsonBytes32(json, ".round_leaf"), "leaf");

        bytes32 verdictHash = libraries.verdictHash(Json.verdict(json, ".verdict"));
        digest = MessageHashUtils.toTypedDataHash(separator, verdictHash);
        assertEq(digest, vm.parseJsonBytes32(json, ".verdict_digest"), "verdict");
        _assertSigned(json, ".verdict_signature", digest);
    }

    function test_settlement_records_and_their_leaves() public view {
        string memory json = Json.load("eip712");
        bytes32 leaf = Trees.recordLeaf(Json.record(json, ".record"));
        assertEq(leaf, vm.parseJsonBytes32(json, ".record_leaf"), "of one job");

        json = Json.load("settlement");
        SettlementRecord[] memory records = Json.records(json, ".records");
        bytes32[] memory leaves = vm.parseJsonBytes32Array(json, ".leaves");
        assertEq(records.length, leaves.length);
        for (uint256 i; i < records.length; ++i) {
            assertEq(Trees.recordLeaf(records[i]), leaves[i], "of a round");
        }
        bytes32[] memory proof = vm.parseJsonBytes32Array(json, ".proof_of_2");
        bytes32 root = libraries.rootFrom(leaves[2], 2, leaves.length, proof);
        assertEq(root, vm.parseJsonBytes32(json, ".round.settlement_root"), "root");
    }

    function test_links_and_lines_follow_from_the_records() public view {
        string memory json = Json.load("settlement");
        SettlementRecord[] memory records = Json.records(json, ".records");
        bytes memory linked = abi.encode(records);
        Ledgers.link(records);
        assertEq(abi.encode(records), linked, "links");
        (Line[] memory debits, Line[] memory credits) = (Ledgers.debits(records), Ledgers.credits(records));
        assertEq(abi.encode(debits), abi.encode(Json.lines(json, ".debits")), "debits");
        assertEq(abi.encode(credits), abi.encode(Json.lines(json, ".credits")), "credits");
        assertEq(keccak256(abi.encode(debits)), vm.parseJsonBytes32(json, ".debits.hash"));
        assertEq(keccak256(abi.encode(credits)), vm.parseJsonBytes32(json, ".credits.hash"));
    }

    function test_hash_of_a_round() public view {
        string memory json = Json.load("settlement");
        Round memory round = Json.round(json, ".round");
        assertEq(this.stateHash(round), vm.parseJsonBytes32(json, ".round_hash"));
        assertEq(this.stateHash(round), keccak256(abi.encode(round)));
    }

    /// @dev The library reads calldata.
    function stateHash(Round calldata round) external pure returns (bytes32) {
        return Records.stateHash(round);
    }

    function test_model_id() public {
        string memory json = Json.load("eip712");
        Staking staking = Staking(deployCode("Staking.sol:Staking", abi.encode(address(0), _parameters())));
        bytes32 modelId = staking.registerModel(Json.spec(json, ".spec"));
        assertEq(modelId, vm.parseJsonBytes32(json, ".model_id"));
    }

    function test_draws_by_stake() public {
        string memory json = Json.load("draw");
        vm.chainId(vm.parseJsonUint(json, ".chain_id"));
        TestToken token = TestToken(deployCode("TestToken.sol:TestToken"));
        Staking staking = Staking(vm.parseJsonAddress(json, ".staking"));
        deployCodeTo("Staking.sol:Staking", abi.encode(token, _parameters()), address(staking));
        uint48 epoch = uint48(vm.parseJsonUint(json, ".epoch"));
        assertEq(staking.epochSeed(epoch), vm.parseJsonBytes32(json, ".epoch_seed"), "epoch seed");

        ModelSpec memory spec = ModelSpec(0, 0, 8, 8, 1, 1, 0, new uint64[](1));
        bytes32 modelId = staking.registerModel(spec);
        address[] memory operators = vm.parseJsonAddressArray(json, ".operators");
        uint256[] memory stakes = vm.parseJsonUintArray(json, ".stakes");
        vm.roll((uint256(epoch) - 1) * params.epochBlocks);
        for (uint256 i; i < operators.length; ++i) {
            uint256 amount = stakes[i] == 0 ? params.minStake : stakes[i];
            token.mint(operators[i], amount);
            vm.startPrank(operators[i]);
            token.approve(address(staking), amount);
            staking.registerOperator(modelId, amount, "");
            if (stakes[i] == 0) staking.requestUnbond(modelId, amount);
            vm.stopPrank();
        }
        vm.roll(uint256(epoch) * params.epochBlocks);
        (address[] memory listed, uint256[] memory weights) = staking.stakesAt(modelId, epoch);
        assertEq(abi.encode(listed, weights), abi.encode(operators, stakes), "pool");
        for (uint256 i; vm.keyExistsJson(json, Json.item(".draws", i, "")); ++i) {
            address[] memory drawn = staking.draw(
                modelId,
                epoch,
                vm.parseJsonBytes(json, Json.item(".draws", i, ".beta")),
                vm.parseJsonUint(json, Json.item(".draws", i, ".count")),
                vm.parseJsonAddressArray(json, Json.item(".draws", i, ".excluded"))
            );
            assertEq(drawn, vm.parseJsonAddressArray(json, Json.item(".draws", i, ".drawn")), "drawn");
        }
    }

    function _parameters() private returns (address) {
        bytes memory arguments = abi.encode(address(this), address(this), params);
        return deployCode("Parameters.sol:Parameters", arguments);
    }

    function _assertSigned(string memory json, string memory path, bytes32 digest) private pure {
        address signer = vm.addr(vm.parseJsonUint(json, ".private_key"));
        assertEq(ECDSA.recover(digest, vm.parseJsonBytes(json, path)), signer, path);
    }
}
