// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {JobRootParts, MatrixRow, ModelSpec, RowOpening} from "../../src/Types.sol";
import {Tags} from "../../src/libraries/Tags.sol";
import {Trees} from "./Trees.sol";

/// @notice A toy model and what a job on it commits to. d = 8 bf16 values, 8 tokens, 2 boundaries; the output
/// matrix is the identity, so that the logits of a final row are its values.
library Transcripts {
    uint32 internal constant D = 8;
    uint32 internal constant VOCAB = 8;
    uint16 internal constant BOUNDARIES = 2;
    uint32 internal constant PROMPT = 2;
    uint32 internal constant OUTPUT = 2;
    uint8 internal constant BF16 = 1;
    uint16 internal constant ONE = 0x3f80;

    /// @param rows rows[boundary][position], P+O-1 per boundary.
    struct Transcript {
        uint32[] tokens;
        bytes[][] rows;
    }

    function row(uint16[8] memory bits) internal pure returns (bytes memory out) {
        for (uint256 i; i < D; ++i) {
            out = abi.encodePacked(out, uint8(bits[i]), uint8(bits[i] >> 8));
        }
    }

    /// @notice A row with `bits` at `index` and zeros elsewhere.
    function unit(uint256 index, uint16 bits) internal pure returns (bytes memory) {
        uint16[8] memory values;
        values[index] = bits;
        return row(values);
    }

    function spec(uint64 marginQ24, uint64 toleranceQ40) internal pure returns (ModelSpec memory s) {
        s.manifestHash = keccak256("toy");
        s.outputMatrixRoot = Trees.root(matrixLeaves());
        (s.hiddenSize, s.vocabSize, s.rowDtype, s.weightDtype) = (D, VOCAB, BF16, BF16);
        s.tokenMarginQ24 = marginQ24;
        s.rowToleranceQ40 = new uint64[](BOUNDARIES);
        (s.rowToleranceQ40[0], s.rowToleranceQ40[1]) = (toleranceQ40, toleranceQ40);
    }

    function matrixLeaves() internal pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](VOCAB);
        for (uint32 v; v < VOCAB; ++v) {
            leaves[v] = Trees.matrixLeaf(v, unit(v, ONE));
        }
    }

    function weights(uint32 token) internal pure returns (MatrixRow memory) {
        return MatrixRow(token, unit(token, ONE), Trees.proof(matrixLeaves(), token));
    }

    /// @notice Prompt 1 2; the final rows favour token 3 (4.0 against 2.0 for token 5), then token 4; output 3 4.
    function honest() internal pure returns (Transcript memory t) {
        t.tokens = new uint32[](PROMPT + OUTPUT);
        (t.tokens[0], t.tokens[1], t.tokens[2], t.tokens[3]) = (1, 2, 3, 4);
        t.rows = new bytes[][](BOUNDARIES);
        for (uint256 b; b < BOUNDARIES; ++b) {
            t.rows[b] = new bytes[](PROMPT + OUTPUT - 1);
        }
        for (uint256 p; p < 3; ++p) {
            t.rows[0][p] = unit(p, ONE);
        }
        t.rows[1][0] = unit(2, ONE);
        t.rows[1][1] = row([0, 0, 0, 0x4080, 0, 0x4000, 0, 0]);
        t.rows[1][2] = unit(4, ONE);
    }

    function tokenLeaves(Transcript memory t) internal pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](t.tokens.length);
        for (uint32 i; i < leaves.length; ++i) {
            leaves[i] = Trees.tokenLeaf(i, t.tokens[i]);
        }
    }

    function parts(Transcript memory t) internal pure returns (JobRootParts memory) {
        return JobRootParts(Trees.root(tokenLeaves(t)), BOUNDARIES, Trees.root(boundaryRoots(t)));
    }

    function jobRoot(Transcript memory t, bytes32 jobId, address operator, bytes32 modelId)
        internal
        pure
        returns (bytes32)
    {
        JobRootParts memory p = parts(t);
        bytes memory head = abi.encodePacked(Tags.JOB, jobId, operator, modelId, PROMPT, OUTPUT, uint8(1));
        return keccak256(abi.encodePacked(head, p.tokenRoot, p.boundaries, p.boundariesRoot));
    }

    function tokenProof(Transcript memory t, uint32 position) internal pure returns (bytes32[] memory) {
        return Trees.proof(tokenLeaves(t), position);
    }

    function open(Transcript memory t, uint16 boundary, uint32 position)
        internal
        pure
        returns (RowOpening memory)
    {
        return RowOpening({
            boundary: boundary,
            position: position,
            token: t.tokens[position],
            row: t.rows[boundary][position],
            rowProof: Trees.proof(_rowLeaves(t, boundary), position),
            boundaryProof: Trees.proof(boundaryRoots(t), boundary)
        });
    }

    function boundaryRoots(Transcript memory t) internal pure returns (bytes32[] memory roots) {
        roots = new bytes32[](t.rows.length);
        for (uint16 b; b < roots.length; ++b) {
            bytes32[] memory leaves = _rowLeaves(t, b);
            roots[b] = Trees.boundaryRoot(b, BF16, D, uint32(leaves.length), Trees.root(leaves));
        }
    }

    function _rowLeaves(Transcript memory t, uint16 boundary) private pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](t.rows[boundary].length);
        for (uint32 p; p < leaves.length; ++p) {
            leaves[p] = Trees.rowLeaf(p, t.tokens[p], t.rows[boundary][p]);
        }
    }
}
