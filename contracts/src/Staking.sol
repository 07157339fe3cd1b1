// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {SumTree} from "./libraries/SumTree.sol";
import {Tags} from "./libraries/Tags.sol";
import {Courts} from "./Courts.sol";
import {Keys} from "./Keys.sol";
import {Parameters} from "./Parameters.sol";
import {BPS, ModelSpec, SCHEDULER_POOL} from "./Types.sol";

/// @notice Who takes slashed stake and shares it out.
interface ISlashReceiver {
    function receiveSlash(uint256 amount) external;
}

/// @notice Stake pools, one per model, and one for schedulers (model id 0). A change of stake counts from the next
/// epoch; stake that is leaving stays slashable until it is withdrawn. Nothing here can be paused.
contract Staking is Courts, Keys, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;
    using SafeCast for uint256;
    using SumTree for SumTree.Tree;

    struct Unbonding {
        uint96 amount;
        uint48 releaseBlock;
    }

    /// @dev `seat` is the index in the pool plus one, 0 without a seat. `idleFrom` is the first block from which the
    /// operator is not drawn, 0 while it is.
    struct Stake {
        uint96 active;
        uint32 seat;
        uint48 idleFrom;
        Unbonding[] unbonding;
    }

    /// @dev An index of the pool: who holds it, from which epoch on, and how many held it before.
    struct Seat {
        address operator;
        uint48 since;
        uint48 formers;
    }

    struct Pool {
        Seat[] seats;
        mapping(uint256 index => mapping(uint256 n => Seat)) formers;
        uint32[] free;
        mapping(address operator => Stake) stakes;
        SumTree.Tree tree;
    }

    uint256 public constant MAX_UNBONDING_REQUESTS = 8;
    uint256 public constant MAX_DRAW_POINTS = 256;

    IERC20 public immutable token;
    Parameters public immutable parameters;
    uint256 public immutable epochBlocks;
    /// @notice Where slashed stake goes: `Rounds`.
    ISlashReceiver public bank;

    mapping(bytes32 modelId => ModelSpec) private _models;
    mapping(bytes32 modelId => Pool) private _pools;

    event ModelRegistered(bytes32 indexed modelId, ModelSpec spec);
    event OperatorRegistered(
        bytes32 indexed modelId, address indexed operator, uint256 index, string endpoint
    );
    event SchedulerRegistered(address indexed scheduler, string endpoint, bytes vrfPublicKey);
    event EndpointChanged(bytes32 indexed modelId, address indexed operator, string endpoint);
    event SeatReleased(bytes32 indexed modelId, address indexed operator, uint256 index);
    event StakeChanged(bytes32 indexed modelId, address indexed operator, uint256 active, uint256 fromEpoch);
    event UnbondingRequested(
        bytes32 indexed modelId, address indexed operator, uint256 amount, uint256 releaseBlock
    );
    event Withdrawn(bytes32 indexed modelId, address indexed operator, uint256 amount);
    event Slashed(bytes32 indexed modelId, address indexed operator, uint256 amount);

    error ModelUnknown(bytes32 modelId);
    error ModelInvalid();
    error AlreadyRegistered(address operator);
    error StakeTooSmall(uint256 amount, uint256 minimum);
    error StakeInsufficient(uint256 requested, uint256 active);
    error NothingToWithdraw();
    error PoolFull(uint256 capacity);
    error SeatInUse(address operator);
    error EpochInFuture(uint256 epoch, uint256 current);
    error SlashTooLarge(uint256 bps, uint256 limit);
    error BankMissing();
    error TransferFeeNotSupported();

    constructor(IERC20 token_, Parameters parameters_) {
        token = token_;
        parameters = parameters_;
        epochBlocks = parameters_.current().epochBlocks;
    }

    /// @notice One-time wiring at deployment; afterwards nobody has any special power here.
    function wire(ISlashReceiver bank_, address[] calldata courts) external {
        bank = bank_;
        setCourts(courts);
    }

    /// @notice Only by way of `wire`: courts without a bank could not slash.
    function setCourts(address[] calldata courts) public override {
        if (address(bank) == address(0)) revert BankMissing();
        super.setCourts(courts);
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

    /// @notice Enter a model's pool; several models per operator are welcome. The stake counts from the next epoch.
    function registerOperator(bytes32 modelId, uint256 amount, string calldata endpoint)
        external
        nonReentrant
    {
        _checkModel(modelId);
        _register(modelId, amount, endpoint);
    }

    /// @param vrfKey compressed secp256k1 public key (33 bytes) of the scheduler's draws.
    function registerScheduler(uint256 amount, string calldata endpoint, bytes calldata vrfKey)
        external
        nonReentrant
    {
        emit SchedulerRegistered(msg.sender, endpoint, vrfKey);
        _setVrfKey(msg.sender, vrfKey);
        _register(SCHEDULER_POOL, amount, endpoint);
    }

    /// @notice Draw with another VRF key from the next epoch on.
    function rotateVrfKey(bytes calldata vrfKey) external {
        _seated(SCHEDULER_POOL, msg.sender);
        _setVrfKey(msg.sender, vrfKey);
    }

    function setEndpoint(bytes32 modelId, string calldata endpoint) external {
        _seated(modelId, msg.sender);
        emit EndpointChanged(modelId, msg.sender, endpoint);
    }

    function increaseStake(bytes32 modelId, uint256 amount) external nonReentrant {
        Stake storage s = _seated(modelId, msg.sender);
        (uint256 minStake,) = parameters.forStake();
        s.active = (s.active + amount).toUint96();
        _reweigh(modelId, msg.sender, s, minStake);
        _pull(amount);
    }

    /// @notice Stop staking `amount`; it is paid out by withdrawUnbonded after `unbondingBlocks`, less any slash. What
    /// remains must be nothing or at least the minimum stake: a smaller rest would never be drawn. Beyond
    /// `MAX_UNBONDING_REQUESTS` open ones, a request joins the newest, which then leaves with it.
    function requestUnbond(bytes32 modelId, uint256 amount) external nonReentrant {
        Stake storage s = _pools[modelId].stakes[msg.sender];
        if (amount == 0 || amount > s.active) revert StakeInsufficient(amount, s.active);
        (uint256 minStake, uint256 unbondingBlocks) = parameters.forStake();
        uint256 remaining = s.active - amount;
        if (remaining != 0 && remaining < minStake) revert StakeTooSmall(remaining, minStake);
        s.active = uint96(remaining);
        uint256 releaseBlock = _enqueue(s.unbonding, uint96(amount), block.number + unbondingBlocks);
        emit UnbondingRequested(modelId, msg.sender, amount, releaseBlock);
        _reweigh(modelId, msg.sender, s, minStake);
    }

    function withdrawUnbonded(bytes32 modelId) external nonReentrant returns (uint256 amount) {
        Unbonding[] storage queue = _pools[modelId].stakes[msg.sender].unbonding;
        for (uint256 i = queue.length; i > 0; --i) {
            if (queue[i - 1].releaseBlock > block.number) continue;
            amount += queue[i - 1].amount;
            _remove(queue, i - 1);
        }
        if (amount == 0) revert NothingToWithdraw();
        emit Withdrawn(modelId, msg.sender, amount);
        token.safeTransfer(msg.sender, amount);
    }

    /// @notice Free the seat of an operator that has not been drawn for `unbondingBlocks`, for a newcomer to take.
    /// Anyone may ask. What the operator still has stays its own, stays slashable, and can be unbonded.
    function releaseSeat(bytes32 modelId, address operator) external {
        Stake storage s = _seated(modelId, operator);
        (, uint256 unbondingBlocks) = parameters.forStake();
        if (s.idleFrom == 0 || block.number < s.idleFrom + unbondingBlocks) revert SeatInUse(operator);
        uint32 index = s.seat - 1;
        s.seat = 0;
        _pools[modelId].free.push(index);
        emit SeatReleased(modelId, operator, index);
    }

    /// @notice Take `bps` of all that the operator has in the pool, of the active stake and of each unbonding request
    /// alike, each part rounded up, and hand it to the bank. Takes nothing where nothing is.
    function slash(bytes32 modelId, address operator, uint256 bps)
        external
        onlyCourt
        nonReentrant
        returns (uint256 taken)
    {
        if (bps > BPS) revert SlashTooLarge(bps, BPS);
        Stake storage s = _pools[modelId].stakes[operator];
        uint96 part = _share(s.active, bps);
        taken = part;
        s.active -= part;
        Unbonding[] storage queue = s.unbonding;
        for (uint256 i = queue.length; i > 0; --i) {
            uint96 amount = queue[i - 1].amount;
            part = _share(amount, bps);
            taken += part;
            if (part == amount) _remove(queue, i - 1);
            else queue[i - 1].amount = amount - part;
        }
        if (taken == 0) return 0;
        (uint256 minStake,) = parameters.forStake();
        emit Slashed(modelId, operator, taken);
        _reweigh(modelId, operator, s, minStake);
        token.safeTransfer(address(bank), taken);
        bank.receiveSlash(taken);
    }

    // --- draws ---

    function epoch() public view override returns (uint48) {
        return (block.number / epochBlocks).toUint48();
    }

    function epochSeed(uint64 epoch_) external view returns (bytes32) {
        return keccak256(abi.encodePacked(Tags.EPOCH_SEED, block.chainid, address(this), epoch_));
    }

    /// @notice Up to `count` distinct operators by stake as of `epoch_`, as docs/protocol.md section 5 says. Fewer if
    /// 256 points do not find as many: the caller decides what that means.
    function draw(
        bytes32 modelId,
        uint48 epoch_,
        bytes calldata beta,
        uint256 count,
        address[] calldata excluded
    ) external view returns (address[] memory chosen) {
        if (epoch_ > epoch()) revert EpochInFuture(epoch_, epoch());
        Pool storage pool = _pools[modelId];
        uint256 total = pool.tree.total(epoch_);
        chosen = new address[](Math.min(count, MAX_DRAW_POINTS));
        bytes32 seed = keccak256(beta);
        uint256 found;
        for (uint32 i; found < chosen.length && total > 0 && i < MAX_DRAW_POINTS; ++i) {
            uint256 point = uint256(keccak256(abi.encodePacked(Tags.DRAW, seed, i))) % total;
            address operator = _holder(pool, pool.tree.find(epoch_, point), epoch_);
            if (_contains(excluded, operator) || _containsUpTo(chosen, found, operator)) continue;
            chosen[found++] = operator;
        }
        // Shorten the array to what was found.
        assembly ("memory-safe") {
            mstore(chosen, found)
        }
    }

    /// @notice How many indexes the pool has, seats of operators that left included.
    function poolSize(bytes32 modelId) external view returns (uint256) {
        return _pools[modelId].seats.length;
    }

    /// @notice Who holds the seat now, or held it last.
    function operatorAt(bytes32 modelId, uint256 index) external view returns (address) {
        return _pools[modelId].seats[index].operator;
    }

    function stakeAt(bytes32 modelId, uint256 index, uint48 epoch_) external view returns (uint256) {
        return _pools[modelId].tree.weightAt(index, epoch_);
    }

    function totalStakeAt(bytes32 modelId, uint48 epoch_) external view returns (uint256) {
        return _pools[modelId].tree.total(epoch_);
    }

    /// @notice The pool as of an epoch: operators by index, and the weight with which each is drawn. Of an epoch that
    /// has begun it always gives the same.
    function stakesAt(bytes32 modelId, uint48 epoch_)
        external
        view
        returns (address[] memory operators, uint256[] memory weights)
    {
        Pool storage pool = _pools[modelId];
        uint256 size = pool.seats.length;
        // Seats are handed out in order, so those that came after the epoch are the last ones.
        while (size > 0 && _holder(pool, size - 1, epoch_) == address(0)) --size;
        operators = new address[](size);
        weights = new uint256[](size);
        for (uint256 i; i < size; ++i) {
            operators[i] = _holder(pool, i, epoch_);
            weights[i] = pool.tree.weightAt(i, epoch_);
        }
    }

    function activeStake(bytes32 modelId, address operator) external view returns (uint256) {
        return _pools[modelId].stakes[operator].active;
    }

    /// @notice Everything of the operator in the pool that can be slashed.
    function stakeOf(bytes32 modelId, address operator) external view returns (uint256 amount) {
        Stake storage s = _pools[modelId].stakes[operator];
        amount = s.active;
        for (uint256 i; i < s.unbonding.length; ++i) {
            amount += s.unbonding[i].amount;
        }
    }

    /// @notice What is leaving, and from which block each part can be withdrawn.
    function unbondingOf(bytes32 modelId, address operator) external view returns (Unbonding[] memory) {
        return _pools[modelId].stakes[operator].unbonding;
    }

    // --- internals ---

    function _register(bytes32 modelId, uint256 amount, string calldata endpoint) private {
        Pool storage pool = _pools[modelId];
        Stake storage s = pool.stakes[msg.sender];
        if (s.seat != 0) revert AlreadyRegistered(msg.sender);
        (uint256 minStake,) = parameters.forStake();
        uint256 active = s.active + amount;
        if (active < minStake) revert StakeTooSmall(active, minStake);
        uint256 index = _takeSeat(pool, msg.sender);
        s.active = active.toUint96();
        s.seat = uint32(index + 1);
        _claimAddress(msg.sender);
        emit OperatorRegistered(modelId, msg.sender, index, endpoint);
        _reweigh(modelId, msg.sender, s, minStake);
        _pull(amount);
    }

    /// @dev A seat that was released, or a new one. Who held it before stays on record for the draws of its time.
    function _takeSeat(Pool storage pool, address operator) private returns (uint256 index) {
        uint48 next = epoch() + 1;
        uint256 released = pool.free.length;
        if (released > 0) {
            index = pool.free[released - 1];
            pool.free.pop();
            Seat memory former = pool.seats[index];
            pool.formers[index][former.formers] = former;
            pool.seats[index] = Seat(operator, next, former.formers + 1);
        } else {
            index = pool.seats.length;
            if (index == SumTree.CAPACITY) revert PoolFull(SumTree.CAPACITY);
            pool.seats.push(Seat(operator, next, 0));
        }
    }

    /// @dev Who held the seat in an epoch, or zero before the first did. A seat changes hands at most once in
    /// `unbondingBlocks`, so no draw that can be challenged looks back more than one holder.
    function _holder(Pool storage pool, uint256 index, uint256 epoch_) private view returns (address) {
        Seat memory seat = pool.seats[index];
        while (seat.since > epoch_) {
            if (seat.formers == 0) return address(0);
            seat = pool.formers[index][seat.formers - 1];
        }
        return seat.operator;
    }

    function _seated(bytes32 modelId, address operator) private view returns (Stake storage s) {
        s = _pools[modelId].stakes[operator];
        if (s.seat == 0) revert NotRegistered(operator);
    }

    /// @dev Below the minimum an operator is not drawn, but what it has stays slashable.
    function _reweigh(bytes32 modelId, address operator, Stake storage s, uint256 minStake) private {
        uint48 next = epoch() + 1;
        emit StakeChanged(modelId, operator, s.active, next);
        if (s.seat == 0) return;
        uint256 weight = s.active < minStake ? 0 : s.active;
        _pools[modelId].tree.set(s.seat - 1, next, weight);
        if (weight > 0) s.idleFrom = 0;
        else if (s.idleFrom == 0) s.idleFrom = (next * epochBlocks).toUint48();
    }

    function _enqueue(Unbonding[] storage queue, uint96 amount, uint256 releaseBlock)
        private
        returns (uint256)
    {
        uint256 length = queue.length;
        if (length < MAX_UNBONDING_REQUESTS) {
            queue.push(Unbonding(amount, releaseBlock.toUint48()));
            return releaseBlock;
        }
        // Removals disturb the order, so the newest is the one that leaves last.
        uint256 newest;
        for (uint256 i = 1; i < length; ++i) {
            if (queue[i].releaseBlock > queue[newest].releaseBlock) newest = i;
        }
        Unbonding storage u = queue[newest];
        releaseBlock = Math.max(releaseBlock, u.releaseBlock);
        (u.amount, u.releaseBlock) = (u.amount + amount, releaseBlock.toUint48());
        return releaseBlock;
    }

    function _remove(Unbonding[] storage queue, uint256 i) private {
        uint256 last = queue.length - 1;
        if (i != last) queue[i] = queue[last];
        queue.pop();
    }

    function _share(uint96 amount, uint256 bps) private pure returns (uint96) {
        return uint96(Math.ceilDiv(amount * bps, BPS));
    }

    function _checkModel(bytes32 modelId) private view {
        if (_models[modelId].hiddenSize == 0) revert ModelUnknown(modelId);
    }

    function _pull(uint256 amount) private {
        uint256 before = token.balanceOf(address(this));
        token.safeTransferFrom(msg.sender, address(this), amount);
        if (token.balanceOf(address(this)) != before + amount) revert TransferFeeNotSupported();
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
