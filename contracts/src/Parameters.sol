// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {BPS, Params} from "./Types.sol";

/// @notice All versions of the parameters. The owner, a timelock, may add a version; each round and dispute keeps the
/// version under which it began. The guardian may pause new rounds and deposits, and nothing else.
contract Parameters is Ownable2Step {
    /// @notice Exits may not take longer: about a year of 12-second blocks.
    uint256 public constant MAX_UNBONDING_BLOCKS = 2_600_000;
    /// @notice Latest version; the first is 1.
    uint32 public version;
    bool public paused;
    address public guardian; // beside version and pause: one slot
    mapping(uint32 version => Params) private _versions;

    event ParametersPublished(uint32 indexed version, Params params);
    event GuardianChanged(address guardian);
    event Paused(bool paused);

    error VersionUnknown(uint32 version);
    error ParameterInvalid(string field);
    error NotGuardian(address caller);

    constructor(address owner_, address guardian_, Params memory first) Ownable(owner_) {
        guardian = guardian_;
        emit GuardianChanged(guardian_);
        _publish(first);
    }

    /// @notice Add a version. It governs what begins from now on.
    function publish(Params calldata params) external onlyOwner {
        // Epochs are counted from block 0: another length would renumber the past.
        if (params.epochBlocks != _versions[1].epochBlocks) revert ParameterInvalid("epochBlocks");
        // Rounds of the version before are still open: no exit may become shorter than they are.
        Params memory former = _versions[version];
        _require(params.unbondingBlocks > _longestChallenge(former), "unbondingBlocks");
        _require(params.escrowDelayBlocks > former.settleBlocks, "escrowDelayBlocks");
        _publish(params);
    }

    function setGuardian(address guardian_) external onlyOwner {
        guardian = guardian_;
        emit GuardianChanged(guardian_);
    }

    function setPaused(bool paused_) external {
        if (msg.sender != guardian && msg.sender != owner()) revert NotGuardian(msg.sender);
        paused = paused_;
        emit Paused(paused_);
    }

    function current() external view returns (Params memory) {
        return _versions[version];
    }

    function at(uint32 version_) external view returns (Params memory params) {
        if (version_ == 0 || version_ > version) revert VersionUnknown(version_);
        return _versions[version_];
    }

    /// @notice What a new round needs: (version, paused, minimum stake, blocks to its seed, blocks to settle).
    function forRound() external view returns (uint32, bool, uint256, uint256, uint256) {
        Params storage p = _versions[version];
        return (version, paused, p.minStake, p.randomnessDelayBlocks, p.settleBlocks);
    }

    /// @notice What a round needs on its way: (blocks to a seed, blocks of the challenge window).
    function delays(uint32 version_) external view returns (uint256, uint256) {
        Params storage p = _versions[version_];
        return (p.randomnessDelayBlocks, p.challengeWindowBlocks);
    }

    /// @notice What a stake needs: (minimum stake, blocks of unbonding).
    function forStake() external view returns (uint256, uint256) {
        Params storage p = _versions[version];
        return (p.minStake, p.unbondingBlocks);
    }

    function _publish(Params memory p) private {
        _validate(p);
        uint32 next = ++version;
        _versions[next] = p;
        emit ParametersPublished(next, p);
    }

    /// @dev The bounds without which funds could be locked, or leave before a slash.
    function _validate(Params memory p) private pure {
        // Stakes are kept in 96 bits.
        _require(p.minStake > 0 && p.minStake <= type(uint96).max, "minStake");
        _require(p.disputeBond > 0, "disputeBond");
        _require(p.epochBlocks > 0, "epochBlocks");
        _require(p.randomnessDelayBlocks > 0 && p.randomnessDelayBlocks < 128, "randomnessDelayBlocks");
        _require(p.settleBlocks > 2 * p.randomnessDelayBlocks, "settleBlocks");
        _require(p.challengeWindowBlocks > 0, "challengeWindowBlocks");
        _require(p.openingDeadlineBlocks > 0, "openingDeadlineBlocks");
        _require(p.juryCommitBlocks > 0, "juryCommitBlocks");
        _require(p.juryRevealBlocks > 0, "juryRevealBlocks");
        _require(p.appealBlocks > 0, "appealBlocks");
        _require(p.jurySize > 0 && p.jurySize % 2 == 1, "jurySize");
        _require(uint256(p.jurySize) << p.maxAppeals <= 31 && p.maxAppeals < 5, "maxAppeals");
        _require(p.maxAttempts > 0, "maxAttempts");
        _require(p.verifierSpares <= 8, "verifierSpares");
        _require(p.openedPositions > 0, "openedPositions");
        _require(p.slashBpsDivergence > 0 && p.slashBpsDivergence <= BPS, "slashBpsDivergence");
        _require(p.slashBpsTokenFraud > 0 && p.slashBpsTokenFraud <= BPS, "slashBpsTokenFraud");
        _require(p.slashBpsWithheld > 0 && p.slashBpsWithheld <= BPS, "slashBpsWithheld");
        _require(p.slashBpsSettlement > 0 && p.slashBpsSettlement <= BPS, "slashBpsSettlement");
        _require(p.slashBpsNoShow <= BPS, "slashBpsNoShow");
        _require(uint256(p.challengerShareBps) + p.jurorShareBps <= BPS, "challengerShareBps");
        _require(p.verifierFeeBps <= BPS, "verifierFeeBps");
        _require(p.schedulerFeeBps <= BPS, "schedulerFeeBps");
        _require(p.unbondingBlocks > _longestChallenge(p), "unbondingBlocks");
        _require(p.unbondingBlocks <= MAX_UNBONDING_BLOCKS, "unbondingBlocks");
        _require(p.escrowDelayBlocks > p.settleBlocks, "escrowDelayBlocks");
        _require(p.escrowDelayBlocks <= MAX_UNBONDING_BLOCKS, "escrowDelayBlocks");
    }

    /// @dev Blocks from an epoch's beginning to the end of the last dispute about a job that was drawn in it. Stake that
    /// begins to leave is drawn until its epoch ends, and rounds draw from theirs or the one before.
    function _longestChallenge(Params memory p) private pure returns (uint256) {
        uint256 jury =
            uint256(p.randomnessDelayBlocks) + p.juryCommitBlocks + p.juryRevealBlocks + p.appealBlocks;
        return 2 * uint256(p.epochBlocks) + p.settleBlocks + p.challengeWindowBlocks + p.openingDeadlineBlocks
            + (uint256(p.maxAppeals) + 1) * jury;
    }

    function _require(bool holds, string memory field) private pure {
        if (!holds) revert ParameterInvalid(field);
    }
}
