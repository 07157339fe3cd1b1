// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {VrfProof} from "../../src/libraries/Vrf.sol";

/// @notice Makes the proofs that `Vrf` checks (verillm/vrf.py, RFC 9381 with suite 0xFE), in affine coordinates: slow
/// and plain. Curve y^2 = x^3 + 7 over P, of order N.
library VrfProver {
    uint256 private constant N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
    uint256 private constant P = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F;
    uint256 private constant GX = 0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798;
    uint256 private constant GY = 0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8;
    bytes1 private constant SUITE = 0xfe;

    struct Point {
        uint256 x;
        uint256 y;
    }

    function publicKey(uint256 secret) internal view returns (bytes memory) {
        return _compressed(_times(secret, Point(GX, GY)));
    }

    function prove(uint256 secret, bytes memory alpha) internal view returns (VrfProof memory proof) {
        bytes memory key = publicKey(secret);
        Point memory h = _toCurve(key, alpha);
        Point memory gamma = _times(secret, h);
        uint256 nonce = uint256(keccak256(abi.encode(secret, alpha))) % N;
        Point memory u = _times(nonce, Point(GX, GY));
        bytes memory points = abi.encodePacked(key, _compressed(h), _compressed(gamma), _compressed(u));
        points = abi.encodePacked(SUITE, uint8(2), points, _compressed(_times(nonce, h)), uint8(0));
        proof.c = uint128(bytes16(sha256(points)));
        proof.s = addmod(nonce, mulmod(proof.c, secret, N), N);
        (proof.gammaPrefix, proof.gammaX) = (_prefix(gamma), gamma.x);
        proof.u = [u.x, u.y];
        _hint(proof, h, gamma);
    }

    /// @notice The output that the proof is of.
    function output(VrfProof memory proof) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(SUITE, uint8(3), proof.gammaPrefix, proof.gammaX, uint8(0)));
    }

    function _hint(VrfProof memory proof, Point memory h, Point memory gamma) private view {
        Point memory a = _times(proof.s, h);
        Point memory b = _times(proof.c, gamma);
        (proof.sH, proof.cGamma) = ([a.x, a.y], [b.x, b.y]);
        proof.slope = mulmod(addmod(a.y, b.y, P), _inverse(addmod(a.x, P - b.x, P)), P);
    }

    /// @dev Try-and-increment; the point's y is even.
    function _toCurve(bytes memory key, bytes memory alpha) private view returns (Point memory) {
        for (uint256 counter;; ++counter) {
            bytes memory text = abi.encodePacked(SUITE, uint8(1), key, alpha, uint8(counter), uint8(0));
            uint256 x = uint256(sha256(text));
            if (x >= P) continue;
            uint256 square = addmod(mulmod(mulmod(x, x, P), x, P), 7, P);
            uint256 y = _power(square, (P + 1) / 4);
            if (mulmod(y, y, P) == square) return Point(x, y & 1 == 0 ? y : P - y);
        }
    }

    function _times(uint256 factor, Point memory point) private view returns (Point memory sum) {
        bool started;
        for (uint256 bit = 256; bit > 0; --bit) {
            if (started) sum = _double(sum);
            if ((factor >> (bit - 1)) & 1 == 0) continue;
            sum = started ? _add(sum, point) : point;
            started = true;
        }
    }

    function _double(Point memory a) private view returns (Point memory) {
        uint256 slope = mulmod(3, mulmod(mulmod(a.x, a.x, P), _inverse(mulmod(2, a.y, P)), P), P);
        return _third(a, a.x, slope);
    }

    function _add(Point memory a, Point memory b) private view returns (Point memory) {
        uint256 slope = mulmod(addmod(a.y, P - b.y, P), _inverse(addmod(a.x, P - b.x, P)), P);
        return _third(a, b.x, slope);
    }

    /// @dev The sum of `a` and the point at `x` on the line through both.
    function _third(Point memory a, uint256 x, uint256 slope) private pure returns (Point memory c) {
        c.x = addmod(mulmod(slope, slope, P), addmod(P - a.x, P - x, P), P);
        c.y = addmod(mulmod(slope, addmod(a.x, P - c.x, P), P), P - a.y, P);
    }

    function _inverse(uint256 a) private view returns (uint256) {
        return _power(a, P - 2);
    }

    /// @dev base^exponent modulo P by the precompile of EIP-198, in memory that is not kept.
    function _power(uint256 base, uint256 exponent) private view returns (uint256 result) {
        uint256 p = P;
        assembly ("memory-safe") {
            let free := mload(0x40)
            mstore(free, 32)
            mstore(add(free, 32), 32)
            mstore(add(free, 64), 32)
            mstore(add(free, 96), base)
            mstore(add(free, 128), exponent)
            mstore(add(free, 160), p)
            if iszero(staticcall(gas(), 5, free, 192, free, 32)) { revert(0, 0) }
            result := mload(free)
        }
    }

    function _compressed(Point memory a) private pure returns (bytes memory) {
        return abi.encodePacked(_prefix(a), a.x);
    }

    function _prefix(Point memory a) private pure returns (uint8) {
        return uint8(2 + (a.y & 1));
    }
}
