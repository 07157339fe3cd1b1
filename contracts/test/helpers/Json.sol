// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";
import {Commitment, Job, Line, Link, ModelSpec, Round, SettlementRecord, Verdict} from "../../src/Types.sol";

/// @notice Reads tests/vectors/*.json. A path is one of JSONPath and begins with a dot.
library Json {
    Vm private constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    function load(string memory name) internal view returns (string memory) {
        return vm.readFile(string.concat("tests/vectors/", name, ".json"));
    }

    /// @notice Path of a field of the i-th entry of a list.
    function item(string memory list, uint256 i, string memory field) internal pure returns (string memory) {
        return string.concat(list, "[", vm.toString(i), "]", field);
    }

    function number(string memory json, string memory path, string memory field)
        internal
        pure
        returns (uint256)
    {
        return vm.parseJsonUint(json, string.concat(path, field));
    }

    function word(string memory json, string memory path, string memory field)
        internal
        pure
        returns (bytes32)
    {
        return vm.parseJsonBytes32(json, string.concat(path, field));
    }

    function numbers(string memory json, string memory path, string memory field)
        internal
        pure
        returns (uint256[] memory)
    {
        return vm.parseJsonUintArray(json, string.concat(path, field));
    }

    function words(string memory json, string memory path, string memory field)
        internal
        pure
        returns (bytes32[] memory)
    {
        return vm.parseJsonBytes32Array(json, string.concat(path, field));
    }

    function account(string memory json, string memory path, string memory field)
        internal
        pure
        returns (address)
    {
        return vm.parseJsonAddress(json, string.concat(path, field));
    }

    function accounts(string memory json, string memory path, string memory field)
        internal
        pure
        returns (address[] memory)
    {
        return vm.parseJsonAddressArray(json, string.concat(path, field));
    }

    function job(string memory json, string memory path) internal pure returns (Job memory) {
        return Job({
            client: account(json, path, ".client"),
            scheduler: account(json, path, ".scheduler"),
            modelId: word(json, path, ".model_id"),
            promptHash: word(json, path, ".prompt_hash"),
            promptTokens: uint32(number(json, path, ".prompt_tokens")),
            maxOutputTokens: uint32(number(json, path, ".max_output_tokens")),
            stopHash: word(json, path, ".stop_hash"),
            temperaturePpm: uint32(number(json, path, ".temperature_ppm")),
            topK: uint32(number(json, path, ".top_k")),
            topPPpm: uint32(number(json, path, ".top_p_ppm")),
            seed: uint64(number(json, path, ".seed")),
            inputPrice: uint128(number(json, path, ".input_price")),
            outputPrice: uint128(number(json, path, ".output_price")),
            verifiers: uint8(number(json, path, ".verifiers")),
            deadline: uint64(number(json, path, ".deadline")),
            nonce: number(json, path, ".nonce")
        });
    }

    function commitment(string memory json, string memory path) internal pure returns (Commitment memory) {
        return Commitment({
            jobId: word(json, path, ".job_id"),
            role: uint8(number(json, path, ".role")),
            attempt: uint32(number(json, path, ".attempt")),
            jobRoot: word(json, path, ".job_root"),
            promptTokens: uint32(number(json, path, ".prompt_tokens")),
            outputTokens: uint32(number(json, path, ".output_tokens")),
            finishReason: uint8(number(json, path, ".finish_reason")),
            operator: account(json, path, ".operator")
        });
    }

    function verdict(string memory json, string memory path) internal pure returns (Verdict memory) {
        return Verdict({
            jobId: word(json, path, ".job_id"),
            verdict: uint8(number(json, path, ".verdict")),
            boundary: uint16(number(json, path, ".boundary")),
            position: uint32(number(json, path, ".position")),
            operator: account(json, path, ".operator")
        });
    }

    function spec(string memory json, string memory path) internal pure returns (ModelSpec memory s) {
        s.manifestHash = word(json, path, ".manifest_hash");
        s.outputMatrixRoot = word(json, path, ".output_matrix_root");
        s.hiddenSize = uint32(number(json, path, ".hidden_size"));
        s.vocabSize = uint32(number(json, path, ".vocab_size"));
        s.rowDtype = uint8(number(json, path, ".row_dtype"));
        s.weightDtype = uint8(number(json, path, ".weight_dtype"));
        s.tokenMarginQ24 = uint64(number(json, path, ".token_margin_q24"));
        uint256[] memory tolerances = numbers(json, path, ".row_tolerance_q40");
        s.rowToleranceQ40 = new uint64[](tolerances.length);
        for (uint256 i; i < tolerances.length; ++i) {
            s.rowToleranceQ40[i] = uint64(tolerances[i]);
        }
    }

    /// @notice One record; its links are two lists, of former jobs and of totals.
    function record(string memory json, string memory path)
        internal
        pure
        returns (SettlementRecord memory r)
    {
        r.jobId = word(json, path, ".job_id");
        r.client = account(json, path, ".client");
        r.worker = account(json, path, ".worker");
        r.promptTokens = uint32(number(json, path, ".prompt_tokens"));
        r.outputTokens = uint32(number(json, path, ".output_tokens"));
        r.outcome = uint8(number(json, path, ".outcome"));
        r.workerFee = uint128(number(json, path, ".worker_fee"));
        r.verifierFee = uint128(number(json, path, ".verifier_fee"));
        r.schedulerFee = uint128(number(json, path, ".scheduler_fee"));
        _fillLists(json, path, r, accounts(json, path, ".verifiers").length, 0, 0);
    }

    /// @notice Records of a round, a list for each field. Verifiers and links follow one another in those lists,
    /// `verifier_counts` says how many of them each record has.
    function records(string memory json, string memory path)
        internal
        pure
        returns (SettlementRecord[] memory all)
    {
        bytes32[] memory ids = words(json, path, ".job_id");
        uint256[] memory counts = numbers(json, path, ".verifier_counts");
        all = new SettlementRecord[](ids.length);
        uint256 verifier;
        for (uint256 i; i < all.length; ++i) {
            all[i].jobId = ids[i];
            all[i].client = accounts(json, path, ".client")[i];
            all[i].worker = accounts(json, path, ".worker")[i];
            all[i].promptTokens = uint32(numbers(json, path, ".prompt_tokens")[i]);
            all[i].outputTokens = uint32(numbers(json, path, ".output_tokens")[i]);
            all[i].outcome = uint8(numbers(json, path, ".outcome")[i]);
            all[i].workerFee = uint128(numbers(json, path, ".worker_fee")[i]);
            all[i].verifierFee = uint128(numbers(json, path, ".verifier_fee")[i]);
            all[i].schedulerFee = uint128(numbers(json, path, ".scheduler_fee")[i]);
            _fillLists(json, path, all[i], counts[i], verifier, verifier + 2 * i);
            verifier += counts[i];
        }
    }

    function lines(string memory json, string memory path) internal pure returns (Line[] memory all) {
        address[] memory owners = accounts(json, path, ".accounts");
        all = new Line[](owners.length);
        for (uint256 i; i < all.length; ++i) {
            all[i].account = owners[i];
            all[i].lastJob = uint32(numbers(json, path, ".last_jobs")[i]);
            all[i].amount = uint128(numbers(json, path, ".amounts")[i]);
        }
    }

    function round(string memory json, string memory path) internal pure returns (Round memory r) {
        r.scheduler = account(json, path, ".scheduler");
        r.modelId = word(json, path, ".model_id");
        r.commitRoot = word(json, path, ".root");
        r.jobs = uint32(number(json, path, ".jobs"));
        r.paramsVersion = uint32(number(json, path, ".params_version"));
        r.epoch = uint48(number(json, path, ".epoch"));
        r.committedAt = uint64(number(json, path, ".committed_at"));
        r.settleBy = uint64(number(json, path, ".settle_by"));
        r.verifierBlock = uint64(number(json, path, ".verifier_block"));
        r.verifierSeed = word(json, path, ".verifier_seed");
        r.verificationRoot = word(json, path, ".verification_root");
        r.verifications = uint32(number(json, path, ".verifications"));
        r.positionBlock = uint64(number(json, path, ".position_block"));
        r.positionSeed = word(json, path, ".position_seed");
        r.settlementRoot = word(json, path, ".settlement_root");
        r.debitsHash = word(json, path, ".debits_hash");
        r.creditsHash = word(json, path, ".credits_hash");
        r.total = uint128(number(json, path, ".total"));
        r.finalBlock = uint64(number(json, path, ".final_block"));
    }

    /// @dev `count` verifiers with their verdicts from place `first` on, and the links of all parties from `link` on.
    function _fillLists(
        string memory json,
        string memory path,
        SettlementRecord memory r,
        uint256 count,
        uint256 first,
        uint256 link
    ) private pure {
        address[] memory verifiers = accounts(json, path, ".verifiers");
        uint256[] memory verdicts = numbers(json, path, ".verdicts");
        (r.verifiers, r.verdicts) = (new address[](count), new uint8[](count));
        for (uint256 i; i < count; ++i) {
            (r.verifiers[i], r.verdicts[i]) = (verifiers[first + i], uint8(verdicts[first + i]));
        }
        uint256[] memory previous = numbers(json, path, ".link_previous");
        uint256[] memory totals = numbers(json, path, ".link_totals");
        r.links = new Link[](count + 2);
        for (uint256 i; i < r.links.length; ++i) {
            r.links[i] = Link(uint32(previous[link + i]), uint128(totals[link + i]));
        }
    }
}
