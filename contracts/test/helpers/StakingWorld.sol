// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {Parameters} from "../../src/Parameters.sol";
import {ISlashReceiver, Staking} from "../../src/Staking.sol";
import {TestToken} from "../../src/TestToken.sol";
import {ModelSpec, Params} from "../../src/Types.sol";
import {DevParams} from "./DevParams.sol";

/// @notice Staking alone with the devnet parameters and a toy model; the test itself is the court and the bank.
abstract contract StakingWorld is Test, ISlashReceiver {
    uint256 internal constant STAKE = 1000 ether;
    /// @dev Twice the generator of secp256k1, compressed, as a VRF key.
    bytes internal constant VRF_KEY = hex"02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5";

    Params internal params = DevParams.load();
    TestToken internal token;
    Parameters internal parameters;
    Staking internal staking;
    bytes32 internal modelId;
    uint256 internal received;

    function setUp() public virtual {
        vm.roll(1000);
        // From the artifacts: `new` would compile every contract again into every test.
        token = TestToken(deployCode("TestToken.sol:TestToken"));
        parameters = Parameters(
            deployCode("Parameters.sol:Parameters", abi.encode(address(this), address(this), params))
        );
        staking = deployStaking(address(token));
        modelId = staking.registerModel(spec());
    }

    function receiveSlash(uint256 amount) external {
        received += amount;
    }

    function deployStaking(address token_) internal returns (Staking fresh) {
        fresh = Staking(deployCode("Staking.sol:Staking", abi.encode(token_, parameters)));
        address[] memory courts = new address[](1);
        courts[0] = address(this);
        fresh.wire(this, courts);
    }

    function spec() internal pure returns (ModelSpec memory) {
        return ModelSpec(0, 0, 8, 8, 1, 1, 0, new uint64[](1));
    }

    function fund(address account, uint256 amount) internal {
        token.mint(account, amount);
        vm.prank(account);
        token.approve(address(staking), type(uint256).max);
    }

    function join(address operator, uint256 amount) internal {
        fund(operator, amount);
        vm.prank(operator);
        staking.registerOperator(modelId, amount, "http://operator");
    }

    function joinScheduler(address scheduler) internal {
        fund(scheduler, STAKE);
        vm.prank(scheduler);
        staking.registerScheduler(STAKE, "http://scheduler", VRF_KEY);
    }

    function unbond(address operator, uint256 amount) internal {
        vm.prank(operator);
        staking.requestUnbond(modelId, amount);
    }

    function withdraw(address operator) internal returns (uint256) {
        vm.prank(operator);
        return staking.withdrawUnbonded(modelId);
    }

    function draw(uint48 epoch, uint256 beta, uint256 count) internal view returns (address[] memory) {
        return staking.draw(modelId, epoch, abi.encode(beta), count, new address[](0));
    }

    function nextEpoch() internal returns (uint48) {
        pass(params.epochBlocks);
        return staking.epoch();
    }

    /// @dev Not block.number, which the IR optimizer takes for a constant of the whole test.
    function pass(uint256 blocks) internal {
        vm.roll(vm.getBlockNumber() + blocks);
    }

    function account(uint256 i) internal pure returns (address) {
        return address(uint160(0xA000 + i));
    }
}
