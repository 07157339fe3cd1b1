// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice An ECVRF proof (Gamma, c, s) with the points its check passes through (verillm.vrf.hints computes them).
struct VrfProof {
    /// First byte of the compressed Gamma: 2 for an even y, 3 for an odd one.
    uint8 gammaPrefix;
    uint256 gammaX;
    uint128 c;
    uint256 s;
    /// U = s*G - c*Y, as (x, y).
    uint256[2] u;
    /// s*H
    uint256[2] sH;
    /// c*Gamma
    uint256[2] cGamma;
    /// Slope of the line through s*H and -c*Gamma, modulo the field prime.
    uint256 slope;
}

/// @notice Checks ECVRF-SECP256K1-SHA256-TAI proofs: RFC 9381 section 5.3, suite 0xFE, as verillm/vrf.py makes them.
/// @dev Scalar multiplications are done by ecrecover, which returns the address of a point that depends on its inputs
/// alone; the point itself comes as a hint and must have that address (a false hint is a second preimage of 160 bits
/// of keccak). Hence every hint is determined by key, input, Gamma, c and s, and none of them widens what verifies.
/// Points go into ecrecover as x and parity: it lifts x to the curve, and fails if there is no such point. It also
/// fails for x >= N, for a zero multiple and for a sum at infinity; an honest proof meets one with odds below 2^-120.
library Vrf {
    /// Order of the group, and the prime of the field (SEC 2, secp256k1).
    uint256 private constant N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
    uint256 private constant P = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F;
    bytes1 private constant SUITE = 0xfe;
    uint256 private constant KEY_BYTES = 33;
    uint256 private constant MAX_TRIES = 256;

    error VrfKeyInvalid(bytes publicKey);
    error VrfGammaInvalid(uint8 prefix);
    error VrfScalarInvalid(uint256 c, uint256 s);
    error VrfInputInvalid(bytes alpha);
    /// `expected` is 0 if Y or Gamma is no point of the curve, or if U is the point at infinity.
    error VrfPointWrong(bytes32 field, address expected);
    error VrfSumDegenerate();
    error VrfSlopeWrong(uint256 slope);
    error VrfProofInvalid(uint256 c, uint256 expected);

    /// @notice The output (RFC 9381 5.2) of the key for `alpha`; reverts unless the proof shows it.
    /// @param publicKey compressed point, 33 bytes.
    function verify(bytes memory publicKey, bytes memory alpha, VrfProof calldata proof)
        internal
        pure
        returns (bytes32 beta)
    {
        (uint8 keyPrefix, uint256 keyX) = _decode(publicKey);
        (uint8 gammaPrefix, uint256 gammaX) = (proof.gammaPrefix, proof.gammaX);
        (uint256 c, uint256 s) = (proof.c, proof.s);
        if (gammaPrefix != 2 && gammaPrefix != 3) revert VrfGammaInvalid(gammaPrefix);
        if (c == 0 || s == 0 || s >= N) revert VrfScalarInvalid(c, s);

        (uint256 hX, address sH) = _scaledInput(publicKey, alpha, s);
        _check("u", proof.u, _combination(s, N - c, keyPrefix, keyX));
        _check("sH", proof.sH, sH);
        _check("cGamma", proof.cGamma, _combination(0, c, gammaPrefix, gammaX));
        (uint256 vX, uint256 vY) = _difference(proof.sH, proof.cGamma, proof.slope);

        bytes memory points = abi.encodePacked(
            publicKey, uint8(2), hX, gammaPrefix, gammaX, _prefix(proof.u[1]), proof.u[0], _prefix(vY), vX
        );
        uint256 expected = uint128(bytes16(sha256(abi.encodePacked(SUITE, uint8(2), points, uint8(0)))));
        if (c != expected) revert VrfProofInvalid(c, expected);
        return sha256(abi.encodePacked(SUITE, uint8(3), gammaPrefix, gammaX, uint8(0)));
    }

    /// @notice The account of a compressed public key; reverts unless it is a point of the curve.
    function publicKeyAddress(bytes memory publicKey) internal pure returns (address account) {
        (uint8 prefix, uint256 x) = _decode(publicKey);
        account = _combination(0, 1, prefix, x);
        if (account == address(0)) revert VrfKeyInvalid(publicKey);
    }

    /// @dev x of H (try-and-increment, RFC 9381 5.4.1.1; its y is even) and the address of s*H. With 0 < s < N
    /// ecrecover fails exactly for an x that is not on the curve (or not below N), so H is a function of key and
    /// input that no caller can steer. A call that runs out of gas reverts instead of looking like a failure.
    function _scaledInput(bytes memory publicKey, bytes memory alpha, uint256 s)
        private
        pure
        returns (uint256 x, address scaled)
    {
        bytes memory text = abi.encodePacked(SUITE, uint8(1), publicKey, alpha, uint8(0), uint8(0));
        uint256 counterAt = text.length - 2;
        for (uint256 counter; counter < MAX_TRIES; ++counter) {
            text[counterAt] = bytes1(uint8(counter));
            x = uint256(sha256(text));
            scaled = _combination(0, s, 2, x);
            if (scaled != address(0)) return (x, scaled);
        }
        revert VrfInputInvalid(alpha);
    }

    /// @dev Address of a*G + b*(x, parity of `prefix`), for a and b below N; 0 where ecrecover fails. ecrecover gives
    /// r^-1 * (t*R - z*G) for R = (r, parity), hash z and signature (r, t): r = x, z = -a*x, t = b*x.
    function _combination(uint256 a, uint256 b, uint8 prefix, uint256 x) private pure returns (address) {
        bytes32 z = bytes32(mulmod(N - a, x, N));
        return ecrecover(z, prefix + 25, bytes32(x), bytes32(mulmod(b, x, N)));
    }

    function _check(bytes32 field, uint256[2] calldata point, address expected) private pure {
        address actual = address(uint160(uint256(keccak256(abi.encode(point)))));
        if (expected == address(0) || actual != expected) revert VrfPointWrong(field, expected);
    }

    /// @dev a - b for points of the curve. The chord rule needs different x: with equal ones any slope would pass.
    /// Then a prime field has one slope, and the coordinates below P determine the sum.
    function _difference(uint256[2] calldata a, uint256[2] calldata b, uint256 slope)
        private
        pure
        returns (uint256 x, uint256 y)
    {
        (uint256 aX, uint256 aY, uint256 bX, uint256 bY) = (a[0], a[1], b[0], b[1]);
        if (aX == bX) revert VrfSumDegenerate();
        if (mulmod(slope, addmod(aX, P - bX, P), P) != addmod(aY, bY, P)) revert VrfSlopeWrong(slope);
        x = addmod(mulmod(slope, slope, P), addmod(P - aX, P - bX, P), P);
        y = addmod(mulmod(slope, addmod(aX, P - x, P), P), P - aY, P);
    }

    function _decode(bytes memory publicKey) private pure returns (uint8 prefix, uint256 x) {
        if (publicKey.length != KEY_BYTES) revert VrfKeyInvalid(publicKey);
        prefix = uint8(publicKey[0]);
        if (prefix != 2 && prefix != 3) revert VrfKeyInvalid(publicKey);
        assembly ("memory-safe") {
            // Bytes 1 to 32, behind the length word and the prefix.
            x := mload(add(publicKey, 33))
        }
    }

    function _prefix(uint256 y) private pure returns (uint8) {
        return uint8(2 + (y & 1));
    }
}
