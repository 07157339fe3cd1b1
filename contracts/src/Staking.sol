// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {SumTree} from "./libraries/SumTree.sol";
import {Tags} from "./libraries/Tags.sol";
import {ModelSpec, Params} from "./Types.sol";

/// @notice Stake pools, one per model, and one for schedulers (model id 0). A change of stake counts from the next
/// epoch; stake that is leaving stays slashable until it is withdrawn.
contract Staking {
    using SafeERC20 for IERC20;
    using SafeCast for uint256;
    using SumTree for SumTree.Tree;

    struct Unbonding {
        uint208 amount;
        uint48 releaseBlock;
    }

    struct Stake {
        uint32 indexPlusOne;
        uint208 active;
        Unbonding[] unbonding;
    }

    struct Pool {
        address[] operators;
        mapping(address operator => Stake) stakes;
        SumTree.Tree tree;
    }

    bytes32 public constant SCHEDULER_POOL = bytes32(0);
    uint256 public constant MAX_UNBONDING_REQUESTS = 8;
    uint256 public constant MAX_DRAW_POINTS = 256;
    uint256 private constant BPS = 10_000;

    IERC20 public immutable token;
    uint256 public immutable epochBlocks;
    uint256 public immutable unbondingBlocks;
    uint256 public immutable minStake;
    address private immutable _deployer;
    /// @notice The contracts that may slash: Court and Tribunal; named once, at deployment.
    mapping(address court => bool) public isCourt;
    bool private _courtsSet;

    mapping(bytes32 modelId => ModelSpec) private _models;
    mapping(bytes32 modelId => Pool) private _pools;
    mapping(address scheduler => bytes) public vrfPublicKey;

    event ModelRegistered(bytes32 indexed modelId, ModelSpec spec);
    event OperatorRegistered(
        bytes32 indexed modelId, address indexed operator, uint256 index, string endpoint
    );
    event SchedulerRegistered(address indexed scheduler, string endpoint, bytes vrfPublicKey);
    event StakeChanged(bytes32 indexed modelId, address indexed operator, uint256 active, uint256 fromEpoch);
    event UnbondingRequested(
        bytes32 indexed modelId, address indexed operator, uint256 amount, uint256 releaseBlock
    );
    event Withdrawn(bytes32 indexed modelId, address indexed operator, uint256 amount);
    event Slashed(bytes32 indexed modelId, address indexed operator, uint256 amount);

    error ModelUnknown(bytes32 modelId);
    error ModelInvalid();
    error AlreadyRegistered(address operator);
    error NotRegistered(address operator);
    error StakeTooSmall(uint256 amount, uint256 minimum);
    error StakeInsufficient(uint256 requested, uint256 active);
    error TooManyUnbondingRequests(uint256 limit);
    error NothingToWithdraw();
    error PoolFull(uint256 capacity);
    error VrfKeyInvalid();
    error NotCourt(address caller);
    error CourtsAlreadySet();
    error TransferFeeNotSupported();
    error NotEnoughOperators(uint256 found, uint256 wanted);

    constructor(IERC20 token_, Params memory params) {
        token = token_;
        epochBlocks = params.epochBlocks;
        unbondingBlocks = params.unbondingBlocks;
        minStake = params.minStake;
        _deployer = msg.sender;
    }

    /// @notice One-time wiring at deployment; afterwards nobody has any special power here.
    function setCourts(address court, address tribunal) external {
        if (msg.sender != _deployer || _courtsSet) revert CourtsAlreadySet();
        _courtsSet = true;
        isCourt[court] = true;
        isCourt[tribunal] = true;
    }

    // --- models ---

    /// @notice Anyone may describe a model; the id is the hash of the description.
    function registerModel(ModelSpec calldata spec) external returns (bytes32 modelId) {
        if (spec.hiddenSize == 0 || spec.hiddenSize > 8192 || spec.vocabSize == 0) revert ModelInvalid();
        if (spec.rowDtype < 1 || spec.rowDtype > 3 || spec.weightDtype < 1 || spec.weightDtype > 3) {
            revert ModelInvalid();
        }
        if (spec.rowToleranceQ40.length == 0 || spec.rowToleranceQ40.length > 256) revert ModelInvalid();
        modelId = keccak256(abi.encode(spec));
        if (_models[modelId].hiddenSize != 0) return modelId;
        _models[modelId] = spec;
        emit ModelRegistered(modelId, spec);
    }

    function model(bytes32 modelId) external view returns (ModelSpec memory spec) {
        spec = _models[modelId];
        if (spec.hiddenSize == 0) revert ModelUnknown(modelId);
    }

    // --- stake ---

    function registerOperator(bytes32 modelId, uint256 amount, string calldata endpoint) external {
        if (_models[modelId].hiddenSize == 0) revert ModelUnknown(modelId);
        _register(modelId, amount, endpoint);
    }

    /// @param vrfKey compressed secp256k1 public key (33 bytes) of the scheduler's draws.
    function registerScheduler(uint256 amount, string calldata endpoint, bytes calldata vrfKey) external {
        if (vrfKey.length != 33) revert VrfKeyInvalid();
        vrfPublicKey[msg.sender] = vrfKey;
        emit SchedulerRegistered(msg.sender, endpoint, vrfKey);
        _register(SCHEDULER_POOL, amount, endpoint);
    }

    function increaseStake(bytes32 modelId, uint256 amount) external {
        Stake storage s = _stake(modelId, msg.sender);
        s.active += amount.toUint208();
        _reweigh(modelId, msg.sender, s);
        _pull(amount);
    }

    /// @notice Stop staking `amount`; it is paid out by withdrawUnbonded after `unbondingBlocks`, less any slash.
    function requestUnbond(bytes32 modelId, uint256 amount) external {
        Stake storage s = _stake(modelId, msg.sender);
        if (amount == 0 || amount > s.active) revert StakeInsufficient(amount, s.active);
        if (s.unbonding.length == MAX_UNBONDING_REQUESTS) {
            revert TooManyUnbondingRequests(MAX_UNBONDING_REQUESTS);
        }
        s.active -= uint208(amount);
        uint48 releaseBlock = (block.number + unbondingBlocks).toUint48();
        s.unbonding.push(Unbonding(uint208(amount), releaseBlock));
        _reweigh(modelId, msg.sender, s);
        emit UnbondingRequested(modelId, msg.sender, amount, releaseBlock);
    }

    function withdrawUnbonded(bytes32 modelId) external returns (uint256 amount) {
        Unbonding[] storage queue = _stake(modelId, msg.sender).unbonding;
        uint256 i;
        while (i < queue.length) {
            if (queue[i].releaseBlock > block.number) {
                ++i;
                continue;
            }
            amount += queue[i].amount;
            queue[i] = queue[queue.length - 1];
            queue.pop();
        }
        if (amount == 0) revert NothingToWithdraw();
        emit Withdrawn(modelId, msg.sender, amount);
        token.safeTransfer(msg.sender, amount);
    }

    /// @notice Take `bps` of all that the operator has in the pool, active or leaving, rounded up, and hand it to the court.
    function slash(bytes32 modelId, address operator, uint256 bps) external returns (uint256 taken) {
        if (!isCourt[msg.sender]) revert NotCourt(msg.sender);
        Stake storage s = _pools[modelId].stakes[operator];
        taken = Math.mulDiv(stakeOf(modelId, operator), bps, BPS, Math.Rounding.Ceil);
        uint256 fromActive = Math.min(taken, s.active);
        s.active -= uint208(fromActive);
        uint256 rest = taken - fromActive;
        for (uint256 i; rest > 0; ++i) {
            uint256 part = Math.min(rest, s.unbonding[i].amount);
            s.unbonding[i].amount -= uint208(part);
            rest -= part;
        }
        if (s.indexPlusOne != 0) _reweigh(modelId, operator, s);
        emit Slashed(modelId, operator, taken);
        if (taken > 0) token.safeTransfer(msg.sender, taken);
    }

    // --- draws ---

    function epoch() public view returns (uint48) {
        return (block.number / epochBlocks).toUint48();
    }

    function epochSeed(uint64 epoch_) external view returns (bytes32) {
        return keccak256(abi.encodePacked(Tags.EPOCH_SEED, block.chainid, address(this), epoch_));
    }

    /// @notice `count` distinct operators by stake as of `epoch_` (docs/protocol.md section 5).
    function draw(
        bytes32 modelId,
        uint48 epoch_,
        bytes calldata beta,
        uint256 count,
        address[] calldata excluded
    ) external view returns (address[] memory chosen) {
        Pool storage pool = _pools[modelId];
        uint256 total = pool.tree.total(epoch_);
        chosen = new address[](count);
        bytes32 seed = keccak256(beta);
        uint256 found;
        for (uint32 i; found < count && total > 0 && i < MAX_DRAW_POINTS; ++i) {
            uint256 point = uint256(keccak256(abi.encodePacked(Tags.DRAW, seed, i))) % total;
            address operator = pool.operators[pool.tree.find(epoch_, point)];
            if (_contains(excluded, operator) || _containsUpTo(chosen, found, operator)) continue;
            chosen[found++] = operator;
        }
        if (found < count) revert NotEnoughOperators(found, count);
    }

    function poolSize(bytes32 modelId) external view returns (uint256) {
        return _pools[modelId].operators.length;
    }

    function operatorAt(bytes32 modelId, uint256 index) external view returns (address) {
        return _pools[modelId].operators[index];
    }

    function stakeAt(bytes32 modelId, uint256 index, uint48 epoch_) external view returns (uint256) {
        return _pools[modelId].tree.weightAt(index, epoch_);
    }

    function totalStakeAt(bytes32 modelId, uint48 epoch_) external view returns (uint256) {
        return _pools[modelId].tree.total(epoch_);
    }

    /// @notice The pool as of an epoch: operators by index, and the weight with which each is drawn.
    function stakesAt(bytes32 modelId, uint48 epoch_)
        external
        view
        returns (address[] memory operators, uint256[] memory weights)
    {
        operators = _pools[modelId].operators;
        weights = new uint256[](operators.length);
        for (uint256 i; i < weights.length; ++i) {
            weights[i] = _pools[modelId].tree.weightAt(i, epoch_);
        }
    }

    function activeStake(bytes32 modelId, address operator) external view returns (uint256) {
        return _pools[modelId].stakes[operator].active;
    }

    /// @notice Everything of the operator in the pool that can be slashed.
    function stakeOf(bytes32 modelId, address operator) public view returns (uint256 amount) {
        Stake storage s = _pools[modelId].stakes[operator];
        amount = s.active;
        for (uint256 i; i < s.unbonding.length; ++i) {
            amount += s.unbonding[i].amount;
        }
    }

    // --- internals ---

    function _register(bytes32 modelId, uint256 amount, string calldata endpoint) private {
        Pool storage pool = _pools[modelId];
        Stake storage s = pool.stakes[msg.sender];
        if (s.indexPlusOne != 0) revert AlreadyRegistered(msg.sender);
        if (amount < minStake) revert StakeTooSmall(amount, minStake);
        if (pool.operators.length == SumTree.CAPACITY) revert PoolFull(SumTree.CAPACITY);
        pool.operators.push(msg.sender);
        s.indexPlusOne = uint32(pool.operators.length);
        s.active = amount.toUint208();
        emit OperatorRegistered(modelId, msg.sender, pool.operators.length - 1, endpoint);
        _reweigh(modelId, msg.sender, s);
        _pull(amount);
    }

    function _stake(bytes32 modelId, address operator) private view returns (Stake storage s) {
        s = _pools[modelId].stakes[operator];
        if (s.indexPlusOne == 0) revert NotRegistered(operator);
    }

    /// @dev Below the minimum an operator is not drawn, but what it has stays slashable.
    function _reweigh(bytes32 modelId, address operator, Stake storage s) private {
        uint48 next = epoch() + 1;
        _pools[modelId].tree.set(s.indexPlusOne - 1, next, s.active < minStake ? 0 : s.active);
        emit StakeChanged(modelId, operator, s.active, next);
    }

    function _pull(uint256 amount) private {
        uint256 before = token.balanceOf(address(this));
        token.safeTransferFrom(msg.sender, address(this), amount);
        if (token.balanceOf(address(this)) - before != amount) revert TransferFeeNotSupported();
    }

    function _contains(address[] calldata list, address item) private pure returns (bool) {
        for (uint256 i; i < list.length; ++i) {
            if (list[i] == item) return true;
        }
        return false;
    }

    function _containsUpTo(address[] memory list, uint256 length, address item) private pure returns (bool) {
        for (uint256 i; i < length; ++i) {
            if (list[i] == item) return true;
        }
        return false;
    }
}
