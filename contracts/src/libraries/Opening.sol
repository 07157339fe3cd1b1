// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Commitment, JobRootParts, MatrixRow, ModelSpec, RowOpening} from "../Types.sol";
import {Merkle} from "./Merkle.sol";
import {Rows} from "./Rows.sol";
import {Tags} from "./Tags.sol";

/// @notice Ties opened rows, tokens and matrix rows to the roots that were committed.
library Opening {
    error PartsNotCommitted(bytes32 jobRoot);
    error RowNotCommitted(uint16 boundary, uint32 position);
    error TokenNotCommitted(uint32 position);
    error WeightsNotInModel(uint32 token);

    /// @notice `parts` are the preimage of the commitment's job root.
    function checkParts(Commitment calldata c, bytes32 modelId, JobRootParts calldata parts) internal pure {
        bytes memory head = abi.encodePacked(
            Tags.JOB, c.jobId, c.operator, modelId, c.promptTokens, c.outputTokens, c.finishReason
        );
        bytes32 root =
            keccak256(abi.encodePacked(head, parts.tokenRoot, parts.boundaries, parts.boundariesRoot));
        if (root != c.jobRoot) revert PartsNotCommitted(c.jobRoot);
    }

    /// @notice The opened row hangs on `parts.boundariesRoot`; positions 0 to P+O-2 exist.
    function checkRow(
        Commitment calldata c,
        JobRootParts calldata parts,
        ModelSpec memory spec,
        RowOpening calldata opening
    ) internal pure {
        Rows.checkSize(opening.row, spec.rowDtype, spec.hiddenSize);
        uint32 rows = c.promptTokens + c.outputTokens - 1;
        bytes32 leaf = keccak256(
            abi.encodePacked(Tags.ROW, opening.position, opening.token, Merkle.chunkRoot(opening.row))
        );
        bytes32 tree = Merkle.rootFrom(leaf, opening.position, rows, opening.rowProof);
        bytes32 boundaryRoot = keccak256(
            abi.encodePacked(Tags.BOUNDARY, opening.boundary, spec.rowDtype, spec.hiddenSize, rows, tree)
        );
        bytes32 root =
            Merkle.rootFrom(boundaryRoot, opening.boundary, parts.boundaries, opening.boundaryProof);
        if (root != parts.boundariesRoot || parts.boundaries != spec.rowToleranceQ40.length) {
            revert RowNotCommitted(opening.boundary, opening.position);
        }
    }

    function checkToken(
        Commitment calldata c,
        JobRootParts calldata parts,
        uint32 position,
        uint32 token,
        bytes32[] calldata proof
    ) internal pure {
        bytes32 leaf = keccak256(abi.encodePacked(Tags.TOKEN, position, token));
        uint256 count = uint256(c.promptTokens) + c.outputTokens;
        if (Merkle.rootFrom(leaf, position, count, proof) != parts.tokenRoot) {
            revert TokenNotCommitted(position);
        }
    }

    function checkWeights(ModelSpec memory spec, MatrixRow calldata weights) internal pure {
        Rows.checkSize(weights.row, spec.weightDtype, spec.hiddenSize);
        bytes32 leaf =
            keccak256(abi.encodePacked(Tags.MATRIX_ROW, weights.token, Merkle.chunkRoot(weights.row)));
        if (Merkle.rootFrom(leaf, weights.token, spec.vocabSize, weights.proof) != spec.outputMatrixRoot) {
            revert WeightsNotInModel(weights.token);
        }
    }
}
