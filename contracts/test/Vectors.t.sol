// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {Rounds} from "../src/Rounds.sol";
import {Staking} from "../src/Staking.sol";
import {TestToken} from "../src/TestToken.sol";
import {Commitment, Job, ModelSpec, Params, SettlementRecord} from "../src/Types.sol";
import {DevParams} from "./helpers/DevParams.sol";
import {Libraries} from "./helpers/Libraries.sol";
import {Trees} from "./helpers/Trees.sol";

/// @notice The Python side wrote these vectors; both sides must agree on every value of them.
contract VectorsTest is Test {
    Libraries private libraries = Libraries(deployCode("Libraries.sol:Libraries"));

    function test_noise_words_and_gumbel_values() public view {
        string memory json = vm.readFile("tests/vectors/sampling.json");
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
        string memory json = vm.readFile("tests/vectors/comparator.json");
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
        string memory json = vm.readFile("tests/vectors/eip712.json");
        vm.chainId(vm.parseJsonUint(json, ".chain_id"));
        Rounds rounds = Rounds(vm.parseJsonAddress(json, ".contract"));
        Params memory params = DevParams.load();
        deployCodeTo(
            "Rounds.sol:Rounds", abi.encode(address(1), address(2), address(3), params), address(rounds)
        );
        assertEq(rounds.domainSeparator(), vm.parseJsonBytes32(json, ".separator"), "separator");

        bytes32 jobId = rounds.jobId(_job(json));
        assertEq(jobId, vm.parseJsonBytes32(json, ".job_id"), "job id");
        address signer = vm.addr(vm.parseJsonUint(json, ".private_key"));
        assertEq(ECDSA.recover(jobId, vm.parseJsonBytes(json, ".job_signature")), signer, "job signer");

        Commitment memory c = _commitment(json);
        bytes32 digest =
            MessageHashUtils.toTypedDataHash(rounds.domainSeparator(), libraries.commitmentHash(c));
        assertEq(digest, vm.parseJsonBytes32(json, ".commitment_digest"), "commitment");
        assertEq(ECDSA.recover(digest, vm.parseJsonBytes(json, ".commitment_signature")), signer);

        assertEq(Trees.recordLeaf(_record(json)), vm.parseJsonBytes32(json, ".record_leaf"), "record leaf");
        assertEq(Trees.roundLeaf(digest, c.operator), vm.parseJsonBytes32(json, ".round_leaf"), "round leaf");
    }

    function test_model_id() public {
        string memory json = vm.readFile("tests/vectors/eip712.json");
        Staking staking = Staking(deployCode("Staking.sol:Staking", abi.encode(address(0), DevParams.load())));
        ModelSpec memory spec;
        spec.manifestHash = vm.parseJsonBytes32(json, ".spec.manifest_hash");
        spec.outputMatrixRoot = vm.parseJsonBytes32(json, ".spec.output_matrix_root");
        spec.hiddenSize = uint32(vm.parseJsonUint(json, ".spec.hidden_size"));
        spec.vocabSize = uint32(vm.parseJsonUint(json, ".spec.vocab_size"));
        spec.rowDtype = uint8(vm.parseJsonUint(json, ".spec.row_dtype"));
        spec.weightDtype = uint8(vm.parseJsonUint(json, ".spec.weight_dtype"));
        spec.tokenMarginQ24 = uint64(vm.parseJsonUint(json, ".spec.token_margin_q24"));
        uint256[] memory tolerances = vm.parseJsonUintArray(json, ".spec.row_tolerance_q40");
        spec.rowToleranceQ40 = new uint64[](tolerances.length);
        for (uint256 i; i < tolerances.length; ++i) {
            spec.rowToleranceQ40[i] = uint64(tolerances[i]);
        }
        assertEq(staking.registerModel(spec), vm.parseJsonBytes32(json, ".model_id"));
    }

    function test_draws_by_stake() public {
        string memory json = vm.readFile("tests/vectors/draw.json");
        vm.chainId(vm.parseJsonUint(json, ".chain_id"));
        Params memory params = DevParams.load();
        TestToken token = TestToken(deployCode("TestToken.sol:TestToken"));
        Staking staking = Staking(vm.parseJsonAddress(json, ".staking"));
        deployCodeTo("Staking.sol:Staking", abi.encode(token, params), address(staking));
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
        (address[] memory listed, uint256[] memory weights) = staking.stakesAt(modelId, epoch);
        assertEq(abi.encode(listed, weights), abi.encode(operators, stakes), "pool");
        for (uint256 i; vm.keyExistsJson(json, _at(".draws", i, "")); ++i) {
            address[] memory drawn = staking.draw(
                modelId,
                epoch,
                vm.parseJsonBytes(json, _at(".draws", i, ".beta")),
                vm.parseJsonUint(json, _at(".draws", i, ".count")),
                vm.parseJsonAddressArray(json, _at(".draws", i, ".excluded"))
            );
            assertEq(drawn, vm.parseJsonAddressArray(json, _at(".draws", i, ".drawn")), "drawn");
        }
    }

    function _job(string memory json) private pure returns (Job memory) {
        return Job({
            client: vm.parseJsonAddress(json, ".job.client"),
            scheduler: vm.parseJsonAddress(json, ".job.scheduler"),
            modelId: vm.parseJsonBytes32(json, ".job.model_id"),
            promptHash: vm.parseJsonBytes32(json, ".job.prompt_hash"),
            promptTokens: uint32(vm.parseJsonUint(json, ".job.prompt_tokens")),
            maxOutputTokens: uint32(vm.parseJsonUint(json, ".job.max_output_tokens")),
            stopHash: vm.parseJsonBytes32(json, ".job.stop_hash"),
            temperaturePpm: uint32(vm.parseJsonUint(json, ".job.temperature_ppm")),
            topK: uint32(vm.parseJsonUint(json, ".job.top_k")),
            topPPpm: uint32(vm.parseJsonUint(json, ".job.top_p_ppm")),
            seed: uint64(vm.parseJsonUint(json, ".job.seed")),
            inputPrice: uint128(vm.parseJsonUint(json, ".job.input_price")),
            outputPrice: uint128(vm.parseJsonUint(json, ".job.output_price")),
            verifiers: uint8(vm.parseJsonUint(json, ".job.verifiers")),
            deadline: uint64(vm.parseJsonUint(json, ".job.deadline")),
            nonce: vm.parseJsonUint(json, ".job.nonce")
        });
    }

    function _commitment(string memory json) private pure returns (Commitment memory) {
        return Commitment({
            jobId: vm.parseJsonBytes32(json, ".commitment.job_id"),
            role: uint8(vm.parseJsonUint(json, ".commitment.role")),
            attempt: uint32(vm.parseJsonUint(json, ".commitment.attempt")),
            jobRoot: vm.parseJsonBytes32(json, ".commitment.job_root"),
            promptTokens: uint32(vm.parseJsonUint(json, ".commitment.prompt_tokens")),
            outputTokens: uint32(vm.parseJsonUint(json, ".commitment.output_tokens")),
            finishReason: uint8(vm.parseJsonUint(json, ".commitment.finish_reason")),
            operator: vm.parseJsonAddress(json, ".commitment.operator")
        });
    }

    function _record(string memory json) private pure returns (SettlementRecord memory record) {
        record.jobId = vm.parseJsonBytes32(json, ".record.job_id");
        record.client = vm.parseJsonAddress(json, ".record.client");
        record.worker = vm.parseJsonAddress(json, ".record.worker");
        record.promptTokens = uint32(vm.parseJsonUint(json, ".record.prompt_tokens"));
        record.outputTokens = uint32(vm.parseJsonUint(json, ".record.output_tokens"));
        record.outcome = uint8(vm.parseJsonUint(json, ".record.outcome"));
        record.workerFee = uint128(vm.parseJsonUint(json, ".record.worker_fee"));
        record.verifierFee = uint128(vm.parseJsonUint(json, ".record.verifier_fee"));
        record.schedulerFee = uint128(vm.parseJsonUint(json, ".record.scheduler_fee"));
        record.verifiers = vm.parseJsonAddressArray(json, ".record.verifiers");
        uint256[] memory verdicts = vm.parseJsonUintArray(json, ".record.verdicts");
        record.verdicts = new uint8[](verdicts.length);
        for (uint256 i; i < verdicts.length; ++i) {
            record.verdicts[i] = uint8(verdicts[i]);
        }
    }

    function _at(string memory list, uint256 i, string memory field) private pure returns (string memory) {
        return string.concat(list, "[", vm.toString(i), "]", field);
    }
}
