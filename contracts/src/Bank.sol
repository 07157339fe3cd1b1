// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Courts} from "./Courts.sol";
import {Parameters} from "./Parameters.sol";
import {BURN, Line} from "./Types.sol";

/// @notice All tokens but the stakes: clients' escrow with each scheduler, earnings, bonds, and slashed stake until it is
/// shared out. Earnings are pulled by their owner; nobody can send them elsewhere or hold them back.
abstract contract Bank is Courts {
    using SafeERC20 for IERC20;
    using SafeCast for uint256;

    struct Escrow {
        uint128 amount;
        uint64 releaseBlock;
        uint128 leaving;
    }

    IERC20 public immutable token;
    address public immutable staking;
    Parameters public immutable parameters;

    mapping(address client => mapping(address scheduler => Escrow)) private _escrows;
    /// @notice What an account has earned (fees, shares of slashes, bonds returned) and may withdraw.
    mapping(address account => uint256) public balances;
    /// @notice Bonds and slashed stake that no court has credited or burned yet.
    uint256 public reserve;

    event EscrowDeposited(address indexed client, address indexed scheduler, uint256 amount);
    event EscrowLeaving(
        address indexed client, address indexed scheduler, uint256 amount, uint256 releaseBlock
    );
    event EscrowWithdrawn(address indexed client, address indexed scheduler, uint256 amount);
    event Credited(address indexed account, uint256 amount);
    event Withdrawn(address indexed account, uint256 amount);

    error DepositsPaused();
    error EscrowInsufficient(address client, uint256 requested, uint256 available);
    error EscrowNotReleased(uint256 releaseBlock);
    error NothingToWithdraw();
    error TransferFeeNotSupported();
    error NotStaking(address caller);

    constructor(IERC20 token_, address staking_, Parameters parameters_) {
        token = token_;
        staking = staking_;
        parameters = parameters_;
    }

    // --- clients ---

    function depositEscrow(address scheduler, uint256 amount) external {
        if (parameters.paused()) revert DepositsPaused();
        Escrow storage e = _escrows[msg.sender][scheduler];
        e.amount = (e.amount + amount).toUint128();
        emit EscrowDeposited(msg.sender, scheduler, amount);
        _pull(msg.sender, amount);
    }

    /// @notice Announce leaving; the money still pays for jobs until `escrowDelayBlocks` have passed, which is longer
    /// than a round may take. A new request replaces the former one.
    function requestEscrowWithdrawal(address scheduler, uint256 amount) external {
        Escrow storage e = _escrows[msg.sender][scheduler];
        if (amount > e.amount) revert EscrowInsufficient(msg.sender, amount, e.amount);
        e.leaving = uint128(amount);
        e.releaseBlock = uint64(block.number + parameters.current().escrowDelayBlocks);
        emit EscrowLeaving(msg.sender, scheduler, amount, e.releaseBlock);
    }

    /// @notice Pay out what was announced, or what is left of it.
    function withdrawEscrow(address scheduler) external returns (uint256 amount) {
        Escrow storage e = _escrows[msg.sender][scheduler];
        if (block.number < e.releaseBlock) revert EscrowNotReleased(e.releaseBlock);
        amount = e.leaving < e.amount ? e.leaving : e.amount;
        if (amount == 0) revert NothingToWithdraw();
        e.leaving = 0;
        e.amount -= uint128(amount);
        emit EscrowWithdrawn(msg.sender, scheduler, amount);
        token.safeTransfer(msg.sender, amount);
    }

    /// @return available escrow that is not leaving, and what is leaving.
    function escrowOf(address client, address scheduler)
        external
        view
        returns (uint256 available, uint256 leaving)
    {
        Escrow storage e = _escrows[client][scheduler];
        leaving = e.leaving < e.amount ? e.leaving : e.amount;
        available = e.amount - leaving;
    }

    // --- earnings ---

    function withdraw() external returns (uint256 amount) {
        amount = balances[msg.sender];
        if (amount == 0) revert NothingToWithdraw();
        balances[msg.sender] = 0;
        emit Withdrawn(msg.sender, amount);
        token.safeTransfer(msg.sender, amount);
    }

    // --- courts ---

    function takeBond(address from, uint256 amount) external onlyCourt {
        reserve += amount;
        _pull(from, amount);
    }

    /// @notice Staking reports slashed stake that it has just sent here.
    function receiveSlash(uint256 amount) external {
        if (msg.sender != staking) revert NotStaking(msg.sender);
        reserve += amount;
    }

    /// @notice Give bond or slashed stake to an account; more than the reserve reverts.
    function credit(address account, uint256 amount) external onlyCourt {
        reserve -= amount;
        balances[account] += amount;
        emit Credited(account, amount);
    }

    function burn(uint256 amount) external onlyCourt {
        reserve -= amount;
        token.safeTransfer(BURN, amount);
    }

    // --- internals ---

    function _debit(address client, address scheduler, uint128 amount) internal {
        Escrow storage e = _escrows[client][scheduler];
        uint128 held = e.amount;
        if (amount > held) revert EscrowInsufficient(client, amount, held);
        e.amount = held - amount;
    }

    function _refund(address client, address scheduler, uint128 amount) internal {
        _escrows[client][scheduler].amount += amount;
    }

    function _pull(address from, uint256 amount) private {
        uint256 before = token.balanceOf(address(this));
        // `from` is the caller, or the caller of a court.
        // slither-disable-next-line arbitrary-send-erc20
        token.safeTransferFrom(from, address(this), amount);
        if (token.balanceOf(address(this)) - before != amount) revert TransferFeeNotSupported();
    }
}
