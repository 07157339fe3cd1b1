// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.26;

import {ModelSpec} from "../Types.sol";

/// @notice Models, stake pools and draws. A pool is a model id; pool 0 holds the schedulers' stakes.
/// Stake counts for draws from the next epoch, and only while it is at least `minStake`.
interface IStaking {
    event ModelRegistered(bytes32 indexed modelId, ModelSpec spec);
    event OperatorRegistered(bytes32 indexed modelId, address indexed operator, uint256 index, string endpoint);
    event SchedulerRegistered(address indexed scheduler, string endpoint, bytes vrfPublicKey);
    event EndpointChanged(address indexed operator, string endpoint);
    /// @notice Active stake after a change; in draws from `fromEpoch`.
    event StakeChanged(bytes32 indexed poolId, address indexed owner, uint256 active, uint256 fromEpoch);
    event UnbondRequested(
        bytes32 indexed poolId, address indexed owner, uint256 amount, uint256 releaseBlock
    );
    event Unbonded(bytes32 indexed poolId, address indexed owner, uint256 amount);
    event Slashed(bytes32 indexed poolId, address indexed owner, uint256 amount);
    event CourtSet(address court);

    error BadParameter(string name, uint256 value);
    error BadModelSpec(string field);
    error ModelExists(bytes32 modelId);
    error UnknownModel(bytes32 modelId);
    error AlreadyRegistered(bytes32 poolId, address owner);
    error NotRegistered(bytes32 poolId, address owner);
    error BelowMinStake(uint256 stake, uint256 minStake);
    error BadVrfKey(uint256 length);
    error EndpointTooLong(uint256 length, uint256 limit);
    error AmountZero();
    error InsufficientStake(uint256 requested, uint256 active);
    error TooManyUnbondings(uint256 limit);
    error NothingToWithdraw();
    error NotDeployer(address sender);
    error NotCourt(address sender);
    error CourtAlreadySet(address court);
    error WrongTransfer(uint256 expected, uint256 received);
    error NotEnoughOperators(uint256 found, uint256 wanted);

    /// @notice Anyone: make a model known. Returns `keccak256(abi.encode(spec))`.
    function registerModel(ModelSpec calldata spec) external returns (bytes32 modelId);

    /// @notice Join a model's pool with `amount` >= minStake of approved tokens. Sets the caller's endpoint.
    function registerOperator(bytes32 modelId, uint256 amount, string calldata endpoint) external;

    /// @notice Become a scheduler with `amount` >= minStake; `vrfPublicKey` is a 33-byte compressed point.
    function registerScheduler(uint256 amount, string calldata endpoint, bytes calldata vrfPublicKey) external;

    /// @notice Change the endpoint that the caller's operator registrations show.
    function setEndpoint(string calldata endpoint) external;

    /// @notice Add stake to a pool (0: as a scheduler) in which the caller is registered.
    function increaseStake(bytes32 poolId, uint256 amount) external;

    /// @notice Start to take stake out. It stays slashable for `unbondingBlocks`; what remains active must be
    /// 0 or at least minStake. At most 8 requests are open at a time.
    function requestUnbond(bytes32 poolId, uint256 amount) external;

    /// @notice Pay out the caller's matured requests; reverts with NothingToWithdraw if none has.
    function withdrawUnbonded(bytes32 poolId) external returns (uint256 amount);

    /// @notice Court only: take `bps` of active plus unbonding stake and send it to the court. Never reverts on
    /// empty stake; returns what was taken.
    function slash(bytes32 poolId, address owner, uint256 bps) external returns (uint256 amount);

    /// @notice Deployer, once: name the court. The deployer has no other power.
    function setCourt(address court) external;

    function epoch() external view returns (uint256);

    /// @notice H(0x0d || chainId u256 || this(20) || epoch u64).
    function epochSeed(uint256 atEpoch) external view returns (bytes32);

    /// @notice `count` distinct operators by stake (protocol, section 5); reverts with NotEnoughOperators.
    function draw(
        bytes32 modelId,
        uint256 atEpoch,
        bytes32 beta,
        uint256 count,
        address[] calldata excluded
    ) external view returns (address[] memory operators);

    /// @notice As `draw`, but returns as many as were found.
    function drawUpTo(
        bytes32 modelId,
        uint256 atEpoch,
        bytes32 beta,
        uint256 count,
        address[] calldata excluded
    ) external view returns (address[] memory operators);

    /// @notice The spec; reverts with UnknownModel.
    function modelSpec(bytes32 modelId) external view returns (ModelSpec memory);

    function modelExists(bytes32 modelId) external view returns (bool);

    /// @notice Operators ever registered in the pool.
    function poolSize(bytes32 modelId) external view returns (uint256);

    function operatorAt(bytes32 modelId, uint256 index) external view returns (address);

    function stakeAt(bytes32 modelId, uint256 index, uint256 atEpoch) external view returns (uint256);

    function totalStakeAt(bytes32 modelId, uint256 atEpoch) external view returns (uint256);

    /// @notice All operators by index and their drawable stake in that epoch.
    function stakes(bytes32 modelId, uint256 atEpoch)
        external
        view
        returns (address[] memory operators, uint256[] memory amounts);

    /// @notice (active, unbonding) stake in a pool; pool 0 for schedulers.
    function stakeOf(bytes32 poolId, address owner) external view returns (uint256 active, uint256 unbonding);

    /// @notice An operator's endpoint; empty if it never registered.
    function endpointOf(address operator) external view returns (string memory);

    /// @notice A scheduler's endpoint, VRF key and active stake; empty if it never registered.
    function schedulerInfo(address scheduler)
        external
        view
        returns (string memory endpoint, bytes memory vrfPublicKey, uint256 active);

    /// @notice True while the scheduler's active stake is at least minStake.
    function isScheduler(address scheduler) external view returns (bool);
}
