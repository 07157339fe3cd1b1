// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Commitment, Job, Verdict} from "../Types.sol";

/// @notice EIP-712 struct hashes of the signed messages (docs/protocol.md section 4).
library Eip712 {
    bytes32 internal constant JOB_TYPEHASH = keccak256(
        "Job(address client,address scheduler,bytes32 modelId,bytes32 promptHash,uint32 promptTokens,uint32 maxOutputTokens,bytes32 stopHash,uint32 temperaturePpm,uint32 topK,uint32 topPPpm,uint64 seed,uint128 inputPrice,uint128 outputPrice,uint8 verifiers,uint64 deadline,uint256 nonce)"
    );
    bytes32 internal constant COMMITMENT_TYPEHASH = keccak256(
        "Commitment(bytes32 jobId,uint8 role,uint32 attempt,bytes32 jobRoot,uint32 promptTokens,uint32 outputTokens,uint8 finishReason,address operator)"
    );

    bytes32 internal constant VERDICT_TYPEHASH =
        keccak256("Verdict(bytes32 jobId,uint8 verdict,uint16 boundary,uint32 position,address operator)");

    // All members are static, so the abi encoding of the struct is the concatenation that EIP-712 asks for.
    function hash(Job calldata job) internal pure returns (bytes32) {
        return keccak256(abi.encode(JOB_TYPEHASH, job));
    }

    function hash(Commitment calldata commitment) internal pure returns (bytes32) {
        return keccak256(abi.encode(COMMITMENT_TYPEHASH, commitment));
    }

    function hash(Verdict calldata verdict) internal pure returns (bytes32) {
        return keccak256(abi.encode(VERDICT_TYPEHASH, verdict));
    }
}
