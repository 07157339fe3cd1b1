// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {stdError} from "forge-std/Test.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Bank} from "../src/Bank.sol";
import {Courts} from "../src/Courts.sol";
import {Rounds} from "../src/Rounds.sol";
import {BURN} from "../src/Types.sol";
import {Books} from "./helpers/Books.sol";
import {FeeToken} from "./mocks/FeeToken.sol";
import {ReentrantToken} from "./mocks/ReentrantToken.sol";

contract BankTest is Books {
    address private staker = makeAddr("staking of the other bank");

    // --- escrow ---

    function test_a_paused_network_takes_no_deposit() public {
        _pause();
        vm.prank(client);
        vm.expectRevert(Bank.DepositsPaused.selector);
        rounds.depositEscrow(scheduler, 1);
    }

    function test_exits_are_open_while_paused() public {
        _pause();
        vm.prank(client);
        rounds.requestEscrowWithdrawal(scheduler, DEPOSIT);
        vm.prank(worker);
        staking.requestUnbond(modelId, STAKE);
        _fillReserve(5);
        vm.prank(address(audit));
        rounds.credit(worker, 5);
        vm.roll(vm.getBlockNumber() + params.unbondingBlocks);
        vm.prank(client);
        assertEq(rounds.withdrawEscrow(scheduler), DEPOSIT);
        vm.startPrank(worker);
        assertEq(rounds.withdraw(), 5);
        assertEq(staking.withdrawUnbonded(modelId), STAKE);
    }

    function test_a_deposit_without_tokens_is_refused() public {
        vm.prank(client);
        vm.expectRevert();
        rounds.depositEscrow(scheduler, 1);
        assertEq(escrowOf(client), DEPOSIT);
    }

    function test_a_deposit_above_128_bits_is_refused() public {
        vm.startPrank(client);
        uint256 over = uint256(type(uint128).max) + 1;
        vm.expectRevert(abi.encodeWithSelector(SafeCast.SafeCastOverflowedUintDowncast.selector, 128, over));
        rounds.depositEscrow(scheduler, over - DEPOSIT);
        vm.expectRevert(stdError.arithmeticError);
        rounds.depositEscrow(scheduler, type(uint256).max);
    }

    function test_no_more_than_the_escrow_can_leave() public {
        vm.prank(client);
        vm.expectRevert(
            abi.encodeWithSelector(Bank.EscrowInsufficient.selector, client, DEPOSIT + 1, DEPOSIT)
        );
        rounds.requestEscrowWithdrawal(scheduler, DEPOSIT + 1);
    }

    function test_escrow_leaves_after_its_delay_and_not_before() public {
        vm.startPrank(client);
        vm.expectRevert(Bank.NothingToWithdraw.selector);
        rounds.withdrawEscrow(scheduler);
        rounds.requestEscrowWithdrawal(scheduler, 400 ether);
        (uint256 available, uint256 leaving) = rounds.escrowOf(client, scheduler);
        assertEq(available, 600 ether);
        assertEq(leaving, 400 ether);
        uint256 release = vm.getBlockNumber() + params.escrowDelayBlocks;
        vm.roll(release - 1);
        vm.expectRevert(abi.encodeWithSelector(Bank.EscrowNotReleased.selector, release));
        rounds.withdrawEscrow(scheduler);
        vm.roll(release);
        assertEq(rounds.withdrawEscrow(scheduler), 400 ether);
        assertEq(token.balanceOf(client), 400 ether);
        vm.expectRevert(Bank.NothingToWithdraw.selector);
        rounds.withdrawEscrow(scheduler);
    }

    function test_a_new_request_replaces_the_former_and_waits_anew() public {
        vm.startPrank(client);
        rounds.requestEscrowWithdrawal(scheduler, 400 ether);
        uint256 first = vm.getBlockNumber() + params.escrowDelayBlocks;
        vm.roll(first);
        rounds.requestEscrowWithdrawal(scheduler, 500 ether);
        vm.expectRevert(
            abi.encodeWithSelector(Bank.EscrowNotReleased.selector, first + params.escrowDelayBlocks)
        );
        rounds.withdrawEscrow(scheduler);
        vm.roll(first + params.escrowDelayBlocks);
        assertEq(rounds.withdrawEscrow(scheduler), 500 ether);
    }

    /// @dev The delay outlasts every round that was open at the request, so that no work is left unpaid.
    function test_the_delay_outlasts_the_round_that_a_job_is_in() public {
        uint256 id = commitRound("root", 1);
        vm.prank(client);
        rounds.requestEscrowWithdrawal(scheduler, DEPOSIT);
        vm.roll(at(id).settleBy);
        vm.prank(client);
        vm.expectPartialRevert(Bank.EscrowNotReleased.selector);
        rounds.withdrawEscrow(scheduler);
    }

    function test_escrow_of_one_scheduler_is_not_paid_by_another() public {
        address other = makeAddr("other scheduler");
        vm.startPrank(client);
        vm.expectRevert(abi.encodeWithSelector(Bank.EscrowInsufficient.selector, client, 1, 0));
        rounds.requestEscrowWithdrawal(other, 1);
        (uint256 available, uint256 leaving) = rounds.escrowOf(client, other);
        assertEq(available + leaving, 0);
    }

    function testFuzz_deposits_come_back_to_the_wei(uint96[4] memory amounts, uint128 leaving) public {
        address payer = makeAddr("payer");
        uint256 sum;
        for (uint256 i; i < amounts.length; ++i) {
            fund(payer, amounts[i], address(rounds));
            vm.prank(payer);
            rounds.depositEscrow(scheduler, amounts[i]);
            sum += amounts[i];
        }
        vm.assume(sum > 0);
        uint256 part = bound(leaving, 1, sum);
        vm.startPrank(payer);
        rounds.requestEscrowWithdrawal(scheduler, part);
        vm.roll(vm.getBlockNumber() + params.escrowDelayBlocks);
        assertEq(rounds.withdrawEscrow(scheduler), part);
        assertEq(token.balanceOf(payer), part);
        assertEq(escrowOf(payer), sum - part);
    }

    // --- earnings ---

    function test_only_what_is_earned_can_be_withdrawn_once() public {
        vm.prank(worker);
        vm.expectRevert(Bank.NothingToWithdraw.selector);
        rounds.withdraw();
        _fillReserve(7);
        vm.prank(address(court));
        rounds.credit(worker, 7);
        vm.startPrank(worker);
        assertEq(rounds.withdraw(), 7);
        assertEq(token.balanceOf(worker), 7);
        vm.expectRevert(Bank.NothingToWithdraw.selector);
        rounds.withdraw();
    }

    // --- courts ---

    function test_only_courts_move_the_reserve() public {
        _fillReserve(10);
        bytes memory notCourt = abi.encodeWithSelector(Courts.NotCourt.selector, scheduler);
        vm.startPrank(scheduler);
        vm.expectRevert(notCourt);
        rounds.takeBond(client, 1);
        vm.expectRevert(notCourt);
        rounds.credit(scheduler, 1);
        vm.expectRevert(notCourt);
        rounds.burn(1);
        vm.expectRevert(abi.encodeWithSelector(Bank.NotStaking.selector, scheduler));
        rounds.receiveSlash(1);
    }

    function test_no_court_gives_away_escrow_or_earnings() public {
        _fillReserve(10);
        vm.startPrank(address(court));
        vm.expectRevert(stdError.arithmeticError);
        rounds.credit(worker, 11);
        vm.expectRevert(stdError.arithmeticError);
        rounds.burn(11);
        rounds.credit(worker, 4);
        vm.expectRevert(stdError.arithmeticError);
        rounds.burn(7);
        rounds.burn(6);
        assertEq(rounds.reserve(), 0);
        assertEq(rounds.balances(worker), 4);
        assertEq(token.balanceOf(BURN), 6);
        assertEq(owed(), token.balanceOf(address(rounds)));
    }

    function test_a_bond_is_taken_from_the_one_who_is_named() public {
        uint256 before = token.balanceOf(challenger);
        _fillReserve(10);
        assertEq(token.balanceOf(challenger), before - 10);
        assertEq(rounds.reserve(), 10);
    }

    function test_a_slash_arrives_in_the_reserve() public {
        vm.prank(address(court));
        uint256 taken = staking.slash(modelId, worker, 1000);
        assertEq(rounds.reserve(), taken);
        assertEq(owed(), token.balanceOf(address(rounds)));
    }

    // --- tokens that misbehave ---

    function test_a_token_that_keeps_a_fee_is_refused() public {
        FeeToken taxed = new FeeToken();
        Rounds bank = _bankOf(address(taxed));
        taxed.mint(client, 200);
        vm.startPrank(client);
        taxed.approve(address(bank), 200);
        vm.expectRevert(Bank.TransferFeeNotSupported.selector);
        bank.depositEscrow(scheduler, 100);
        vm.stopPrank();
        vm.expectRevert(Bank.TransferFeeNotSupported.selector);
        bank.takeBond(client, 100);
        assertEq(bank.reserve(), 0);
    }

    function test_a_withdrawal_out_of_a_withdrawal_finds_nothing() public {
        (ReentrantToken thief, Rounds bank) = _reentrantBank();
        bank.credit(address(thief), 40);
        bytes memory again = abi.encodeCall(Bank.withdraw, ());
        thief.arm(address(bank), again);
        vm.expectRevert(Bank.NothingToWithdraw.selector);
        thief.act(address(bank), again);
        assertEq(thief.balanceOf(address(bank)), 100);
    }

    function test_an_escrow_exit_out_of_an_escrow_exit_finds_nothing() public {
        (ReentrantToken thief, Rounds bank) = _reentrantBank();
        thief.act(address(bank), abi.encodeCall(Bank.depositEscrow, (scheduler, 40)));
        thief.act(address(bank), abi.encodeCall(Bank.requestEscrowWithdrawal, (scheduler, 40)));
        vm.roll(vm.getBlockNumber() + params.escrowDelayBlocks);
        bytes memory again = abi.encodeCall(Bank.withdrawEscrow, (scheduler));
        thief.arm(address(bank), again);
        vm.expectRevert(Bank.NothingToWithdraw.selector);
        thief.act(address(bank), again);
        assertEq(thief.balanceOf(address(bank)), 140);
    }

    /// @dev One transfer would count for two deposits.
    function test_a_deposit_out_of_a_deposit_is_refused() public {
        (ReentrantToken thief, Rounds bank) = _reentrantBank();
        bytes memory deposit = abi.encodeCall(Bank.depositEscrow, (scheduler, 25));
        thief.arm(address(bank), deposit);
        vm.expectRevert(Bank.TransferFeeNotSupported.selector);
        thief.act(address(bank), deposit);
        assertEq(thief.balanceOf(address(bank)), 100);
    }

    function test_a_withdrawal_out_of_a_deposit_is_refused() public {
        (ReentrantToken thief, Rounds bank) = _reentrantBank();
        bank.credit(address(thief), 40);
        bytes memory deposit = abi.encodeCall(Bank.depositEscrow, (scheduler, 50));
        thief.arm(address(bank), abi.encodeCall(Bank.withdraw, ()));
        vm.expectRevert(Bank.TransferFeeNotSupported.selector);
        thief.act(address(bank), deposit);
        assertEq(thief.balanceOf(address(bank)), 100);
    }

    // --- helpers ---

    function _pause() private {
        vm.prank(guardian);
        parameters.setPaused(true);
    }

    function _fillReserve(uint256 amount) private {
        vm.prank(address(court));
        rounds.takeBond(challenger, amount);
    }

    /// @dev This contract is the court.
    function _bankOf(address token_) private returns (Rounds bank) {
        bank = Rounds(deployCode("Rounds.sol:Rounds", abi.encode(token_, staker, randomness, parameters)));
        address[] memory courts = new address[](1);
        courts[0] = address(this);
        bank.setCourts(courts);
    }

    /// @dev A bank that holds a bond of 100, in a token that is also an account with 100.
    function _reentrantBank() private returns (ReentrantToken thief, Rounds bank) {
        thief = new ReentrantToken();
        bank = _bankOf(address(thief));
        thief.mint(client, 100);
        vm.prank(client);
        thief.approve(address(bank), 100);
        bank.takeBond(client, 100);
        thief.mint(address(thief), 100);
        thief.act(address(thief), abi.encodeCall(thief.approve, (address(bank), 100)));
    }
}
