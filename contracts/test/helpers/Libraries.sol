// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BlockHeader} from "../../src/libraries/BlockHeader.sol";
import {Comparator} from "../../src/libraries/Comparator.sol";
import {Eip712} from "../../src/libraries/Eip712.sol";
import {FixedDot} from "../../src/libraries/FixedDot.sol";
import {Gumbel} from "../../src/libraries/Gumbel.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Opening} from "../../src/libraries/Opening.sol";
import {Philox} from "../../src/libraries/Philox.sol";
import {Records} from "../../src/libraries/Records.sol";
import {Rows} from "../../src/libraries/Rows.sol";
import {SumTree} from "../../src/libraries/SumTree.sol";
import {Commitment, JobRootParts, MatrixRow, ModelSpec, RowOpening, Verdict} from "../../src/Types.sol";

/// @notice Gives the internal libraries an outside, because they read calldata.
contract Libraries {
    using SumTree for SumTree.Tree;

    SumTree.Tree private _tree;

    function rootFrom(bytes32 leaf, uint256 index, uint256 count, bytes32[] calldata proof)
        external
        pure
        returns (bytes32)
    {
        return Merkle.rootFrom(leaf, index, count, proof);
    }

    function chunkRoot(bytes calldata row) external pure returns (bytes32) {
        return Merkle.chunkRoot(row);
    }

    function statistics(bytes calldata a, bytes calldata b, uint8 dtype)
        external
        pure
        returns (uint256, uint256)
    {
        return Comparator.statistics(Comparator.load(a, dtype), Comparator.load(b, dtype));
    }

    function diverges(bytes calldata a, bytes calldata b, uint8 dtype, uint256 toleranceQ40)
        external
        pure
        returns (bool)
    {
        return Comparator.diverges(Comparator.load(a, dtype), Comparator.load(b, dtype), toleranceQ40);
    }

    /// @notice Both verdicts on a juror's row, as the Court computes them.
    function divergesFromBoth(
        bytes calldata row,
        bytes calldata first,
        bytes calldata second,
        uint8 dtype,
        uint256 toleranceQ40
    ) external pure returns (bool, bool) {
        Rows.Row memory own = Comparator.load(row, dtype);
        return (
            Comparator.diverges(own, Comparator.load(first, dtype), toleranceQ40),
            Comparator.diverges(own, Comparator.load(second, dtype), toleranceQ40)
        );
    }

    function logitQ24(
        bytes calldata row,
        uint8 rowDtype,
        bytes calldata weights,
        uint8 weightDtype,
        uint256 d
    ) external pure returns (int256) {
        Rows.checkSize(row, rowDtype, d);
        return FixedDot.logitQ24(FixedDot.q40(row, rowDtype), weights, weightDtype);
    }

    /// @notice Both logits of a token fraud, as the Tribunal computes them.
    function logitsQ24(
        bytes calldata row,
        uint8 rowDtype,
        bytes calldata first,
        bytes calldata second,
        uint8 weightDtype
    ) external pure returns (int256, int256) {
        int256[] memory values = FixedDot.q40(row, rowDtype);
        return (FixedDot.logitQ24(values, first, weightDtype), FixedDot.logitQ24(values, second, weightDtype));
    }

    function noiseWord(uint64 seed, uint32 position, uint32 token) external pure returns (uint256) {
        return Philox.noiseWord(seed, position, token);
    }

    function noiseQ24(uint256 word) external pure returns (int256) {
        return Gumbel.noiseQ24(word);
    }

    function mixHash(bytes calldata header) external pure returns (bytes32) {
        return BlockHeader.mixHash(header);
    }

    function commitmentHash(Commitment calldata commitment) external pure returns (bytes32) {
        return Eip712.hash(commitment);
    }

    function outcome(uint8[] calldata verdicts) external pure returns (uint8) {
        return Records.outcome(verdicts);
    }

    function verdictHash(Verdict calldata verdict) external pure returns (bytes32) {
        return Eip712.hash(verdict);
    }

    function checkParts(Commitment calldata c, bytes32 modelId, JobRootParts calldata parts) external pure {
        Opening.checkParts(c, modelId, parts);
    }

    function checkRow(
        Commitment calldata c,
        JobRootParts calldata parts,
        ModelSpec calldata spec,
        RowOpening calldata opening
    ) external pure {
        Opening.checkRow(c, parts, spec, opening);
    }

    function checkToken(
        Commitment calldata c,
        JobRootParts calldata parts,
        uint32 position,
        uint32 token,
        bytes32[] calldata proof
    ) external pure {
        Opening.checkToken(c, parts, position, token, proof);
    }

    function checkWeights(ModelSpec calldata spec, MatrixRow calldata weights) external pure {
        Opening.checkWeights(spec, weights);
    }

    function setWeight(uint256 index, uint48 epoch, uint208 weight) external {
        _tree.set(index, epoch, weight);
    }

    function totalWeight(uint48 epoch) external view returns (uint256) {
        return _tree.total(epoch);
    }

    function find(uint48 epoch, uint256 point) external view returns (uint256) {
        return _tree.find(epoch, point);
    }
}
