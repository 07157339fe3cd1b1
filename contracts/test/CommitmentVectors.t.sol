// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {Commitment, JobRootParts, MatrixRow, ModelSpec, RowOpening} from "../src/Types.sol";
import {Opening} from "../src/libraries/Opening.sol";
import {Json} from "./helpers/Json.sol";
import {Libraries} from "./helpers/Libraries.sol";
import {Trees} from "./helpers/Trees.sol";

/// @notice Trees and openings that verillm/commitment built verify here, and no others do.
contract CommitmentVectorsTest is Test {
    Libraries private libraries = Libraries(deployCode("Libraries.sol:Libraries"));
    string private json = Json.load("commitment");

    function test_merkle_proofs() public view {
        uint256[] memory counts = vm.parseJsonUintArray(json, ".merkle.counts");
        uint256[] memory indices = vm.parseJsonUintArray(json, ".merkle.indices");
        bytes32[] memory leaves = vm.parseJsonBytes32Array(json, ".merkle.leaves");
        bytes32[] memory roots = vm.parseJsonBytes32Array(json, ".merkle.roots");
        uint256[] memory starts = vm.parseJsonUintArray(json, ".merkle.starts");
        uint256[] memory lengths = vm.parseJsonUintArray(json, ".merkle.lengths");
        bytes32[] memory siblings = vm.parseJsonBytes32Array(json, ".merkle.siblings");
        assertGt(counts.length, 20);
        for (uint256 i; i < counts.length; ++i) {
            bytes32[] memory proof = new bytes32[](lengths[i]);
            for (uint256 j; j < proof.length; ++j) {
                proof[j] = siblings[starts[i] + j];
            }
            assertEq(libraries.rootFrom(leaves[i], indices[i], counts[i], proof), roots[i]);
        }
    }

    function test_row_and_matrix_leaves() public view {
        bytes[] memory rows = vm.parseJsonBytesArray(json, ".rows.rows");
        uint256[] memory positions = vm.parseJsonUintArray(json, ".rows.positions");
        uint256[] memory tokens = vm.parseJsonUintArray(json, ".rows.tokens");
        bytes32[] memory chunkRoots = vm.parseJsonBytes32Array(json, ".rows.chunk_roots");
        bytes32[] memory rowLeaves = vm.parseJsonBytes32Array(json, ".rows.row_leaves");
        bytes32[] memory matrixLeaves = vm.parseJsonBytes32Array(json, ".rows.matrix_row_leaves");
        for (uint256 i; i < rows.length; ++i) {
            assertEq(libraries.chunkRoot(rows[i]), chunkRoots[i], "chunk root");
            assertEq(Trees.chunkRoot(rows[i]), chunkRoots[i], "helper chunk root");
            assertEq(Trees.rowLeaf(uint32(positions[i]), uint32(tokens[i]), rows[i]), rowLeaves[i], "row");
            assertEq(Trees.matrixLeaf(uint32(tokens[i]), rows[i]), matrixLeaves[i], "matrix");
        }
    }

    function test_openings_of_whole_jobs() public {
        for (uint256 i; i < 4; ++i) {
            string memory path = Json.item(".jobs", i, "");
            (Commitment memory c, JobRootParts memory parts, ModelSpec memory spec) = _job(path);
            libraries.checkParts(c, Json.word(json, path, ".model_id"), parts);
            RowOpening memory opening = _opening(string.concat(path, ".opening"));
            libraries.checkRow(c, parts, spec, opening);
            uint32 position = uint32(Json.number(json, path, ".token_opening.position"));
            uint32 token = uint32(Json.number(json, path, ".token_opening.token"));
            bytes32[] memory proof = Json.words(json, path, ".token_opening.proof");
            libraries.checkToken(c, parts, position, token, proof);
            _assertNoOther(c, parts, spec, opening, position, token, proof);
        }
    }

    function test_openings_of_the_output_matrix() public {
        bytes[] memory rows = vm.parseJsonBytesArray(json, ".matrix.rows");
        ModelSpec memory spec;
        spec.outputMatrixRoot = vm.parseJsonBytes32(json, ".matrix.root");
        spec.weightDtype = uint8(vm.parseJsonUint(json, ".matrix.weight_dtype"));
        spec.vocabSize = uint32(vm.parseJsonUint(json, ".matrix.vocab_size"));
        spec.hiddenSize = uint32(rows[0].length / (spec.weightDtype == 3 ? 4 : 2));
        uint32 token = uint32(vm.parseJsonUint(json, ".matrix.token"));
        MatrixRow memory opened =
            MatrixRow(token, rows[token], vm.parseJsonBytes32Array(json, ".matrix.proof"));
        libraries.checkWeights(spec, opened);
        opened.row = rows[0];
        vm.expectRevert(abi.encodeWithSelector(Opening.WeightsNotInModel.selector, token));
        libraries.checkWeights(spec, opened);
    }

    function _assertNoOther(
        Commitment memory c,
        JobRootParts memory parts,
        ModelSpec memory spec,
        RowOpening memory opening,
        uint32 position,
        uint32 token,
        bytes32[] memory proof
    ) private {
        vm.expectRevert(abi.encodeWithSelector(Opening.TokenNotCommitted.selector, position));
        libraries.checkToken(c, parts, position, token ^ 1, proof);
        bytes memory refused =
            abi.encodeWithSelector(Opening.RowNotCommitted.selector, opening.boundary, opening.position);
        opening.token ^= 1;
        vm.expectRevert(refused);
        libraries.checkRow(c, parts, spec, opening);
        opening.token ^= 1;
        opening.row[0] ^= 0x01;
        vm.expectRevert(refused);
        libraries.checkRow(c, parts, spec, opening);
        parts.tokenRoot ^= bytes32(uint256(1));
        vm.expectRevert(abi.encodeWithSelector(Opening.PartsNotCommitted.selector, c.jobRoot));
        libraries.checkParts(c, 0, parts);
    }

    function _job(string memory path)
        private
        view
        returns (Commitment memory c, JobRootParts memory parts, ModelSpec memory spec)
    {
        c.jobId = Json.word(json, path, ".job_id");
        c.operator = Json.account(json, path, ".operator");
        c.promptTokens = uint32(Json.number(json, path, ".prompt_tokens"));
        c.outputTokens = uint32(Json.number(json, path, ".output_tokens"));
        c.finishReason = uint8(Json.number(json, path, ".finish_reason"));
        c.jobRoot = Json.word(json, path, ".job_root");
        parts.tokenRoot = Json.word(json, path, ".token_root");
        parts.boundaries = uint16(Json.number(json, path, ".boundaries_count"));
        parts.boundariesRoot = Json.word(json, path, ".boundaries_root");
        spec.rowDtype = uint8(Json.number(json, path, ".dtype"));
        spec.hiddenSize = uint32(Json.number(json, path, ".hidden_size"));
        spec.rowToleranceQ40 = new uint64[](parts.boundaries);
    }

    function _opening(string memory path) private view returns (RowOpening memory) {
        return RowOpening({
            boundary: uint16(Json.number(json, path, ".boundary")),
            position: uint32(Json.number(json, path, ".position")),
            token: uint32(Json.number(json, path, ".token")),
            row: vm.parseJsonBytes(json, string.concat(path, ".row")),
            rowProof: Json.words(json, path, ".row_proof"),
            boundaryProof: Json.words(json, path, ".boundary_proof")
        });
    }
}
